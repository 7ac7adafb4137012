"""Differences between Linux, Windows and macOS: names, addresses, and descriptions of a crash."""

from __future__ import annotations

from dataclasses import dataclass

from . import minidump
from .minidump import System


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of a crash: its exception record, and its name in a stackwalker's output."""

    reason: str  #: crash type, as rust-minidump prints it
    code: int
    flags: int = 0
    parameters: tuple[int, ...] = ()
    address: str = "wild"  #: kind of crash address: "null", "wild" or "code"
    #: index of the parameter that holds the crash address; None: the exception's own address
    address_parameter: int | None = None


@dataclass(frozen=True, slots=True)
class Flavour:
    """One operating system."""

    name: str
    symbol_os: str  #: first word of the MODULE line in symbol files
    long_name: str
    #: system info stream -> version as a stackwalker prints it
    systems: tuple[tuple[System, str], ...]
    causes: tuple[Cause, ...]
    abort: Cause
    null_read: Cause
    stack_overflow: Cause
    stack_top: int  #: address below which the highest stack ends
    heap: int
    image_base: int  #: base address of the executable
    library_base: int
    #: role -> path, and name of the debug file ("": the module's name)
    modules: dict[str, tuple[str, str]]
    #: key -> function of the system library
    system_functions: dict[str, str]
    #: functions below main: "!x" is x in the system library, "=x" is x in the executable
    outermost: tuple[str, ...]
    #: names of functions whose return address is declared undefined
    starts: frozenset[str]
    system_library_has_cfi: bool
    writes_breakpad_info: bool

    @property
    def platform(self) -> int:
        """Its platform number in a system info stream."""
        return self.systems[0][0].platform


_SIGSEGV_MAPERR = Cause("SIGSEGV / SEGV_MAPERR", 11, 1)
_ACCESS_READ = Cause("EXCEPTION_ACCESS_VIOLATION_READ", 0xC0000005, 0, (0, 0), address_parameter=1)

LINUX = Flavour(
    name="linux",
    symbol_os="Linux",
    long_name="Linux",
    systems=(
        (
            System(
                minidump.LINUX, n_cpus=4, service_pack="Linux 6.1.0-18-amd64 #1 SMP Debian 6.1.76-1 x86_64"
            ),
            "6.1.0-18-amd64 #1 SMP Debian 6.1.76-1",
        ),
        (
            System(minidump.LINUX, n_cpus=16, version=(5, 15, 0), service_pack="#107-Ubuntu SMP x86_64"),
            "5.15.0 #107-Ubuntu SMP x86_64",
        ),
        (
            System(
                minidump.LINUX,
                n_cpus=8,
                service_pack="Linux 6.8.9-300.fc40.x86_64 #1 SMP PREEMPT_DYNAMIC x86_64 Linux/GNU",
            ),
            "6.8.9-300.fc40.x86_64 #1 SMP PREEMPT_DYNAMIC",
        ),
    ),
    causes=(
        _SIGSEGV_MAPERR,
        Cause("SIGSEGV / SEGV_ACCERR", 11, 2),
        Cause("SIGSEGV / SI_KERNEL", 11, 0x80, address="null"),
        Cause("SIGBUS / BUS_ADRERR", 7, 2),
        Cause("SIGFPE / FPE_INTDIV", 8, 1, address="code"),
        Cause("SIGILL / ILL_ILLOPN", 4, 2, address="code"),
        Cause("SIGTRAP / TRAP_BRKPT", 5, 1, address="code"),
    ),
    abort=Cause("SIGABRT / SI_TKILL", 6, 0xFFFFFFFA),
    null_read=Cause(_SIGSEGV_MAPERR.reason, 11, 1, address="null"),
    stack_overflow=_SIGSEGV_MAPERR,
    stack_top=0x7FFD_E000_0000,
    heap=0x5555_5000_0000,
    image_base=0x5555_5555_4000,
    library_base=0x7F12_3400_0000,
    modules={
        "exe": ("/opt/waterwolf/waterwolf", ""),
        "engine": ("/opt/waterwolf/libwolfcore.so", ""),
        "system": ("/usr/lib/x86_64-linux-gnu/libc.so.6", ""),
        "support": ("/opt/waterwolf/libcachekit.so", ""),
        "driver": ("/usr/lib/x86_64-linux-gnu/libvendorgl.so.2.1", ""),
        "loader": ("/lib64/ld-linux-x86-64.so.2", ""),
        "extra": ("/opt/waterwolf/plugins/libplugin{number}.so", ""),
    },
    system_functions={
        "copy": "__memmove_avx_unaligned_erms",
        "kill": "raise",
        "abort": "abort",
        "run_main": "__libc_start_main",
        "thread_main": "start_thread",
        "thread_start": "clone3",
        "wait_call": "__futex_abstimed_wait_common",
        "wait": "pthread_cond_timedwait",
        "poll": "poll",
    },
    outermost=("!run_main", "=_start"),
    starts=frozenset(("_start", "clone3")),
    system_library_has_cfi=True,
    writes_breakpad_info=False,
)

WINDOWS = Flavour(
    name="windows",
    symbol_os="windows",
    long_name="Windows NT",
    systems=(
        (System(minidump.WINDOWS, n_cpus=8, version=(10, 0, 19045)), "10.0.19045"),
        (System(minidump.WINDOWS, n_cpus=12, version=(10, 0, 22631)), "10.0.22631"),
        (
            System(minidump.WINDOWS, n_cpus=2, version=(6, 1, 7601), service_pack="Service Pack 1"),
            "6.1.7601 Service Pack 1",
        ),
    ),
    causes=(
        _ACCESS_READ,
        Cause("EXCEPTION_ACCESS_VIOLATION_WRITE", 0xC0000005, 0, (1, 0), address_parameter=1),
        Cause("EXCEPTION_ACCESS_VIOLATION_EXEC", 0xC0000005, 0, (8, 0), address_parameter=1),
        Cause("EXCEPTION_ILLEGAL_INSTRUCTION", 0xC000001D, address="code"),
        Cause("EXCEPTION_INT_DIVIDE_BY_ZERO", 0xC0000094, address="code"),
        Cause("EXCEPTION_BREAKPOINT", 0x80000003, address="code"),
        Cause("EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_FATAL_APP_EXIT", 0xC0000409, 1, (7,), "code"),
        Cause("Unhandled C++ Exception", 0xE06D7363, 1, (0x19930520, 0, 0, 0), "code"),
    ),
    abort=Cause("EXCEPTION_BREAKPOINT", 0x80000003, address="code"),
    null_read=Cause(_ACCESS_READ.reason, 0xC0000005, 0, (0, 0), "null", 1),
    stack_overflow=Cause("EXCEPTION_STACK_OVERFLOW", 0xC00000FD, 0, (1, 0), "code"),
    stack_top=0x00D5_7000_0000,
    heap=0x01E5_4000_0000,
    image_base=0x7FF6_1230_0000,
    library_base=0x7FFB_4000_0000,
    modules={
        "exe": (r"C:\Program Files\WaterWolf\waterwolf.exe", r"C:\builds\obj\waterwolf.pdb"),
        "engine": (r"C:\Program Files\WaterWolf\wolfcore.dll", r"C:\builds\obj\wolfcore.pdb"),
        "system": (r"C:\Windows\System32\ntdll.dll", "ntdll.pdb"),
        "support": (r"C:\Program Files\WaterWolf\cachekit.dll", "cachekit.pdb"),
        "driver": (r"C:\Windows\System32\DriverStore\vendorgl64.dll", "vendorgl64.pdb"),
        "loader": (r"C:\Windows\System32\KERNELBASE.dll", "kernelbase.pdb"),
        "extra": (r"C:\Program Files\WaterWolf\plugin{number}.dll", "plugin{number}.pdb"),
    },
    system_functions={
        "copy": "memcpy",
        "kill": "RtlRaiseException",
        "abort": "RtlFailFast",
        "run_main": "BaseThreadInitThunk",
        "thread_main": "BaseThreadInitThunk",
        "thread_start": "RtlUserThreadStart",
        "wait_call": "NtWaitForAlertByThreadId",
        "wait": "RtlSleepConditionVariableSRW",
        "poll": "NtRemoveIoCompletion",
    },
    outermost=("!run_main", "!thread_start"),
    starts=frozenset(("RtlUserThreadStart",)),
    system_library_has_cfi=True,
    writes_breakpad_info=True,
)

MACOS = Flavour(
    name="macos",
    symbol_os="mac",
    long_name="Mac OS X",
    systems=(
        (System(minidump.MACOS, n_cpus=8, version=(14, 4, 1), service_pack="23E224"), "14.4.1 23E224"),
        (System(minidump.MACOS, n_cpus=4, version=(12, 7, 5)), "12.7.5"),
    ),
    causes=(
        Cause("EXC_BAD_ACCESS / KERN_INVALID_ADDRESS", 1, 1),
        Cause("EXC_BAD_ACCESS / KERN_PROTECTION_FAILURE", 1, 2),
        Cause("EXC_BAD_INSTRUCTION / EXC_I386_INVOP", 2, 1, address="code"),
        Cause("EXC_ARITHMETIC / EXC_I386_DIV", 3, 1, address="code"),
        Cause("EXC_BREAKPOINT / EXC_I386_BPT", 6, 2, address="code"),
    ),
    abort=Cause("EXC_SOFTWARE / SIGABRT", 5, 0x10002, address="code"),
    null_read=Cause("EXC_BAD_ACCESS / KERN_INVALID_ADDRESS", 1, 1, address="null"),
    stack_overflow=Cause("EXC_BAD_ACCESS / KERN_PROTECTION_FAILURE", 1, 2),
    stack_top=0x7FF7_BFF0_0000,
    heap=0x6000_0100_0000,
    image_base=0x1_0000_0000,
    library_base=0x7FF8_1000_0000,
    modules={
        "exe": ("/Applications/WaterWolf.app/Contents/MacOS/waterwolf", "waterwolf"),
        "engine": ("/Applications/WaterWolf.app/Contents/MacOS/WolfCore", "WolfCore"),
        "system": ("/usr/lib/system/libsystem_kernel.dylib", "libsystem_kernel.dylib"),
        "support": ("/Applications/WaterWolf.app/Contents/MacOS/libcachekit.dylib", "libcachekit.dylib"),
        "driver": ("/System/Library/Extensions/VendorGLDriver.bundle/VendorGLDriver", "VendorGLDriver"),
        "loader": ("/usr/lib/dyld", "dyld"),
        "extra": ("/Applications/WaterWolf.app/Contents/MacOS/plugin{number}.dylib", "plugin{number}.dylib"),
    },
    system_functions={
        "copy": "_platform_memmove",
        "kill": "__pthread_kill",
        "abort": "abort",
        "run_main": "start",
        "thread_main": "_pthread_start",
        "thread_start": "thread_start",
        "wait_call": "__psynch_cvwait",
        "wait": "_pthread_cond_wait",
        "poll": "mach_msg2_trap",
    },
    outermost=("!run_main",),
    starts=frozenset(("start", "thread_start")),
    system_library_has_cfi=False,
    writes_breakpad_info=True,
)

FLAVOURS = {flavour.name: flavour for flavour in (LINUX, WINDOWS, MACOS)}
