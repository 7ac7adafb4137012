"""Launches that lose throughput or grow in memory, and the longer launches that check a race's answer.

Windows of minutes at the start of a launch do not show how a service does after an hour. If the launches of
the answer lose more than the margin per hour, or its memory would grow beyond the limit (without a limit:
beyond the memory of the host), both layouts are launched once more, for an hour each. The race does not learn
from these launches, because they measure something else than its windows. They decide whether its answer may
be claimed: it may not if it is below the rival in the second half, and not only because of the noise between
launches, so it also lost more from the first half to the second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, expm1, isfinite

from tuner.core.domain.fleet import is_fleet
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.records import value_of as value_of_window
from tuner.core.domain.strategy import Answer, Proposal
from tuner.core.messages import Message
from tuner.core.messages.launch import memory_confirmed, throughput_confirmed
from tuner.core.ranking.race_result import leader
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.step_case import Case, NextStep
from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import Slope, pool_slopes
from tuner.core.text.figures import parse_size, render_exact_duration
from tuner.core.warmup.report import is_judged
from tuner.core.windows.memory_growth import LONG_S, MemoryGrowth

LASTS_S = 3600.0  #: seconds of windows in each of the two launches
SHORTEST_S = 600.0  #: shortest window, seconds; shorter ones would only need more retries


@dataclass(frozen=True, slots=True)
class Due:
    """Both layouts that a race launches for longer, and the reason."""

    leader: Layout
    rival: Layout | None  #: second layout to launch; None: no other layout may be the best
    loss: Estimate | None  #: loss of throughput per hour; None: not significant
    #: memory growth that would exceed the limit or the host; None: not significant
    growth: MemoryGrowth | None

    def proposals(self, window_s: float) -> list[Proposal]:
        """Return the launches of both; *window_s* is the length of the study's windows in seconds."""
        length_s = max(window_s, SHORTEST_S)
        n = max(2, ceil(LASTS_S / length_s))
        return [Proposal(layout, length_s, n) for layout in (self.leader, self.rival) if layout is not None]

    def messages(self) -> list[Message]:
        """Return the warnings with the reason."""
        found = []
        if self.loss is not None:
            ends = (self.loss.mean or 0.0, self.loss.low or 0.0, self.loss.high or 0.0)
            found.append(throughput_confirmed(self.leader, ends, self.rival, LASTS_S))
        if self.growth is not None:
            found.append(memory_confirmed(self.leader, self.growth.per_h.mean or 0.0, self.rival, LASTS_S))
        return found


def due_of(
    study: StudyRecord,
    answer: Answer,
    estimates: Mapping[Layout, Estimate],
    out: Collection[Layout],
    trend_per_h: Mapping[Layout, Estimate],
    growth: Mapping[Layout, MemoryGrowth],
) -> Due | None:
    """Return which layouts the race in *study* is to launch for longer; None: no need.

    Args:
        study: the race.
        answer: of the race.
        estimates: each measured layout's value.
        out: layouts that cannot be the best: they fail, or exceed a limit.
        trend_per_h: of the throughput of each layout.
        growth: of the memory of each layout.
    """
    leader = answer.layout
    if study.strategy != "race" or is_fleet(study) or leader is None or not answer.reached:
        return None
    loss = loss_per_h(trend_per_h.get(leader), study.within_ratio)
    grows = growth.get(leader)
    if grows is not None and not exceeds(grows, _most_bytes(study)):
        grows = None
    if loss is None and grows is None:
        return None
    others = [layout for layout in estimates if layout != leader and layout not in out]
    rival = max(
        others, key=lambda layout: (layout in answer.ties, estimates[layout].mean or 0.0), default=None
    )
    return Due(leader, rival, loss, grows)


def exceeds(growth: MemoryGrowth, most_bytes: float | None) -> bool:
    """Return whether memory is shown to grow beyond *most_bytes* within the horizon."""
    after = growth.after(Estimate(growth.now_bytes)).mean
    return growth.is_shown and most_bytes is not None and after is not None and after > most_bytes


def _most_bytes(study: StudyRecord) -> float | None:
    """Return the limit of memory in bytes, or else the memory of the host; None if neither is known."""
    if (limit := study.limits.get("memory_bytes")) is not None:
        return limit
    host = study.provenance.memory  # tuner writes it as ``15.6 GiB``
    return parse_size(host.replace(" ", "")) if host else None


def is_longer(study: StudyRecord, launch: LaunchRecord) -> bool:
    """Return whether *launch* is a longer launch of a race, which has several windows instead of one."""
    return study.strategy == "race" and launch.n_windows is not None and launch.n_windows > 1


# The result of both launches.


@dataclass(frozen=True, slots=True)
class Halves:
    """Throughput, or items per CPU second, in both halves of a layout's longer launch."""

    layout: Layout
    lasts_s: float
    early: float
    late: float


@dataclass(frozen=True, slots=True)
class LongerLaunch:
    """A longer launch of a race's answer, and one of its closest rival."""

    leader: Halves
    rival: Halves | None  #: halves of the rival's launch; None: no rival, or no valid window in both halves
    within: float  #: margin of the race

    @property
    def late_ratio(self) -> float | None:
        """Return the leader's throughput as a multiple of the rival's, in the second half."""
        return None if self.rival is None else self.leader.late / self.rival.late

    @property
    def is_overtaken(self) -> bool:
        """Return whether the leader falls below the rival by more than the margin.

        The difference of two launches may be noise between launches, which is the same in both halves, so the
        ratio of both must also fall by more than the margin from the first half to the second.
        """
        if self.rival is None or self.late_ratio is None:
            return False
        early_ratio = self.leader.early / self.rival.early
        return self.late_ratio < (1 - self.within) * min(1.0, early_ratio)


def longer_launch_of(
    study: StudyRecord,
    answer: Answer,
    launches: Iterable[tuple[int, LaunchRecord]],
    windows: Sequence[WindowRecord],
) -> LongerLaunch | None:
    """Return the result of the longer launches of the answer and its rival; None: there are none.

    Args:
        study: the race.
        answer: of the race.
        launches: of the study, with their ids.
        windows: of the longer launches at least.
    """
    wanted = {number: one.layout for number, one in launches if is_longer(study, one)}
    found = {
        layout: halves
        for layout in dict.fromkeys(wanted.values())
        if (halves := _halves(study, layout, [w for w in windows if wanted.get(w.launch_id) == layout]))
    }
    leader = None if answer.layout is None else found.pop(answer.layout, None)
    if leader is None:
        return None
    return LongerLaunch(leader, next(iter(found.values()), None), study.within_ratio)


def _halves(study: StudyRecord, layout: Layout, windows: Sequence[WindowRecord]) -> Halves | None:
    """Return both halves of a longer launch of *layout*; None: a half has no valid window."""
    kept = [window for window in windows if not window.void and value_of_window(window, study.objective)]
    if not kept:
        return None
    n = 1 + max(window.index for window in kept)
    early = [window for window in kept if 2 * window.index < n]
    late = [window for window in kept if 2 * window.index >= n]
    if not early or not late:
        return None
    lasts_s = sum(window.length_s for window in kept)
    return Halves(layout, lasts_s, _mean(study, early), _mean(study, late))


def _mean(study: StudyRecord, windows: Sequence[WindowRecord]) -> float:
    length_s = sum(window.length_s for window in windows)
    return sum((value_of_window(one, study.objective) or 0.0) * one.length_s for one in windows) / length_s


# The next steps of a race whose answer loses throughput or grows in memory: see `longer_launch`.


def is_changing(ranking: Ranking) -> bool:
    """Return whether the answer of a race loses throughput or grows in memory, by its windows alone."""
    claim, row = ranking.claim, leader(ranking)
    if claim is None or row is None or ranking.longer is not None:
        return False
    grows = row.memory_growth is not None and row.memory_growth.is_shown
    return grows or loss_per_h(row.trend_per_h, claim.within) is not None


def measure_for_longer(case: Case) -> NextStep | None:
    """Continue a race that ended before its longer launches."""
    row, is_left = leader(case.ranking), case.facts.ending in ("cut-off", "out-of-budget")
    is_named = case.is_answered or case.ranking.is_answer_kept_out
    if row is None or not is_left or not is_named or not is_changing(case.ranking):
        return None
    return NextStep(
        "go-on",
        f"Launches of {row.layout} change as they last. This launches it and its rival for an hour each, to"
        " find out whether the change continues:",
        case.going_on(),
    )


def race_in_long_windows(case: Case) -> NextStep | None:
    """Race the layouts again in long windows if a longer launch contradicts the answer."""
    seen = case.ranking.longer
    if seen is None or seen.rival is None or not seen.is_overtaken:
        return None
    window = render_exact_duration(round(seen.leader.lasts_s / 60) * 60.0)
    layouts = f"{seen.leader.layout},{seen.rival.layout}"
    return NextStep(
        "longer",
        f"{seen.leader.layout} fell below {seen.rival.layout} in a longer launch. A race in windows of that"
        " length finds out which of them is better:",
        case.anew("--layouts", layouts, "--window", window, "--min-window", window),
    )


def race_without_leaks(case: Case) -> NextStep | None:
    """Race the layouts that are not shown to exceed a limit; None if there are none."""
    claim = case.ranking.claim
    out = {x for x, verdict in case.ranking.verdicts.items() if verdict and verdict.state == "beyond"}
    left = [layout for layout in case.study.layouts if layout not in out]
    if claim is None or not out or not left:
        return None
    return NextStep(
        "limits",
        f"The memory of {claim.answer.layout} grows beyond the limit. A race without such layouts names the"
        " best of the others:",
        case.anew("--layouts", ",".join(map(str, left))),
    )


# Whether launches of a layout lose throughput as they last.


_LEAST_SE = 1e-6  #: least standard error of a slope, per hour, because a simulation may have no noise


def throughput_trends(
    study: StudyRecord, launches: Iterable[LaunchRecord], confidence: float
) -> dict[Layout, Estimate]:
    """Return the trend that the launches of each layout share, in means per hour, with its interval.

    Layouts without a launch that shows a trend are left out. Of a layout with long launches only those count.
    """
    slopes: defaultdict[Layout, list[Slope]] = defaultdict(list)
    for one in launches:
        slope, error = one.trend_ratio_per_h, one.trend_se_ratio_per_h
        if slope is None or error is None or not is_judged(one) or not (isfinite(slope) and isfinite(error)):
            continue
        window_s = study.window_s if one.window_s is None else one.window_s
        n_windows = study.windows_per_launch if one.n_windows is None else one.n_windows
        slopes[one.layout].append(Slope(slope, max(error, _LEAST_SE) ** 2, window_s * n_windows))
    groups = {
        (layout, is_long): [one for one in own if (one.length_s >= LONG_S) is is_long]
        for layout, own in slopes.items()
        for is_long in (False, True)  # the later one counts, the earlier one shows the spread of launches
    }
    return {layout: trend for (layout, _), trend in pool_slopes(groups, confidence).items()}


def loss_per_h(trend: Estimate | None, least_ratio: float) -> Estimate | None:
    """Return the share of its throughput that a layout loses in an hour; None: no loss that matters is shown.

    A loss is shown if the whole interval of the *trend* is below 0, and matters from *least_ratio* on. The
    line is followed as an exponential, which stays below 100 % however steep it is.
    """
    if trend is None or trend.mean is None or trend.low is None or trend.high is None or trend.high >= 0:
        return None
    loss = Estimate(-expm1(trend.mean), -expm1(trend.high), -expm1(trend.low))
    return loss if loss.mean is not None and loss.mean >= least_ratio else None
