"""Breakpad symbol files of a chosen size, with lookups of their addresses.

A symbol file is text: functions with their line records, public symbols, and the rules by which a caller's
registers are found (STACK CFI). Records are sorted by address, as dump_syms leaves them.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from . import names

_ALIGNMENT = 16
_TEXT_START = 0x1000
_LINE_BYTES = (3, 4, 5, 5, 6, 7, 8, 10, 11, 13, 15, 19, 24, 26, 31, 40)
_CALLEE_SAVED = ("r15", "r14", "r13", "r12", "rbx")
_MAX_LOCAL_WORDS = 24


@dataclass(frozen=True, slots=True)
class UnwindState:
    """The unwind rules from one offset of a function on: the frame's top, and the place of the saved rbp."""

    offset: int
    cfa_register: str  #: "rsp" or "rbp"
    cfa_offset: int  #: the canonical frame address (the caller's rsp) is register + this
    rbp_slot: int | None  #: rbp is saved at the frame address plus this (negative); None: rbp is unchanged
    n_saved_words: int  #: words of saved registers between the return address and the locals


@dataclass(frozen=True)
class Function:
    """One function: address, name, and the unwind rules to its caller."""

    address: int  #: relative to the start of the module
    size: int
    name: str
    line_records: str = ""  #: its records in the symbol file; empty for a public symbol
    unwind: tuple[UnwindState, ...] = ()  #: empty: no STACK CFI record covers it
    ends_stack: bool = False  #: whether its return address is declared undefined

    @property
    def body_offset(self) -> int:
        """Offset of the end of the prologue, after which there may be calls."""
        return self._last_prologue_state.offset if self.unwind else min(8, self.size - 1)

    @cached_property
    def _last_prologue_state(self) -> UnwindState:
        return max(self.unwind, key=lambda state: (state.n_saved_words, state.cfa_offset, state.offset))

    def state_at(self, offset: int) -> UnwindState | None:
        """Return the unwind rules at *offset* bytes into the function."""
        index = bisect.bisect_right(self.unwind, offset, key=lambda state: state.offset)
        return self.unwind[index - 1] if index else None

    def line_at(self, offset: int) -> tuple[int, int] | None:
        """Return (file number, line) of the record that covers this byte; None in a gap."""
        wanted = self.address + offset
        for record in self.line_records.splitlines():
            if record.startswith("INLINE"):
                continue
            address, size, line, file = record.split()
            if int(address, 16) <= wanted < int(address, 16) + int(size, 16):
                return int(file), int(line)
        return None

    def has_inlines(self) -> bool:
        """Whether the function has inlined code, for which tools report different lines."""
        return self.line_records.startswith("INLINE")


@dataclass(frozen=True)
class SymbolTable:
    """The functions of one module, and the text of its symbol file."""

    functions: tuple[Function, ...]  #: sorted by address
    files: tuple[str, ...]
    text: str
    end: int  #: first address after the code

    @cached_property
    def by_name(self) -> dict[str, Function]:
        """The functions by name; the last one if a name is used twice."""
        return {function.name: function for function in self.functions}


@dataclass(frozen=True, slots=True)
class SymbolStyle:
    """The amount of information in a module's symbols."""

    lines: bool = True  #: FUNC and line records; False: only PUBLIC records
    cfi: bool = True  #: STACK CFI for most functions; False: none
    rbp_ratio: float = 0.15  #: share of functions that keep a frame pointer
    bare_ratio: float = 0.15  #: share of functions without CFI in a module that has some


def make_symbols(
    random: Random,
    *,
    header: str,
    style: SymbolStyle,
    n_bytes: int,
    wanted: Sequence[str],
    starts: frozenset[str] = frozenset(),
) -> SymbolTable:
    """Return symbols of about *n_bytes* that contain every function *wanted* and many more.

    Args:
        random: source of every choice.
        header: the MODULE and INFO lines, newline included.
        style: the amount of information in the module's symbols.
        n_bytes: size of the text to aim for; more when the wanted functions need more.
        wanted: names that must exist, in any order of address.
        starts: those of them without a caller: their return address is undefined.
    """
    files = tuple(names.source_files(random, 24 if style.lines else 0))
    head = header + "".join(f"FILE {number} {path}\n" for number, path in enumerate(files))
    inlines = style.lines and n_bytes > 50_000
    if inlines:
        head += "".join(f"INLINE_ORIGIN {number} {name}\n" for number, name in enumerate(names.INLINED))
    pending = list(wanted)
    random.shuffle(pending)
    n_expected = max(len(pending), n_bytes // (900 if style.lines else 330))
    places = set(random.sample(range(n_expected), len(pending)))
    taken = set(pending)
    functions: list[Function] = []
    code: list[str] = []
    rules: list[str] = []
    size = len(head)
    address = _TEXT_START
    index = 0
    while size < n_bytes or pending:
        name = pending.pop() if (index in places or size >= n_bytes) and pending else ""
        if not name:
            name = names.function_name(random, index)
            if name in taken:
                name += " const"
        function = _make_function(random, address, name, style, len(files), inlines, name in starts)
        functions.append(function)
        if style.lines:
            code.append(f"FUNC {'m ' if index % 97 == 5 else ''}{address:x} {function.size:x} 0 {name}\n")
            code.append(function.line_records)
            size += len(code[-2]) + len(code[-1])
        else:
            code.append(f"PUBLIC {'m ' if index % 97 == 5 else ''}{address:x} 0 {name}\n")
            size += len(code[-1])
        rules.append(_render_rules(function))
        size += len(rules[-1])
        gap = 0x40 + 16 * random.randrange(32) if index % 16 == 7 else 0
        address = -(-(address + function.size + gap) // _ALIGNMENT) * _ALIGNMENT
        index += 1
    return SymbolTable(tuple(functions), files, head + "".join(code) + "".join(rules), address)


def _make_function(
    random: Random, address: int, name: str, style: SymbolStyle, n_files: int, inlines: bool, ends_stack: bool
) -> Function:
    records, size = "", 0x20 + random.getrandbits(4) * random.getrandbits(6)
    if style.lines:
        records, size = _line_records(random, address, n_files, inlines)
    draw = random.random()
    unwind: tuple[UnwindState, ...] = ()
    if ends_stack:
        unwind = (UnwindState(0, "rsp", 8, None, 0),) if style.cfi else ()
    elif style.cfi and draw >= style.bare_ratio:
        keeps_rbp = draw < style.bare_ratio + style.rbp_ratio
        unwind = _rbp_prologue(random) if keeps_rbp else _rsp_prologue(random, size)
    return Function(address, size, name, records, unwind, ends_stack)


def _line_records(random: Random, address: int, n_files: int, inlines: bool) -> tuple[str, int]:
    """Return the records of a function of 8 to 55 lines, mostly of its own file, and its size."""
    noise = random.randbytes(8 + random.getrandbits(3) * random.getrandbits(3))
    own_file = random.randrange(n_files)
    line = 20 + random.getrandbits(11)
    start = address
    gap_at = random.getrandbits(6)  # some gaps without a record
    records = []
    for position, byte in enumerate(noise):
        size = _LINE_BYTES[byte & 15]
        line += (byte >> 4) - 4
        if position != gap_at:
            file = own_file if byte < 236 else byte % n_files
            records.append(f"{address:x} {size:x} {line if line > 0 else 1} {file}\n")
        address += size
    text = "".join(records)
    if inlines and random.getrandbits(5) == 0:
        quarter = (address - start) // 4
        text = (
            f"INLINE 0 {line + 300} {own_file} {random.randrange(len(names.INLINED))} "
            f"{start + quarter:x} {quarter:x}\n{text}"
        )
    return text, address - start


def _rsp_prologue(random: Random, size: int) -> tuple[UnwindState, ...]:
    """Return a prologue that pushes some registers and moves rsp, from which the frame's top is known."""
    n_pushed = random.randrange(5)
    saves_rbp = random.random() < 0.5
    states = [UnwindState(0, "rsp", 8, None, 0)]
    offset, depth, rbp_slot = 0, 8, None
    if saves_rbp:
        offset, depth, rbp_slot = 1, 16, -16
        states.append(UnwindState(offset, "rsp", depth, rbp_slot, 1))
    for _ in range(n_pushed):
        offset, depth = offset + 2, depth + 8
        states.append(UnwindState(offset, "rsp", depth, rbp_slot, (depth - 8) // 8))
    n_saved = (depth - 8) // 8
    room = 8 * random.randrange(_MAX_LOCAL_WORDS)
    if room:
        states.append(UnwindState(offset + 7, "rsp", depth + room, rbp_slot, n_saved))
    if depth + room > 8 and random.random() < 0.5:
        states.append(UnwindState(size - 1, "rsp", 8, None, 0))  # the ret itself
    return tuple(states)


def _rbp_prologue(random: Random) -> tuple[UnwindState, ...]:
    """Return a prologue with push rbp; mov rbp, rsp; and possibly more pushes: rbp gives the frame's top."""
    n_pushed = random.randrange(4)
    states = [UnwindState(0, "rsp", 8, None, 0), UnwindState(1, "rsp", 16, -16, 1)]
    states.append(UnwindState(4, "rbp", 16, -16, 1))
    if n_pushed:
        states.append(UnwindState(4 + 2 * n_pushed, "rbp", 16, -16, 1 + n_pushed))
    return tuple(states)


def _render_rules(function: Function) -> str:
    """Return STACK CFI INIT and one delta per change, in the format of dump_syms."""
    if not function.unwind:
        return ""
    return_rule = ".undef" if function.ends_stack else ".cfa -8 + ^"
    lines = [f"STACK CFI INIT {function.address:x} {function.size:x} .cfa: $rsp 8 + .ra: {return_rule}\n"]
    before = function.unwind[0]
    for state in function.unwind[1:]:
        rules = []
        if (state.cfa_register, state.cfa_offset) != (before.cfa_register, before.cfa_offset):
            rules.append(f".cfa: ${state.cfa_register} {state.cfa_offset} +")
        if state.rbp_slot != before.rbp_slot:
            rules.append("$rbp: $rbp" if state.rbp_slot is None else f"$rbp: .cfa {state.rbp_slot} + ^")
        for word in range(before.n_saved_words, state.n_saved_words):
            taken_by_rbp = 1 if state.rbp_slot is not None else 0
            if word >= taken_by_rbp:
                register = _CALLEE_SAVED[(word - taken_by_rbp) % len(_CALLEE_SAVED)]
                rules.append(f"${register}: .cfa {-16 - 8 * word} + ^")
        lines.append(f"STACK CFI {function.address + state.offset:x} {' '.join(rules)}\n")
        before = state
    return "".join(lines)
