"""Differences in how two studies were made that may explain changed results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tuner.core.domain.provenance import Provenance, WorkerFacts
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.windows.layout_check import inner_threads_of

_FREQUENCY, _FREQUENCY_NOISE = "cpu_frequency", 0.05  #: the clock of an idle host varies by this share
_MOST_SHOWN = 120  #: largest length of a printed value, characters

#: settings that `_study_facts` reports as effective values, or that only change random choices
_TOLD_ALREADY = {
    f"study.{name}"
    for name in (
        "seed",
        "cores",
        "strategy",
        "window",
        "warmup",
        "objective",
        "max_load",
        "max_memory",
        "max_p95",
    )
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference in how two studies were made."""

    name: str  #: name such as `python`, or the place in the config, such as `config: study.window`
    before: str | None  #: value in the first study; None: absent
    after: str | None


def differences(before: StudyRecord, after: StudyRecord) -> Iterator[Difference]:
    """Yield the differences of effective settings: a written value equals the same value by default."""
    pairs = [_study_facts(before), _study_facts(after)]
    for name in pairs[0]:
        if pairs[0][name] != pairs[1][name]:
            yield Difference(name, pairs[0][name], pairs[1][name])
    made = _comparable_facts(before, after)
    alike = is_simulated(before) == is_simulated(after)
    names = {*made[0], *made[1]} if alike else {*made[0]} & {*made[1]}
    for name in sorted(names):
        one, other = made[0].get(name), made[1].get(name)
        if one != other and not (name == _FREQUENCY and _is_as_fast(one, other)):
            yield Difference(name, shorten(one), shorten(other))
    yield from _inner_threads(before, after)
    configs = [_in_effect(study) for study in (before, after)]
    for name in sorted({*configs[0], *configs[1]} - _TOLD_ALREADY):
        one, other = configs[0].get(name), configs[1].get(name)
        # Configs of different services differ everywhere, which adds no information.
        if one != other and (before.service == after.service or name.startswith("study.")):
            yield Difference(f"config: {name}", shorten(one), shorten(other))


def _inner_threads(before: StudyRecord, after: StudyRecord) -> Iterator[Difference]:
    """Yield layouts of both studies whose workers had more threads than set, for different reasons."""
    causes = [{one.layout: one.cause for one in inner_threads_of(study)} for study in (before, after)]
    for layout in before.layouts:
        one, other = causes[0].get(layout), causes[1].get(layout)
        if layout in after.layouts and one != other:
            yield Difference(f"threads beside those of {layout}", one, other)


def _comparable_facts(before: StudyRecord, after: StudyRecord) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the comparable facts of both studies; for facts that differ by variant, of shared variants only.

    If only one study has variants that differ in a fact, the other may store one value for all.
    """
    found = (before.provenance, after.provenance)
    names = found[0].workers.differing | found[1].workers.differing
    first, second = ({layout.variant for layout in study.layouts} for study in (before, after))
    shared = sorted(first & second)
    one, other = (_facts_of(facts, facts.workers.for_each_variant(names, shared)) for facts in found)
    return one, other


def _facts_of(facts: Provenance, workers: WorkerFacts) -> Mapping[str, str]:
    """Return the facts to compare, without those that always differ or do not affect the measurement."""
    return replace(
        facts,
        cores=None,
        steal_since_boot=None,
        check_of=None,
        study_typed=None,
        config_file=None,
        inner_threads={},
        workers=workers.without("worker_spawn_ms"),
    ).to_mapping()


def _study_facts(study: StudyRecord) -> dict[str, str]:
    return {
        "service": study.service,
        "measured": "simulated" if is_simulated(study) else "for real",
        "cores": f"{study.cores}",
        "cores of the box": f"{study.box_cores:g}",
        "strategy": study.strategy,
        "window": f"{study.window_s:g} s",
        "warm-up": "found" if study.warmup_s is None else f"{study.warmup_s:g} s",
        "objective": study.objective,
        "limits": ", ".join(f"{name} {most:g}" for name, most in sorted(study.limits.items())) or "none",
    }


def _in_effect(study: StudyRecord) -> dict[str, str]:
    """Return every setting by its place; settings without a value in the config have the study's value."""
    found = dict(_flat(study.config.sections))
    taken = {
        "repeats": study.n_blocks or None,
        "windows_per_launch": study.windows_per_launch,
        "within": study.within_ratio,
        "kind": None if study.kind == "none" else study.kind,
        "min_window": study.min_window_s,
    }
    if study.config.text:
        found = {
            **{f"study.{name}": text for name, value in taken.items() for _, text in _flat(value)},
            **found,
        }
    return found


def _is_as_fast(one: str | None, other: str | None) -> bool:
    try:
        clocks = [float((text or "").split()[0]) for text in (one, other)]
    except (ValueError, IndexError):
        return False
    return abs(clocks[0] - clocks[1]) <= _FREQUENCY_NOISE * max(clocks)


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf of a config with its place, as ``study.window``; null values are left out."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{place}.{name}" if place else str(name))
    elif value not in (None, []):
        yield place, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shorten(text: str | None) -> str | None:
    """Return *text* with at most `_MOST_SHOWN` characters."""
    return text if text is None or len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} ..."
