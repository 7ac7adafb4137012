"""The Python of each variant's workers, asked what it is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.adapters.worker_interpreter import ask_interpreter
from tuner.core.domain.axes import VARIABLES
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.text.command_words import parse_command
from tuner.doctor.service import InterpreterSeen

if TYPE_CHECKING:
    from tuner.config.settings import Settings

_NUMERIC_PACKAGES = ("numpy", "scipy", "sklearn", "numexpr", "torch", "onnxruntime")  #: that start threads
# What the interpreter is, and how it was built. Since 3.13 subprocess takes posix_spawn where that can close
# the other files; before, and without it, vfork where the system has that. From 3.14 on there is no
# _USE_VFORK: it is always taken.
_BUILD_QUESTION = (
    "import importlib.util, json, platform, subprocess, sys;"
    "has = lambda name: bool(getattr(subprocess, name, False));"
    "print(json.dumps([platform.python_implementation(), platform.python_version(),"
    " getattr(sys, '_is_gil_enabled', lambda: True)(), hasattr(sys, 'gettotalrefcount'),"
    " has('_USE_POSIX_SPAWN') and has('_HAVE_POSIX_SPAWN_CLOSEFROM'),"
    " has('_USE_VFORK') or sys.version_info >= (3, 14),"
    f" [name for name in {_NUMERIC_PACKAGES!r} if importlib.util.find_spec(name)]]))"
)


def interpreters_seen(
    settings: Settings, spec: ServiceSpec, layouts: Sequence[Layout]
) -> Iterator[tuple[str, InterpreterSeen]]:
    """Of each variant, those that are told alike once."""
    from tuner.adapters.provenance import worker_facts

    met = set()
    for variant in dict.fromkeys(layout.variant for layout in layouts):
        alone = Layout(1, 1, variant)
        own = spec.of(alone)
        command, reported = own.command_line(alone, 0, 1), own.environment_of(alone, 0, 1)
        key = (command, *sorted((name, text) for name, text in reported.items() if name != "TUNER_VARIANT"))
        if key in met:
            continue
        met.add(key)
        seen = interpreter_seen(command, reported, own.directory)
        service = settings.service_in(variant)
        if service.kind == "crash-processor":
            seen = replace(seen, starts_children=True, numeric_packages=())
            if not service.interpreter:  # its own command is installed, and tells which way it takes
                from tuner.services.crash_processor import spawn_path_command, started_by

                words = spawn_path_command(started_by((), Path()), service.options)
                facts = worker_facts([word.format() for word in words], (), reported)
                seen = replace(seen, spawn_path=facts.get("worker_path", seen.spawn_path))
        yield variant, seen


def interpreter_seen(
    command: Sequence[str], environment: Mapping[str, str], directory: str | None = None
) -> InterpreterSeen:
    """What `interpreter_facts` returns, whether it is a debug build, how its `subprocess` starts a child by
    default, and which packages it can import that start threads.

    The arguments are those of `interpreter_facts`.
    """
    try:
        answer = ask_interpreter(_BUILD_QUESTION, command, environment, directory)
        implementation, version, has_gil, is_debug, spawns, vforks, packages = answer
    except ValueError:
        return InterpreterSeen()
    return InterpreterSeen(
        version=f"{implementation} {version}",
        gil="on" if has_gil else "off",
        is_debug=is_debug,
        spawn_path="posix_spawn" if spawns else "vfork+exec" if vforks else "fork+exec",
        numeric_packages=tuple(packages),
        set_variables=_numbers_of_threads({**os.environ, **environment, **parse_command(command).assigned}),
    )


def _numbers_of_threads(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in VARIABLES if environment.get(name)}
