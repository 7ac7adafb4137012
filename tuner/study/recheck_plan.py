"""The check of a study's answer: the layouts to measure again, and the study's own results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from statistics import median

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.strategy import Kind, Proposal
from tuner.core.errors import ConfigError
from tuner.core.ranking.anova import blocks_of, launch_value
from tuner.core.search.recheck import Asked, Checked, Launched, Past
from tuner.core.search.strategies.recheck import Recheck
from tuner.core.stats.two_way_anova import Observation, fit
from tuner.core.stats.variance import MeanSquare
from tuner.ports import Store
from tuner.study.counted import counted_sums
from tuner.study.strategy_driver import replay_study
from tuner.study.timetable import Timetable


def check_study(
    parent: StudyRecord,
    now: StudyRecord,
    *,
    ranked: Sequence[Layout],
    current: Layout | None,
    window_s: float | None,
    budget_s: float | None,
    kind: Kind,
    parent_name: str,
    windows: Sequence[WindowRecord],
) -> StudyRecord:
    """Return the record of a check of *parent*'s best layout on the present host.

    Args:
        parent: the study whose result is checked.
        now: the study that the same settings describe now.
        ranked: the ranked layouts of *parent*, best first.
        current: the layout in use, compared in addition to the runner-up; None: only the runner-up.
        window_s: length of a window; None: the median length of *parent*'s windows.
        budget_s: time limit of the check; None: no limit.
        kind: the kind of claim.
        parent_name: the file name of *parent*.
        windows: the windows of *parent*.

    Raises:
        ConfigError: no other layout is ranked or in use, so there is no comparison.
    """
    winner, *behind = ranked
    others = tuple(dict.fromkeys(x for x in (current, *behind[:1]) if x is not None and x != winner))
    if not others:
        raise ConfigError(
            f"{parent_name} ranks {winner} alone: there is nothing to compare it with",
            hint="Name the layout in use with --current.",
        )
    usual_s = median([window.length_s for window in windows if not window.void and window.block >= 0])
    return replace(
        now,
        strategy="check",
        kind=kind,
        layouts=(winner, *others),
        cores=parent.cores,
        n_blocks=0,
        windows_per_launch=1,
        window_s=round(usual_s, 1) if window_s is None else window_s,
        min_window_s=None,
        budget_s=budget_s,
        within_ratio=parent.within_ratio,
        confidence=parent.confidence,
        objective=parent.objective,
        limits={},
        provenance=replace(
            now.provenance,
            clients_found=parent.provenance.clients_found,
            made_by="tuner check",
            check_of=parent_name,
            check_of_created=repr(parent.created_wall_s),
            check_current="" if current is None else str(current),
        ),
    )


def recheck_options(study: StudyRecord) -> Asked:
    """Return the settings of the check that *study* records."""
    winner, *others = study.layouts
    return Asked(
        winner,
        tuple(others),
        study.within_ratio,
        study.confidence,
        study.kind,
        in_turns=study.n_resident > 1,
    )


def recheck_of(study: StudyRecord, past: Past | None) -> Recheck:
    """Return the strategy that measures the check."""
    return Recheck(recheck_options(study), past, study.seed, study.window_s)


def read_past(store: Store, asked: Asked) -> Past | None:
    """Estimate the earlier differences to the winner from the study in *store*; None: noise unknown."""
    study = store.study()
    launches = counted_sums(store, store.sums()).launches
    tallies = [one for one in launches if one.n_done and launch_value(one, study.objective) > 0]
    block_of = blocks_of(tallies, joins_single=True)
    return past_of(
        asked,
        [
            Launched(block_of[one.launch], one.layout, log(launch_value(one, study.objective)))
            for one in tallies
        ],
    )


def past_of(asked: Asked, launches: Sequence[Launched]) -> Past | None:
    """Estimate the differences to the winner from a study's *launches*; None: winner or noise unknown."""
    layouts = sorted({one.layout for one in launches})
    if asked.winner not in layouts:
        return None
    fitted = fit(
        [Observation(layouts.index(one.layout), one.block, one.value) for one in launches], len(layouts)
    )
    if not fitted.residual_df:
        return None
    square = MeanSquare(fitted.residual_ss / fitted.residual_df, fitted.residual_df)
    place = layouts.index(asked.winner)
    gaps: dict[Layout, tuple[float, float]] = {}
    for other in asked.others:
        if other in layouts:
            number = layouts.index(other)
            per_unit = fitted.difference_variance(number, place)
            if per_unit is not None:
                gaps[other] = fitted.effects[number] - fitted.effects[place], per_unit * square.value
    levels: Mapping[Layout, float] = dict(zip(layouts, fitted.effects, strict=True))
    return Past(gaps, levels, square)


def read_check(parent: Store, store: Store) -> Checked:
    """Return the result so far of the check in *store*, which checks the study in *parent*."""
    study, launches, windows = store.study(), store.launches(), store.windows()
    asked = recheck_options(study)
    strategy = recheck_of(study, read_past(parent, asked))
    known = replay_study(store, strategy)
    check = strategy.check()
    rest_s = None
    if check.rest_blocks is not None:
        block = [Proposal(x, study.window_s) for x in study.layouts if x not in strategy.failed]
        rest_s = check.rest_blocks * Timetable(study, launches, windows).expected_s(block)
    current = study.provenance.check_current
    ended_s = max(
        (one.started_wall_s + one.length_s for one in parent.windows()), default=study.created_wall_s
    )
    began_s = min((launch.started_wall_s for _, launch in launches), default=study.created_wall_s)
    return Checked(
        check=check,
        asked=asked,
        current=parse_layout(current) if current else None,
        failed=tuple(sorted(strategy.failed)),
        age_s=max(0.0, began_s - ended_s),
        n_windows=known.n_windows,
        spent_s=known.spent_s,
        rest_s=rest_s,
    )
