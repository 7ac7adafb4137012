"""What launches gave: the one thing that every strategy keeps of its windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, log

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Observed
from tuner.core.stats.interval import Estimate, LaunchMean, estimate_throughputs
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit


class Launches:
    """Every launch once, with its block; a launch's value is the mean over its windows, by their length."""

    def __init__(self) -> None:
        self._windows: dict[int, list[Observed]] = {}
        self._block: dict[int, int] = {}
        self._fit: tuple[AdditiveFit, tuple[Layout, ...], list[LaunchMean]] | None = None

    def __len__(self) -> int:
        return len(self._windows)

    def add(self, windows: Sequence[Observed], block: int) -> None:
        """Take *windows*, all of one launch, which was made in *block*."""
        self._windows.setdefault(windows[0].launch, []).extend(windows)
        self._block.setdefault(windows[0].launch, block)
        self._fit = None

    def n_of(self, layout: Layout) -> int:
        """Launches of *layout*."""
        return sum(windows[0].layout == layout for windows in self._windows.values())

    def fitted(self) -> tuple[AdditiveFit, tuple[Layout, ...]]:
        """Layout + block, by least squares on logarithms, and the layouts in the order of its effects.

        Raises:
            ValueError: there is no launch.
        """
        fitted, layouts, _ = self._fitted()
        return fitted, layouts

    def estimates(self, confidence: float) -> Mapping[Layout, Estimate]:
        """Each launched layout's value with its interval; what the box did in a block is taken out."""
        if not self._windows:
            return {}
        fitted, layouts, launches = self._fitted()
        return dict(zip(layouts, estimate_throughputs(launches, fitted, confidence), strict=True))

    def _fitted(self) -> tuple[AdditiveFit, tuple[Layout, ...], list[LaunchMean]]:
        if self._fit is None:
            layouts = tuple(dict.fromkeys(windows[0].layout for windows in self._windows.values()))
            number = {layout: index for index, layout in enumerate(layouts)}
            launches = [
                _launch_mean(number[windows[0].layout], self._block[launch], windows)
                for launch, windows in self._windows.items()
            ]
            seen = [Observation(one.layout, one.block, log(one.throughput_per_s)) for one in launches]
            self._fit = fit(seen, len(layouts)), layouts, launches
        return self._fit


def launch_value(windows: Sequence[Observed]) -> float:
    """What one launch gave, over all of its *windows*."""
    if len(windows) == 1:
        return windows[0].value
    return fsum(seen.value * seen.length_s for seen in windows) / fsum(seen.length_s for seen in windows)


def by_launch(windows: Sequence[Observed]) -> list[list[Observed]]:
    """*windows* of several launches, launch by launch, in the order they were taken."""
    launches: dict[int, list[Observed]] = {}
    for seen in windows:
        launches.setdefault(seen.launch, []).append(seen)
    return list(launches.values())


def _launch_mean(layout: int, block: int, windows: Sequence[Observed]) -> LaunchMean:
    mean = launch_value(windows)
    plain = fsum(seen.value for seen in windows) / len(windows)
    squares = fsum((seen.value / plain - 1) ** 2 for seen in windows)
    return LaunchMean(layout, block, mean, len(windows), squares)
