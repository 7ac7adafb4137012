"""The settings of a study as JSON text in its file, which only this module parses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

from tuner.core.domain.layout import Layout
from tuner.core.text.safe_text import HIDDEN


@dataclass(frozen=True)
class StoredConfig:
    """The settings of a study, and of its service or its simulated profile.

    The text is parsed when a part of it is first read; invalid JSON raises a ValueError then.
    """

    text: str  #: canonical JSON without secrets; "": the study stores no settings

    @classmethod
    def of_sections(cls, sections: Mapping[str, Any]) -> Self:
        """Return settings with these parsed *sections*, in the format of a study file."""
        return cls(json.dumps(sections, sort_keys=True, separators=(",", ":")))

    @cached_property
    def sections(self) -> Mapping[str, Any]:
        """The sections by name: ``service`` and ``study``, or ``study`` and ``simulate``; read only.

        Empty if the study stores no settings, or not a mapping.
        """
        found: Any = json.loads(self.text) if self.text else {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def service(self) -> StoredService:
        """The service; without settings if no service ran."""
        found = self.sections.get("service")
        return StoredService(found if isinstance(found, dict) else {})

    @property
    def study(self) -> Mapping[str, Any]:
        """The settings of the study itself; empty if it stores none."""
        found = self.sections.get("study")
        return found if isinstance(found, dict) else {}

    @property
    def profile(self) -> Mapping[str, Any] | None:
        """The simulated profile, as texts; None: a service ran, or an older tuner stored no profile."""
        return self.sections.get("simulate")

    @property
    def lacks_secrets(self) -> bool:
        """Whether secrets of the config are left out."""
        return HIDDEN in self.text

    def copy_sections(self) -> dict[str, Any]:
        """Return a copy of the sections, which may be changed."""
        return deepcopy(dict(self.sections))

    def with_clients(self, n_clients: int) -> Self:
        """Return the settings with *n_clients* clients that send requests."""
        sections = self.copy_sections()
        sections["service"]["feeder"]["clients"] = n_clients
        return self.of_sections(sections)


@dataclass(frozen=True, slots=True)
class StoredService:
    """The service of a study: the user's settings, and those added from tuner's record of the service."""

    section: Mapping[str, Any] = field(default_factory=dict)  #: section as stored; empty: no service ran

    @property
    def kind(self) -> str | None:
        """``script``, or the built-in service."""
        return self.section.get("kind")

    @property
    def cautions(self) -> Mapping[str, str]:
        """Warnings about the service, sentences by their slugs."""
        found: Mapping[str, str] = self.section.get("cautions", {})
        return found

    @property
    def connections(self) -> int | Literal["threads"] | None:
        """The number of connections per process, or one per thread; None: unknown (an older study)."""
        found: int | Literal["threads"] | None = self.section.get("connections")
        return found

    @property
    def axes(self) -> dict[str, list[str]]:
        """The axes and their values, in their order."""
        return {axis: [value for value, _ in values] for axis, values in self.section.get("axes") or ()}

    @property
    def feeder(self) -> Mapping[str, Any]:
        """The feeder: its ``kind`` and the settings of that kind; empty if there is none."""
        found = self.section.get("feeder")
        return found if isinstance(found, dict) else {}

    @property
    def n_clients(self) -> int | None:
        """The number of clients in the settings; None: twice the threads, or the feeder has no clients."""
        number = self.feeder.get("clients", self.feeder.get("connections"))  # older studies have this name
        return number if isinstance(number, int) else None

    def os_threads(self, variant: str) -> str | None:
        """Return when the threads of a layout start; None: they are not OS threads, or it is unknown."""
        found = self._variant(variant).get("os_threads") or self.section.get("os_threads")
        return None if found is None else str(found)

    # Layouts whose second number is not the number of threads that share a GIL.
    #
    # A pool's is processes: 2x4 is two programs that have four workers each. An event loop's is threads that
    # run no Python: granian's 2x4 is two processes, each with one loop, and four threads of its part in Rust.
    # Where the workers of a server are threads (granian without a GIL), it has one process: 1x4 is four
    # workers.

    @property
    def pooled_variants(self) -> frozenset[str]:
        """The variants that are such pools; "" is the service itself."""
        return self._variants_with("pools")

    @property
    def one_process_variants(self) -> frozenset[str]:
        """The variants whose workers are threads of one process."""
        return self._variants_with("threads")

    @property
    def event_loop_variants(self) -> frozenset[str]:
        """The variants whose workers are event loops."""
        own = self.section.get("event_loop") is True
        data = {"": own}
        for name, variant in self._variants().items():
            asked = variant.get("event_loop")
            data[name] = own if asked is None else asked is True
        return frozenset(name for name, is_one in data.items() if is_one)

    def has_master(self, layout: Layout) -> bool:
        """Return whether a program that is not a worker runs in addition to those of *layout*.

        Examples are gunicorn's arbiter, and the main process of Celery's pool.
        """
        if not self.section:
            return False
        own = self._variant(layout.variant)
        programs = own.get("programs") or self.section.get("programs")
        workers = own.get("workers") or self.section.get("workers")
        if workers is None:
            return bool(programs == "one")
        return workers in ("children", "pools") or (workers == "children-if-several" and layout.processes > 1)

    def _variants_with(self, asked: str) -> frozenset[str]:
        own = self.section.get("workers")
        data = {"": own, **{name: one.get("workers") or own for name, one in self._variants().items()}}
        return frozenset(name for name, workers in data.items() if workers == asked)

    def _variants(self) -> Mapping[str, Mapping[str, Any]]:
        return self.section.get("variants") or {}

    def _variant(self, name: str) -> Mapping[str, Any]:
        return self._variants().get(name) or {}


# Differences between the settings of a study's beginning and other settings.

_ABSENT = object()
#: settings of a known service that do not change the commands, only the checks; a study that lacks them can
#: be resumed
_LOOKED_AT = ("os_threads",)


def list_changed_settings(kept: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return one line per different setting, as ``study.window: 600 in the study, 60 given``.

    Args:
        kept: sections of the settings in the study file.
        given: the sections of the present settings.
    """
    return list(_differences(kept, given, ""))


def _differences(kept: Any, given: Any, place: str) -> Iterator[str]:
    if isinstance(kept, Mapping) and isinstance(given, Mapping):
        for name in dict.fromkeys([*kept, *given]):
            below = f"{place}.{name}" if place else name
            if name in _LOOKED_AT and _is_nothing(kept.get(name, _ABSENT)):
                continue
            yield from _differences(kept.get(name, _ABSENT), given.get(name, _ABSENT), below)
    elif kept != given and not (_is_nothing(kept) and _is_nothing(given)):
        yield f"{place}: {_show(kept)} in the study, {_show(given)} given"


def _is_nothing(value: Any) -> bool:
    """Return whether a setting is missing or empty, also because an older tuner did not have it."""
    return value is _ABSENT or value is None or value in ([], {})


def _show(value: Any) -> str:
    return "nothing" if _is_nothing(value) else json.dumps(value, ensure_ascii=False)
