// macOS and iOS: the exception's code is a Mach exception, its flags are that exception's own code.
#include <inttypes.h>
#include <stdio.h>

#include "reason.h"

enum {
    BAD_ACCESS = 1,
    BAD_INSTRUCTION = 2,
    ARITHMETIC = 3,
    SOFTWARE = 5,
    BREAKPOINT = 6,
    RESOURCE = 11,
    GUARD = 12,
    SIMULATED = 0x43507378,
};

static const struct code_name exceptions[] = {
    {1, "EXC_BAD_ACCESS"}, {2, "EXC_BAD_INSTRUCTION"}, {3, "EXC_ARITHMETIC"},   {4, "EXC_EMULATION"},
    {5, "EXC_SOFTWARE"},   {6, "EXC_BREAKPOINT"},      {7, "EXC_SYSCALL"},      {8, "EXC_MACH_SYSCALL"},
    {9, "EXC_RPC_ALERT"},  {11, "EXC_RESOURCE"},       {12, "EXC_GUARD"},
};

static const struct code_name bad_access[] = {
    {1, "KERN_INVALID_ADDRESS"}, {2, "KERN_PROTECTION_FAILURE"}, {5, "KERN_FAILURE"},    {8, "KERN_NO_ACCESS"},
    {9, "KERN_MEMORY_FAILURE"},  {10, "KERN_MEMORY_ERROR"},      {13, "EXC_I386_GPFLT"}, {50, "KERN_CODESIGN_ERROR"},
};

static const struct code_name bad_instruction[] = {
    {1, "EXC_I386_INVOP"},   {10, "EXC_I386_INVTSSFLT"}, {11, "EXC_I386_SEGNPFLT"},
    {12, "EXC_I386_STKFLT"}, {13, "EXC_I386_GPFLT"},     {17, "EXC_I386_ALIGNFLT"},
};

static const struct code_name arithmetic[] = {
    {1, "EXC_I386_DIV"},    {2, "EXC_I386_INTO"},  {3, "EXC_I386_NOEXT"}, {4, "EXC_I386_EXTOVR"},
    {5, "EXC_I386_EXTERR"}, {6, "EXC_I386_EMERR"}, {7, "EXC_I386_BOUND"}, {8, "EXC_I386_SSEEXTERR"},
};

static const struct code_name software[] = {
    {0x1, "EXC_PPC_TRAP"}, {0x10002, "SIGABRT"}, {0x10100, "EXC_PPC_MIGRATE"}, {0xdeadc0de, "UNCAUGHT_NS_EXCEPTION"},
};

static const struct code_name breakpoint[] = {{1, "EXC_I386_SGL"}, {2, "EXC_I386_BPT"}};

static const char *code_of_exception(uint32_t exception, uint32_t code)
{
    switch (exception) {
    case BAD_ACCESS: return NAME_OF(bad_access, code);
    case BAD_INSTRUCTION: return NAME_OF(bad_instruction, code);
    case ARITHMETIC: return NAME_OF(arithmetic, code);
    case SOFTWARE: return NAME_OF(software, code);
    case BREAKPOINT: return NAME_OF(breakpoint, code);
    default: return NULL;
    }
}

static const struct code_name resource_types[] = {
    {1, "RESOURCE_TYPE_CPU"}, {2, "RESOURCE_TYPE_WAKEUPS"}, {3, "RESOURCE_TYPE_MEMORY"},
    {4, "RESOURCE_TYPE_IO"},  {5, "RESOURCE_TYPE_THREADS"},
};

static const struct code_name cpu_flavors[] = {{1, "FLAVOR_CPU_MONITOR"}, {2, "FLAVOR_CPU_MONITOR_FATAL"}};
static const struct code_name wakeups_flavors[] = {{1, "FLAVOR_WAKEUPS_MONITOR"}};
static const struct code_name memory_flavors[] = {{1, "FLAVOR_HIGH_WATERMARK"}};
static const struct code_name io_flavors[] = {{1, "FLAVOR_IO_PHYSICAL_WRITES"}, {2, "FLAVOR_IO_LOGICAL_WRITES"}};
static const struct code_name threads_flavors[] = {{1, "FLAVOR_THREADS_HIGH_WATERMARK"}};

static unsigned bits(uint64_t value, unsigned low, unsigned count)
{
    return (unsigned)(value >> low & ((UINT64_C(1) << count) - 1));
}

// A process went over a limit. Which one, and by how much, is packed into two words, as xnu's exc_resource.h says
// (the percentages are read as rust-minidump reads them).
static void resource_reason(uint32_t type, uint64_t code, uint64_t subcode, char out[REASON_ROOM])
{
    unsigned flavor = bits(code, 58, 3);
    const char *name;
    int n = snprintf(out, REASON_ROOM, "EXC_RESOURCE / %s / ", NAME_OF(resource_types, type));
    char *rest = out + n;
    size_t room = REASON_ROOM - (size_t)n;
    if (type == 1 && (name = NAME_OF(cpu_flavors, flavor))) {
        snprintf(rest, room, "%s interval: %us CPU limit: %u%% CPU consumed: %u%%", name, bits(code, 7, 25),
                 bits(code, 0, 3), bits(subcode, 0, 3));
    } else if (type == 2 && (name = NAME_OF(wakeups_flavors, flavor))) {
        snprintf(rest, room, "%s interval: %us wakeups permitted: %u wakeups observed: %u", name, bits(code, 20, 20),
                 bits(code, 0, 12), bits(subcode, 0, 12));
    } else if (type == 3 && (name = NAME_OF(memory_flavors, flavor))) {
        snprintf(rest, room, "%s high watermark limit: %uMiB", name, bits(code, 0, 13));
    } else if (type == 4 && (name = NAME_OF(io_flavors, flavor))) {
        snprintf(rest, room, "%s interval: %us I/O limit: %u%% I/O observed: %u%%", name, bits(code, 15, 17),
                 bits(code, 0, 15), bits(subcode, 0, 15));
    } else if (type == 5 && (name = NAME_OF(threads_flavors, flavor))) {
        snprintf(rest, room, "%s high watermark limit: %u", name, bits(code, 0, 15));
    } else {
        snprintf(rest, room, "0x%016" PRIx64 " / 0x%016" PRIx64, code, subcode);
    }
}

static const struct code_name guard_types[] = {
    {0, "GUARD_TYPE_NONE"}, {1, "GUARD_TYPE_MACH_PORT"},   {2, "GUARD_TYPE_FD"},          {3, "GUARD_TYPE_USER"},
    {4, "GUARD_TYPE_VN"},   {5, "GUARD_TYPE_VIRT_MEMORY"}, {6, "GUARD_TYPE_REJECTED_SC"},
};

static const struct code_name port_flavors[] = {
    {0x1, "GUARD_EXC_DESTROY"},
    {0x2, "GUARD_EXC_MOD_REFS"},
    {0x3, "GUARD_EXC_INVALID_OPTIONS"},
    {0x4, "GUARD_EXC_SET_CONTEXT"},
    {0x5, "GUARD_EXC_THREAD_SET_STATE"},
    {0x8, "GUARD_EXC_UNGUARDED"},
    {0x10, "GUARD_EXC_INCORRECT_GUARD"},
    {0x20, "GUARD_EXC_IMMOVABLE"},
    {0x40, "GUARD_EXC_STRICT_REPLY"},
    {0x80, "GUARD_EXC_MSG_FILTERED"},
    {0x100, "GUARD_EXC_INVALID_RIGHT"},
    {0x200, "GUARD_EXC_INVALID_NAME"},
    {0x400, "GUARD_EXC_INVALID_VALUE"},
    {0x800, "GUARD_EXC_INVALID_ARGUMENT"},
    {0x1000, "GUARD_EXC_RIGHT_EXISTS"},
    {0x2000, "GUARD_EXC_KERN_NO_SPACE"},
    {0x4000, "GUARD_EXC_KERN_FAILURE"},
    {0x8000, "GUARD_EXC_KERN_RESOURCE"},
    {0x10000, "GUARD_EXC_SEND_INVALID_REPLY"},
    {0x20000, "GUARD_EXC_SEND_INVALID_VOUCHER"},
    {0x40000, "GUARD_EXC_SEND_INVALID_RIGHT"},
    {0x80000, "GUARD_EXC_RCV_INVALID_NAME"},
    {0x100000, "GUARD_EXC_RCV_GUARDED_DESC"},
    {0x200000, "GUARD_EXC_MOD_REFS_NON_FATAL"},
    {0x400000, "GUARD_EXC_IMMOVABLE_NON_FATAL"},
    {0x800000, "GUARD_EXC_REQUIRE_REPLY_PORT_SEMANTICS"},
    {0x1000000, "GUARD_EXC_EXCEPTION_BEHAVIOR_ENFORCE"},
};

static const struct code_name fd_flavors[] = {
    {0x1, "GUARD_EXC_CLOSE"},    {0x2, "GUARD_EXC_DUP"},       {0x4, "GUARD_EXC_NOCLOEXEC"}, {0x8, "GUARD_EXC_SOCKET_IPC"},
    {0x10, "GUARD_EXC_FILEPORT"}, {0x20, "GUARD_EXC_MISMATCH"}, {0x40, "GUARD_EXC_WRITE"},
};

static const struct code_name vnode_flavors[] = {
    {0x1, "GUARD_EXC_RENAME_TO"},    {0x2, "GUARD_EXC_RENAME_FROM"}, {0x4, "GUARD_EXC_UNLINK"},
    {0x8, "GUARD_EXC_WRITE_OTHER"},  {0x10, "GUARD_EXC_TRUNC_OTHER"}, {0x20, "GUARD_EXC_LINK"},
    {0x40, "GUARD_EXC_EXCHDATA"},
};

static const struct code_name memory_guard_flavors[] = {{1, "GUARD_EXC_DEALLOC_GAP"}};
static const struct code_name syscall_flavors[] = {{0, "GUARD_EXC_MACH_TRAP"}};

// A guarded port, file descriptor or the like was misused (xnu's exc_guard.h).
static void guard_reason(uint32_t type, uint64_t code, uint64_t subcode, char out[REASON_ROOM])
{
    unsigned flavor = bits(code, 32, 29), target = bits(code, 0, 28);
    const char *name;
    int n = snprintf(out, REASON_ROOM, "EXC_GUARD / %s", NAME_OF(guard_types, type));
    char *rest = out + n;
    size_t room = REASON_ROOM - (size_t)n;
    if (type == 0) return;
    if (type == 1 && (name = NAME_OF(port_flavors, flavor))) {
        int m = snprintf(rest, room, " / %s port name: %u", name, target);
        if (subcode) snprintf(rest + m, room - (size_t)m, " subcode: %" PRIu64, subcode);
    } else if (type == 2 && (name = NAME_OF(fd_flavors, flavor))) {
        snprintf(rest, room, " / %s file descriptor: %u guard identifier: %" PRIu64, name, target, subcode);
    } else if (type == 3) {
        snprintf(rest, room, "/ namespace: %u guard identifier: %" PRIu64, bits(code, 0, 32), subcode);
    } else if (type == 4 && (name = NAME_OF(vnode_flavors, flavor))) {
        snprintf(rest, room, " / %s pid: %u guard identifier: %" PRIu64, name, target, subcode);
    } else if (type == 5 && (name = NAME_OF(memory_guard_flavors, flavor))) {
        snprintf(rest, room, " / %s offset: %" PRIu64, name, subcode);
    } else if (type == 6 && (name = NAME_OF(syscall_flavors, flavor))) {
        snprintf(rest, room, " / %s syscall: %" PRIu64, name, subcode);
    } else {
        snprintf(rest, room, " / 0x%016" PRIx64 " / 0x%016" PRIx64, code, subcode);
    }
}

void mac_reason(const struct exception *exception, char out[REASON_ROOM])
{
    uint32_t code = exception->flags, type = code >> 29;
    const char *name = NAME_OF(exceptions, exception->code), *detail = code_of_exception(exception->code, code);
    if (exception->code == SIMULATED) {
        snprintf(out, REASON_ROOM, "Simulated Exception");
    } else if (!name) {
        snprintf(out, REASON_ROOM, "unknown 0x%08x / 0x%08x", exception->code, code);
    } else if (detail) {
        snprintf(out, REASON_ROOM, "%s / %s", name, detail);
    } else if (exception->code == RESOURCE && NAME_OF(resource_types, type)) {
        resource_reason(type, exception->parameters[1], exception->parameters[2], out);
    } else if (exception->code == GUARD && NAME_OF(guard_types, type)) {
        guard_reason(type, exception->parameters[1], exception->parameters[2], out);
    } else {
        snprintf(out, REASON_ROOM, "%s / 0x%08x", name, code);
    }
}
