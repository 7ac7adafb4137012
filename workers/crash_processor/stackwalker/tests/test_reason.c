// Crash reasons in the words of each system.
#include "check.h"
#include "reason.h"

static const char *reason(enum os os, uint32_t code, uint32_t flags, uint32_t n, uint64_t p0, uint64_t p1, uint64_t p2)
{
    static char text[REASON_ROOM];
    struct minidump dump = {.os = os, .cpu = &cpu_amd64};
    dump.exception = (struct exception){.present = true, .code = code, .flags = flags, .n_parameters = n};
    dump.exception.parameters[0] = p0;
    dump.exception.parameters[1] = p1;
    dump.exception.parameters[2] = p2;
    crash_reason(&dump, text);
    return text;
}

#define CHECK_REASON(expected, ...)                                                                     \
    do {                                                                                                \
        const char *got_ = reason(__VA_ARGS__);                                                         \
        if (strcmp(got_, expected) != 0) {                                                              \
            fprintf(stderr, "%s:%d: \"%s\" instead of \"%s\"\n", __FILE__, __LINE__, got_, expected);   \
            check_failures++;                                                                           \
        }                                                                                               \
    } while (0)

static void linux_tells_signal_and_code(void)
{
    CHECK_REASON("SIGSEGV / SEGV_MAPERR", OS_LINUX, 11, 1, 0, 0, 0, 0);
    CHECK_REASON("SIGSEGV", OS_LINUX, 11, 0, 0, 0, 0, 0);
    CHECK_REASON("SIGSEGV / SI_KERNEL", OS_ANDROID, 11, 0x80, 0, 0, 0, 0);
    CHECK_REASON("SIGABRT / SI_TKILL", OS_LINUX, 6, (uint32_t)-6, 0, 0, 0, 0);
    CHECK_REASON("SIGBUS / BUS_ADRERR", OS_LINUX, 7, 2, 0, 0, 0, 0);
    CHECK_REASON("SIGFPE / FPE_INTDIV", OS_LINUX, 8, 1, 0, 0, 0, 0);
    CHECK_REASON("SIGSYS / SYS_SECCOMP", OS_LINUX, 31, 1, 0, 0, 0, 0);
    CHECK_REASON("SIGTRAP / 0x00000063", OS_LINUX, 5, 99, 0, 0, 0, 0);
    CHECK_REASON("DUMP_REQUESTED", OS_LINUX, 0xffffffff, 0, 0, 0, 0, 0);
    CHECK_REASON("unknown 0x00000040 / 0x00000001", OS_LINUX, 64, 1, 0, 0, 0, 0);
}

static void windows_tells_what_was_accessed(void)
{
    CHECK_REASON("EXCEPTION_ACCESS_VIOLATION_READ", OS_WINDOWS, 0xc0000005, 0, 2, 0, 5, 0);
    CHECK_REASON("EXCEPTION_ACCESS_VIOLATION_EXEC", OS_WINDOWS, 0xc0000005, 0, 2, 8, 5, 0);
    CHECK_REASON("EXCEPTION_ACCESS_VIOLATION", OS_WINDOWS, 0xc0000005, 0, 0, 0, 0, 0);
    CHECK_REASON("EXCEPTION_ACCESS_VIOLATION", OS_WINDOWS, 0xc0000005, 0, 2, 7, 0, 0);
    CHECK_REASON("EXCEPTION_IN_PAGE_ERROR_READ / STATUS_IO_DEVICE_ERROR", OS_WINDOWS, 0xc0000006, 0, 3, 0, 0, 0xc0000185);
    CHECK_REASON("EXCEPTION_IN_PAGE_ERROR_WRITE / 0x00001234", OS_WINDOWS, 0xc0000006, 0, 3, 1, 0, 0x1234);
    CHECK_REASON("EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_INVALID_ARG", OS_WINDOWS, 0xc0000409, 0, 1, 5, 0, 0);
    CHECK_REASON("EXCEPTION_STACK_BUFFER_OVERRUN / 0x000003e8", OS_WINDOWS, 0xc0000409, 0, 1, 1000, 0, 0);
    CHECK_REASON("STATUS_STACK_BUFFER_OVERRUN", OS_WINDOWS, 0xc0000409, 0, 0, 0, 0, 0);
    CHECK_REASON("EXCEPTION_STACK_OVERFLOW", OS_WINDOWS, 0xc00000fd, 0, 0, 0, 0, 0);
    CHECK_REASON("Unhandled C++ Exception", OS_WINDOWS, 0xe06d7363, 0, 0, 0, 0, 0);
    CHECK_REASON("STATUS_HEAP_CORRUPTION", OS_WINDOWS, 0xc0000374, 0, 0, 0, 0, 0);
    CHECK_REASON("FACILITY_VISUALCPP / ERROR_MOD_NOT_FOUND", OS_WINDOWS, 0xc06d007e, 0, 0, 0, 0, 0);
    CHECK_REASON("unknown 0xdeadbeef", OS_WINDOWS, 0xdeadbeef, 0, 0, 0, 0, 0);
}

static void macos_tells_the_mach_exception(void)
{
    CHECK_REASON("EXC_BAD_ACCESS / KERN_INVALID_ADDRESS", OS_MAC, 1, 1, 0, 0, 0, 0);
    CHECK_REASON("EXC_BAD_ACCESS / EXC_I386_GPFLT", OS_MAC, 1, 13, 0, 0, 0, 0);
    CHECK_REASON("EXC_BAD_INSTRUCTION / EXC_I386_INVOP", OS_IOS, 2, 1, 0, 0, 0, 0);
    CHECK_REASON("EXC_SOFTWARE / SIGABRT", OS_MAC, 5, 0x10002, 0, 0, 0, 0);
    CHECK_REASON("unknown 0x0000000d / 0x00000000", OS_MAC, 13, 0, 0, 0, 0, 0);
    CHECK_REASON("EXC_GUARD / GUARD_TYPE_FD / GUARD_EXC_CLOSE file descriptor: 7 guard identifier: 9", OS_MAC, 12,
                 2u << 29, 3, 0, UINT64_C(1) << 32 | 7, 9);
    CHECK_REASON("EXC_RESOURCE / RESOURCE_TYPE_MEMORY / FLAVOR_HIGH_WATERMARK high watermark limit: 50MiB", OS_MAC, 11,
                 3u << 29, 3, 0, UINT64_C(1) << 58 | 50, 0);
}

static void names_are_in_order_of_code(void)
{
    char text[REASON_ROOM];
    windows_error(0, text);
    CHECK(strcmp(text, "ERROR_SUCCESS") == 0);
    windows_error(5, text);
    CHECK(strcmp(text, "ERROR_ACCESS_DENIED") == 0);
    windows_error(0xc0000005, text);
    CHECK(strcmp(text, "STATUS_ACCESS_VIOLATION") == 0);
}

static void the_address_is_the_one_accessed(void)
{
    struct minidump dump = {.os = OS_WINDOWS, .cpu = &cpu_amd64};
    dump.exception = (struct exception){.present = true, .code = 0xc0000005, .n_parameters = 2, .address = 5};
    dump.exception.parameters[1] = UINT64_C(0xffffffff80000010);

    CHECK_NUMBER(crash_address(&dump), UINT64_C(0xffffffff80000010));
    dump.cpu = &cpu_x86;
    CHECK_NUMBER(crash_address(&dump), 0x80000010);
    dump.exception.n_parameters = 1;
    CHECK_NUMBER(crash_address(&dump), 5);
}

int main(void)
{
    linux_tells_signal_and_code();
    windows_tells_what_was_accessed();
    macos_tells_the_mach_exception();
    names_are_in_order_of_code();
    the_address_is_the_one_accessed();
    CHECK_DONE();
}
