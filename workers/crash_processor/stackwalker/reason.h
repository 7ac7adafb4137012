// Why a process crashed, in the words rust-minidump uses: "SIGSEGV / SEGV_MAPERR",
// "EXCEPTION_ACCESS_VIOLATION_READ", "EXC_BAD_ACCESS / KERN_INVALID_ADDRESS".
#ifndef REASON_H
#define REASON_H

#include "minidump.h"

enum { REASON_ROOM = 320 };

// Windows exceptions that tell more in their parameters.
#define WINDOWS_ACCESS_VIOLATION UINT32_C(0xc0000005)
#define WINDOWS_IN_PAGE_ERROR UINT32_C(0xc0000006)
#define WINDOWS_STACK_BUFFER_OVERRUN UINT32_C(0xc0000409)

// The reason of an exception that is present.
void crash_reason(const struct minidump *dump, char out[REASON_ROOM]);

// The address that mattered: the one accessed, where the exception tells, else that of the instruction.
uint64_t crash_address(const struct minidump *dump);

// A Windows error code that need not be a crash, as GetLastError returns it.
void windows_error(uint32_t code, char out[REASON_ROOM]);

// One set of names for each system: reason_linux.c, reason_mac.c, reason_windows.c.
void linux_reason(const struct exception *exception, char out[REASON_ROOM]);
void mac_reason(const struct exception *exception, char out[REASON_ROOM]);
void windows_reason(const struct exception *exception, char out[REASON_ROOM]);

struct code_name {
    uint32_t code;
    const char *name;
};

// The name of a code in a table ordered by code, or NULL.
const char *code_name(const struct code_name *names, size_t count, uint64_t code);

#define NAME_OF(table, code) code_name(table, sizeof table / sizeof *table, code)

#endif
