"""The longer launches of a race, from its store: see `tuner.core.ranking.longer_launch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.domain.strategy import Answer, Judging, Proposal, Strategy
from tuner.core.windows.launch_sums import Sums
from tuner.ports import Store

if TYPE_CHECKING:
    from tuner.core.ranking.longer_launch import Due, LongerLaunch

LEAST_S = 600.0  #: of the windows of the answer; a trend in less does not justify two hours


class LongerLaunches:
    """The longer launches of a study, asked for once its strategy asks for nothing more."""

    def __init__(self, store: Store, strategy: Strategy) -> None:
        self._store, self._strategy = store, strategy
        self.due: Due | None = None  #: as it was when they were asked for

    def proposals(self) -> list[Proposal]:
        """Return the launches; the same, whether the store holds some of them or none."""
        study, answer = self._store.study(), self._strategy.answer()
        if study.strategy != "race" or not answer.reached or study.provenance.is_quick:
            return []
        # only now: most launches are made before a race has an answer
        from tuner.core.ranking.launch_trends import throughput_trends
        from tuner.core.ranking.longer_launch import due_of, is_longer
        from tuner.study.memory_growth import memory_growth

        launches = {number: one for number, one in self._store.launches() if not is_longer(study, one)}
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


def longer_seen(store: Store, sums: Sums, answer: Answer) -> LongerLaunch | None:
    """Return the result of the longer launches in *store*; None: there are none."""
    from tuner.core.ranking.longer_launch import is_longer, longer_launch_of

    study = store.study()
    launches = [(number, one) for number, one in store.launches() if is_longer(study, one)]
    windows = sums.windows_of([number for number, _ in launches]) if launches else []
    return longer_launch_of(study, answer, launches, windows)


def without_longer(store: Store, sums: Sums) -> Sums:
    """Return the *sums* of the launches that a race learns from."""
    from tuner.core.ranking.longer_launch import is_longer

    study = store.study()
    longer = {number for number, one in store.launches() if is_longer(study, one)}
    known = {one.launch for one in sums.launches} | {one.launch for one in sums.void}
    return sums.of(known - longer) if longer else sums
