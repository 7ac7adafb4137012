"""Why the process died, in rust-minidump's words, and at which address."""

from __future__ import annotations

from typing import Any

import pytest

from tuner_workers.crash_processor.synthetic import minidump
from tuner_workers.crash_processor.synthetic.minidump import Dump, ExceptionRecord, Memory, System, Thread

from .conftest import STACK, Walker

pytestmark = pytest.mark.integration

FAULT = 0x1234_5678_9ABC

LINUX = [  # signal, si_code
    (11, 1, "SIGSEGV / SEGV_MAPERR"),
    (11, 2, "SIGSEGV / SEGV_ACCERR"),
    (11, 3, "SIGSEGV / SEGV_BNDERR"),
    (11, 4, "SIGSEGV / SEGV_PKUERR"),
    (11, 128, "SIGSEGV / SI_KERNEL"),
    (11, 0, "SIGSEGV"),
    (11, 0xFFFFFFFA, "SIGSEGV / SI_TKILL"),
    (11, 0x12345, "SIGSEGV / 0x00012345"),
    (6, 0, "SIGABRT"),
    (6, 0xFFFFFFFA, "SIGABRT / SI_TKILL"),
    (6, 0xFFFFFFFF, "SIGABRT / SI_QUEUE"),
    (7, 1, "SIGBUS / BUS_ADRALN"),
    (7, 2, "SIGBUS / BUS_ADRERR"),
    (7, 3, "SIGBUS / BUS_OBJERR"),
    (8, 1, "SIGFPE / FPE_INTDIV"),
    (8, 2, "SIGFPE / FPE_INTOVF"),
    (8, 3, "SIGFPE / FPE_FLTDIV"),
    (8, 8, "SIGFPE / FPE_FLTSUB"),
    (4, 1, "SIGILL / ILL_ILLOPC"),
    (4, 2, "SIGILL / ILL_ILLOPN"),
    (4, 5, "SIGILL / ILL_PRVOPC"),
    (5, 1, "SIGTRAP / TRAP_BRKPT"),
    (5, 2, "SIGTRAP / TRAP_TRACE"),
    (5, 128, "SIGTRAP / SI_KERNEL"),
    (31, 1, "SIGSYS / SYS_SECCOMP"),
    (13, 0, "SIGPIPE"),
    (9, 0, "SIGKILL"),
    (15, 0xFFFFFFFE, "SIGTERM / SI_TIMER"),
    (0, 0, "unknown 0x00000000 / 0x00000000"),
    (34, 0, "unknown 0x00000022 / 0x00000000"),
    (64, 1, "unknown 0x00000040 / 0x00000001"),
]

WINDOWS = [  # exception code, parameters
    (0xC0000005, (), "EXCEPTION_ACCESS_VIOLATION"),
    (0xC0000005, (0, 0xDEAD), "EXCEPTION_ACCESS_VIOLATION_READ"),
    (0xC0000005, (1, 0xDEAD), "EXCEPTION_ACCESS_VIOLATION_WRITE"),
    (0xC0000005, (8, 0xDEAD), "EXCEPTION_ACCESS_VIOLATION_EXEC"),
    (0xC0000005, (2, 0xDEAD), "EXCEPTION_ACCESS_VIOLATION"),
    (0xC0000006, (0, 0xDEAD, 0xC0000185), "EXCEPTION_IN_PAGE_ERROR_READ / STATUS_IO_DEVICE_ERROR"),
    (0xC0000006, (1, 0xDEAD, 0xC000009C), "EXCEPTION_IN_PAGE_ERROR_WRITE / STATUS_DEVICE_DATA_ERROR"),
    (0xC0000006, (8, 1, 0xDEADBEEF00000005), "EXCEPTION_IN_PAGE_ERROR_EXEC / 0x00000005"),
    (0xC0000006, (0, 0xDEAD), "EXCEPTION_IN_PAGE_ERROR"),
    (0xC000001D, (), "EXCEPTION_ILLEGAL_INSTRUCTION"),
    (0xC0000094, (), "EXCEPTION_INT_DIVIDE_BY_ZERO"),
    (0xC00000FD, (), "EXCEPTION_STACK_OVERFLOW"),
    (0x80000003, (), "EXCEPTION_BREAKPOINT"),
    (0x80000004, (), "EXCEPTION_SINGLE_STEP"),
    (0xC0000409, (), "STATUS_STACK_BUFFER_OVERRUN"),
    (0xC0000409, (7,), "EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_FATAL_APP_EXIT"),
    (0xC0000409, (0x45,), "EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_NTDLL_PATCH_FAILED"),
    (0xC0000409, (0xFFFF,), "EXCEPTION_STACK_BUFFER_OVERRUN / 0x0000ffff"),
    (0xE06D7363, (), "Unhandled C++ Exception"),
    (0xE0000008, (), "Out of Memory"),
    (0x0517A7ED, (), "Simulated Exception"),
    (0xC0000374, (), "STATUS_HEAP_CORRUPTION"),
    (0xC0000008, (), "EXCEPTION_INVALID_HANDLE"),
    (0xC0000135, (), "STATUS_DLL_NOT_FOUND"),
    (0x40010005, (), "DBG_CONTROL_C"),
    (0x80070005, (), "unknown 0x80070005"),
    (0x00000005, (), "ERROR_ACCESS_DENIED"),
    (0x00000008, (), "ERROR_NOT_ENOUGH_MEMORY"),
    (0xDEADBEEF, (), "unknown 0xdeadbeef"),
    (0x00000000, (), "ERROR_SUCCESS"),
]

MACOS = [  # exception type, code
    (1, 1, "EXC_BAD_ACCESS / KERN_INVALID_ADDRESS"),
    (1, 2, "EXC_BAD_ACCESS / KERN_PROTECTION_FAILURE"),
    (1, 13, "EXC_BAD_ACCESS / EXC_I386_GPFLT"),
    (1, 50, "EXC_BAD_ACCESS / KERN_CODESIGN_ERROR"),
    (1, 0x101, "EXC_BAD_ACCESS / 0x00000101"),
    (1, 0xFFFFFFFF, "EXC_BAD_ACCESS / 0xffffffff"),
    (2, 1, "EXC_BAD_INSTRUCTION / EXC_I386_INVOP"),
    (2, 2, "EXC_BAD_INSTRUCTION / 0x00000002"),
    (3, 1, "EXC_ARITHMETIC / EXC_I386_DIV"),
    (3, 8, "EXC_ARITHMETIC / EXC_I386_SSEEXTERR"),
    (4, 1, "EXC_EMULATION / 0x00000001"),
    (5, 0x10002, "EXC_SOFTWARE / SIGABRT"),
    (5, 0x10003, "EXC_SOFTWARE / 0x00010003"),
    (5, 0xDEADC0DE, "EXC_SOFTWARE / UNCAUGHT_NS_EXCEPTION"),
    (6, 1, "EXC_BREAKPOINT / EXC_I386_SGL"),
    (6, 2, "EXC_BREAKPOINT / EXC_I386_BPT"),
    (6, 0x101, "EXC_BREAKPOINT / 0x00000101"),
    (7, 1, "EXC_SYSCALL / 0x00000001"),
    (8, 0, "EXC_MACH_SYSCALL / 0x00000000"),
    (10, 0, "unknown 0x0000000a / 0x00000000"),
    (13, 2, "unknown 0x0000000d / 0x00000002"),
    (0, 0, "unknown 0x00000000 / 0x00000000"),
    (0x43507378, 0, "Simulated Exception"),
]


def crash_info(
    walker: Walker,
    platform: int,
    code: int,
    flags: int = 0,
    parameters: tuple[int, ...] = (),
    address: int = FAULT,
) -> Any:
    context = minidump.amd64_context({"rip": 0x400010, "rsp": STACK})
    record = ExceptionRecord(1, code, flags, address, parameters, context)
    dump = Dump(System(platform), [Thread(1, Memory(STACK, bytes(64)), context)], [], record)
    return walker.json(minidump.write_minidump(dump))["crash_info"]


@pytest.mark.parametrize(("signal", "si_code", "reason"), LINUX)
def test_a_signal_is_named_with_its_cause(walker: Walker, signal: int, si_code: int, reason: str) -> None:
    assert crash_info(walker, minidump.LINUX, signal, si_code)["type"] == reason


@pytest.mark.parametrize(("code", "parameters", "reason"), WINDOWS)
def test_a_windows_exception_is_named(
    walker: Walker, code: int, parameters: tuple[int, ...], reason: str
) -> None:
    assert crash_info(walker, minidump.WINDOWS, code, 0, parameters)["type"] == reason


@pytest.mark.parametrize(("kind", "code", "reason"), MACOS)
def test_a_mach_exception_is_named(walker: Walker, kind: int, code: int, reason: str) -> None:
    assert crash_info(walker, minidump.MACOS, kind, code)["type"] == reason


@pytest.mark.parametrize(
    ("platform", "code", "parameters", "address"),
    [
        (minidump.LINUX, 11, (), FAULT),
        (minidump.LINUX, 11, (0, 0xDEAD), FAULT),
        (minidump.MACOS, 1, (1, 0xDEAD), FAULT),
        (minidump.WINDOWS, 0xC0000005, (0, 0xDEAD), 0xDEAD),
        (minidump.WINDOWS, 0xC0000005, (0,), FAULT),
        (minidump.WINDOWS, 0xC0000005, (8, 2**64 - 1), 2**64 - 1),
        (minidump.WINDOWS, 0xC0000006, (0, 0xDEAD, 0xC0000185), 0xDEAD),
        (minidump.WINDOWS, 0xC0000006, (0, 0xDEAD), 0xDEAD),
        (minidump.WINDOWS, 0xC000001D, (0, 0xDEAD), FAULT),
        (minidump.WINDOWS, 0x80000003, (), FAULT),
    ],
)
def test_the_address_is_the_one_that_faulted(
    walker: Walker, platform: int, code: int, parameters: tuple[int, ...], address: int
) -> None:
    assert crash_info(walker, platform, code, 1, parameters)["address"] == f"0x{address:016x}"


def test_a_null_address_is_written_in_full(walker: Walker) -> None:
    assert crash_info(walker, minidump.LINUX, 11, 1, address=0)["address"] == "0x0000000000000000"
