"""Writer of minidumps from plain values: the layout of all fields.

All numbers are little-endian and an RVA is an offset from the start of the file. Invalid dumps
(a wrong count, a stream twice) cannot be described by `Dump`; tests patch them into the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

LINUX, WINDOWS, MACOS = 0x8201, 2, 0x8101
X86, AMD64 = 0, 9

THREAD_LIST, MODULE_LIST, MEMORY_LIST, EXCEPTION, SYSTEM_INFO = 3, 4, 5, 6, 7
MEMORY64_LIST, MISC_INFO, BREAKPAD_INFO = 9, 15, 0x47670001

#: offset of each register in the 1232 bytes of an amd64 context
REGISTER_OFFSETS = {
    name: 120 + 8 * index
    for index, name in enumerate(
        "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15 rip".split()  # noqa: SIM905
    )
}
_CONTEXT_BYTES = 1232
_CONTEXT_FLAGS_OFFSET = 48
_CONTEXT_AMD64_FULL = 0x10000B


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of the crashed process, with their address."""

    start: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: its id, its stack (None: not captured) and its CPU context as bytes."""

    thread_id: int
    stack: Memory | None
    context: bytes


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """One entry of the module list; `code_view` is the result of `rsds` or `build_id`, or empty."""

    path: str
    base: int
    size: int
    code_view: bytes
    timestamp: int = 0
    version: tuple[int, int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class ExceptionRecord:
    """Cause of the crash: a signal and its si_code on Linux, code and parameters on Windows."""

    thread_id: int
    code: int
    flags: int
    address: int
    parameters: tuple[int, ...] = ()
    context: bytes = b""


@dataclass(frozen=True, slots=True)
class System:
    """The host of the crashed process."""

    platform: int = LINUX
    architecture: int = AMD64
    n_cpus: int = 4
    version: tuple[int, int, int] = (0, 0, 0)
    service_pack: str = ""  #: CSD version; on Linux, Breakpad writes `uname -srvm` here


@dataclass(frozen=True, slots=True)
class Dump:
    """All values of a synthetic minidump."""

    system: System
    threads: Sequence[Thread]
    modules: Sequence[LoadedModule]
    exception: ExceptionRecord | None = None
    #: (dump thread, requesting thread); None omits the stream, a None inside clears the valid bit
    breakpad: tuple[int | None, int | None] | None = None
    memory: Sequence[Memory] = ()  #: regions in addition to the stacks
    process_id: int | None = None
    timestamp: int = 0
    #: True: stacks are only in the Memory64List, as in dumps of all memory
    full_memory: bool = False
    #: True: four bytes of padding after the count of each list, as some writers add
    padded_lists: bool = False


def amd64_context(registers: Mapping[str, int]) -> bytes:
    """Return a CONTEXT_AMD64 with these registers, and zeros elsewhere."""
    context = bytearray(_CONTEXT_BYTES)
    struct.pack_into("<I", context, _CONTEXT_FLAGS_OFFSET, _CONTEXT_AMD64_FULL)
    for name, value in registers.items():
        struct.pack_into("<Q", context, REGISTER_OFFSETS[name], value)
    return bytes(context)


def rsds(guid: UUID, age: int, debug_file: str) -> bytes:
    """Return a CodeView record of the PDB kind, for Windows and macOS."""
    return b"RSDS" + guid.bytes_le + struct.pack("<I", age) + debug_file.encode() + b"\0"


def build_id(identifier: bytes) -> bytes:
    """Return a CodeView record of the ELF kind, like Breakpad; the debug file has the module's name."""
    return b"LEpB" + identifier


def debug_id(code_view: bytes) -> str:
    """Return the debug id of the module's symbols in a store; 33 zeros without a CodeView record.

    GUID and age for RSDS; the first 16 bytes of a build id, padded with zeros, read as a GUID of age 0.
    """
    if code_view[:4] == b"RSDS":
        guid, age = UUID(bytes_le=code_view[4:20]), struct.unpack_from("<I", code_view, 20)[0]
        return f"{guid.hex.upper()}{age:x}" if guid.int else "0" * 33
    if code_view[:4] == b"LEpB" and any(code_view[4:]):
        return f"{UUID(bytes_le=code_view[4:20].ljust(16, bytes(1))).hex.upper()}0"
    return "0" * 33


def write_minidump(dump: Dump) -> bytes:
    """Return the complete file."""
    return _Writer(dump).finish()


class _Writer:
    """Writer that appends records and stores their places; header and directory are written last."""

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._streams: list[tuple[int, int, int]] = []  #: type, size, rva
        self._build: list[tuple[int, Callable[[], bytes]]] = [
            (SYSTEM_INFO, self._system_info),
            (THREAD_LIST, self._thread_list),
            (MODULE_LIST, self._module_list),
        ]
        if dump.exception is not None:
            self._build.append((EXCEPTION, self._exception))
        if dump.process_id is not None:
            self._build.append((MISC_INFO, self._misc_info))
        if dump.breakpad is not None:
            self._build.append((BREAKPAD_INFO, self._breakpad_info))
        if not dump.full_memory:
            self._build.append((MEMORY_LIST, self._memory_list))
        n_streams = len(self._build) + dump.full_memory
        self._out = bytearray(32 + 12 * n_streams)
        self._regions: list[tuple[int, int, int]] = []  #: start, size, rva
        for region in dump.memory:
            if not dump.full_memory:
                self._regions.append((region.start, *self._place(region.data)))

    def finish(self) -> bytes:
        for kind, build in self._build:
            self._streams.append((kind, *self._place(build())))
        if self._dump.full_memory:
            self._append_memory64_list()
        struct.pack_into(
            "<4sIIIIIQ",
            self._out,
            0,
            b"MDMP",
            0xA793,
            len(self._streams),
            32,
            0,
            self._dump.timestamp,
            2 * self._dump.full_memory,
        )
        for index, stream in enumerate(self._streams):
            struct.pack_into("<III", self._out, 32 + 12 * index, *stream)
        return bytes(self._out)

    def _place(self, data: bytes) -> tuple[int, int]:
        """Append *data* at a multiple of four bytes; return (size, rva)."""
        self._out.extend(bytes(-len(self._out) % 4))
        rva = len(self._out)
        self._out.extend(data)
        return len(data), rva

    def _place_string(self, text: str) -> int:
        encoded = text.encode("utf-16-le")
        return self._place(struct.pack("<I", len(encoded)) + encoded + b"\0\0")[1]

    def _list(self, entries: Sequence[bytes]) -> bytes:
        pad = bytes(4 * self._dump.padded_lists)
        return struct.pack("<I", len(entries)) + pad + b"".join(entries)

    def _system_info(self) -> bytes:
        system = self._dump.system
        name_rva = self._place_string(system.service_pack)
        return struct.pack(
            "<HHHBBIIIIIHH24x",
            system.architecture,
            6,
            0,
            system.n_cpus,
            1,
            *system.version,
            system.platform,
            name_rva,
            0,
            0,
        )

    def _thread_list(self) -> bytes:
        entries = []
        for thread in self._dump.threads:
            start, size, rva = 0, 0, 0
            if thread.stack is not None:
                start = thread.stack.start
                if not self._dump.full_memory:
                    size, rva = self._place(thread.stack.data)
                    self._regions.append((start, size, rva))
            context = self._place(thread.context) if thread.context else (0, 0)
            entries.append(
                struct.pack("<IIIIQQIIII", thread.thread_id, 0, 0, 0, 0, start, size, rva, *context)
            )
        return self._list(entries)

    def _module_list(self) -> bytes:
        entries = []
        for module in self._dump.modules:
            name_rva = self._place_string(module.path)
            code_view = self._place(module.code_view) if module.code_view else (0, 0)
            version = bytes(52)
            if module.version is not None:
                version = struct.pack("<IIIIII28x", 0xFEEF04BD, 0x10000, *self._version_words(module.version))
            entries.append(
                struct.pack("<QIIII", module.base, module.size, 0, module.timestamp, name_rva)
                + version
                + struct.pack("<IIIIQQ", *code_view, 0, 0, 0, 0)
            )
        return self._list(entries)

    def _version_words(self, version: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        """Return file version high and low, product version high and low; on Linux the four numbers."""
        if self._dump.system.platform == LINUX:
            return version
        major, minor, patch, build = version
        return major << 16 | minor, patch << 16 | build, 0, 0

    def _exception(self) -> bytes:
        record = self._dump.exception
        assert record is not None
        context = self._place(record.context) if record.context else (0, 0)
        parameters = (*record.parameters, *[0] * 15)[:15]
        head = struct.pack("<IIIIQQII", record.thread_id, 0, record.code, record.flags, 0, record.address,
                           len(record.parameters), 0)  # fmt: skip
        return head + struct.pack("<15Q", *parameters) + struct.pack("<II", *context)

    def _misc_info(self) -> bytes:
        return struct.pack("<IIIIII", 24, 1, self._dump.process_id or 0, 0, 0, 0)

    def _breakpad_info(self) -> bytes:
        assert self._dump.breakpad is not None
        dumper, requester = self._dump.breakpad
        validity = (dumper is not None) | (requester is not None) << 1
        return struct.pack("<III", validity, dumper or 0, requester or 0)

    def _memory_list(self) -> bytes:
        return self._list([struct.pack("<QII", *region) for region in self._regions])

    def _append_memory64_list(self) -> None:
        """Append the memory regions, which are at the end of a dump with full memory."""
        stacks = [thread.stack for thread in self._dump.threads if thread.stack is not None]
        regions = [*self._dump.memory, *stacks]
        size = 16 + 16 * len(regions)
        self._out.extend(bytes(-len(self._out) % 4))
        rva = len(self._out)
        pairs = b"".join(struct.pack("<QQ", region.start, len(region.data)) for region in regions)
        self._streams.append((MEMORY64_LIST, size, rva))
        self._out += struct.pack("<QQ", len(regions), rva + size) + pairs
        for region in regions:
            self._out += region.data
