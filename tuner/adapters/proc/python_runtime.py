"""Where a running Python keeps ``_PyRuntime``, its one global structure: found from outside, by symbol."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_SYMBOL = "_PyRuntime"
_LIBRARY = re.compile(rb"libpython3[.\d]*t?\.so[.\d]*$")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Addresses from *begin* up to *end*, without it."""

    begin: int
    end: int

    def __contains__(self, address: int) -> bool:
        return self.begin <= address < self.end


class PythonRuntimes:
    """Finds the interpreter's structure in processes; each file on disk is read once."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._in_file: dict[tuple[int, int], AddressRange | None] = {}  # device and inode -> from its begin

    def of(self, pid: int) -> AddressRange | None:
        """Where *pid* has it; None: it is no Python (yet), has ended, or may not be looked at."""
        for path, begin in self._mapped(pid):
            if (found := self._read(pid, path)) is not None:
                return AddressRange(begin + found.begin, begin + found.end)
        return None

    def _mapped(self, pid: int) -> Iterator[tuple[bytes, int]]:
        """The files that may hold it, with the address that each begins at: the program, libpython."""
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
                path = name[0].replace(b"\\012", b"\n")  # the only escape there: a backslash stays as it is
                begins.setdefault(path, int(addresses.partition(b"-")[0], 16))
        libraries = [path for path in begins if _LIBRARY.search(path)]
        for path in [*libraries, program]:
            if path in begins:
                yield path, begins[path]

    def _read(self, pid: int, path: bytes) -> AddressRange | None:
        """Where the file has the symbol, counted from the address that the file begins at."""
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
    from elftools.common.exceptions import ELFError  # 90 ms, for those who launch workers only
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
    except (ELFError, ValueError):  # no program that we know how to read
        return None
    return None
