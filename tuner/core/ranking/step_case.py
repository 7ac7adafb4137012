"""The facts that the rules of the next step use: the study, its ranking, the edge of its grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from typing import TYPE_CHECKING, Literal, get_args

from tuner.core.defaults import NO_GAIN_RATIO
from tuner.core.domain.fleet import LOST, is_fleet
from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import LimitVerdict, Quantity, limits_from
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord, resume_arguments
from tuner.core.domain.safety_limits import OPTIONS
from tuner.core.ranking.overview import Ending, Overview
from tuner.core.ranking.race_result import leader
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.search.growth import MAY_HELP, MOST_THREADS, double, growth_of, opens_too_many
from tuner.core.text.figures import percent, pluralize, render_exact_duration, render_rest

if TYPE_CHECKING:
    from tuner.core.model.diagnosis.diagnose import Diagnosis

Slug = Literal[
    "watch",
    "pairs",
    "check",
    "begin",
    "disturbed",
    "invalid-windows",
    "few-clients",
    "first-look",
    "limits",
    "edge",
    "slices",
    "go-on",
    "too-noisy",
    "longer",
    "latency",
    "simulated",
    "check-later",
    "export",
]
SLUGS: tuple[Slug, ...] = get_args(Slug)

#: reasons for an invalid window that are due to the host and not the service
OF_HOST = ("disturbed", "stolen", "memory-pressure", "clock-jumped", "stalled")
_MOST_LAYOUTS = 12  #: most layouts named in a command; a race with more begins with all layouts
NOISY_SD = 0.05  #: standard deviation of throughput between launches of a layout; quiet hosts have 1 to 2 %
#: share of invalid windows of a study without an answer, above which their cause must be fixed
MOST_INVALID = 0.25
AS_BUSY = "on a host as busy as this one"  #: where a result holds if other processes disturbed all layouts


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next step for the user: the reason, and the words of one command."""

    slug: Slug
    sentence: str  #: reason, and effect of the command; ends with a colon
    words: tuple[str, ...]  #: words of the command, not quoted


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts, in addition to the study and its ranking, that a next step depends on."""

    file: str  #: path of the study as the user types it
    ending: Ending | None = None  #: reason why the study has ended; None: unknown, or not checked
    is_held: bool = False  #: whether a tuner measures the study now
    invalid: Mapping[str, int] = field(default_factory=dict)  #: reason -> number of windows
    n_launches: int = 1  #: number of started launches
    n_failed: int = 0  #: number of launches with an error of their own
    n_invalid: int = 0  #: number of invalid windows, each counted once regardless of its reasons
    n_of_host: int = 0  #: number of invalid windows with a reason in `OF_HOST`
    #: True: the study had no slices, but its layouts can take turns; False: otherwise, or unknown
    can_slice: bool = False


def facts_of(overview: Overview, file: str, *, at_any_time: bool = False) -> Facts:
    """Return the facts for a next step of a study; *file* is its name as typed.

    *at_any_time*: ignore whether a tuner measures the study at the moment.
    """
    void = [
        {reason.slug for reason in window.void}
        for window in overview.windows
        if window.void and window.block != WARMING_BLOCK
    ]
    invalid = Counter(slug for slugs in void for slug in slugs)
    ending: Ending | None = None
    if overview.is_over is not None:
        ending = "over" if overview.is_over else "out-of-budget" if overview.is_spent else "cut-off"
    return Facts(
        file=file,
        ending=ending,
        is_held=overview.is_held and not at_any_time,
        invalid=invalid,
        n_launches=len(overview.launches),
        n_failed=sum(
            one.error is not None and not one.error.startswith(LOST) for _, one in overview.launches
        ),
        n_invalid=len(void),
        n_of_host=sum(not slugs.isdisjoint(OF_HOST) for slugs in void),
        can_slice=overview.can_slice,
    )


@dataclass(frozen=True, slots=True)
class Case:
    """A study with all the data that the rules use."""

    study: StudyRecord
    ranking: Ranking
    facts: Facts

    @property
    def best(self) -> RankedLayout | None:
        """Return the row of the named layout, or None."""
        return self.ranking.best

    @property
    def is_answered(self) -> bool:
        """Return whether a layout is named with the requested confidence."""
        claim = self.ranking.claim
        return self.best is not None and (claim is None or claim.answer.reached)

    @property
    def usable(self) -> str:
        """Return when or where the named layout can be used, as a part of a sentence."""
        if self.study.is_for_larger_host:
            return (
                f"can be used once a study on a host with {pluralize(self.study.cores, 'core')} confirms it"
            )
        others = self.ranking.others
        where = AS_BUSY if others is not None and others.holds_as_busy else "now"
        return f"can be used {where}"

    @property
    def rivals(self) -> tuple[Layout, ...]:
        """Return the named layout, and each that may be as good, likeliest first."""
        first = leader(self.ranking)
        groups = ("best-or-tied", "not-ruled-out")
        others = [row.layout for row in self.ranking.rows if row.group in groups]
        return tuple(dict.fromkeys([*([] if first is None else [first.layout]), *others]))

    @property
    def expected_rest(self) -> str:
        """Return the expected rest of a race, in brackets after a space; empty: not known."""
        rest = None if self.ranking.claim is None else self.ranking.claim.rest
        return "" if rest is None else f" ({render_rest(rest.lasts_s)} more are expected)"

    def anew(self, *options: str) -> tuple[str, ...]:
        """Return the command of a new study that differs from this one in *options*."""
        before, after = resume_arguments(self.study)
        fleet = ["--fleet", "ADDRESS"] * is_fleet(self.study)
        return (
            "tuner",
            "grid",
            *before,
            "--like",
            self.facts.file,
            *options,
            *options_again(self),
            *fleet,
            *after,
        )

    def going_on(self) -> tuple[str, ...]:
        """Return the command that continues the study."""
        before, after = resume_arguments(self.study)
        made_by = self.study.provenance.command.split()
        fleet = ["--fleet", "ADDRESS"] * is_fleet(self.study)
        return (*made_by, *before, "--resume", self.facts.file, *fleet, *after)

    def of(self, command: str, *options: str) -> tuple[str, ...]:
        """Return a command that reads the study."""
        return ("tuner", command, self.facts.file, *options)


def is_noisy(ranking: Ranking) -> bool:
    """Return whether the throughput of a layout varies so much between launches that slices may save time."""
    noise = ranking.noise
    found = noise.residual if noise.launch is None or not noise.launch.mean else noise.launch
    return found is not None and found.mean is not None and found.mean >= NOISY_SD


def options_again(case: Case) -> list[str]:
    """Return the options of the ranking that other commands need for the same result."""
    study, ranking = case.study, case.ranking
    words = [] if ranking.objective == study.objective else ["--objective", ranking.objective]
    if ranking.limits != limits_from(study.limits):
        for limit in ranking.limits:
            words += [OPTIONS[limit.name], exact_amount(limit.name, limit.at_most)]
    if ranking.horizon_s != study.horizon_s:
        words += ["--horizon", render_exact_duration(ranking.horizon_s)]
    return words


def exact_amount(name: Quantity, value: float) -> str:
    """Return a limit in the form that its option parses back exactly."""
    if name == "p95_s":
        return render_exact_duration(value)
    per_unit, unit = (1024, "KiB") if name == "memory_bytes" else (1, "")
    return f"{repr(value / per_unit).removesuffix('.0')}{unit}"


def config_again(study: StudyRecord) -> list[str]:
    """Return the config if a check needs it again; see `tuner.core.domain.records`."""
    before, after = resume_arguments(study)
    return before or ["CONFIG"] * bool(after)


def is_nothing_ranked(case: Case) -> bool:
    """Return whether no layout has a rank, for other reasons than limits."""
    return case.best is None and not any(row.is_kept_out for row in case.ranking.rows)


def has_too_many_invalid(case: Case) -> bool:
    """Return whether so many windows are invalid that their cause must be fixed first."""
    n_invalid = sum(row.n_void for row in case.ranking.rows)
    n_valid = sum(row.n_windows for row in case.ranking.rows)
    if not n_invalid or not case.facts.invalid:
        return False
    is_much = n_invalid > MOST_INVALID * (n_invalid + n_valid)
    return is_nothing_ranked(case) or (is_much and (case.ranking.claim is None or not case.is_answered))


def layouts_option(case: Case, *, always: bool = False) -> list[str]:
    """Return the option with the layouts that may be best; empty if these are all, or too many to name."""
    rivals = case.rivals
    if len(rivals) < 2 and not always:
        return []
    if len(rivals) > _MOST_LAYOUTS or len(rivals) == len(case.study.layouts):
        return []
    return ["--layouts", ",".join(map(str, rivals))]


def amount_above(name: Quantity, value: float) -> str:
    """Return a round value of an option that is no less than *value*."""
    if name == "memory_bytes":
        return f"{ceil(value / 1e6)}MB"
    if name == "load":
        return f"{ceil(10 * value) / 10:g}"
    return f"{ceil(1000 * value)}ms"


def nearest_to_limits(kept_out: Sequence[RankedLayout]) -> tuple[Layout, tuple[LimitVerdict, ...]] | None:
    """Return the layout that exceeds its limits by the least factor, with its findings, or None."""
    known = [
        (row.layout, row.verdict.findings)
        for row in kept_out
        if row.verdict is not None and all(one.level for one in row.verdict.findings)
    ]
    return min(
        known, key=lambda one: max(upper_usage(found) / found.limit.at_most for found in one[1]), default=None
    )


def upper_usage(finding: LimitVerdict) -> float:
    """Return the upper end of a layout's usage, now and after the horizon."""
    now = finding.estimate.high or finding.level or 0.0
    if finding.later is None:
        return now
    later = finding.later.estimate
    return max(now, later.high or later.mean or 0.0)


# Whether the answer lies at the edge of the measured layouts, while none of its stations is full.


_MOST_DOUBLINGS = 6  #: most doublings that are proposed at once
_NAMES_ONE = ("race", "all")  #: strategies that name a best layout


@dataclass(frozen=True, slots=True)
class Wider:
    """Finding that more threads, or processes, than those of the answer give more throughput."""

    leader: Layout
    #: True: threads wait for nothing that items share, so more threads will help; False: they may help
    is_sure: bool
    cpu_ratio: float | None  #: share of the cores that the service uses
    larger: tuple[Layout, ...]  #: layouts to measure next, smallest first; empty: see *refused*
    #: reason why larger layouts are not possible, as part of a sentence; empty: there is none
    refused: str = ""

    @property
    def sentence(self) -> str:
        """Return the sentence that more threads or processes give more, with the reason."""
        what = "threads" if self.leader.has_threads else "processes"
        used = None if self.cpu_ratio is None else percent(round(self.cpu_ratio, 2))
        return (
            f"More {what} {'will' if self.is_sure else 'may'} give more: {self.leader} has the most {what} of"
            " these layouts, and they wait most of the time"
            f"{'' if used is None else f' (the service uses {used} of the cores)'}."
        )


def wider_than(study: StudyRecord, ranking: Ranking, diagnoses: Sequence[Diagnosis]) -> Wider | None:
    """Return the layouts to measure beyond those of *study*; None if nothing shows that more would give more.

    It is None, too, if scouts measured twice as many, and these gave no more.
    """
    from tuner.core.model.diagnosis.diagnose import BUSY

    first = leader(ranking)
    if first is None or study.strategy not in _NAMES_ONE or ranking.objective != "throughput":
        return None
    found = next((one for one in diagnoses if one.layout == first.layout), None)
    measured = [row.layout for row in ranking.rows if row.n_windows]
    if found is None or not _is_at_edge(first.layout, measured):
        return None
    is_full = any(what not in MAY_HELP for what in found.what)
    # if other processes keep the cores busy, the CPU left for more threads is not known
    if (
        is_full
        or found.utilization["cores"].value >= BUSY
        or (found.gain_ratio is not None and found.gain_ratio < NO_GAIN_RATIO)
    ):
        return None
    growth = growth_of(study)
    way = None if growth is None else growth.way_of(first.layout.variant)
    if way is not None and way.ended == "no-gain":
        return None
    gil = found.utilization.get("gil")
    busiest = max(first.cpu_ratio or 0.0, 0.0 if gil is None else gil.value)
    larger, refused = _larger(study, first.layout, busiest)
    return Wider(
        first.layout,
        found.what[0] == "waiting",
        first.cpu_ratio,
        () if way is not None and way.why else larger,
        refused if way is None else way.why or refused,
    )


def _is_at_edge(layout: Layout, measured: Sequence[Layout]) -> bool:
    """Return whether no other layout of its variant has at least as many processes and threads in each."""
    return not any(
        other.variant == layout.variant
        and other != layout
        and other.processes >= layout.processes
        and other.threads >= layout.threads
        for other in measured
    )


def _larger(study: StudyRecord, edge: Layout, busiest: float) -> tuple[tuple[Layout, ...], str]:
    """Return doublings of *edge* until its *busiest* station would be full, and why the first is refused."""
    n = min(_MOST_DOUBLINGS, max(1, ceil(log2(1 / busiest)))) if busiest > 0 else _MOST_DOUBLINGS
    found: list[Layout] = []
    for _ in range(n):
        layout = double(found[-1] if found else edge)[0]
        if layout.total_threads > MOST_THREADS:
            break
        if why := opens_too_many(study.config, layout):
            return tuple(found), "" if found else why
        found.append(layout)
    return tuple(found), "" if found else f"{edge} has {edge.total_threads} threads in all already"
