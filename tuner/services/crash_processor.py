"""Service record of the built-in crash processor, which resembles Socorro's."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tuner.core.domain.layout import Layout
from tuner.core.domain.service import Gate
from tuner.core.errors import ConfigError
from tuner.services.running import escape_fields

PROGRAM = "crash-processor"
QUEUE_SIZE = 8  #: the processor's default of maximum_queue_size
MAX_EXTRA_THREADS = 2  #: the main thread and the queuing thread; one thread alone needs none
STACKWALKER = "crash-stackwalk"
MODULE = "tuner_workers.crash_processor"
_PACKAGES = ("tuner", "tuner_workers")  #: modules that the worker imports, without the standard library
_LINKS = "packages"
_PATHNAME_OPTION = "minidump_stackwalk_pathname"
_QUEUE_OPTION = "maximum_queue_size"
_WHOLE = re.compile("0*[1-9][0-9]{0,8}")
_SPAWN_OPTION = "spawn_path"
GATE: Gate = "freeze"
#: its lock is a flock, which a frozen process keeps; the timeout of an item (kill_timeout) keeps running
GATE_REASON = "tuner pauses the processes of idle layouts for a few seconds; their items may take 30 s."
_DUMPS = (".dmp", ".dump")
_ROUNDS = 4  #: items in the spool for each one that the workers can hold at a time


@dataclass(frozen=True, slots=True)
class CrashInput:
    """Contents of the spool."""

    items: int
    seed: int = 1
    symbols_bytes: int | None = None  #: None: the processor's default
    dumps: Path | None = None  #: real dumps; None: synthetic ones
    symbols: Path | None = None


def program() -> str:
    """Return the processor's command from tuner's environment, else from the PATH.

    Raises:
        ConfigError: it is in neither.
    """
    beside = Path(sys.executable).with_name(PROGRAM)
    found = str(beside) if beside.is_file() else shutil.which(PROGRAM)
    if found is None:
        raise ConfigError(
            f"{PROGRAM} is not installed in the folder of tuner",
            hint="Install tuner again: pip install --force-reinstall proctuner",
        )
    return found


def find_stackwalker(options: Mapping[str, str]) -> Path | None:
    """Return the stackwalker that the processor would start; None if it is missing or not executable."""
    named = options.get(_PATHNAME_OPTION)
    beside = Path(program()).with_name(STACKWALKER)
    found = named or (str(beside) if beside.is_file() else shutil.which(STACKWALKER))
    return Path(found) if found is not None and os.access(found, os.X_OK) else None


def fill_command(spool: Path, content: CrashInput) -> tuple[str, ...]:
    """Return the command that fills *spool*."""
    command = [program(), "fill", "--fs-root", str(spool)]
    if content.dumps is not None:
        n_copies = copies_of(len(dumps_in(content.dumps)), content.items)
        command += ["--dumps", str(content.dumps), "--copies", str(n_copies)]
        return (*command, "--symbols", str(content.symbols)) if content.symbols else tuple(command)
    command += ["--synthetic", str(content.items), "--seed", str(content.seed)]
    if content.symbols_bytes is not None:
        command += ["--symbols-bytes", str(content.symbols_bytes)]
    return tuple(command)


def dumps_in(folder: Path) -> list[Path]:
    """Return the dumps for filling a spool; the processor itself rejects a folder without any."""
    return [path for path in folder.rglob("*") if path.suffix.lower() in _DUMPS]


def copies_of(n_dumps: int, items: int) -> int:
    """Return how often each dump is used to make *items*."""
    return math.ceil(items / max(1, n_dumps))


def items_for(layouts: Iterable[Layout], options: Mapping[str, str]) -> int:
    """Return how many items the spool needs so that no layout ever empties it.

    Raises:
        ConfigError: the option for the number that wait in a process is not a number.
    """
    written = options.get(_QUEUE_OPTION, str(QUEUE_SIZE)).strip()
    if not _WHOLE.fullmatch(written):
        raise ConfigError(
            f"service.options.{_QUEUE_OPTION}: {written!r} is no whole number of 1 to 999999999",
            hint=f"Leave it out: it is {QUEUE_SIZE} then.",
        )
    queue = int(written)
    return max(layout.processes * (layout.threads + queue) * _ROUNDS for layout in layouts)


@dataclass(frozen=True, slots=True)
class Started:
    """Command and environment that start the processor."""

    command: tuple[str, ...]  #: up to its own commands, as ``run``; fields in it are escaped
    environment: Mapping[str, str]
    options: Mapping[str, str]  #: that it needs to be started like this


def started_by(interpreter: Sequence[str], folder: Path) -> Started:
    """Return the processor as its own command, or run by another *interpreter*, which has not installed it.

    Such an interpreter finds the worker's packages through the links of `link_packages` in *folder*.

    Raises:
        ConfigError: the processor is not installed.
    """
    if not interpreter:
        return Started((escape_fields(program()),), {}, {})
    path = os.pathsep.join(filter(None, [str(folder / _LINKS), os.environ.get("PYTHONPATH")]))
    beside = Path(program()).with_name(STACKWALKER)
    options = {_PATHNAME_OPTION: str(beside)} if beside.is_file() else {}
    return Started((*interpreter, "-m", MODULE), {"PYTHONPATH": escape_fields(path)}, options)


def link_packages(folder: Path) -> None:
    """Put links to the worker's packages into *folder*, and to no other package of tuner's environment.

    Raises:
        ConfigError: the packages are not installed.
    """
    links = folder / _LINKS
    links.mkdir(mode=0o755, exist_ok=True)
    links.chmod(0o755)  # independent of the umask
    for name in _PACKAGES:
        found = find_spec(name)
        if found is None or not found.submodule_search_locations:
            raise ConfigError(
                f"{name} is not installed",
                hint="Install tuner again: pip install --force-reinstall proctuner",
            )
        with suppress(FileExistsError):
            (links / name).symlink_to(Path(found.submodule_search_locations[0]).resolve())


def run_command(started: Started, spool: Path, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command of one worker process, with fields for its threads."""
    command = [
        *started.command,
        "run",
        "--fs-root",
        escape_fields(str(spool)),
        "--number-of-threads",
        "{threads}",
        "--endless",
    ]
    for name, value in {**started.options, **options}.items():
        command += [f"--{name.replace('_', '-')}", escape_fields(value)]
    return tuple(command)


def spawn_path_command(started: Started, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that prints as JSON how the processor starts its children."""
    asked = options.get(_SPAWN_OPTION)
    own = () if asked is None else ("--spawn-path", escape_fields(asked))
    return (*started.command, "spawn-path", "--json", *own)
