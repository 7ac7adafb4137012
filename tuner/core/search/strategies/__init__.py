"""Every strategy by its name: the race, and the strategies it is compared with."""

from __future__ import annotations

from tuner.core.domain.strategy import Goal, Strategy

STRATEGIES = {
    "race": "measures the layouts that decide the result, stops when it is known",
    "all": "every layout once per block, in random order; sized by power analysis, or N windows",
    "in-order": "one layout after the other, as in 2014: one window each, or N windows",
    "successive-halving": "rounds of equal cost, the better half continues: 10 windows per layout, or N",
    "f-race": (
        "drops layouts that a rank test finds worse, until one is left or N windows are measured (2000)"
    ),
}


def promises(name: str) -> bool:
    """Return whether the strategy *name* guarantees its answer."""
    return name == "race"


def make_strategy(name: str, goal: Goal, seed: int, n_windows: int | None = None) -> Strategy:
    """Create the strategy *name* of STRATEGIES; *n_windows* is for strategies without their own end.

    Raises:
        KeyError: there is no strategy of that name.
    """
    # Imported here, so that a command imports only its own strategy.
    match name:
        case "race":
            from tuner.core.search.racing import Race

            return Race(goal, seed)
        case "all":
            from tuner.core.search.strategies.full_grid import FullGrid

            n_blocks = None if n_windows is None else max(1, n_windows // len(goal.layouts))
            return FullGrid(goal, seed, n_blocks)
        case "in-order":
            from tuner.core.search.strategies.baselines import InOrder

            return InOrder(goal, 1 if n_windows is None else max(1, n_windows // len(goal.layouts)))
        case "successive-halving":
            from tuner.core.search.strategies.baselines import SuccessiveHalving

            return SuccessiveHalving(goal, seed, n_windows)
        case "f-race":
            from tuner.core.search.strategies.baselines import FRace

            return FRace(goal, seed, n_windows)
    raise KeyError(name)
