"""Search suites: true throughputs, and a simulated host that draws windows around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log, log1p, pi, sin, sqrt
from random import Random

from tuner.core.defaults import CONFIDENCE, WINDOW_S, WITHIN
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Kind, Observed, Proposal
from tuner.core.windows.slices import MOST_SKIP_SHARE

SHORTEST_WINDOW_S = 10.0  #: shortest window if a suite leaves lengths to the strategy
DRIFT_STEP_S = 600.0  #: time for which the correlation of the drift is given
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class SuiteNoise:
    """The noise of windows: standard deviations of the logarithm of throughput."""

    window_sd: float = 0.0  #: noise of each window
    launch_sd: float = 0.0  #: noise of each launch, shared by its windows
    drift_sd: float = 0.0  #: drift of the whole host over time, equal for all layouts
    drift_ar1_per_600s: float = 0.0  #: correlation of the drift with itself 600 s later, 0..1
    sample_sd_1s: float = 0.0  #: noise of one second, which adds sample_sd_1s / sqrt(length in s) to a window
    #: degrees of freedom of window noise with heavy tails, scaled to window_sd; None: normal
    student_t_df: float | None = None
    slow_launch_ratio: float = 0.0  #: share of launches that are slow from start to end, 0..1
    slow_launch_loss: float = 0.0  #: share of throughput that a slow launch loses, 0..1
    noisy_layout_ratio: float = 0.0  #: share of layouts whose windows and launches are noisier, 0..1
    noisy_layout_factor: float = 1.0  #: factor of their standard deviations
    outlier_ratio: float = 0.0  #: share of windows that lose throughput, 0..1
    outlier_loss: float = 0.0  #: share of throughput that such a window loses, 0..1
    #: correlation of the noise of two windows of a launch whose middles are 600 s apart, 0..1
    within_launch_ar1_per_600s: float = 0.0
    tide_amplitude: float = 0.0  #: amplitude of a sine of the whole host, on the logarithmic scale
    tide_period_s: float = DAY_S
    spell_every_s: float = 0.0  #: mean time between the beginnings of slow periods of the host; 0: none
    spell_length_s: float = 0.0  #: length of each slow period; less than spell_every_s
    spell_loss: float = 0.0  #: share of throughput lost in slow periods, 0..1

    @property
    def mean_of_spells(self) -> float:
        """The mean effect of slow periods on log throughput, over all hours."""
        if not self.spell_loss or not self.spell_every_s:
            return 0.0
        return log1p(-self.spell_loss) * self.spell_length_s / self.spell_every_s


@dataclass(frozen=True, slots=True)
class Suite:
    """Surfaces to search, with the noise and the cost of measuring."""

    name: str
    layouts: tuple[Layout, ...]
    surfaces: tuple[
        tuple[float, ...], ...
    ]  #: one row per surface: true items per ten minutes, in the order of *layouts*
    noise: SuiteNoise
    within: float = WITHIN  #: margin: an answer may be worse than the best layout by this share
    confidence: float = CONFIDENCE
    launch_s: float = 120.0  #: time of restart and warm-up of each launch
    window_s: float | None = WINDOW_S  #: length of windows; None: the strategy chooses, from 10 s to 600 s
    cores: int | None = None  #: number of cores of the host for a model; None: unknown
    floor_windows: float | None = None  #: least mean number of windows of a strict answer; None: unknown
    floor_hours: float | None = None
    floor_at_window_s: float | None = None  #: length of windows that gives *floor_hours*
    # One row for all surfaces or one per surface, ordered as *layouts*; empty: 1 (trends: 0) everywhere.
    noise_factors: tuple[tuple[float, ...], ...] = ()  #: factors of window_sd and launch_sd
    drift_factors: tuple[
        tuple[float, ...], ...
    ] = ()  #: factors of drift, tide and slow periods, on the logarithmic scale
    trends_per_h: tuple[
        tuple[float, ...], ...
    ] = ()  #: change of log throughput per hour since the start of a launch

    @property
    def n_surfaces(self) -> int:
        """The number of rows."""
        return len(self.surfaces)

    def box(self, surface: int, stream: str) -> SimulatedBox:
        """Create the simulated host of row *surface*; *stream* names its random streams."""
        return SimulatedBox(self, surface, stream)

    def goal(self, kind: Kind) -> Goal:
        """Return the goal, which is all information that a strategy gets."""
        return Goal(
            layouts=self.layouts,
            within=self.within,
            confidence=self.confidence,
            kind=kind,
            min_window_s=self.window_s or SHORTEST_WINDOW_S,
            max_window_s=self.window_s or WINDOW_S,
            cores=self.cores,
        )


@dataclass(slots=True)
class SimulatedBox:
    """A simulated host that measures one surface: launches and their windows one after the other.

    Every source of noise has its own random stream, derived from *stream*: one for the drift, one per layout.
    For every strategy the n-th launch of a layout has the same noise if launches have equally many windows,
    and drift has the same values every 600 s. So strategies are compared on the same noise, and neither their
    order nor the number of processes changes a figure.
    """

    suite: Suite
    surface: int
    stream: str  #: name of the random streams: seed, surface and repeat
    now_s: float = 0.0
    n_windows: int = 0
    n_launches: int = 0
    truth: dict[Layout, float] = field(default_factory=dict)  #: mean items per ten minutes over all hours
    _levels: dict[Layout, float] = field(default_factory=dict)  #: logarithms of the surface
    _random: dict[Layout, Random] = field(default_factory=dict)
    _factor: dict[Layout, float] = field(default_factory=dict)
    _host: Host | None = None
    _drift_factor: dict[Layout, float] = field(default_factory=dict)
    _trend_per_h: dict[Layout, float] = field(default_factory=dict)
    _shared: float | None = None  #: effect of the host on layouts that take turns at present

    def __post_init__(self) -> None:
        surface = dict(zip(self.suite.layouts, self.suite.surfaces[self.surface], strict=True))
        noise = self.suite.noise
        if noise.drift_sd or noise.tide_amplitude or noise.spell_loss:
            self._host = Host(noise, self.stream)
        self._drift_factor = self._of_layouts(self.suite.drift_factors)
        self._levels = {layout: log(value) for layout, value in surface.items()}
        self.truth = {
            layout: value * exp(self._drift_factor.get(layout, 1.0) * noise.mean_of_spells)
            for layout, value in surface.items()
        }
        self._trend_per_h = self._of_layouts(self.suite.trends_per_h)

    def is_right(self, layout: Layout) -> bool:
        """Return whether *layout* is truly within the suite's margin of the best."""
        # 0.98 x 2598.7 has a rounding error; a layout exactly on the margin must count as right.
        return self.truth[layout] >= (1 - self.suite.within) * max(self.truth.values()) * (1 - 1e-12)

    def take(self, proposal: Proposal) -> list[Observed]:
        """Launch a layout and return its windows."""
        layout, length_s, noise = proposal.layout, proposal.window_s, self.suite.noise
        random = self._random.get(layout)
        if random is None:
            random = self._random[layout] = Random(f"{self.stream}/{layout}")
            self._factor[layout] = self._noise_factor(layout)
        factor = self._factor[layout]
        began_s = self.now_s
        level = self._levels[layout] + factor * noise.launch_sd * random.gauss()
        if noise.slow_launch_ratio and random.random() < noise.slow_launch_ratio:
            level += log(1 - noise.slow_launch_loss)
        sample_sd = noise.sample_sd_1s / sqrt(length_s)
        self.now_s += self.suite.launch_s
        windows = []
        ar1 = noise.within_launch_ar1_per_600s ** (length_s / DRIFT_STEP_S)
        shock = 0.0
        for index in range(proposal.n_windows):
            fresh = _standard(noise.student_t_df, random)
            shock = ar1 * shock + sqrt(1 - ar1**2) * fresh if index and ar1 else fresh
            value = level + factor * noise.window_sd * shock
            if sample_sd:
                value += sample_sd * random.gauss()
            if noise.outlier_ratio and random.random() < noise.outlier_ratio:
                value += log1p(-noise.outlier_loss)
            middle_s = self.now_s + length_s / 2
            value += self._trend_per_h.get(layout, 0.0) * (middle_s - began_s) / 3600
            if self._host is not None:
                of_host = self._host.at(middle_s) if self._shared is None else self._shared
                value += self._drift_factor.get(layout, 1.0) * of_host
            windows.append(
                # the limit keeps the rare extreme values of a heavy tail within the range of a float
                Observed(
                    layout,
                    exp(max(-600.0, min(600.0, value))),
                    self.n_launches,
                    began_s,
                    self.now_s,
                    length_s,
                )
            )
            self.now_s += length_s
        self.n_windows += proposal.n_windows
        self.n_launches += 1
        return windows

    def take_in_turns(self, proposals: Sequence[Proposal]) -> list[Observed]:
        """Launch all layouts one after the other; their windows take turns and share the host's effect."""
        began_s = self.now_s
        windows_s = sum(one.n_windows * one.window_s for one in proposals)
        lasts_s = len(proposals) * self.suite.launch_s + (1 + MOST_SKIP_SHARE) * windows_s
        if self._host is not None:
            self._shared = self._host.at(began_s + lasts_s - (1 + MOST_SKIP_SHARE) * windows_s / 2)
        windows = [window for one in proposals for window in self.take(one)]
        for window in windows:
            window.turns_s = began_s
            window.noise_of_second = self.suite.noise.sample_sd_1s or None
        self._shared, self.now_s = None, began_s + lasts_s
        return windows

    def _of_layouts(self, rows: tuple[tuple[float, ...], ...]) -> dict[Layout, float]:
        """Return the row of this surface by layout; empty without rows."""
        if not rows:
            return {}
        return dict(zip(self.suite.layouts, rows[self.surface if len(rows) > 1 else 0], strict=True))

    def _noise_factor(self, layout: Layout) -> float:
        """Return *layout*'s noise as a multiple of the suite's; random factors have their own stream."""
        noise = self.suite.noise
        if self.suite.noise_factors:
            return self._of_layouts(self.suite.noise_factors)[layout]
        is_noisy = noise.noisy_layout_ratio and (
            Random(f"{self.stream}/{layout}/noise").random() < noise.noisy_layout_ratio
        )
        return noise.noisy_layout_factor if is_noisy else 1.0


class Host:
    """Changes of the whole host over time, on the logarithmic scale: drift, a daily tide, slow spells."""

    def __init__(self, noise: SuiteNoise, stream: str) -> None:
        self._noise = noise
        ar1 = noise.drift_ar1_per_600s
        self._drift = Drift(noise.drift_sd, ar1, Random(f"{stream}/drift")) if noise.drift_sd else None
        self._phase = 2 * pi * Random(f"{stream}/tide").random()
        self._spells = Random(f"{stream}/spells")
        self._spell_s = -noise.spell_length_s  # start of the latest spell; the first ended before the study
        self._next_spell_s = self._spells.random() * noise.spell_every_s

    def at(self, at_s: float) -> float:
        """Return the sum of all changes at *at_s*, which must not decrease between calls."""
        noise = self._noise
        value = self._drift.at(at_s) if self._drift is not None else 0.0
        if noise.tide_amplitude:
            value += noise.tide_amplitude * sin(self._phase + 2 * pi * at_s / noise.tide_period_s)
        if noise.spell_loss and self._is_slow(at_s):
            value += log1p(-noise.spell_loss)
        return value

    def _is_slow(self, at_s: float) -> bool:
        every_s = self._noise.spell_every_s
        while at_s >= self._next_spell_s:
            self._spell_s = self._next_spell_s
            self._next_spell_s += every_s * self._spells.uniform(0.5, 1.5)
        return at_s < self._spell_s + self._noise.spell_length_s


class Drift:
    """A stationary first-order autoregression in continuous time: the Ornstein-Uhlenbeck process.

    A window gets the value at its middle. Values at multiples of 600 s come from one stream, those between
    them from another, given their neighbours: the path is the same for every choice of times.
    """

    def __init__(self, sd: float, ar1_per_600s: float, random: Random) -> None:
        self._sd, self._ar1, self._random = sd, ar1_per_600s, random
        self._between = Random(random.getrandbits(64))
        self._low_s, self._low = 0.0, sd * random.gauss()  # the latest known value ...
        self._high_s, self._high = 0.0, self._low  # ... and the next multiple of 600 s

    def at(self, at_s: float) -> float:
        """Return the drift (logarithm) at *at_s*, which must not decrease between calls."""
        while at_s > self._high_s:
            self._low_s, self._low = self._high_s, self._high
            self._high_s += DRIFT_STEP_S
            self._high = self._ar1 * self._low + self._sd * sqrt(1 - self._ar1**2) * self._random.gauss()
        if at_s == self._high_s or self._ar1 == 1:
            return self._high
        before = self._ar1 ** ((at_s - self._low_s) / DRIFT_STEP_S)
        after = self._ar1 ** ((self._high_s - at_s) / DRIFT_STEP_S)
        # Given both neighbours: a product of two normal densities.
        whole = 1 - (before * after) ** 2
        mean = (self._low * before * (1 - after**2) + self._high * after * (1 - before**2)) / whole
        spread = sqrt((1 - before**2) * (1 - after**2) / whole)
        self._low_s, self._low = at_s, mean + self._sd * spread * self._between.gauss()
        return self._low


def _standard(df: float | None, random: Random) -> float:
    """Draw a value with mean 0 and variance 1."""
    normal = random.gauss()
    if df is None:
        return normal
    return normal * sqrt((df - 2) / (2 * random.gammavariate(df / 2, 1.0)))
