"""The built-in worker: a Socorro-like crash processor, run and filled through its own command."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.core.errors import ConfigError
from tuner.core.layout import Layout
from tuner.services.running import escaped

PROGRAM = "crash-processor"
QUEUE_SIZE = 8  #: maximum_queue_size, as the processor has it when nobody says otherwise
MAX_EXTRA_THREADS = 2  #: the main thread and the queuing thread; one thread alone needs none
_QUEUE_OPTION = "maximum_queue_size"
_DUMPS = (".dmp", ".dump")
_ROUNDS = 4  #: items in the spool for each one that the workers can hold at a time


@dataclass(frozen=True, slots=True)
class CrashInput:
    """What the spool is filled with."""

    items: int
    seed: int = 1
    symbols_bytes: int | None = None  #: None: what the processor chooses
    dumps: Path | None = None  #: real dumps; None: synthetic ones
    symbols: Path | None = None


def program() -> str:
    """The processor's command in tuner's own environment, else on the PATH.

    Raises:
        ConfigError: it is in neither.
    """
    beside = Path(sys.executable).with_name(PROGRAM)
    found = str(beside) if beside.is_file() else shutil.which(PROGRAM)
    if found is None:
        raise ConfigError(
            f"{PROGRAM} is not installed beside tuner", hint="Install tuner again: pip install ."
        )
    return found


def fill_command(spool: Path, content: CrashInput) -> tuple[str, ...]:
    """The command that fills *spool*."""
    command = [program(), "fill", "--fs-root", str(spool)]
    if content.dumps is not None:
        command += ["--dumps", str(content.dumps), "--copies", str(_copies(content.dumps, content.items))]
        return (*command, "--symbols", str(content.symbols)) if content.symbols else tuple(command)
    command += ["--synthetic", str(content.items), "--seed", str(content.seed)]
    if content.symbols_bytes is not None:
        command += ["--symbols-bytes", str(content.symbols_bytes)]
    return tuple(command)


def _copies(dumps: Path, items: int) -> int:
    """How often each dump is taken to make *items*; the processor itself refuses a folder without any."""
    n_dumps = sum(1 for path in dumps.rglob("*") if path.suffix in _DUMPS)
    return math.ceil(items / max(1, n_dumps))


def items_for(layouts: Iterable[Layout], options: Mapping[str, str]) -> int:
    """How many items the spool needs so that no layout ever finds it empty."""
    queue = int(options.get(_QUEUE_OPTION, QUEUE_SIZE))
    return max(layout.processes * (layout.threads + queue) * _ROUNDS for layout in layouts)


def run_command(spool: Path, options: Mapping[str, str]) -> tuple[str, ...]:
    """The command of one worker process, its threads still to be filled in."""
    command = [
        program(),
        "run",
        "--fs-root",
        escaped(str(spool)),
        "--number-of-threads",
        "{threads}",
        "--endless",
    ]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", escaped(value)]
    return tuple(command)
