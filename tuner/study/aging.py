"""Memory growth of the layouts of a study, and the longer launches of a race, from the store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Judging, Proposal, Strategy
from tuner.core.windows.launch_sums import Sums
from tuner.ports import Store

if TYPE_CHECKING:
    from tuner.core.ranking.aging import Due, LongerLaunch
    from tuner.core.windows.launch_sums import LaunchTally
    from tuner.core.windows.memory_growth import Look, MemoryGrowth

MOST_WINDOWS = 150  #: largest number of windows to read again; each takes 4 ms


def memory_growth(
    store: Store, sums: Sums, confidence: float, horizon_s: float
) -> Mapping[Layout, MemoryGrowth]:
    """Return the growth of memory of each layout; those whose launches are too short are left out.

    Each end of an interval holds with the *confidence*. At most `MOST_WINDOWS` windows are read, those
    of the fastest layouts first.
    """
    from tuner.core.windows.memory_growth import SHORTEST_S, pool_growth

    chosen = _choose(sums.launches, SHORTEST_S / 2)
    looks: dict[int, list[Look]] = {one.launch: [] for one in chosen}
    windows = sums.windows_of(list(looks)) if looks else []
    counted = {n: one.counted_ratio for n, one in store.launches() if one.counted_ratio} if looks else {}
    for one in sorted(windows, key=lambda window: (window.launch_id, window.index)):
        if not one.void:
            usage = store.window(one.launch_id, one.index, one.attempt).usage
            running = 1 / counted.get(one.launch_id, 1.0)  # skipped parts of slices are running time too
            looks[one.launch_id] += [
                (moment.at_s * running, float(moment.pss_bytes))
                for moment in usage
                if moment.pss_bytes is not None
            ]
    by_layout: defaultdict[Layout, list[LaunchTally]] = defaultdict(list)
    for launch in chosen:
        by_layout[launch.layout].append(launch)
    looks_of = {x: [looks[one.launch] for one in own] for x, own in by_layout.items()}
    now_bytes = {
        x: sum(one.pss_bytes for one in own) / sum(one.n_pss for one in own) for x, own in by_layout.items()
    }
    return pool_growth(looks_of, now_bytes, confidence, horizon_s)


def _choose(launches: Sequence[LaunchTally], least_s: float) -> list[LaunchTally]:
    """Return launches that are long enough, those of the fastest layouts first."""
    n_done: Counter[Layout] = Counter()
    lasted_s: defaultdict[Layout, float] = defaultdict(float)
    for one in launches:
        n_done[one.layout] += one.n_done
        lasted_s[one.layout] += one.length_s
    found: list[LaunchTally] = []
    n_windows = 0
    for one in sorted(launches, key=lambda one: (-n_done[one.layout] / lasted_s[one.layout], one.layout)):
        if one.n_pss and one.length_s >= least_s and n_windows + one.n_windows <= MOST_WINDOWS:
            found.append(one)
            n_windows += one.n_windows
    return found


# The longer launches of a race, read from its store: see `tuner.core.ranking.aging`.


#: least total length of the winner's windows; a trend over less does not justify two more hours
LEAST_S = 600.0


class LongerLaunches:
    """The longer launches of a study, proposed once its strategy proposes nothing more."""

    def __init__(self, store: Store, strategy: Strategy) -> None:
        self._store, self._strategy = store, strategy
        self.due: Due | None = None  #: the longer launch that is due, at the last call of `proposals`

    def proposals(self) -> list[Proposal]:
        """Return the longer launches, including those that the store already holds."""
        study, answer = self._store.study(), self._strategy.answer()
        if not answer.reached or study.provenance.is_quick:
            return []
        # only now: most launches are made before a race has an answer
        from tuner.core.ranking.aging import due_of, is_longer, throughput_trends

        launches = {
            number: one
            for number, one in self._store.launches()
            if not is_longer(study, one) and answer.counts(one.heat)
        }
        sums = self._store.sums().of(launches)
        if sum(one.length_s for one in sums.launches if one.layout == answer.layout) < LEAST_S:
            return []
        strategy = self._strategy
        verdicts = strategy.verdicts() if isinstance(strategy, Judging) else {}
        self.due = due_of(
            study,
            answer,
            strategy.estimates(),
            {layout for layout, verdict in verdicts.items() if verdict.state != "within"},
            throughput_trends(study, launches.values(), study.confidence),
            memory_growth(self._store, sums, study.confidence, study.horizon_s),
        )
        return [] if self.due is None else self.due.proposals(study.window_s)


def longer_launch_result(store: Store, sums: Sums, answer: Answer) -> LongerLaunch | None:
    """Return the result of the longer launches in *store*; None: there are none."""
    from tuner.core.ranking.aging import is_longer, longer_launch_of

    study = store.study()
    launches = [(number, one) for number, one in store.launches() if is_longer(study, one)]
    windows = sums.windows_of([number for number, _ in launches]) if launches else []
    return longer_launch_of(study, answer, launches, windows)
