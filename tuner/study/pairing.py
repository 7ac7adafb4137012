"""A layout against itself: the pairs of a study, and what they show."""

from __future__ import annotations

from tuner.core.domain.records import StudyRecord
from tuner.core.planning.aa_test import Pair, SelfTest, self_test
from tuner.core.planning.pilot import Pilot
from tuner.core.search.strategies.pairs import Pairs
from tuner.ports import Store
from tuner.study.history import History
from tuner.study.pilot_run import read_pilot
from tuner.study.timetable import Timetable


def pairs_strategy(study: StudyRecord) -> Pairs:
    """What measures the pairs that *study* asks for."""
    return Pairs(
        study.layouts[0],
        study.n_blocks,
        study.window_s,
        study.windows_per_launch,
        in_turns=study.n_resident > 1,
    )


def read_self_test(store: Store) -> tuple[SelfTest, Pilot | None] | None:
    """What the pairs in *store* show, and how noisy they were; None: fewer than two pairs are whole."""
    study, launches, windows = store.study(), store.launches(), store.windows()
    history = History(study, launches, windows)
    strategy = pairs_strategy(study)
    pairs: list[Pair] = []
    while history.holds_more:
        block, _ = history.next_block(strategy.propose())
        # One that was cut off and made again has windows of two launches: it counts as one.
        kept = [tuple(one for _, one in sorted(cell.kept.items())) for cell in block.cells]
        if len(kept) == 2 and all(kept):
            pairs.append((kept[0], kept[1]))
        strategy.learn([one for own in kept for one in own])
    if len(pairs) < 2:
        return None
    timetable = Timetable(study, launches, windows)
    n_launches = sum(launch.block >= 0 for _, launch in launches)
    spent_s = timetable.total_s / max(1, n_launches)
    found = self_test(
        pairs, launch_s=spent_s, confidence=study.confidence, within=study.within_ratio, seed=study.seed
    )
    return found, read_pilot(store)
