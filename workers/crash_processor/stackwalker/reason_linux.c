// Linux and Android: the exception's code is the signal, its flags are si_code.
#include <stdio.h>

#include "reason.h"

static const struct code_name signals[] = {
    {1, "SIGHUP"},      {2, "SIGINT"},     {3, "SIGQUIT"},    {4, "SIGILL"},   {5, "SIGTRAP"},  {6, "SIGABRT"},
    {7, "SIGBUS"},      {8, "SIGFPE"},     {9, "SIGKILL"},    {10, "SIGUSR1"}, {11, "SIGSEGV"}, {12, "SIGUSR2"},
    {13, "SIGPIPE"},    {14, "SIGALRM"},   {15, "SIGTERM"},   {16, "SIGSTKFLT"}, {17, "SIGCHLD"}, {18, "SIGCONT"},
    {19, "SIGSTOP"},    {20, "SIGTSTP"},   {21, "SIGTTIN"},   {22, "SIGTTOU"}, {23, "SIGURG"},  {24, "SIGXCPU"},
    {25, "SIGXFSZ"},    {26, "SIGVTALRM"}, {27, "SIGPROF"},   {28, "SIGWINCH"}, {29, "SIGIO"},  {30, "SIGPWR"},
    {31, "SIGSYS"},     {0xffffffff, "DUMP_REQUESTED"},
};

static const struct code_name ill_codes[] = {
    {1, "ILL_ILLOPC"}, {2, "ILL_ILLOPN"}, {3, "ILL_ILLADR"}, {4, "ILL_ILLTRP"},   {5, "ILL_PRVOPC"},
    {6, "ILL_PRVREG"}, {7, "ILL_COPROC"}, {8, "ILL_BADSTK"}, {9, "ILL_BADIADDR"},
};

static const struct code_name trap_codes[] = {
    {1, "TRAP_BRKPT"}, {2, "TRAP_TRACE"}, {3, "TRAP_BRANCH"}, {4, "TRAP_HWBKPT"}, {5, "TRAP_UNK"}, {6, "TRAP_PERF"},
};

static const struct code_name fpe_codes[] = {
    {1, "FPE_INTDIV"}, {2, "FPE_INTOVF"}, {3, "FPE_FLTDIV"}, {4, "FPE_FLTOVF"},
    {5, "FPE_FLTUND"}, {6, "FPE_FLTRES"}, {7, "FPE_FLTINV"}, {8, "FPE_FLTSUB"},
};

static const struct code_name segv_codes[] = {
    {1, "SEGV_MAPERR"}, {2, "SEGV_ACCERR"}, {3, "SEGV_BNDERR"}, {4, "SEGV_PKUERR"},
};

static const struct code_name bus_codes[] = {
    {1, "BUS_ADRALN"}, {2, "BUS_ADRERR"}, {3, "BUS_OBJERR"}, {4, "BUS_MCEERR_AR"}, {5, "BUS_MCEERR_AO"},
};

static const struct code_name sys_codes[] = {{1, "SYS_SECCOMP"}, {2, "SYS_USER_DISPATCH"}};

// Codes that any signal may have: who sent it. They are negative, hence last in unsigned order.
static const struct code_name sender_codes[] = {
    {0x80, "SI_KERNEL"},          {(uint32_t)-60, "SI_ASYNCNL"}, {(uint32_t)-7, "SI_DETHREAD"},
    {(uint32_t)-6, "SI_TKILL"},   {(uint32_t)-5, "SI_SIGIO"},    {(uint32_t)-4, "SI_ASYNCIO"},
    {(uint32_t)-3, "SI_MESGQ"},   {(uint32_t)-2, "SI_TIMER"},    {(uint32_t)-1, "SI_QUEUE"},
};

static const char *code_of_signal(uint32_t signal, uint32_t code)
{
    switch (signal) {
    case 4: return NAME_OF(ill_codes, code);
    case 5: return NAME_OF(trap_codes, code);
    case 7: return NAME_OF(bus_codes, code);
    case 8: return NAME_OF(fpe_codes, code);
    case 11: return NAME_OF(segv_codes, code);
    case 31: return NAME_OF(sys_codes, code);
    default: return NULL;
    }
}

void linux_reason(const struct exception *exception, char out[REASON_ROOM])
{
    const char *signal = NAME_OF(signals, exception->code);
    const char *code = code_of_signal(exception->code, exception->flags);
    if (!code) code = NAME_OF(sender_codes, exception->flags);
    if (!signal) snprintf(out, REASON_ROOM, "unknown 0x%08x / 0x%08x", exception->code, exception->flags);
    else if (code) snprintf(out, REASON_ROOM, "%s / %s", signal, code);
    else if (exception->flags == 0) snprintf(out, REASON_ROOM, "%s", signal);  // 0 is SI_USER: sent by a process
    else snprintf(out, REASON_ROOM, "%s / 0x%08x", signal, exception->flags);
}
