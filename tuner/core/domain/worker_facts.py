"""What is known of the workers of each variant: among a study's facts, of all or of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Self

_OF = "@"
GIL = "worker_gil"  #: "on", "off": of the interpreter alone, asked before the study
GIL_SEEN = "worker_gil_seen"  #: "on", "off": of running workers; it decides
GIL_MODULE = "worker_gil_module"  #: whose import switched the GIL on
PYTHON = "worker_python"  #: implementation and version
VERSION = "worker_version"  #: the version alone, in older files
IMPLEMENTATION = "worker_implementation"  #: the implementation alone, in older files


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """Facts of the workers, as a study file has them.

    A fact is kept as ``worker_python`` where it is the same for all, else as ``worker_python@3.13`` for each
    variant.
    """

    texts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_variants(cls, found: Mapping[str, Mapping[str, str]]) -> Self:
        """Return what was *found* of each variant."""
        facts: dict[str, str] = {}
        for name in dict.fromkeys(name for own in found.values() for name in own):
            values = [own.get(name) for own in found.values()]
            if values[0] is not None and values.count(values[0]) == len(values):
                facts[name] = values[0]
                continue
            facts |= {f"{name}{_OF}{variant}": own[name] for variant, own in found.items() if name in own}
        return cls(facts)

    @classmethod
    def of_variant(cls, variant: str, facts: Mapping[str, str]) -> Self:
        """Return *facts* of one *variant*; "" is the service as it is."""
        return cls({f"{name}{_OF}{variant}" if variant else name: text for name, text in facts.items()})

    def fact(self, name: str, variant: str) -> str | None:
        """Return the fact *name* of the workers of one *variant*; None: not known."""
        return self.texts.get(f"{name}{_OF}{variant}", self.texts.get(name))

    def of_all(self, name: str) -> str | None:
        """Return the fact *name* where it is the same for all variants; None: it is not, or not known."""
        return self.texts.get(name)

    def by_variant(self, name: str) -> dict[str, str]:
        """Return the fact *name* of each variant, where variants differ in it."""
        before = f"{name}{_OF}"
        return {key.removeprefix(before): text for key, text in self.texts.items() if key.startswith(before)}

    def has_gil(self, variant: str) -> bool | None:
        """Whether the workers of a *variant* have a GIL that is on: as running ones were seen, else as their
        interpreter alone said. None: not known."""
        reported = self.fact(GIL_SEEN, variant) or self.fact(GIL, variant)
        return {"on": True, "off": False}.get(reported or "")

    def gil_came_back(self, variant: str) -> bool:
        """Whether the interpreter alone has no GIL, and workers were seen to run with one."""
        reported = self.fact(GIL, variant), self.fact(GIL_SEEN, variant)
        return reported == ("off", "on")

    @property
    def differing(self) -> frozenset[str]:
        """The names of the facts in which variants differ."""
        return frozenset(name for name, of, _ in (key.partition(_OF) for key in self.texts) if of)

    def for_each_variant(self, names: Collection[str], variants: Collection[str]) -> Self:
        """Return the same facts, with those of *names* for each of the *variants*, however they are kept."""
        found = {key: text for key, text in self.texts.items() if key.partition(_OF)[0] not in names}
        for name in names:
            for variant in variants:
                if (text := self.fact(name, variant)) is not None:
                    found[f"{name}{_OF}{variant}"] = text
        return type(self)(found)

    def without(self, name: str) -> Self:
        """Return the same facts, but not *name*."""
        return type(self)({key: text for key, text in self.texts.items() if key.partition(_OF)[0] != name})
