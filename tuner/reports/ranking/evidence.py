"""Reservations about a study's figures (other processes, weakened settings), as text and JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tuner.core.defaults import MEMORY_PRESSURE_RATIO, SHORTEST_IN_TURNS_S, SHORTEST_WINDOW_S
from tuner.core.domain.layout import OMP
from tuner.core.domain.provenance import GIL_MODULE
from tuner.core.domain.records import StudyRecord
from tuner.core.messages import launch as messages
from tuner.core.messages.host import host_speed
from tuner.core.ranking.ranked import Ranking
from tuner.core.text.figures import busy_cores, percent, pluralize, render_duration
from tuner.core.windows.layout_check import InnerThreads, describe_extra_threads, inner_threads_of
from tuner.core.windows.other_processes import Others
from tuner.core.windows.validity import most_foreign_cores
from tuner.reports.ranking.trends import describe_trends

# Settings that permit disturbances which the defaults exclude; each answer based on them mentions them.

USUAL_ATTEMPTS = 3


def weakened_settings(study: StudyRecord) -> tuple[str, ...]:
    """Return the settings of *study* that are weaker than usual, each with the usual value."""
    found = []
    usual_cores, limit_cores = (
        most_foreign_cores(one) for one in (replace(study, foreign_limit_cores=None), study)
    )
    if limit_cores > usual_cores:
        found.append(
            "windows count unless other processes use more than"
            f" {pluralize(limit_cores, 'core', 'g')} (usual: {usual_cores:g})"
        )
    if study.memory_pressure_limit_ratio > MEMORY_PRESSURE_RATIO:
        share, usual = percent(study.memory_pressure_limit_ratio), percent(MEMORY_PRESSURE_RATIO)
        found.append(f"tasks may wait for memory in {share} of a window that counts (usual: {usual})")
    if study.max_attempts > USUAL_ATTEMPTS:
        found.append(f"an invalid window is tried {study.max_attempts} times (usual: {USUAL_ATTEMPTS})")
    if study.warmup_s is not None:
        warmup = f"of {render_duration(study.warmup_s)}" if study.warmup_s else "skipped"
        found.append(f"warm-up {warmup} (usual: until it has settled)")
    if not study.warms_cache:
        found.append("no launch to warm the page cache (usual: one)")
    usual_s = SHORTEST_WINDOW_S if study.n_resident == 1 else SHORTEST_IN_TURNS_S
    if study.shortest_window_s < usual_s:
        window = render_duration(study.shortest_window_s)
        found.append(f"windows of {window} (usual: {render_duration(usual_s)} or more)")
    return tuple(found)


LEAST_TOLD_CORES = 0.005  #: smallest number of cores that is reported


def format_other_cores(others: Others) -> str:
    """Return the CPU use of other processes: ``1.70 of 2 cores``, or a range if layouts differ."""
    text = f"{others.cores:.2f} of {others.host_cores:g} cores on average"
    if others.spread > others.within:
        low = min(others.of_layout, key=lambda layout: others.of_layout[layout])
        high = max(others.of_layout, key=lambda layout: others.of_layout[layout])
        text += (
            f", from {busy_cores(others.of_layout[low])} during {low}"
            f" to {busy_cores(others.of_layout[high])} during {high}"
        )
    return text


def describe_no_evidence(ranking: Ranking) -> list[str]:
    """Return a sentence on why the figures are no evidence for a quiet host; none if they are."""
    others = ranking.others
    if others is None or not others.is_no_evidence:
        return []
    what = (
        "These figures hold for a host as busy as this one"
        if others.holds_as_busy
        else "Not evidence for this service alone"
    )
    return [
        f"{what}: other processes used {format_other_cores(others)}. {_cost(others)}, so that another layout"
        " may be best on a quiet host."
    ]


def describe_others(ranking: Ranking) -> list[str]:
    """Return a sentence on the CPU use of other processes and its effect; none if `describe_no_evidence`
    has it.
    """
    others = ranking.others
    if others is None or others.is_no_evidence or others.cores < LEAST_TOLD_CORES:
        return []
    text = f"Other processes used {format_other_cores(others)}"
    if not others.can_change_a_result:
        return [f"{text}."]
    within = percent(others.within)
    return [f"{text}. {_cost(others)}; the margin of the result is {within}."]


def describe_caveats(study: StudyRecord, ranking: Ranking) -> list[str]:
    """Return reservations about the figures, a sentence each, to be shown next to the answer."""
    others = ranking.others
    has_doubt = others is not None and others.can_change_a_result
    reported = [*(describe_others(ranking) if has_doubt else []), *describe_weakened_settings(study)]
    reported += [*describe_gil(study), *describe_inner_threads(study), *describe_trends(ranking)]
    return [*reported, *describe_host_speed(ranking)]


def describe_host_speed(ranking: Ranking) -> list[str]:
    """Return on which hosts the test computation became slower or faster, a sentence each."""
    found = []
    for one in ranking.speed_changes:
        since = datetime.fromtimestamp(one.from_wall_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        host = one.box if ranking.boxes is not None else ""
        ends = (one.slower.mean, one.slower.low, one.slower.high)
        slower, least, most = (0.0 if end is None else end for end in ends)
        text = host_speed(host, slower, least, most, since).text
        found.append(f"{text[0].upper()}{text[1:]}.")
    return found


def describe_weakened_settings(study: StudyRecord) -> list[str]:
    """Return a sentence on settings that are weaker than usual; none if there are none."""
    found = weakened_settings(study)
    return [f"Measured with weaker settings than usual: {'; '.join(found)}."] if found else []


def describe_gil(study: StudyRecord) -> list[str]:
    """Return where workers of a free-threaded Python ran with a GIL, a sentence each; none if there are
    none.
    """
    workers = study.provenance.workers
    return [
        f"{text[0].upper()}{text[1:]}."
        for variant in _variants(study)
        if workers.gil_came_back(variant)
        for text in [messages.gil_came_back(workers.fact(GIL_MODULE, variant), variant).text]
    ]


def _variants(study: StudyRecord) -> list[str]:
    return list(dict.fromkeys(layout.variant for layout in study.layouts))


def describe_inner_threads(study: StudyRecord) -> list[str]:
    """Return sentences on layouts that computed in more threads than they have, and why; none without any."""
    is_measured = OMP in study.config.service.axes
    return describe_extra_threads(inner_threads_of(study), study.box_cores, is_measured=is_measured)


def _cost(others: Others) -> str:
    """Return which layout lost most by other processes, and its largest loss, in two digits."""
    layout, lost = max(others.lost.items(), key=lambda one: one[1])
    share = f"{100 * lost:.2g} %" if lost < 0.995 else percent(lost)
    return f"The CPU that they used may have cost {layout} up to {share} of its throughput"


def evidence_facts(study: StudyRecord, ranking: Ranking) -> dict[str, Any]:
    """Return the same as JSON fields."""
    others, workers, variants = ranking.others, study.provenance.workers, _variants(study)
    return {
        "weakened_by": list(weakened_settings(study)),
        "worker_gil": {
            variant: {True: "on", False: "off", None: None}[workers.has_gil(variant)] for variant in variants
        },
        "gil_came_back": [variant for variant in variants if workers.gil_came_back(variant)],
        "inner_threads": [_inner_facts(one) for one in inner_threads_of(study)],
        "other_processes": None
        if others is None
        else {
            "cores": others.cores,
            "share": others.share,
            "by_layout": {str(layout): cores for layout, cores in others.of_layout.items()},
            "can_change_a_result": others.can_change_a_result,
            "is_no_evidence": others.is_no_evidence,
        },
    }


def _inner_facts(one: InnerThreads) -> dict[str, Any]:
    return {
        "layout": str(one.layout),
        "n_threads": one.n_threads,
        "n_inner": one.n_inner,
        "libraries": [
            {"name": pool.library, "variable": pool.variable or None, "value": pool.value}
            for pool in one.loaded.pools
        ],
        "is_environment_read": one.loaded.is_environment_read,
    }
