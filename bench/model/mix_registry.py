"""The registered mixes (mixes.yaml), and each one as a service that tuner can run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.records import StudyRecord
from tuner.core.errors import ConfigError, TunerError
from tuner.core.text.figures import parse_duration
from tuner.probe import counter

HERE = Path(__file__).resolve().parent
REGISTRY = HERE / "mixes.yaml"
WORKER = HERE / "mix_worker.py"
PREFIX = "mix-"  #: of the service's name in a study
_TIMES = ("python", "native", "child", "asleep", "blocked")


@dataclass(frozen=True)
class Mix:
    """Parts of an item: seconds, means over items."""

    name: str
    python: float = 0.0  #: CPU with the GIL
    native: float = 0.0  #: CPU in the worker, without the GIL
    child: float = 0.0  #: CPU of a child
    asleep: float = 0.0
    blocked: float = 0.0  #: in state D
    cv: float = 0.0  #: standard deviation of each over its mean
    beyond: str = ""  #: why a calibration from 1x1 cannot know it; empty: the bars hold for it


@dataclass(frozen=True)
class Registry:
    """The mixes that were registered before their measurement."""

    registered: datetime
    layouts: tuple[Layout, ...]
    mixes: tuple[Mix, ...]

    def mix(self, name: str) -> Mix:
        for one in self.mixes:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.mixes)
        raise ConfigError(f"no mix is called {name}", hint=f"Registered are {known}.")


def read_registry(path: Path = REGISTRY) -> Registry:
    """Raises ConfigError when a key is unknown, missing, or no duration."""
    text = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        return Registry(
            registered=text["registered"],
            layouts=tuple(parse_layout(one) for one in text["layouts"]),
            mixes=tuple(_mix(one) for one in text["mixes"]),
        )
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{path}: {error!r}", hint="See the mixes beside it for what one has.") from error


def _mix(written: Mapping[str, Any]) -> Mix:
    values: dict[str, Any] = {
        key: parse_duration(value) if key in _TIMES else value for key, value in written.items()
    }
    return Mix(**values)


@dataclass(frozen=True)
class Tools:
    """Programs that workers need on this host, the same for all launches of a measurement."""

    interpreter: str
    child: Path
    blocked: Path
    turns_per_ms: Mapping[str, float]


def tools_in(folder: Path, interpreter: str = sys.executable) -> Tools:
    """Compile what is in C, and find how fast the box is; both are kept in *folder* for whoever goes on.

    Raises:
        ConfigError: no C compiler, or the folder was begun with another interpreter.
    """
    kept = folder / "box.json"
    child, blocked = folder / "mix-child", folder / "mix-blocked.so"
    if not kept.exists():
        compiled_child(folder)
        _compiled(HERE / "mix_blocked.c", blocked, "-shared", "-fPIC")
        result = turns_per_ms(interpreter, child)
        kept.write_text(json.dumps({"interpreter": interpreter, "turns_per_ms": result}, indent=1) + "\n")
    values = json.loads(kept.read_text())
    if values["interpreter"] != interpreter:
        raise ConfigError(
            f"{folder} was begun with {values['interpreter']}, not {interpreter}",
            hint="Measure another interpreter into another folder.",
        )
    return Tools(interpreter, child, blocked, values["turns_per_ms"])


def compiled_child(folder: Path) -> Path:
    """The child of an item, in *folder*."""
    _compiled(HERE / "mix_child.c", folder / "mix-child")
    return folder / "mix-child"


def turns_per_ms(interpreter: str, child: Path) -> dict[str, float]:
    """What the box does in a millisecond: turns of the worker's loops (python, native) and of the child's.

    Raises:
        ConfigError: *interpreter* cannot be run.
    """
    command = [interpreter, str(WORKER), "--turns-per-ms", str(child)]
    try:
        result = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(
            f"{interpreter} cannot run the worker: {getattr(error, 'stderr', None) or error}",
            hint="Name an interpreter of Python 3.11 or later.",
        ) from error
    values: dict[str, float] = json.loads(result)
    return values


def _compiled(source: Path, target: Path, *options: str) -> None:
    command = ["cc", "-O2", *options, "-o", str(target), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise ConfigError("there is no C compiler: cc", hint="Install one (gcc or clang).") from error
    if done.returncode:
        raise TunerError(f"{source.name} does not compile", hint=done.stderr)


def worker_command(mix: Mix, tools: Tools, seed: int) -> list[str]:
    """The command line of one worker process of *mix*."""
    turns = {part: round(getattr(mix, part) * 1000 * tools.turns_per_ms[part]) for part in tools.turns_per_ms}
    values = {
        **{f"--{part}-turns": n for part, n in turns.items()},
        "--asleep-s": mix.asleep,
        "--blocked-s": mix.blocked,
        "--cv": mix.cv,
        "--seed": seed,
        "--child": tools.child,
        "--blocked": tools.blocked,
        "--counter": counter.__file__,
    }
    return [tools.interpreter, str(WORKER), *(text for pair in values.items() for text in map(str, pair))]


def mix_environment(mix: Mix) -> dict[str, str]:
    """The mix as it was registered, in words that stay in the study's config."""
    return {f"MIX_{one.name.upper()}": str(getattr(mix, one.name)) for one in fields(mix)}


def mix_of(record: StudyRecord) -> Mix:
    """The mix that a study measured, as its config tells.

    Raises:
        ConfigError: it is no study of a mix.
    """
    result = record.config.service.section.get("environment", {})
    try:
        texts = {one.name: result[f"MIX_{one.name.upper()}"] for one in fields(Mix)}
    except KeyError as error:
        raise ConfigError(
            f"a study of {record.service} is none of a mix", hint="Name a file that `mixes.py measure` wrote."
        ) from error
    values: dict[str, Any] = {
        name: text if name in ("name", "beyond") else float(text) for name, text in texts.items()
    }
    return Mix(**values)


def unregistered(record: StudyRecord, registry: Registry) -> str | None:
    """Why the figures of a study are no test of a prediction; None: they are one."""
    mix = mix_of(record)
    if mix not in registry.mixes:
        return f"{mix.name} was measured with other values than are registered"
    began = datetime.fromtimestamp(record.created_wall_s, UTC)
    if began < registry.registered:
        when = f"{registry.registered:%F %R}"
        return f"{mix.name} was measured from {began:%F %R}, before it was registered ({when})"
    return None
