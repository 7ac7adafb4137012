"""Sentences of the ranking: headline, method, verdict and notes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tuner.core.domain.records import StudyRecord, describe_assumed_memory
from tuner.core.ranking.ranked import RankedLayout, Ranking, value_of
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import list_names, pluralize, render_duration
from tuner.reports.ranking.answer import answer_notes
from tuner.reports.ranking.boxes import boxes_notes
from tuner.reports.ranking.evidence import (
    describe_gil,
    describe_host_speed,
    describe_inner_threads,
    describe_no_evidence,
    describe_others,
    describe_weakened_settings,
)
from tuner.reports.ranking.groups import condition_of, describe_groups, group_name
from tuner.reports.ranking.latency import latency_notes
from tuner.reports.ranking.limits import describe_limits
from tuner.reports.ranking.next_step import grown_sentences
from tuner.reports.ranking.trends import describe_trends

#: definitions of the figures of load, one sentence each
LOAD_TOLD = (
    "load: the settled load, which is load1 (1-minute load average) in the long run, without load of the"
    " previous layout."
)
SLICES_LOAD_TOLD = (
    "load: the settled load, which is load1 in the long run or, in slices, the mean number of tasks that were"
    " active in the layout's slices."
)
OWN_LOAD_TOLD = (
    "load: the settled load, which is a load average in the long run, of the service's tasks alone; the"
    " kernel's load average is of the host."
)
SETTLED_TOLD = "Settled load: load1 in the long run, without load of the previous layout; limits apply to it."
ADJUSTED_TOLD = (
    "Settled load: load1 in the long run, without load of the previous layout, adjusted for differences"
    " between blocks; limits apply to the mean without this adjustment."
)


def describe_load(study: StudyRecord) -> str:
    """Return the kind of load in a table: the kernel's, that of slices, or that of a container's tasks."""
    if study.provenance.load_of is not None:
        return OWN_LOAD_TOLD
    return SLICES_LOAD_TOLD if study.n_resident > 1 else LOAD_TOLD


def headline(study: StudyRecord, ranking: Ranking | None = None) -> str:
    """Return what was measured, where and when, in one sentence."""
    day = datetime.fromtimestamp(study.created_wall_s, UTC).strftime("%Y-%m-%d")
    boxes = None if ranking is None else ranking.boxes
    host = study.provenance.host if boxes is None else pluralize(len(boxes.levels), "host")
    layouts = pluralize(len(study.layouts), "layout")
    where = f"{study.service}{f' on {host}' if host else ''}, {day}"
    return f"{where}: {layouts} for {pluralize(study.cores, 'core')}, {describe_method(study)}."


def describe_method(study: StudyRecord) -> str:
    """Return the method of the study, in a few words."""
    shortest, longest = render_duration(study.shortest_window_s), render_duration(study.window_s)
    if study.strategy == "race":
        return f"a race in windows of {longest if shortest == longest else f'{shortest} to {longest}'}"
    if study.strategy == "check":
        of = study.provenance.check_of
        return f"a check of {'another study' if of is None else of} in windows of {longest}"
    if study.strategy == "aa":
        launches, windows = 2 * study.n_blocks, pluralize(study.windows_per_launch, "window")
        return f"compared with itself: {launches} launches in pairs, each of {windows} of {longest}"
    return f"{pluralize(study.n_blocks, 'block')} of {longest} windows"


def verdict(ranking: Ranking) -> str:
    """Return the result on the best layout, in one sentence."""
    best = ranking.of_group("best-or-tied")
    if best and ranking.starved:
        return (
            f"No layout can be called best: {best[0].layout} measured best, under a load that was too small."
        )
    if not best and any(row.is_kept_out for row in ranking.rows):
        return f"No layout is shown to keep {describe_limits(ranking)}."
    if not best:
        return "No layout could be ranked; the reasons are below."
    level = level_of(ranking)
    if ranking.limits:
        return f"Among layouts that keep {describe_limits(ranking)}: {_verdict_on(best, ranking, level)}"
    return _verdict_on(best, ranking, level)


def _verdict_on(best: Sequence[RankedLayout], ranking: Ranking, level: str) -> str:
    if sum(row.rank is not None for row in ranking.rows) == 1:
        return f"Only {best[0].layout} could be ranked, so there is nothing to compare it with."
    claimed = f"({level}, corrected for all pairs, {condition_of(ranking)})"
    tied, open_ = best[1:], ranking.of_group("not-ruled-out")
    if not tied and not open_:
        worse = group_name("slower", ranking.objective)
        return f"{best[0].layout} is best: all others are significantly {worse} {claimed}."
    lines = describe_groups([row.layout for row in tied], [row.layout for row in open_])
    return f"{'; '.join([f'{best[0].layout} measured best', *lines])} {claimed}."


def notes(study: StudyRecord, ranking: Ranking) -> list[str]:
    """Return the limits of the ranking, a sentence each; every export contains them."""
    found = [
        *reservations(study, ranking),
        *describe_others(ranking),
        *describe_weakened_settings(study),
        *describe_gil(study),
    ]
    found += [*describe_inner_threads(study), *describe_trends(ranking)]
    found += describe_host_speed(ranking)
    found += [*describe_assumed_memory(study), *boxes_notes(ranking), *grown_sentences(study)]
    found += _cautions(study)
    found += latency_notes(study, ranking)
    in_pairs = 2 if study.strategy == "aa" else 1
    asked = in_pairs * len(study.layouts) * study.n_blocks * study.windows_per_launch
    measured = sum(row.n_windows for row in ranking.rows)
    if measured < asked and ranking.claim is None:
        found.append(f"Measured: {measured} of the {pluralize(asked, 'window')} planned.")
    if ranking.claim is not None:
        found += answer_notes(ranking.claim)
    found += ranking.notes
    found += [*ranking.settling, *ranking.settling_facts]
    if ranking.unbound is not None:
        found.append(ranking.unbound)
    return [*found, *_why_not_ranked(ranking)]


def holds_as_busy(ranking: Ranking) -> bool:
    """Return whether the result holds, but only for a host as busy as this one."""
    return ranking.others is not None and ranking.others.holds_as_busy


def reservations(study: StudyRecord, ranking: Ranking) -> list[str]:
    """Return where the ranking does not hold, and reasons not to act on it, a sentence each; usually none."""
    return [*describe_no_evidence(ranking), *_not_to_act_on(study, ranking)]


def reasons_against(study: StudyRecord, ranking: Ranking) -> list[str]:
    """Return reasons not to act on the ranking, a sentence each; usually none."""
    own = [] if holds_as_busy(ranking) else describe_no_evidence(ranking)
    return [*own, *_not_to_act_on(study, ranking)]


def _not_to_act_on(study: StudyRecord, ranking: Ranking) -> list[str]:
    found = []
    if ranking.starved:
        found.append(
            f"The load generator's connections were the bottleneck of {list_names(ranking.starved)}: their "
            "figures show how many requests were sent at once, not the capacity of the layouts, so there is "
            "no result."
        )
    if study.is_for_larger_host:
        found.append(
            f"Layouts for {pluralize(study.cores, 'core')} measured on {study.box_cores:g}:"
            " the best layout there need not be the best on the larger host."
        )
    if study.provenance.is_quick:
        found.append("A first look with short windows: not a result to act on.")
    return found


def _cautions(study: StudyRecord) -> list[str]:
    """Return known cautions on the service: work lost at a stop, the cost of counting."""
    cautions = study.config.service.cautions.values()
    return [text if text.endswith(".") else f"{text}." for text in cautions]


def _why_not_ranked(ranking: Ranking) -> list[str]:
    """Return why layouts have no rank, a sentence for each reason."""
    of_reason: dict[str | None, list[str]] = {}
    for row in ranking.rows:
        if row.rank is None and not row.is_kept_out:  # the table of limits shows those
            of_reason.setdefault(row.reason, []).append(str(row.layout))
    return [
        f"{', '.join(layouts)} {'is' if len(layouts) == 1 else 'are'} not ranked: {reason}."
        for reason, layouts in of_reason.items()
    ]


def describe_noise(ranking: Ranking) -> list[str]:
    """Return a sentence on the host's noise, by source; none if the study cannot estimate it."""
    known_launch = ranking.noise.launch is not None and ranking.noise.launch.mean
    sources = (
        ("between windows", ranking.noise.window),
        ("between launches", ranking.noise.launch),
        ("between launches (with that of their windows)", None if known_launch else ranking.noise.residual),
        ("between blocks", ranking.noise.drift),
    )
    known = [f"{name} {_format_spread(sd)}" for name, sd in sources if sd is not None]
    return [f"Noise (standard deviation, {level_of(ranking)}): {', '.join(known)}."] if known else []


def _format_spread(sd: Estimate) -> str:
    """Return a standard deviation that is a ratio, as ``1.4 % (0.8 to 2.9)``."""
    low, mean, high = ("-" if x is None else f"{100 * x:.1f}" for x in (sd.low, sd.mean, sd.high))
    return f"{mean} % ({low} to {high})"


def level_of(ranking: Ranking) -> str:
    """Return the confidence, as ``95 %``."""
    return f"{100 * ranking.confidence:g} %"


def value_ranked_by(row: RankedLayout, ranking: Ranking) -> Estimate:
    """Return the ranked value, with the interval of the layout alone."""
    return value_of(row, ranking.objective)
