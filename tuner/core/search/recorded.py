"""A measured study on which strategies are replayed, with its own estimates and noise."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from random import Random
from statistics import fmean, median

from tuner.core.defaults import CONFIDENCE, TEN_MINUTES_S, WITHIN
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.strategy import Goal, Kind, Observed, Proposal
from tuner.core.errors import ConfigError
from tuner.core.stats.two_way_anova import Observation, fit


@dataclass(frozen=True, slots=True)
class RecordedStudy:
    """A study's estimates, used as the truth, and the differences of its windows from them.

    All values are logarithms. `docs/method/replay.md` describes the limits of this method.
    """

    name: str
    layouts: tuple[Layout, ...]
    truths: tuple[float, ...]  #: items per ten minutes of each layout, as estimated by the study
    launches: tuple[tuple[float, ...], ...]  #: for each launch, its windows' differences from layout + block
    drift: tuple[tuple[float, float], ...]  #: for each block (seconds since the first, effect), in time order
    launch_s: float  #: mean time from the start of a launch to its first window, seconds
    window_s: float
    within: float = WITHIN
    confidence: float = CONFIDENCE
    cores: int | None = None

    n_surfaces = 1

    def goal(self, kind: Kind) -> Goal:
        """Return the goal for a strategy, with windows as long as the study's."""
        return Goal(
            self.layouts, self.within, self.confidence, kind, self.window_s, self.window_s, self.cores
        )

    def box(self, surface: int, stream: str) -> RecordedBox:  # noqa: ARG002 - a suite has many surfaces
        """Create the simulated host; *stream* names its random streams."""
        return RecordedBox(self, stream)


@dataclass(slots=True)
class RecordedBox:
    """A simulated host that draws launches of a recorded study, with replacement.

    A launch is the layout's estimate plus the windows of one recorded launch of any layout, in their order,
    from a random one on. (All layouts are assumed to have the same noise, as in the ranking.) Its windows
    repeat if a strategy requests more than the launch had. Drift is interpolated between the middles of the
    study's blocks, in their order, in a circle, from a random moment on.
    """

    study: RecordedStudy
    stream: str
    now_s: float = 0.0
    n_windows: int = 0
    n_launches: int = 0
    _began_s: float = 0.0
    _truth: dict[Layout, float] = field(default_factory=dict)
    _random: dict[Layout, Random] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._truth = dict(zip(self.study.layouts, self.study.truths, strict=True))
        self._began_s = Random(f"{self.stream}/drift").random() * self._period_s

    def is_right(self, layout: Layout) -> bool:
        """Return whether *layout*'s estimate is within the margin of the best one."""
        return self._truth[layout] >= max(self._truth.values()) + log(1 - self.study.within) - 1e-12

    def take(self, proposal: Proposal) -> list[Observed]:
        """Draw a launch and return its windows."""
        layout, length_s = proposal.layout, proposal.window_s
        random = self._random.get(layout)
        if random is None:
            random = self._random[layout] = Random(f"{self.stream}/{layout}")
        drawn = self.study.launches[random.randrange(len(self.study.launches))]
        first = random.randrange(len(drawn))
        began_s = self.now_s
        self.now_s += self.study.launch_s
        windows = []
        for number in range(proposal.n_windows):
            value = self._truth[layout] + drawn[(first + number) % len(drawn)]
            value += self._drift(self.now_s + length_s / 2)
            windows.append(Observed(layout, exp(value), self.n_launches, began_s, self.now_s, length_s))
            self.now_s += length_s
        self.n_windows += proposal.n_windows
        self.n_launches += 1
        return windows

    @property
    def _period_s(self) -> float:
        """The circle's length in seconds: from the last block back to the first takes a mean block length."""
        blocks = self.study.drift
        return blocks[-1][0] * len(blocks) / (len(blocks) - 1) if len(blocks) > 1 else 0.0

    def _drift(self, at_s: float) -> float:
        blocks, period_s = self.study.drift, self._period_s
        if not period_s:
            return 0.0
        place_s = (self._began_s + at_s) % period_s
        after = bisect_right(blocks, (place_s, float("inf")))
        (low_s, low), (high_s, high) = blocks[after - 1], (*blocks, (period_s, blocks[0][1]))[after]
        return low + (high - low) * (place_s - low_s) / (high_s - low_s)


def record_study(
    name: str,
    study: StudyRecord,
    launches: Mapping[int, LaunchRecord],
    windows: Iterable[WindowRecord],
) -> RecordedStudy:
    """Build a study for replays from the valid windows of *study*; *launches* are by their id.

    Differences between launches are scaled by sqrt(n / degrees of freedom), because fitting reduced them;
    differences between windows of a launch are not. If blocks and layouts leave no degree of freedom for the
    noise (a race's later blocks may be single launches), the whole study counts as one block: drift is then
    a part of the noise between launches.

    Raises:
        ConfigError: it has fewer than two measured layouts, or its noise is unknown.
    """
    taken: dict[int, list[WindowRecord]] = defaultdict(list)
    for window in windows:
        if not window.void and window.n_done and window.block != WARMING_BLOCK:
            taken[window.launch_id].append(window)
    seen = [_Launch.of(own) for own in taken.values()]
    layouts = [layout for layout in study.layouts if any(one.layout == layout for one in seen)]
    if len(layouts) < 2:
        raise ConfigError(
            f"{name} has windows of {len(layouts)} of its layouts; a replay needs two or more",
            hint="Continue it, or replay another study.",
        )
    fitted = _fit(seen, layouts)
    if fitted is None:
        for one in seen:
            one.block = ("", 0)
        fitted = _fit(seen, layouts)
    if fitted is None:
        raise ConfigError(
            f"{name} has one launch of each layout, so the variation between launches is unknown",
            hint="Continue it, or replay another study.",
        )
    effects, scale = fitted
    truths = dict(zip(layouts, effects, strict=True))
    blocks: dict[tuple[str, int], list[_Launch]] = defaultdict(list)
    for one in seen:
        blocks[one.block].append(one)
    drift = {block: fmean([one.mean - truths[one.layout] for one in own]) for block, own in blocks.items()}
    waits = [own[0].started_wall_s - launches[number].started_wall_s for number, own in taken.items()]
    return RecordedStudy(
        name=name,
        layouts=tuple(layouts),
        truths=effects,
        launches=tuple(one.differences(truths[one.layout] + drift[one.block], scale) for one in seen),
        drift=_path(blocks, drift),
        launch_s=max(0.0, fmean(waits)),
        window_s=median([window.length_s for own in taken.values() for window in own]),
        within=study.within_ratio,
        confidence=study.confidence,
        cores=study.cores,
    )


@dataclass(slots=True)
class _Launch:
    layout: Layout
    block: tuple[str, int]  #: host and number; two hosts have no block in common
    values: list[float]  #: logarithms of items per ten minutes, one per window
    middle_s: float

    @classmethod
    def of(cls, windows: Sequence[WindowRecord]) -> _Launch:
        first = windows[0]
        values = [log(TEN_MINUTES_S * window.n_done / window.length_s) for window in windows]
        middle_s = fmean([window.started_wall_s + window.length_s / 2 for window in windows])
        return cls(first.layout, (first.box, first.block), values, middle_s)

    @property
    def mean(self) -> float:
        return fmean(self.values)

    def differences(self, expected: float, scale: float) -> tuple[float, ...]:
        """Return the windows' differences from *expected*, with the launch's own part scaled."""
        mean = self.mean
        return tuple((mean - expected) * scale + (value - mean) for value in self.values)


def _fit(launches: Sequence[_Launch], layouts: Sequence[Layout]) -> tuple[tuple[float, ...], float] | None:
    """Return the layouts' effects and the factor for residuals; None: the blocks do not suffice."""
    numbers = {block: index for index, block in enumerate(dict.fromkeys(one.block for one in launches))}
    model = fit(
        [Observation(layouts.index(one.layout), numbers[one.block], one.mean) for one in launches],
        len(layouts),
    )
    if model.residual_df < 1 or len(model.n_blocks_of) > 1:
        return None
    return model.effects, sqrt(len(launches) / model.residual_df)


def _path(
    blocks: Mapping[tuple[str, int], Sequence[_Launch]], drift: Mapping[tuple[str, int], float]
) -> tuple[tuple[float, float], ...]:
    """Return the blocks' effects around 0 at their middles, in time order, of the host with most blocks."""
    boxes = [box for box, _ in blocks]
    box = max(dict.fromkeys(boxes), key=boxes.count)
    middles = sorted(
        (fmean([one.middle_s for one in own]), drift[block])
        for block, own in blocks.items()
        if block[0] == box
    )
    level = fmean([effect for _, effect in middles])
    return tuple((at_s - middles[0][0], effect - level) for at_s, effect in middles)
