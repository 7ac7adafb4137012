"""The launches of a study whose figures count: rankings, models and checks use only these."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from tuner.core.domain.records import LaunchRecord
from tuner.core.windows.launch_sums import Sums
from tuner.ports import Store

if TYPE_CHECKING:
    from tuner.core.domain.strategy import Answer
    from tuner.study.strategy_driver import Recalled


def counted_sums(store: Store, sums: Sums, known: Recalled | None = None) -> Sums:
    """Return the *sums* of the launches that count; *known* as for `left_out`."""
    return without(sums, left_out(store, known))


def without(sums: Sums, others: Set[int]) -> Sums:
    """Return the *sums* without the launches *others*."""
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


def judged_launches(store: Store, known: Recalled | None = None) -> list[LaunchRecord]:
    """Return the launches whose trends, warm-ups and errors count; *known* as for `left_out`.

    These include longer launches, and those that ended before their slices.
    """
    launches, is_race = [one for _, one in store.launches()], store.study().strategy == "race"
    answer = _answer(store, known) if is_race else None
    return [one for one in launches if answer is None or answer.judges(one)]


def counts_slices(store: Store, known: Recalled | None = None) -> bool:
    """Return whether windows in slices count, if there are any; *known* as for `left_out`."""
    answer = _answer(store, known)
    return answer is None or answer.counts_slices


def recalled_race(store: Store) -> Recalled | None:
    """Return a race with slices after all windows of its store; None: all launches of another study count."""
    study = store.study()
    if study.strategy != "race" or study.n_resident == 1:
        return None
    from tuner.core.search.strategies.of_study import strategy_of
    from tuner.study.strategy_driver import replay_study

    return replay_study(store, strategy_of(study))


def _answer(store: Store, known: Recalled | None) -> Answer | None:
    known = known or recalled_race(store)
    return None if known is None else known.strategy.answer()
