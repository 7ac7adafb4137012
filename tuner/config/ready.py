"""The base of the settings of all checks of readiness; each kind is a file of `tuner/adapters/ready/`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from tuner.config.fields import LongerThanZero, Section
from tuner.config.kinds import Kinds
from tuner.core.domain.layout import Layout
from tuner.ports import ReadyCheck


class ReadySettings(Section):
    """The settings of one kind of check, and all that other parts of tuner have to know of the kind."""

    kind: str  #: Kind of check
    within: LongerThanZero = 60.0  #: Longest time until the service is ready; otherwise the launch fails

    def build(self, layout: Layout, directory: Path | None) -> ReadyCheck:
        """Make the check of one launch of *layout*, whose service runs in *directory* (None: tuner's)."""
        raise NotImplementedError

    @property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """Hosts and ports where the running service should listen, by the keys that name them."""
        return {}

    @classmethod
    def alternatives(cls, kind: object = None) -> list[type[Section]]:
        """Return the kinds of check, or the one that is *kind*, for this class; a kind is its own."""
        return CHECKS.alternatives(cls, kind)


CHECKS = Kinds("tuner.adapters.ready", ReadySettings)
AnyReady = Annotated[ReadySettings, CHECKS]


def with_lines_of_masters(section: Any) -> Any:
    """The *section* of a script where one line of a log is enough, unless its ``ready`` has a count.

    That is with ``programs: one``, of the service and of its variants: one program logs that it is ready.
    """
    if not isinstance(section, Mapping):
        return section
    variants = section.get("variants")
    if isinstance(variants, Mapping):
        programs = section.get("programs")
        variants = {name: _with_line(variant, programs) for name, variant in variants.items()}
        section = {**section, "variants": variants}
    return _with_line(section, None)


def _with_line(section: Any, otherwise: Any) -> Any:
    ready = section.get("ready") if isinstance(section, Mapping) else None
    is_of_master = ready is not None and section.get("programs", otherwise) == "one"
    if not is_of_master or not isinstance(ready, Mapping) or ready.get("kind") != "log":
        return section
    return {**section, "ready": {"count": 1, **ready}}
