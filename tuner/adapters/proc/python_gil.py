"""Whether a running Python has a GIL, read from its own memory.

A free-threaded build (3.13 and newer) starts without one. It switches the GIL on, for good, when a C module
is imported that does not declare that it runs without: only the running worker shows that. From 3.13 on
``_PyRuntime`` begins with a table of offsets for debuggers: ``struct _Py_DebugOffsets``, in
``Include/internal/pycore_runtime.h`` of 3.13 and ``pycore_debug_offsets.h`` of later versions. By that table
the flag of each interpreter's GIL is found. /proc/PID/mem may be read by those who may trace the process.

Interpreters of one process may have a GIL each (PEP 684); they are counted.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.proc.python_runtime import AddressRange

_COOKIE = b"xdebugpy"
_WORD = 8
#: (major, minor) -> place of `interpreter_state.ceval_gil` in the table, in words
_CEVAL_GIL = {(3, 13): 14, (3, 14): 15, (3, 15): 15}
_VERSION, _FREE_THREADED, _INTERPRETERS_HEAD, _NEXT = 1, 2, 5, 8  #: places that are the same in all of them
_ENABLED_AFTER = 2  #: words from `ceval_gil` to `gil_runtime_state_enabled`
_TABLE_WORDS = 20
_MOST_INTERPRETERS = 10_000


@dataclass(frozen=True, slots=True)
class GilSeen:
    """The GIL of a process at one moment."""

    is_on: bool
    n_interpreters: int = 1  #: with a GIL of their own


def gil_seen(proc: Path, pid: int, runtime: AddressRange) -> GilSeen | None:
    """The GIL of *pid*, whose ``_PyRuntime`` is at *runtime*.

    None: its Python is older than 3.13 or newer than those known here, it has ended, or may not be read.
    """
    try:
        memory = os.open(proc / str(pid) / "mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_gil(memory, runtime.begin)
    except (OSError, struct.error):  # it has ended, or frees that interpreter this moment
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
    if not gils:  # it has only begun, or is at its end
        return None
    if not words[_FREE_THREADED]:
        return GilSeen(True, len(gils))
    enabled = (os.pread(memory, 4, gil + words[place + _ENABLED_AFTER]) for gil in gils)
    return GilSeen(any(struct.unpack("=i", flag)[0] > 0 for flag in enabled), len(gils))


def _word(memory: int, address: int) -> int:
    value: int = struct.unpack("=Q", os.pread(memory, _WORD, address))[0]
    return value
