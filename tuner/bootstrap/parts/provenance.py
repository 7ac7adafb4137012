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


def collect_provenance(settings: Settings, layouts: Sequence[Layout], cores: int) -> Provenance:
    """Return facts about this host, and about the workers' interpreters for each variant of *layouts*.

    *cores* is the number of cores that the layouts are planned for.
    """
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
            reported["TUNER_VARIANT"] = ""  # the only variable that differs between otherwise equal variants
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
    return replace(Provenance.from_mapping(provenance(cores)), workers=WorkerFacts.of_variants(found))


def _axis_with_interpreter(
    service: CrashProcessorSettings | ScriptSettings, variant: str
) -> tuple[str, tuple[str, ...]] | None:
    """Return the config place and words of a *variant*'s interpreter on an axis; None: no axis names one."""
    for axis, value in zip(service.axes, values_of(variant), strict=False):
        if (interpreter := service.axes[axis][value].interpreter) is not None:
            return f"service.axes.{axis}.{value}", interpreter
    return None


def _facts_of_interpreter(
    where: str, interpreter: Sequence[str], environment: Mapping[str, str], directory: str | None
) -> dict[str, str]:
    """Read the facts of the Python that an axis names, for a command that hides it behind a wrapper.

    Raises:
        ConfigError: the interpreter does not start or answer.
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
    """Check that the Python of an axis has the package that the command imports first.

    Raises:
        ConfigError: it lacks this package.
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


# The Pythons of `--python`: each is run once, to read its version.


_PYTHON = re.compile(r"python3\.[0-9]+t?")
_MOST_NAMED = 8


def parse_pythons(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the interpreters by name: ``3.13``, ``3.14t``; of two 3.13, the full version such as ``3.13.5``.

    Args:
        texts: each the name or path of a Python, optionally followed by its options.

    Returns:
        The words of each, in the given order; its program with the absolute path, independent of PATH.

    Raises:
        ConfigError: one is not a Python, is missing, does not run, or is named twice.
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
    # do not resolve links: a virtual environment's Python is a link
    whole = (os.path.abspath(program), *words[1:])
    names = interpreter_names(whole)
    if names is None:
        raise ConfigError(
            f"cannot use --python {text}: it does not run as a Python", hint=f"Try {program} --version."
        )
    return whole, names


def _hint() -> str:
    """Return a hint that lists the Pythons on the PATH."""
    found = set()
    for folder in os.get_exec_path():
        try:
            found |= {name for name in os.listdir(folder) if _PYTHON.fullmatch(name)}
        except OSError:
            continue
    here = sorted(found, key=lambda name: (len(name), name), reverse=True)[:_MOST_NAMED]
    others = f"Here are {', '.join(here)}; or" if here else "Name one that is here, or"
    return f"{others} name a virtual environment's: VENV/bin/python."
