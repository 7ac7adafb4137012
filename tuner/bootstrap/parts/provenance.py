"""Facts about this host and its interpreters for the study file, and the interpreters of `--python`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.parts.services import prepare_service, service_of
from tuner.config.kinds import StudyName
from tuner.core.domain.layout import Layout, values_of
from tuner.core.domain.provenance import Provenance, WorkerFacts
from tuner.core.errors import ConfigError
from tuner.core.text.command_words import is_python

if TYPE_CHECKING:
    from tuner.config.service import CrashProcessorSettings, ScriptSettings
    from tuner.config.settings import Settings


def provenance_here(settings: Settings, layouts: Sequence[Layout]) -> Provenance:
    """Of this box, and of what workers are run by on it, which is asked of each variant of *layouts*."""
    from tuner.adapters.provenance import provenance, worker_facts

    found = {}
    with tempfile.TemporaryDirectory(prefix="tuner-") as scratch:
        spec, _ = service_of(
            settings, [Layout(1, 1)], StudyName("", ""), Path(scratch), lambda _slug, _text: None
        )
        prepare_service(settings, Path(scratch))
        asked: dict[tuple[object, ...], dict[str, str]] = {}
        for variant in dict.fromkeys(layout.variant for layout in layouts):
            alone = Layout(1, 1, variant)
            own = spec.of(alone)
            reported = own.environment_of(alone, 0, 1)
            reported["TUNER_VARIANT"] = ""  # the only variable that tells variants apart which are alike
            command = (*own.command_line(alone, 0, 1),)
            key = (command, *sorted(reported.items()), own.directory)
            if key not in asked:
                how = _spawn_path_command(settings, variant, Path(scratch))
                facts = worker_facts(how, command, reported, own.directory)
                by_axis = _axis_with_interpreter(settings.service, variant)
                if by_axis is not None and "worker_python" not in facts:
                    facts |= _facts_of_interpreter(*by_axis, reported, own.directory)
                elif by_axis is not None:
                    _check_imports(*by_axis, command, reported, own.directory)
                asked[key] = facts
            found[variant] = asked[key]
    return replace(Provenance.from_mapping(provenance()), workers=WorkerFacts.of_variants(found))


def _axis_with_interpreter(
    service: CrashProcessorSettings | ScriptSettings, variant: str
) -> tuple[str, tuple[str, ...]] | None:
    """Which value of an axis names the interpreter of a *variant*, and its words; None: none does."""
    for axis, value in zip(service.axes, values_of(variant), strict=False):
        if (interpreter := service.axes[axis][value].interpreter) is not None:
            return f"service.axes.{axis}.{value}", interpreter
    return None


def _facts_of_interpreter(
    where: str, interpreter: Sequence[str], environment: Mapping[str, str], directory: str | None
) -> dict[str, str]:
    """What the Python that an axis names says, where the command hides it behind what it begins with.

    Raises:
        ConfigError: it gives no answer.
    """
    from tuner.adapters.provenance import interpreter_facts

    facts = interpreter_facts(interpreter, environment, directory)
    if not facts:
        raise ConfigError(
            f"{where}: {interpreter[0]} is not here, or does not start",
            hint=f"Try {interpreter[0]} --version; else name the variants that can be measured: --variants.",
        )
    return facts


def _check_imports(
    where: str,
    interpreter: Sequence[str],
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: str | None,
) -> None:
    """Before anything is launched: the Python that an axis names has what the command imports first.

    Raises:
        ConfigError: it has not.
    """
    from tuner.adapters.provenance import missing_import

    if (package := missing_import(command, environment, directory)) is not None:
        hint = "Install it there, or name the Python of a virtual environment that has it: VENV/bin/python."
        if package == "tuner":
            hint = "Copy tuner/probe/counter.py into the worker's folder and import it; it needs no package."
        raise ConfigError(
            f"{where}: {interpreter[0]} has no package {package}, which the command imports", hint=hint
        )


def _spawn_path_command(settings: Settings, variant: str, scratch: Path) -> Sequence[str] | None:
    service = settings.service_in(variant)
    if service.kind != "crash-processor":
        return None
    from tuner.services.crash_processor import spawn_path_command, started_by

    words = spawn_path_command(started_by(service.interpreter or (), scratch), service.options)
    return [word.format() for word in words]


# The Pythons that are typed to run a service by: each is asked what it is.


_PYTHON = re.compile(r"python3\.[0-9]+t?")
_MOST_NAMED = 8


def parse_pythons(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The interpreters that were typed, by what they are called: ``3.13``, ``3.14t``; of two 3.13 ``3.13.5``.

    Args:
        texts: each the name or the path of a Python, with options of its own if it has some.

    Returns:
        The words of each, in their order; its program with its whole path, which no PATH changes.

    Raises:
        ConfigError: one is no Python, is not here or gives no answer, or is named twice.
    """
    asked = [(text, *_parse_python(text)) for text in texts]
    seen: dict[tuple[str, ...], str] = {}
    for text, words, _ in asked:
        if words in seen:
            raise ConfigError(f"--python {text} is named twice", hint="Name each interpreter once.")
        seen[words] = text
    n_of_short = Counter(names[0] for _, _, names in asked)
    found: dict[str, tuple[str, ...]] = {}
    for text, words, (short, whole) in asked:
        name = short if n_of_short[short] == 1 else whole
        if name in found:
            raise ConfigError(
                f"--python {text} is Python {whole}, the same version as {shlex.join(found[name])}",
                hint="Give them names in a config: service:"
                " {axes: {python: {NAME: {interpreter: PYTHON}, ...}}}",
            )
        found[name] = words
    return found


def _parse_python(text: str) -> tuple[tuple[str, ...], tuple[str, str]]:
    from tuner.adapters.provenance import interpreter_names

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--python {text}: cannot be split into words: {error}", hint=_hint()) from error
    if not words:
        raise ConfigError("--python: names no interpreter", hint=_hint())
    named = Path(words[0])
    if "/" in words[0] and os.access(named / "bin" / "python", os.X_OK):
        raise ConfigError(f"--python {text} is a folder", hint=f"Name its Python: {named / 'bin' / 'python'}")
    if not is_python(named.name):
        raise ConfigError(
            f"invalid --python {text}: expected a Python by its name, as python3.13", hint=_hint()
        )
    program = shutil.which(words[0])
    if program is None:
        raise ConfigError(f"--python {text}: there is no such program", hint=_hint())
    # no link is followed: a virtual environment's Python is one
    whole = (os.path.abspath(program), *words[1:])
    names = interpreter_names(whole)
    if names is None:
        raise ConfigError(
            f"cannot use --python {text}: it does not run as a Python", hint=f"Try {program} --version."
        )
    return whole, names


def _hint() -> str:
    """Which Pythons there are."""
    found = set()
    for folder in os.get_exec_path():
        try:
            found |= {name for name in os.listdir(folder) if _PYTHON.fullmatch(name)}
        except OSError:
            continue
    here = sorted(found, key=lambda name: (len(name), name), reverse=True)[:_MOST_NAMED]
    others = f"Here are {', '.join(here)}; or" if here else "Name one that is here, or"
    return f"{others} name a virtual environment's: VENV/bin/python."
