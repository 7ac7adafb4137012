"""The results of launches, which every strategy derives from its windows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum, log

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Observed
from tuner.core.stats.interval import Estimate, LaunchMean, drift_between_blocks, estimate_throughputs
from tuner.core.stats.own_noise import estimate_own_noise
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit


class Launches:
    """All launches with their blocks; the value of a launch is the mean of its windows by length."""

    def __init__(self) -> None:
        self._windows: dict[int, list[Observed]] = {}
        self._block: dict[int, int] = {}
        self._fit: tuple[AdditiveFit, tuple[Layout, ...], list[LaunchMean]] | None = None

    def __len__(self) -> int:
        return len(self._windows)

    def add(self, windows: Sequence[Observed], block: int) -> None:
        """Add *windows* of one launch in *block*."""
        self._windows.setdefault(windows[0].launch, []).extend(windows)
        self._block.setdefault(windows[0].launch, block)
        self._fit = None

    def n_of(self, layout: Layout) -> int:
        """Return the number of launches of *layout*."""
        return sum(windows[0].layout == layout for windows in self._windows.values())

    def fitted(self) -> tuple[AdditiveFit, tuple[Layout, ...]]:
        """Fit layout + block to the logarithms by least squares; also return the layouts in order of effects.

        Raises:
            ValueError: there is no launch.
        """
        fitted, layouts, _ = self._fit_launches()
        return fitted, layouts

    def observed(
        self, blocks: Collection[int] | None = None
    ) -> tuple[Sequence[Observation], tuple[Layout, ...]]:
        """Return the logarithms of the launches of *blocks* (default: all), and the layouts as numbered."""
        layouts, launches = self._means(
            launch for launch in self._windows if blocks is None or self._block[launch] in blocks
        )
        return [Observation(one.layout, one.block, log(one.throughput_per_s)) for one in launches], layouts

    def estimates(self, confidence: float, *, by_own_noise: bool = False) -> Mapping[Layout, Estimate]:
        """Estimate the value of each launched layout, with the drift between blocks removed.

        *by_own_noise*: each by its own noise, where blocks may drift slowly, as a full grid is ranked.
        """
        if not self._windows:
            return {}
        fitted, layouts, launches = self._fit_launches()
        if not by_own_noise:
            return dict(zip(layouts, estimate_throughputs(launches, fitted, confidence), strict=True))
        seen, _ = self.observed()
        own, drift = estimate_own_noise(seen, fitted), drift_between_blocks(seen, fitted)
        found = estimate_throughputs(launches, fitted, confidence, own, drift)
        return dict(zip(layouts, found, strict=True))

    def _fit_launches(self) -> tuple[AdditiveFit, tuple[Layout, ...], list[LaunchMean]]:
        if self._fit is None:
            layouts, launches = self._means(self._windows)
            seen = [Observation(one.layout, one.block, log(one.throughput_per_s)) for one in launches]
            self._fit = fit(seen, len(layouts)), layouts, launches
        return self._fit

    def _means(self, launches: Iterable[int]) -> tuple[tuple[Layout, ...], list[LaunchMean]]:
        """Return the mean of each of *launches*, and the layouts as numbered."""
        of_launch = {launch: self._windows[launch] for launch in launches}
        layouts = tuple(dict.fromkeys(windows[0].layout for windows in of_launch.values()))
        number = {layout: index for index, layout in enumerate(layouts)}
        return layouts, [
            _launch_mean(number[windows[0].layout], self._block[launch], windows)
            for launch, windows in of_launch.items()
        ]


def launch_value(windows: Sequence[Observed]) -> float:
    """Return the mean value of one launch over its *windows*, weighted by length."""
    if len(windows) == 1:
        return windows[0].value
    return fsum(seen.value * seen.length_s for seen in windows) / fsum(seen.length_s for seen in windows)


def by_launch(windows: Sequence[Observed]) -> list[list[Observed]]:
    """Group *windows* by launch, in the order of the launches."""
    launches: dict[int, list[Observed]] = {}
    for seen in windows:
        launches.setdefault(seen.launch, []).append(seen)
    return list(launches.values())


def _launch_mean(layout: int, block: int, windows: Sequence[Observed]) -> LaunchMean:
    mean = launch_value(windows)
    plain = fsum(seen.value for seen in windows) / len(windows)
    squares = fsum((seen.value / plain - 1) ** 2 for seen in windows)
    return LaunchMean(layout, block, mean, len(windows), squares)
