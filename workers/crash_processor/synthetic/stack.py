"""Stacks with a known walk: memory and registers crafted so that every step has only one result.

A stackwalker finds a caller by CFI if the symbols have rules for the address, else by the frame pointer if
rbp is plausible, else by scanning for a word that is a possible return address. The plan is made from the
outermost frame inwards, because the callees of a frame must have kept or saved the rbp that it needs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Any

from .flavours import Flavour
from .minidump import WINDOWS, Memory
from .symbols import Function, UnwindState
from .world import Code, Module

_WORD = 8
#: words that a scan covers; it covers four times as many from a frame found by context or CFI
_SCAN_WORDS = 40
_LONG_SCAN_WORDS = 160
_RED_ZONE_WORDS = 16  #: most words captured below rsp
_MAX_LOCAL_WORDS = 40
#: share of the frames without CFI that use a frame pointer although a scan would also work
_FRAME_POINTER_RATIO = 0.3
_WINDOWS_STEPS = 16  #: on Windows rbp may point up to 15 double words below the saved one


class _Step(Enum):
    """The way in which the walk leaves a frame."""

    CFI = "cfi"
    FRAME_POINTER = "frame_pointer"
    SCAN = "scan"
    ZERO_BY_CFI = "a return address of zero, by CFI"  # this and the following ones end the stack
    ZERO_BY_FRAME_POINTER = "a return address of zero, by frame pointer"
    CUT = "its return address was not captured"
    SILENCE = "nothing that looks like a return address"


class _Need(Enum):
    """The value that a frame needs in rbp, if it is not the address of a frame."""

    NOTHING = auto()
    DEAD = auto()  # a value that is not a frame pointer


@dataclass(frozen=True, slots=True)
class CraftedStack:
    """The stack and the registers of one thread, and the frames that a walk must find."""

    memory: Memory
    registers: dict[str, int]
    frames: list[dict[str, Any]]


@dataclass(slots=True)
class _Frame:
    code: Code
    instruction: int  #: absolute; of the call, hence the return address less one, for all but the first
    state: UnwindState | None  #: CFI rules in force here
    step: _Step = _Step.SILENCE
    need: _Need | int = _Need.NOTHING  #: an int is the index of the frame whose frame pointer must be in rbp
    size: int = 0  #: bytes from rsp here to rsp in the caller
    skew: int = 0  #: distance of rbp below its saved position, in double words (Windows)
    top: int = 0  #: the caller's rsp


def craft_stack(
    random: Random, flavour: Flavour, modules: Sequence[Module], chain: Sequence[Code], stack_top: int
) -> CraftedStack:
    """Return a stack on which a walk finds exactly *chain*.

    Args:
        random: source of every choice: offsets, frame sizes, ways to unwind, garbage.
        flavour: the operating system; on Windows frame pointers may point into the frame.
        modules: all that are loaded; garbage may point to their headers.
        chain: the functions, innermost first; None is code outside every module.
        stack_top: the memory ends below this address.
    """
    return _Crafter(random, flavour, modules, stack_top).craft(chain)


class _Crafter:
    def __init__(self, random: Random, flavour: Flavour, modules: Sequence[Module], stack_top: int) -> None:
        self._random = random
        self._flavour = flavour
        self._headers = [module.loaded.base for module in modules if module.symbols is not None]
        self._stack_top = stack_top

    def craft(self, chain: Sequence[Code]) -> CraftedStack:
        frames = [self._frame(index, code) for index, code in enumerate(chain)]
        self._plan(frames)
        self._choose_sizes(frames)
        self._red_zone = self._random.randrange(_RED_ZONE_WORDS + 1) * _WORD
        tail = 0
        if frames[-1].step is not _Step.CUT:
            tail = self._random.randrange(4, 60) * _WORD
        self._dead_slot = self._stack_top - _WORD
        sp = self._stack_top - tail - sum(frame.size for frame in frames)
        start = sp - self._red_zone
        self._words = {address: self._garbage() for address in range(start, self._stack_top, _WORD)}
        rbp = self._fill(frames, sp)
        self._words[self._dead_slot] = self._heap_pointer()
        data = struct.pack(f"<{len(self._words)}Q", *self._words.values())
        registers = {
            name: self._garbage() for name in ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r15")
        }
        registers |= {"rip": frames[0].instruction, "rsp": sp, "rbp": rbp}
        return CraftedStack(Memory(start, data), registers, self._answer(frames))

    def _frame(self, index: int, code: Code) -> _Frame:
        if code is None:
            jit = self._flavour.heap - 0x1000_0000 - self._random.randrange(0x10_0000)
            return _Frame(None, jit if index or self._random.random() < 0.5 else 0, None)
        module, function = code
        first = function.body_offset if index else 0
        offset = self._random.randrange(first, function.size)
        if index and self._random.random() < 0.03:
            offset = function.size - 1  # its call never returns
        return _Frame(code, module.loaded.base + function.address + offset, function.state_at(offset))

    def _plan(self, frames: list[_Frame]) -> None:
        """Choose each step and the required value of rbp, outermost frame first."""
        last = len(frames) - 1
        frames[last].step, frames[last].need = self._ending(frames[last], last)
        for index in range(last - 1, -1, -1):
            frame, caller = frames[index], frames[index + 1]
            if frame.state is not None:
                frame.step = _Step.CFI
                if frame.state.cfa_register == "rbp":
                    frame.need = index
                else:
                    frame.need = caller.need if frame.state.rbp_slot is None else _Need.NOTHING
            elif (
                isinstance(caller.need, int)
                or caller.code is None
                or self._random.random() < _FRAME_POINTER_RATIO
            ):
                frame.step, frame.need = _Step.FRAME_POINTER, index
            else:
                frame.step, frame.need = _Step.SCAN, _Need.DEAD

    def _ending(self, frame: _Frame, index: int) -> tuple[_Step, _Need | int]:
        ends_stack = frame.code is not None and frame.code[1].ends_stack
        if frame.state is None:
            if self._random.random() < 0.5:
                return _Step.ZERO_BY_FRAME_POINTER, index
            return _Step.SILENCE, _Need.DEAD
        if ends_stack:
            return _Step.SILENCE, _Need.DEAD
        if frame.state.cfa_register == "rbp":
            return _Step.ZERO_BY_CFI, index
        if frame.state.cfa_offset >= 4 * _WORD and self._random.random() < 0.3:
            return _Step.CUT, _Need.DEAD
        return _Step.ZERO_BY_CFI, _Need.NOTHING

    def _choose_sizes(self, frames: list[_Frame]) -> None:
        trusted = True
        for index, frame in enumerate(frames):
            locals_size = self._random.randrange(_MAX_LOCAL_WORDS) * _WORD
            match frame.step:
                case _Step.CFI | _Step.ZERO_BY_CFI | _Step.CUT:
                    assert frame.state is not None
                    frame.size = frame.state.cfa_offset
                    if frame.state.cfa_register == "rbp":
                        frame.size = _WORD * (1 + frame.state.n_saved_words) + locals_size
                case _Step.FRAME_POINTER | _Step.ZERO_BY_FRAME_POINTER:
                    frame.size = 2 * _WORD + locals_size
                    if self._flavour.platform == WINDOWS:
                        frame.skew = self._random.randrange(min(_WINDOWS_STEPS, 1 + locals_size // 16))
                case _Step.SCAN:
                    limit = _LONG_SCAN_WORDS if trusted else _SCAN_WORDS
                    far = self._random.random() < 0.2
                    n_words = self._random.randrange(1, limit + 1 if far else _SCAN_WORDS)
                    frame.size = _WORD * (1 if index == 0 and frame.instruction == 0 else n_words)
            if frame.step is _Step.CUT:  # its return address is outside the captured memory
                frame.size -= _WORD * self._random.randrange(1, frame.size // _WORD - 1)
            trusted = frame.step is _Step.CFI

    def _fill(self, frames: list[_Frame], sp: int) -> int:
        """Write the words that the walk reads; return its initial rbp."""
        for frame in frames:
            sp += frame.size
            frame.top = sp
        first = rbp = self._rbp_for(frames, 0)
        for index, frame in enumerate(frames):
            is_last = index == len(frames) - 1
            caller_rbp = self._dead_slot if is_last else self._rbp_for(frames, index + 1)
            match frame.step:
                case _Step.CFI:
                    assert frame.state is not None
                    if frame.state.rbp_slot is None:
                        caller_rbp = rbp
                    else:
                        self._words[frame.top + frame.state.rbp_slot] = caller_rbp
                case _Step.FRAME_POINTER | _Step.ZERO_BY_FRAME_POINTER:
                    if not is_last and not isinstance(frames[index + 1].need, int):
                        caller_rbp = self._dead_slot  # a frame pointer must point into the stack
                    saved_at = frame.top - 2 * _WORD
                    for step in range(frame.skew):
                        self._words[saved_at - 16 * (step + 1)] = self._random.getrandbits(12)
                    self._words[saved_at] = caller_rbp
            if frame.step in (_Step.ZERO_BY_CFI, _Step.ZERO_BY_FRAME_POINTER):
                self._words[frame.top - _WORD] = self._random.choice((0, 0, 1, 4095))
            elif not is_last:
                self._words[frame.top - _WORD] = frames[index + 1].instruction + 1
            rbp = caller_rbp
        return first

    def _rbp_for(self, frames: list[_Frame], index: int) -> int:
        """Return a value of rbp that frame *index* needs."""
        need = frames[index].need
        if isinstance(need, int):
            return frames[need].top - 2 * _WORD - 16 * frames[need].skew
        if need is _Need.DEAD:
            return self._random.choice((0, 1, self._heap_pointer(), self._dead_slot))
        return self._garbage()

    def _heap_pointer(self) -> int:
        return self._flavour.heap + 16 * self._random.getrandbits(20)

    def _garbage(self) -> int:
        """Return a word that is not a return address, which scans must skip."""
        bits = self._random.getrandbits(24)
        match bits & 7:
            case 0 | 1:
                return 0
            case 2:
                return bits >> 12
            case 3 | 4:
                return self._flavour.heap + bits
            case 5:
                return self._stack_top - (bits & 0xFF8)
            case 6:
                return self._headers[bits % len(self._headers)] + (bits >> 12 & 0xFFF)
        return 1 << 63 | bits << 20  # not canonical

    def _answer(self, frames: list[_Frame]) -> list[dict[str, Any]]:
        answers = []
        trust = "context"
        for number, frame in enumerate(frames):
            answer: dict[str, Any] = {
                "frame": number,
                "trust": trust,
                "offset": f"0x{frame.instruction:016x}",
            }
            answer |= dict.fromkeys(
                ("module", "module_offset", "function", "function_offset", "file", "line")
            )
            if frame.code is not None:
                answer |= _describe(frame.code, frame.instruction)
                if frame.code[1].has_inlines():
                    del answer["file"], answer["line"]  # stackwalkers differ in these
            answers.append(answer)
            trust = str(frame.step.value)
        return answers


def _describe(code: tuple[Module, Function], instruction: int) -> dict[str, Any]:
    """Return the facts about an instruction from the symbols."""
    module, function = code
    module_offset = instruction - module.loaded.base
    answer: dict[str, Any] = {"module": module.name, "module_offset": f"0x{module_offset:016x}"}
    if module.symbols is None:
        return answer
    answer |= {"function": function.name, "function_offset": f"0x{module_offset - function.address:016x}"}
    line = function.line_at(module_offset - function.address)
    if line is not None:
        answer |= {"file": module.symbols.files[line[0]], "line": line[1]}
    return answer
