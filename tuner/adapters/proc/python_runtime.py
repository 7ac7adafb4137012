"""The address of ``_PyRuntime``, the global structure of a running Python, found from outside by symbol."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_SYMBOL = "_PyRuntime"
_LIBRARY = re.compile(rb"libpython3[.\d]*t?\.so[.\d]*$")
#: the C library musl: Alpine's file is ld-musl-x86_64.so.1, in other distributions this is a link to libc.so
_MUSL = re.compile(rb"/(ld-musl-[^/\n]+|libc\.so)$", re.MULTILINE)
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Addresses from *begin* up to *end*, without it."""

    begin: int
    end: int

    def __contains__(self, address: int) -> bool:
        return self.begin <= address < self.end


class PythonRuntimes:
    """Finder of the interpreter's structure in processes; each file on disk is read once."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._in_file: dict[tuple[int, int], AddressRange | None] = {}  # device and inode -> from its begin

    def of(self, pid: int) -> AddressRange | None:
        """Return its addresses in *pid*; None: not (yet) a Python, ended, or no permission to read it."""
        for path, begin in self._mapped_files(pid):
            if (found := self._read_symbol(pid, path)) is not None:
                return AddressRange(begin + found.begin, begin + found.end)
        return None

    def uses_musl(self, pid: int) -> bool:
        """Return whether *pid* has loaded musl as its C library; False also if it has ended."""
        try:
            return _MUSL.search((self._proc / str(pid) / "maps").read_bytes()) is not None
        except OSError:
            return False

    def _mapped_files(self, pid: int) -> Iterator[tuple[bytes, int]]:
        """Yield the files that may contain it, libpython and the program, with their start addresses."""
        try:
            program = os.readlink(os.fsencode(self._proc / str(pid) / "exe"))
            lines = (self._proc / str(pid) / "maps").read_bytes().split(b"\n")
        except OSError:
            return
        begins: dict[bytes, int] = {}
        for line in filter(
            None, lines
        ):  # 7f2e3e400000-7f2e3e94e000 r--p 00000000 fe:00 18500   /usr/lib/libpython3.11.so
            addresses, _, offset, _, _, *name = line.split(None, 5)
            if name and int(offset, 16) == 0:
                path = name[0].replace(b"\\012", b"\n")  # the only escape there: a backslash is not escaped
                begins.setdefault(path, int(addresses.partition(b"-")[0], 16))
        libraries = [path for path in begins if _LIBRARY.search(path)]
        for path in [*libraries, program]:
            if path in begins:
                yield path, begins[path]

    def _read_symbol(self, pid: int, path: bytes) -> AddressRange | None:
        """Return the addresses of the symbol relative to the start address of the file, or None."""
        try:
            with open(os.fsencode(self._proc / str(pid) / "root") + path, "rb") as file:
                status = os.fstat(file.fileno())
                key = status.st_dev, status.st_ino
                if key not in self._in_file:
                    self._in_file[key] = _range_in(file)
        except OSError:
            return None
        return self._in_file[key]


def _range_in(file: IO[bytes]) -> AddressRange | None:
    from elftools.common.exceptions import ELFError  # 90 ms, only needed to launch workers
    from elftools.elf.elffile import ELFFile
    from elftools.elf.hash import ELFHashSection, GNUHashSection
    from elftools.elf.sections import SymbolTableSection

    try:
        elf = ELFFile(file)
        begins = [part["p_vaddr"] for part in elf.iter_segments("PT_LOAD")]
        for name in (".gnu.hash", ".hash", ".dynsym", ".symtab"):
            table = elf.get_section_by_name(name)
            symbol = None
            if isinstance(table, GNUHashSection | ELFHashSection):
                symbol = table.get_symbol(_SYMBOL)
            elif isinstance(table, SymbolTableSection):
                symbol = next(iter(table.get_symbol_by_name(_SYMBOL) or ()), None)
            if symbol is not None and symbol["st_value"]:
                begin = symbol["st_value"] - min(begins) // _PAGE * _PAGE
                return AddressRange(begin, begin + symbol["st_size"])
    except (ELFError, ValueError):  # not a readable ELF file
        return None
    return None


# Whether a running Python has a GIL, read from its own memory.
#
# A free-threaded build (3.13 and newer) starts without one. It switches the GIL on for good if a C module is
# imported that does not declare support for free threading: only the running worker shows that. Since
# 3.13, ``_PyRuntime`` begins with a table of offsets for debuggers: ``struct _Py_DebugOffsets``, in
# ``Include/internal/pycore_runtime.h`` of 3.13 and ``pycore_debug_offsets.h`` of later versions. By that
# table the flag of each interpreter's GIL is found. Reading /proc/PID/mem needs permission to trace the
# process.
#
# Interpreters of one process may each have a GIL (PEP 684); they are counted.

_COOKIE = b"xdebugpy"
_WORD = 8
#: (major, minor) -> index of `interpreter_state.ceval_gil` in the table, in words
_CEVAL_GIL = {(3, 13): 14, (3, 14): 15, (3, 15): 15}
_VERSION, _FREE_THREADED, _INTERPRETERS_HEAD, _NEXT = 1, 2, 5, 8  #: indexes that are the same in all versions
_ENABLED_AFTER = 2  #: distance from `ceval_gil` to `gil_runtime_state_enabled`, in words
_TABLE_WORDS = 20
_MOST_INTERPRETERS = 10_000


@dataclass(frozen=True, slots=True)
class GilSeen:
    """The GIL of a process at one moment."""

    is_on: bool
    n_interpreters: int = 1  #: interpreters with a separate GIL


def read_gil(proc: Path, pid: int, runtime: AddressRange) -> GilSeen | None:
    """Return the GIL of *pid*, whose ``_PyRuntime`` is at *runtime*.

    None: its Python is older than 3.13 or newer than the known versions, it has ended, or is not readable.
    """
    try:
        memory = os.open(proc / str(pid) / "mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_gil(memory, runtime.begin)
    except (OSError, struct.error):  # it has ended, or is just freeing that interpreter
        return None
    finally:
        os.close(memory)


def _read_gil(memory: int, begin: int) -> GilSeen | None:
    table = os.pread(memory, _TABLE_WORDS * _WORD, begin)
    if table[: len(_COOKIE)] != _COOKIE:
        return None
    words = struct.unpack(f"={_TABLE_WORDS}Q", table)
    place = _CEVAL_GIL.get((words[_VERSION] >> 24, words[_VERSION] >> 16 & 0xFF))
    if place is None:
        return None
    gils: dict[int, None] = {}  # by address; interpreters may share one
    interpreter = _word(memory, begin + words[_INTERPRETERS_HEAD])
    for _ in range(_MOST_INTERPRETERS):
        if not interpreter:
            break
        gils[_word(memory, interpreter + words[place])] = None
        interpreter = _word(memory, interpreter + words[_NEXT])
    if not gils:  # it is just starting or ending
        return None
    if not words[_FREE_THREADED]:
        return GilSeen(True, len(gils))
    enabled = (os.pread(memory, 4, gil + words[place + _ENABLED_AFTER]) for gil in gils)
    return GilSeen(any(struct.unpack("=i", flag)[0] > 0 for flag in enabled), len(gils))


def _word(memory: int, address: int) -> int:
    value: int = struct.unpack("=Q", os.pread(memory, _WORD, address))[0]
    return value
