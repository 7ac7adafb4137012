"""The services that tuner knows: its own, and those that installed packages bring."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import PurePath

from tuner.core.errors import ConfigError
from tuner.services.record import Service

GROUP = "tuner.services"  #: entry points of third parties
#: one file of this package each
OWN = (
    "arq",
    "celery",
    "dramatiq",
    "granian",
    "gunicorn",
    "huey",
    "procrastinate",
    "rq",
    "taskiq",
    "uvicorn",
    "uwsgi",
)
_PYTHON = re.compile(r"(python|pypy)[0-9.]*t?d?$")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@cache
def known_services() -> Mapping[str, Service]:
    """Every known service by its name; a third party's goes before tuner's own of that name.

    Raises:
        ConfigError: an entry point cannot be loaded, or is no `Service`.
    """
    services = {name: _own(name) for name in OWN}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            found = entry.load()
        except Exception as error:
            raise ConfigError(
                f"the service {entry.name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}",
                hint="Mend or uninstall the package that brings it.",
            ) from error
        if not isinstance(found, Service) or found.name != entry.name:
            raise ConfigError(
                f"the entry point {entry.name} names {entry.value}, which is no Service of that name",
                hint="See docs/services/README.md.",
            )
        services[found.name] = found
    return services


def recognised(words: tuple[str, ...]) -> Service | None:
    """The service that a command starts, by its program's name, or by its module (``python -m celery``)."""
    rest = list(words)
    if rest and PurePath(rest[0]).name == "env":
        rest.pop(0)
        while rest and _ASSIGNMENT.match(rest[0]):
            rest.pop(0)
    if not rest:
        return None
    program = PurePath(rest[0]).name
    if _PYTHON.match(program):
        program = _module_or_script(rest[1:])
    return next((one for one in known_services().values() if program in one.commands), None)


def _module_or_script(words: list[str]) -> str:
    """What Python is told to run: the name of a module's package, or of a script."""
    rest = iter(words)
    for word in rest:
        if word == "-m":
            return next(rest, "").partition(".")[0]
        if word in ("-X", "-W"):
            next(rest, None)
        elif not word.startswith("-"):
            return PurePath(word).name
    return ""


def _own(name: str) -> Service:
    service: Service = import_module(f"tuner.services.{name}").SERVICE
    return service
