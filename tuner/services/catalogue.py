"""Catalogue of the known services: tuner's records, and records from installed packages.

A record of tuner is imported when it is first looked up, because a command needs at most one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from tuner.core.errors import ConfigError
from tuner.core.text.command_words import parse_command

if TYPE_CHECKING:
    from tuner.services.record import Service

GROUP = "tuner.services"  #: entry points of third parties
#: tuner's own, one file of this package each, with the programs that its record is known by
OWN: Mapping[str, tuple[str, ...]] = {
    "arq": ("arq",),
    "celery": ("celery",),
    "dramatiq": ("dramatiq", "dramatiq-gevent"),
    "fastapi": ("fastapi",),
    "gnocchi": ("gnocchi-metricd",),
    "granian": ("granian",),
    "gunicorn": ("gunicorn",),
    "huey": ("huey_consumer", "huey_consumer.py"),
    "hypercorn": ("hypercorn",),
    "procrastinate": ("procrastinate",),
    "rq": ("rq",),
    "saq": ("saq",),
    "taskiq": ("taskiq",),
    "uvicorn": ("uvicorn",),
    "uwsgi": ("uwsgi", "uwsgi-core", "pyuwsgi"),
    "waitress": ("waitress-serve", "waitress"),
}


class Services(MutableMapping[str, "Service"]):
    """Services by name; a record of tuner is imported when it is looked up."""

    def __init__(self) -> None:
        self._records: dict[str, Service | None] = dict.fromkeys(OWN)

    def __getitem__(self, name: str) -> Service:
        found = self._records[name]
        if found is None:
            found = self._records[name] = import_module(f"tuner.services.{name}").SERVICE
            assert found is not None
        return found

    def __setitem__(self, name: str, service: Service) -> None:
        self._records[name] = service

    def __delitem__(self, name: str) -> None:
        del self._records[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, name: object) -> bool:
        return name in self._records

    def started_by(self, program: str) -> Service | None:
        """Return the first service with that *program*."""
        for name, record in self._records.items():
            if program in (OWN[name] if record is None else record.commands):
                return self[name]
        return None


@cache
def known_services() -> Services:
    """Return all known services by name; a third party's replaces tuner's of the same name.

    Raises:
        ConfigError: an entry point cannot be loaded, or is not a `Service`.
    """
    services = Services()
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        from tuner.services.record import Service

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


def recognise(words: Sequence[str]) -> Service | None:
    """Return the service that a command starts, found by its program, or by its module (``python -m
    celery``).
    """
    return known_services().started_by(parse_command(words).program)
