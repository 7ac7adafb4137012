"""The services that tuner knows: its own, and those that installed packages bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from tuner.core.errors import ConfigError
from tuner.core.text.command_words import taken_apart
from tuner.services.record import Service

GROUP = "tuner.services"  #: entry points of third parties
#: one file of this package each
OWN = (
    "arq",
    "celery",
    "dramatiq",
    "gnocchi",
    "granian",
    "gunicorn",
    "huey",
    "hypercorn",
    "procrastinate",
    "rq",
    "saq",
    "taskiq",
    "uvicorn",
    "uwsgi",
    "waitress",
)


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


def recognised(words: Sequence[str]) -> Service | None:
    """The service that a command starts, by its program's name, or by its module (``python -m celery``)."""
    program = taken_apart(words).program
    return next((one for one in known_services().values() if program in one.commands), None)


def _own(name: str) -> Service:
    service: Service = import_module(f"tuner.services.{name}").SERVICE
    return service
