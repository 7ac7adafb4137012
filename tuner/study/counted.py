"""The launches of a study whose figures count: rankings, models and checks use only these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.windows.launch_sums import Sums
from tuner.ports import Store

if TYPE_CHECKING:
    from tuner.core.domain.strategy import Answer
    from tuner.study.strategy_driver import Recalled


def without_others(store: Store, sums: Sums, known: Recalled | None = None) -> Sums:
    """Return the *sums* of the launches that count; *known* as for `left_out`."""
    others = left_out(store, known)
    launches = {one.launch for one in sums.launches} | {one.launch for one in sums.void}
    return sums.of(launches - others) if others else sums


def left_out(store: Store, known: Recalled | None = None) -> set[int]:
    """Return the numbers of the launches that do not count.

    These are the longer launches of a race, from which it does not learn, and launches in slices if slices
    are wrong.

    Args:
        store: the store of any study.
        known: the strategy after all windows of the store; None: it is recalled if necessary.
    """
    from tuner.core.ranking.aging import is_longer

    study, launches = store.study(), store.launches()
    answer = _answer(store, known)
    return {
        number
        for number, one in launches
        if is_longer(study, one) or not (answer is None or answer.counts(one.heat))
    }


def counts_slices(store: Store) -> bool:
    """Return whether windows in slices count, if there are any."""
    answer = _answer(store)
    return answer is None or answer.counts_slices


def _answer(store: Store, known: Recalled | None = None) -> Answer | None:
    """Return the answer of a race with slices; None: all launches of another study count."""
    study = store.study()
    if study.strategy != "race" or study.n_resident == 1:
        return None
    if known is None:
        from tuner.core.search.strategies.of_study import strategy_of
        from tuner.study.strategy_driver import replay_study

        known = replay_study(store, strategy_of(study))
    return known.strategy.answer()
