#include "reason.h"

#include <stdio.h>

const char *code_name(const struct code_name *names, size_t count, uint64_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (names[middle].code < code) low = middle + 1;
        else high = middle;
    }
    return low < count && names[low].code == code ? names[low].name : NULL;
}

void crash_reason(const struct minidump *dump, char out[REASON_ROOM])
{
    const struct exception *exception = &dump->exception;
    switch (dump->os) {
    case OS_WINDOWS: windows_reason(exception, out); return;
    case OS_MAC:
    case OS_IOS: mac_reason(exception, out); return;
    case OS_LINUX:
    case OS_ANDROID: linux_reason(exception, out); return;
    default: snprintf(out, REASON_ROOM, "unknown 0x%08x / 0x%08x", exception->code, exception->flags);
    }
}

uint64_t crash_address(const struct minidump *dump)
{
    const struct exception *exception = &dump->exception;
    bool names_address = exception->code == WINDOWS_ACCESS_VIOLATION || exception->code == WINDOWS_IN_PAGE_ERROR;
    uint64_t address = dump->os == OS_WINDOWS && names_address && exception->n_parameters >= 2
                           ? exception->parameters[1]
                           : exception->address;
    return dump->cpu->width == 4 ? (uint32_t)address : address;  // 32-bit ones may be sign-extended
}
