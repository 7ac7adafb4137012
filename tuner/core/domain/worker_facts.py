"""What is known of the workers of each variant: among a study's facts, of all or of one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

_OF = "@"
GIL = "worker_gil"  #: "on", "off": of the interpreter alone, asked before the study
GIL_SEEN = "worker_gil_seen"  #: "on", "off": of running workers; it decides
GIL_MODULE = "worker_gil_module"  #: whose import switched the GIL on


def of_variants(found: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What was *found* of each variant, as a study keeps it: ``worker_python`` where it is the same for all,
    else ``worker_python@3.13`` for each."""
    facts: dict[str, str] = {}
    for name in dict.fromkeys(name for own in found.values() for name in own):
        values = [own.get(name) for own in found.values()]
        if values[0] is not None and values.count(values[0]) == len(values):
            facts[name] = values[0]
            continue
        facts |= {f"{name}{_OF}{variant}": own[name] for variant, own in found.items() if name in own}
    return facts


def fact_of(provenance: Mapping[str, str], name: str, variant: str) -> str | None:
    """The fact *name* of the workers of one *variant*; None: not known."""
    return provenance.get(f"{name}{_OF}{variant}", provenance.get(name))


def key_of(name: str, variant: str) -> str:
    """Under which key the fact *name* of one *variant* is kept; "" is the service as it is."""
    return f"{name}{_OF}{variant}" if variant else name


def has_gil(provenance: Mapping[str, str], variant: str) -> bool | None:
    """Whether the workers of a *variant* have a GIL that is on: as running ones were seen, else as their
    interpreter alone said. None: not known."""
    reported = fact_of(provenance, GIL_SEEN, variant) or fact_of(provenance, GIL, variant)
    return {"on": True, "off": False}.get(reported or "")


def gil_came_back(provenance: Mapping[str, str], variant: str) -> bool:
    """Whether the interpreter alone has no GIL, and workers were seen to run with one."""
    reported = fact_of(provenance, GIL, variant), fact_of(provenance, GIL_SEEN, variant)
    return reported == ("off", "on")


def for_each_variant(
    facts: Mapping[str, str], names: Collection[str], variants: Collection[str]
) -> dict[str, str]:
    """*facts* with those of *names* told of each of the *variants*, however they were kept."""
    found = {key: value for key, value in facts.items() if key.partition(_OF)[0] not in names}
    for name in names:
        for variant in variants:
            if (value := fact_of(facts, name, variant)) is not None:
                found[f"{name}{_OF}{variant}"] = value
    return found


def names_by_variant(facts: Mapping[str, str]) -> set[str]:
    """The facts in which variants differ."""
    return {name for name, of, _ in (key.partition(_OF) for key in facts) if of}


def facts_by_variant(provenance: Mapping[str, str], name: str) -> Iterator[tuple[str, str]]:
    """Where variants differ in the fact *name*, each with what it is."""
    for key, value in provenance.items():
        if key.startswith(f"{name}{_OF}"):
            yield key.removeprefix(f"{name}{_OF}"), value
