"""Optimisers of other projects behind the interface of tuner's strategies; `strategies.py` runs them.

The dependency group `bench-search` installs Optuna and SMAC3. `missing()` returns those that are not
installed.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import util
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Observed, Proposal
from tuner.core.stats.interval import Estimate


def missing(package: str) -> bool:
    return util.find_spec(package) is None


class _OneByOne:
    """A strategy that requests one window at a time, and names a layout."""

    def __init__(self, goal: Goal, n_windows: int) -> None:
        self.goal, self.left = goal, n_windows
        self.values: dict[Layout, list[float]] = defaultdict(list)

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:  # noqa: ARG002
        for seen in windows:
            self.left -= 1
            self.values[seen.layout].append(log(seen.value))
            self.tell(log(seen.value))

    def tell(self, value: float) -> None:
        raise NotImplementedError

    def estimates(self) -> Mapping[Layout, Estimate]:
        return {}

    def best_mean(self) -> Layout | None:
        if not self.values:
            return None
        return max(self.values, key=lambda layout: fmean(self.values[layout]))


class OptunaTpe(_OneByOne):
    """Optuna's default sampler, asked for the layout as the one categorical parameter it is.

    *names* is what it is taken to answer: the layout of the "best trial", as Optuna itself does, or that of
    the "best mean".
    """

    def __init__(self, goal: Goal, seed: int, n_windows: int, names: str) -> None:
        import optuna

        super().__init__(goal, n_windows)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._layouts = {str(layout): layout for layout in goal.layouts}
        self._names = names
        self._trial: Any = None
        self._best: tuple[float, Layout] | None = None

    def propose(self) -> Sequence[Proposal]:
        if self.left < 1:
            return []
        self._trial = self._study.ask()
        layout = self._layouts[self._trial.suggest_categorical("layout", list(self._layouts))]
        return [Proposal(layout, self.goal.max_window_s)]

    def tell(self, value: float) -> None:
        self._study.tell(self._trial, value)
        layout = self._layouts[self._trial.params["layout"]]
        if self._best is None or value > self._best[0]:
            self._best = value, layout

    def answer(self) -> Answer:
        best = self._best[1] if self._best else None
        return Answer(self.best_mean() if self._names == "best mean" else best, False, "none")


class Smac(_OneByOne):
    """SMAC3's facade for noisy functions (random forest, incumbent over repeated trials) as it comes.

    It ends by itself once it finds no configuration it has not tried.
    """

    def __init__(self, goal: Goal, seed: int, n_windows: int) -> None:
        warnings.filterwarnings("ignore")
        logging.disable(logging.CRITICAL)
        from ConfigSpace import Categorical, ConfigurationSpace
        from smac import HyperparameterOptimizationFacade, Scenario

        super().__init__(goal, n_windows)
        self._layouts = {str(layout): layout for layout in goal.layouts}
        space = ConfigurationSpace(seed=seed)
        space.add(Categorical("layout", list(self._layouts)))
        self._folder = tempfile.TemporaryDirectory(prefix="bench-smac-")
        scenario = Scenario(
            space,
            deterministic=False,
            n_trials=n_windows,
            seed=seed % 2**31,
            output_directory=Path(self._folder.name),
        )
        self._facade = HyperparameterOptimizationFacade(
            scenario, lambda _config, seed=0: float(seed), overwrite=True, logging_level=False
        )
        self._asked: Any = None

    def propose(self) -> Sequence[Proposal]:
        from smac.main.exceptions import ConfigurationSpaceExhaustedException

        if self.left < 1:
            return []
        try:
            self._asked = self._facade.ask()
        except (ConfigurationSpaceExhaustedException, StopIteration):
            self.left = 0
            return []
        return [Proposal(self._layouts[str(self._asked.config["layout"])], self.goal.max_window_s)]

    def tell(self, value: float) -> None:
        from smac.runhistory import TrialValue

        self._facade.tell(self._asked, TrialValue(cost=-value))

    def answer(self) -> Answer:
        incumbent = self._facade.intensifier.get_incumbent()
        layout = self._layouts[str(incumbent["layout"])] if incumbent is not None else None
        return Answer(layout, False, "none")
