"""Conditions of a study (host, system, time, input, limits), a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import IMPLEMENTATION, PYTHON, VERSION, Provenance, WorkerFacts
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord, is_simulated
from tuner.core.domain.service import connections_of
from tuner.core.ranking.overview import Overview
from tuner.core.text.figures import format_kept_size, pluralize, render_rest
from tuner.reports.documents.plain import shell_line
from tuner.reports.ranking.evidence import format_other_cores
from tuner.reports.ranking.limits import describe_limits
from tuner.reports.ranking.ranking_words import describe_method

_SHORT_REVISION = 12


def describe_conditions(overview: Overview) -> Iterator[str]:
    """Yield host, system, revision, time, input and limits; unknown facts are left out, except the
    revision.
    """
    study, ranking = overview.study, overview.ranking
    facts = study.provenance
    yield f"Host: {_box(study)}."
    system = [facts.os or "", "" if facts.kernel is None else f"kernel {facts.kernel}"]
    if any(system):
        yield f"System: {_join(system)}."
    if not is_simulated(study):
        yield f"Revision: {_release(facts.git_revision or '')}."
    yield f"Software: {_join(_software(facts))}."
    yield f"Time: {_when(overview)}."
    layouts = pluralize(len(study.layouts), "layout")
    yield f"Study: {layouts} for {pluralize(study.cores, 'core')}, {describe_method(study)}."
    yield f"Windows: {_windows(overview)}."
    if ranking.others is not None:
        yield f"Other processes on the host: {format_other_cores(ranking.others)}."
    yield f"Input: {_input(study)}."
    if ranking.limits:
        yield f"Limits: {describe_limits(ranking)}."


def ended_wall_s(overview: Overview) -> float | None:
    """Return the time at which the study's last launch or window ended; None: there was none."""
    ends = [one.started_wall_s + one.length_s for one in overview.windows]
    ends += [launch.ended_wall_s for _, launch in overview.launches if launch.ended_wall_s is not None]
    return max(ends, default=None)


def planned_connections(study: StudyRecord, layout: Layout) -> int | None:
    """Return the number of connections that *layout* opens; None: unknown for a process."""
    per_process = study.config.service.connections
    if per_process == "threads" or isinstance(per_process, int):
        return connections_of(layout, per_process)
    return None


def _box(study: StudyRecord) -> str:
    facts = study.provenance
    clock = "" if facts.cpu_frequency is None else f" at {facts.cpu_frequency}"
    return _join(
        [
            facts.host or "",
            pluralize(study.box_cores, "core"),
            "" if facts.cpu is None else f"{facts.cpu}{clock}",
            "" if facts.memory is None else f"{format_kept_size(facts.memory)} of memory",
            (facts.virtualization or "").replace("none seen", ""),
        ]
    )


def _release(revision: str) -> str:
    if not revision:
        return "unknown, because tuner did not run in a git checkout"
    if revision.endswith("+"):
        return f"{revision[:_SHORT_REVISION]} of the folder that tuner ran in, with uncommitted changes"
    return f"{revision[:_SHORT_REVISION]} of the folder that tuner ran in"


def _gil(workers: WorkerFacts, variant: str) -> str:
    return " without a GIL" if workers.has_gil(variant) is False else ""


def _software(facts: Provenance) -> list[str]:
    workers = facts.workers
    of_variants = [
        f"{python}{_gil(workers, variant)} in the workers of {variant}"
        for variant, python in workers.by_variant(PYTHON).items()
    ]
    worker = workers.of_all(PYTHON) or _join(
        [workers.of_all(IMPLEMENTATION) or "", workers.of_all(VERSION) or ""], " "
    )
    return [
        *of_variants,
        f"{worker}{_gil(workers, '')} in the workers" if worker and not of_variants else "",
        "an unknown tuner" if facts.tuner is None else f"tuner {facts.tuner}",
        "" if facts.supervisor is None else f"supervisor {facts.supervisor}",
    ]


def _when(overview: Overview) -> str:
    study, ended = overview.study, ended_wall_s(overview)
    began = datetime.fromtimestamp(study.created_wall_s, UTC)
    if ended is None:
        return f"started {began:%Y-%m-%d %H:%M} UTC"
    end = datetime.fromtimestamp(ended, UTC)
    to = f"{end:%H:%M}" if end.date() == began.date() else f"{end:%Y-%m-%d %H:%M}"
    in_windows = sum(one.length_s for one in overview.windows)
    return f"{began:%Y-%m-%d %H:%M} to {to} UTC, with {render_rest(in_windows)} of windows"


def _windows(overview: Overview) -> str:
    windows = [one for one in overview.windows if one.block != WARMING_BLOCK]
    void = [one for one in windows if one.void]
    if not void:
        return f"{len(windows)} valid, none invalid"
    reasons = Counter(reason.slug for one in void for reason in one.void)
    text = ", ".join(f"{slug} {count}" for slug, count in sorted(reasons.items()))
    return f"{len(windows) - len(void)} valid, {len(void)} invalid ({text})"


def _input(study: StudyRecord) -> str:
    if is_simulated(study):
        return f"none; a model of {study.provenance.simulated} gave the figures"
    service, feeder = study.config.service, study.config.service.feeder
    if service.kind != "script":
        if dumps := service.section.get("dumps"):
            return f"the crash dumps in {dumps}, repeated"
        return f"synthetic crash dumps (seed {service.section.get('seed', 1)}), repeated"
    kind = feeder.get("kind")
    if kind == "http":
        return f"requests to {feeder.get('url')}, {_rate(feeder)}"
    if kind == "queue":
        return f"clones of the messages in {feeder.get('sample')}, put into {feeder.get('queue')}"
    if kind == "command":
        return f"items from this command: {shell_line([str(word) for word in feeder['command']])}"
    if kind in ("none", None):
        return "items that the service gets without tuner"
    return str(kind)


def _rate(feeder: Mapping[str, Any]) -> str:
    rate = feeder.get("rate")
    if rate is None:
        clients, how = feeder.get("clients"), feeder.get("connections")
        many = "clients" if not isinstance(clients, int) else pluralize(clients, "client")
        held = f" on {how} connections" if isinstance(how, str) else ""
        return f"by {many}{held}, each sends the next request when the last one is answered"
    return f"{rate:g} a second" if isinstance(rate, int | float) else f"at a rate of {rate}"


def _join(parts: list[str], by: str = ", ") -> str:
    return by.join(part for part in parts if part)
