"""Services of this host for commands: cores, processes, signals, and files that people edit.

Each adapter is imported where it is used, because a command pays for its own only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tuner.ports import Stop

Task = TypeVar("Task")
Result = TypeVar("Result")


def n_usable_cores() -> int:
    """Return the number of whole cores that this process may use, at least 1."""
    from tuner.adapters.proc.cores import usable_cores

    return max(1, int(usable_cores().count))


def each_in_processes(
    function: Callable[[Any, Task], Result], shared: Any, tasks: Sequence[Task], n_processes: int
) -> Iterator[Result]:
    """Yield ``function(shared, task)`` for each task, in order, computed in *n_processes* processes.

    Raises:
        TunerError: a process was killed.
    """
    from tuner.adapters.processes.worker_processes import each_in_processes

    return each_in_processes(function, shared, tasks, n_processes)


def stopping_by_signal(*, at_once: bool = False) -> AbstractContextManager[Stop]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into a request to stop; *at_once*: into KeyboardInterrupt."""
    from tuner.adapters.processes.signals import stopping_by_signal

    return stopping_by_signal(at_once=at_once)


def fill_closed_streams() -> None:
    """Open standard streams that were closed, so that no file gets their numbers."""
    from tuner.adapters.processes.signals import fill_closed_streams

    fill_closed_streams()


def read_text(path: Path) -> str | None:
    """Read a text file exactly; None if there is none.

    Raises:
        ConfigError: it cannot be read, or is no text.
    """
    from tuner.adapters.text_file import read_text

    return read_text(path)


def replace_text(path: Path, text: str) -> None:
    """Write *text* to *path* as a whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    from tuner.adapters.text_file import replace_text

    replace_text(path, text)
