// Windows: the exception's code is an NTSTATUS, or what a program passed to RaiseException.
#include <stdio.h>

#include "reason.h"

static const struct code_name exceptions[] = {
    {0x0517a7ed, "Simulated Exception"},
    {0x80000001, "EXCEPTION_GUARD_PAGE"},
    {0x80000002, "EXCEPTION_DATATYPE_MISALIGNMENT"},
    {0x80000003, "EXCEPTION_BREAKPOINT"},
    {0x80000004, "EXCEPTION_SINGLE_STEP"},
    {0xc0000005, "EXCEPTION_ACCESS_VIOLATION"},
    {0xc0000006, "EXCEPTION_IN_PAGE_ERROR"},
    {0xc0000008, "EXCEPTION_INVALID_HANDLE"},
    {0xc000001d, "EXCEPTION_ILLEGAL_INSTRUCTION"},
    {0xc0000025, "EXCEPTION_NONCONTINUABLE_EXCEPTION"},
    {0xc0000026, "EXCEPTION_INVALID_DISPOSITION"},
    {0xc000008c, "EXCEPTION_BOUNDS_EXCEEDED"},
    {0xc000008d, "EXCEPTION_FLT_DENORMAL_OPERAND"},
    {0xc000008e, "EXCEPTION_FLT_DIVIDE_BY_ZERO"},
    {0xc000008f, "EXCEPTION_FLT_INEXACT_RESULT"},
    {0xc0000090, "EXCEPTION_FLT_INVALID_OPERATION"},
    {0xc0000091, "EXCEPTION_FLT_OVERFLOW"},
    {0xc0000092, "EXCEPTION_FLT_STACK_CHECK"},
    {0xc0000093, "EXCEPTION_FLT_UNDERFLOW"},
    {0xc0000094, "EXCEPTION_INT_DIVIDE_BY_ZERO"},
    {0xc0000095, "EXCEPTION_INT_OVERFLOW"},
    {0xc0000096, "EXCEPTION_PRIV_INSTRUCTION"},
    {0xc00000fd, "EXCEPTION_STACK_OVERFLOW"},
    {0xc0000194, "EXCEPTION_POSSIBLE_DEADLOCK"},
    {0xe0000008, "Out of Memory"},
    {0xe0434352, "MANAGED_EXCEPTION_CODE_V4"},
    {0xe06d7363, "Unhandled C++ Exception"},
};

static const struct code_name errors[] = {
#include "windows_errors.inc"
};

static const struct code_name statuses[] = {
#include "windows_statuses.inc"
};

static const struct code_name access_types[] = {{0, "READ"}, {1, "WRITE"}, {8, "EXEC"}};

// What __fastfail was given.
static const struct code_name fast_fails[] = {
#define FAST_FAIL(code, name) {code, "FAST_FAIL_" name},
    FAST_FAIL(0, "LEGACY_GS_VIOLATION")
    FAST_FAIL(1, "VTGUARD_CHECK_FAILURE")
    FAST_FAIL(2, "STACK_COOKIE_CHECK_FAILURE")
    FAST_FAIL(3, "CORRUPT_LIST_ENTRY")
    FAST_FAIL(4, "INCORRECT_STACK")
    FAST_FAIL(5, "INVALID_ARG")
    FAST_FAIL(6, "GS_COOKIE_INIT")
    FAST_FAIL(7, "FATAL_APP_EXIT")
    FAST_FAIL(8, "RANGE_CHECK_FAILURE")
    FAST_FAIL(9, "UNSAFE_REGISTRY_ACCESS")
    FAST_FAIL(10, "GUARD_ICALL_CHECK_FAILURE")
    FAST_FAIL(11, "GUARD_WRITE_CHECK_FAILURE")
    FAST_FAIL(12, "INVALID_FIBER_SWITCH")
    FAST_FAIL(13, "INVALID_SET_OF_CONTEXT")
    FAST_FAIL(14, "INVALID_REFERENCE_COUNT")
    FAST_FAIL(18, "INVALID_JUMP_BUFFER")
    FAST_FAIL(19, "MRDATA_MODIFIED")
    FAST_FAIL(20, "CERTIFICATION_FAILURE")
    FAST_FAIL(21, "INVALID_EXCEPTION_CHAIN")
    FAST_FAIL(22, "CRYPTO_LIBRARY")
    FAST_FAIL(23, "INVALID_CALL_IN_DLL_CALLOUT")
    FAST_FAIL(24, "INVALID_IMAGE_BASE")
    FAST_FAIL(25, "DLOAD_PROTECTION_FAILURE")
    FAST_FAIL(26, "UNSAFE_EXTENSION_CALL")
    FAST_FAIL(27, "DEPRECATED_SERVICE_INVOKED")
    FAST_FAIL(28, "INVALID_BUFFER_ACCESS")
    FAST_FAIL(29, "INVALID_BALANCED_TREE")
    FAST_FAIL(30, "INVALID_NEXT_THREAD")
    FAST_FAIL(31, "GUARD_ICALL_CHECK_SUPPRESSED")
    FAST_FAIL(32, "APCS_DISABLED")
    FAST_FAIL(33, "INVALID_IDLE_STATE")
    FAST_FAIL(34, "MRDATA_PROTECTION_FAILURE")
    FAST_FAIL(35, "UNEXPECTED_HEAP_EXCEPTION")
    FAST_FAIL(36, "INVALID_LOCK_STATE")
    FAST_FAIL(37, "GUARD_JUMPTABLE")
    FAST_FAIL(38, "INVALID_LONGJUMP_TARGET")
    FAST_FAIL(39, "INVALID_DISPATCH_CONTEXT")
    FAST_FAIL(40, "INVALID_THREAD")
    FAST_FAIL(41, "INVALID_SYSCALL_NUMBER")
    FAST_FAIL(42, "INVALID_FILE_OPERATION")
    FAST_FAIL(43, "LPAC_ACCESS_DENIED")
    FAST_FAIL(44, "GUARD_SS_FAILURE")
    FAST_FAIL(45, "LOADER_CONTINUITY_FAILURE")
    FAST_FAIL(46, "GUARD_EXPORT_SUPPRESSION_FAILURE")
    FAST_FAIL(47, "INVALID_CONTROL_STACK")
    FAST_FAIL(48, "SET_CONTEXT_DENIED")
    FAST_FAIL(49, "INVALID_IAT")
    FAST_FAIL(50, "HEAP_METADATA_CORRUPTION")
    FAST_FAIL(51, "PAYLOAD_RESTRICTION_VIOLATION")
    FAST_FAIL(52, "LOW_LABEL_ACCESS_DENIED")
    FAST_FAIL(53, "ENCLAVE_CALL_FAILURE")
    FAST_FAIL(54, "UNHANDLED_LSS_EXCEPTON")  // so spelt in winnt.h
    FAST_FAIL(55, "ADMINLESS_ACCESS_DENIED")
    FAST_FAIL(56, "UNEXPECTED_CALL")
    FAST_FAIL(57, "CONTROL_INVALID_RETURN_ADDRESS")
    FAST_FAIL(58, "UNEXPECTED_HOST_BEHAVIOR")
    FAST_FAIL(59, "FLAGS_CORRUPTION")
    FAST_FAIL(60, "VEH_CORRUPTION")
    FAST_FAIL(61, "ETW_CORRUPTION")
    FAST_FAIL(62, "RIO_ABORT")
    FAST_FAIL(63, "INVALID_PFN")
    FAST_FAIL(64, "GUARD_ICALL_CHECK_FAILURE_XFG")
    FAST_FAIL(65, "CAST_GUARD")
    FAST_FAIL(66, "HOST_VISIBILITY_CHANGE")
    FAST_FAIL(67, "KERNEL_CET_SHADOW_STACK_ASSIST")
    FAST_FAIL(68, "PATCH_CALLBACK_FAILED")
    FAST_FAIL(69, "NTDLL_PATCH_FAILED")
    FAST_FAIL(70, "INVALID_FLS_DATA")
    FAST_FAIL(71, "ASAN_ERROR")
    FAST_FAIL(72, "CLR_EXCEPTION_AOT")
    FAST_FAIL(73, "POINTER_AUTH_INVALID_RETURN_ADDRESS")
    FAST_FAIL(74, "INVALID_THREAD_STATE")
    FAST_FAIL(75, "CORRUPT_WOW64_STATE")
    FAST_FAIL(76, "INVALID_EXTENDED_STATE")
#undef FAST_FAIL
};

// A C++ error wrapped in an HRESULT or NTSTATUS: severity, facility 109 (VISUALCPP), and a Win32 error below.
static const char *visual_cpp_error(uint32_t code)
{
    enum { FACILITY_VISUALCPP = 109 };
    if ((code & 0xf0000000) == 0 || (code >> 16 & 0xfff) != FACILITY_VISUALCPP) return NULL;
    return NAME_OF(errors, code & 0xffff);
}

void windows_error(uint32_t code, char out[REASON_ROOM])
{
    const char *name = NAME_OF(errors, code);  // the two tables overlap; Win32 errors come first
    if (!name) name = NAME_OF(statuses, code);
    const char *wrapped = name ? NULL : visual_cpp_error(code);
    if (name) snprintf(out, REASON_ROOM, "%s", name);
    else if (wrapped) snprintf(out, REASON_ROOM, "FACILITY_VISUALCPP / %s", wrapped);
    else snprintf(out, REASON_ROOM, "unknown 0x%08x", code);
}

static void name_or_number(const char *name, uint32_t number, char out[16 + 1], const char **text)
{
    snprintf(out, 17, "0x%08x", number);
    *text = name ? name : out;
}

void windows_reason(const struct exception *exception, char out[REASON_ROOM])
{
    const uint64_t *parameters = exception->parameters;
    uint32_t n = exception->n_parameters, code = exception->code;
    const char *access = NAME_OF(access_types, parameters[0]), *text;
    char number[17];
    if (code == WINDOWS_ACCESS_VIOLATION && n >= 1 && access) {
        snprintf(out, REASON_ROOM, "EXCEPTION_ACCESS_VIOLATION_%s", access);
    } else if (code == WINDOWS_IN_PAGE_ERROR && n >= 3 && access) {
        uint32_t status = (uint32_t)parameters[2];
        name_or_number(NAME_OF(statuses, status), status, number, &text);
        snprintf(out, REASON_ROOM, "EXCEPTION_IN_PAGE_ERROR_%s / %s", access, text);
    } else if (code == WINDOWS_STACK_BUFFER_OVERRUN && n >= 1) {
        uint32_t fast_fail = (uint32_t)parameters[0];
        name_or_number(NAME_OF(fast_fails, fast_fail), fast_fail, number, &text);
        snprintf(out, REASON_ROOM, "EXCEPTION_STACK_BUFFER_OVERRUN / %s", text);
    } else if ((text = NAME_OF(exceptions, code))) {
        snprintf(out, REASON_ROOM, "%s", text);
    } else {
        windows_error(code, out);
    }
}
