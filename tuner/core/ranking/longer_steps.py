"""The next steps of a race whose answer loses throughput or grows in memory: see `longer_launch`."""

from __future__ import annotations

from tuner.core.ranking.launch_trends import loss_per_h
from tuner.core.ranking.race_result import leader
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.step_case import Case, NextStep
from tuner.core.text.durations import render_exact_duration


def is_changing(ranking: Ranking) -> bool:
    """Whether the answer of a race is shown to lose throughput or to grow in memory, by its windows alone."""
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
    """Race the layouts again in long windows, where a longer launch contradicts the answer."""
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
    """Race the layouts that are not shown to exceed a limit; None: there are none."""
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
