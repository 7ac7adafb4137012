"""The order and the lengths of slices, in which resident layouts take turns.

Order: rows of a Williams design, in which each layout follows each other one equally often, so that effects
of a slice on the next one cancel. Source: Williams, Experimental designs balanced for the estimation of
residual effects of treatments (1949).

Length: a slice holds many items of each thread, and its first part, in which the layout returns to its full
speed, is not counted. If the halves of the counted part differ, the skipped part was too short:
`SkipControl`.

Moment: at the beginning of a slice, many threads begin an item. If each item takes the same time, they also
end together, so a part of fixed length that begins at a fixed moment always has a whole number of items of
each thread, which may be too many or too few. So the skipped part has a random length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import exp, inf, log, sqrt
from random import Random
from statistics import fmean, stdev

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import LostInSlices, Observed
from tuner.core.domain.window import Sample
from tuner.core.stats.quantiles import student_t_quantile

MOST_RESIDENT = 4  #: most layouts that take turns
SHORTEST_S, LONGEST_S = 1.0, 30.0  #: least and largest length of the counted part of a slice
#: longest counted part if items in flight are frozen between slices, so that they need not end in one; parts
#: are longer if items wait, because a pause does not stop the time of a sleep or of a server
LONGEST_FROZEN_S = 1.0
ITEMS_PER_SLICE = 20.0  #: items of each thread in a slice
ITEMS_SKIPPED = 2.0  #: items of each thread in the skipped part at the beginning of a slice
#: least counted part in intervals at which idle workers poll for items, each skipped once; more would leave
#: a first window of 10 s without FEWEST_ROUNDS
POLLS_PER_SLICE = 3.0
#: least length of the skipped part in seconds, and its largest share of the counted part
LEAST_SKIP_S, MOST_SKIP_SHARE = 0.2, 0.25
#: largest random part of the skipped part, as a share of the counted part
MOST_SPREAD_SHARE = 0.25
MOST_BIAS = 0.002  #: bias of throughput in counted parts, above which the skipped part grows
SURE = 2.6  #: least significance of this bias, in standard errors: 99 %
FEWEST_SLICES = 20  #: fewest slices from which the bias is estimated
GROWS, MOST_GROWN = 1.5, 4.0  #: factor of each growth of the skipped part, and of all together
#: share of the throughput whose loss in slices counts; busy hosts explain less in the mean of launches
MOST_LOST = 0.1
SURE_OF_LOSS = 0.9995  #: confidence in this loss, because it is tested after each heat, for each layout
FEWEST_HEATS = 4  #: fewest heats from which the loss is estimated
FEWEST_ITEMS = 20  #: fewest items of a warm-up that show its throughput
#: least and largest time between two samples of one warm-up, in seconds; usually 1 s
LEAST_STEP_S, MOST_STEP_S = 0.05, 3.0
FEWEST_ROUNDS = 3  #: fewest rounds of slices from which the noise of a launch is estimated
N_BATCHES = 5  #: batches of slices from which it is estimated, if there are so many slices
_MEMORIES_S = (60.0, 300.0, 900.0)  #: time constants of the kernel's load averages
COVERED_S = 60.0  #: counted time after which a load average of 1 minute counts


@dataclass(frozen=True, slots=True)
class Slice:
    """The lengths of a slice in seconds."""

    skip_s: float  #: skipped part at the beginning
    counted_s: float  #: counted part; inf: until the end of the window
    spread_s: float = 0.0  #: the skipped part is longer by a random time of at most this length

    def drawn(self, random: Random) -> Slice:
        """Return the slice of one turn."""
        return replace(self, skip_s=self.skip_s + random.uniform(0, self.spread_s), spread_s=0.0)

    @property
    def length_s(self) -> float:
        """Return the length of the whole slice."""
        return self.skip_s + self.counted_s

    @property
    def is_endless(self) -> bool:
        """Return whether the layout runs until its window is over."""
        return self.counted_s == inf

    def without_end(self) -> Slice:
        """Return the slice of a layout that no other layout follows."""
        return replace(self, counted_s=inf)


@dataclass(slots=True)
class SkipControl:
    """Control of the skipped part, which grows until the switch no longer biases the counted part."""

    times: float = 1.0  #: length of the skipped part as a multiple of the rule in `slice_for`
    #: first half minus second half of each slice, as a share of the mean rate
    _off: list[float] = field(default_factory=list)

    def learn(self, halves: Sequence[tuple[float, float]]) -> None:
        """Take note of slices of one launch: the rates in both halves of each counted part."""
        mean = fmean(rate for both in halves for rate in both) if halves else 0.0
        if mean > 0:
            self._off += [(first - second) / mean for first, second in halves]
        self._adapt()

    @property
    def bias(self) -> tuple[float, float] | None:
        """Return the share by which throughput is too low if second halves are right, and its error.

        It is negative if throughput is too high.
        """
        n = len(self._off)
        if n < FEWEST_SLICES:
            return None
        return -fmean(self._off) / 2, stdev(self._off) / sqrt(n) / 2

    def _adapt(self) -> None:
        if (found := self.bias) is None or self.times >= MOST_GROWN:
            return
        bias, error = found
        if abs(bias) > max(MOST_BIAS, SURE * error):
            self.times = min(MOST_GROWN, GROWS * self.times)
            self._off.clear()


@dataclass(slots=True)
class ThroughputLost:
    """Comparison of throughput in slices with that of the same launches just before, when they ran alone.

    A probe that reports items late (a worker that writes its log every 0.7 s) reports many of them in the
    skipped parts of slices. A warm-up is at most as fast as the windows after it, so only losses count.
    """

    #: logarithms of throughput in slices / before: in each heat, of its launches
    _heats: list[list[tuple[Layout, float]]] = field(default_factory=list)
    found: LostInSlices | None = None  #: the clear loss; None: there is none

    def learn(self, windows: Sequence[Observed]) -> list[Observed]:
        """Test again with the windows of one block, and return those with items.

        A window without any item is a clear loss at once. Windows without slices do not count.
        """
        with_items = [one for one in windows if not one.is_silent]
        if len(with_items) < len(windows):
            self.found = LostInSlices(1.0, tuple(sorted({one.layout for one in windows if one.is_silent})))
        else:
            self._add(with_items)
        return with_items

    def _add(self, windows: Iterable[Observed]) -> None:
        heats: dict[float, dict[int, list[tuple[Layout, float]]]] = {}
        for one in windows:
            if one.turns_s is not None and one.of_warmup is not None:
                launches = heats.setdefault(one.turns_s, {})
                launches.setdefault(one.launch, []).append((one.layout, log(one.of_warmup)))
        for launches in heats.values():
            self._heats.append([(of[0][0], fmean(lost for _, lost in of)) for of in launches.values()])
        if heats:
            self.found = self._test()

    def _test(self) -> LostInSlices | None:
        """Return the clear loss, of all layouts or of some; None: there is none.

        The launches of a heat share the host's state in their slices, so all of them count as one value, and
        those of one layout as values of different heats.
        """
        means = [fmean(lost for _, lost in heat) for heat in self._heats]
        if len(means) < FEWEST_HEATS:
            return None
        of_layout: dict[Layout, list[float]] = {}
        for layout, lost in chain.from_iterable(self._heats):
            of_layout.setdefault(layout, []).append(lost)
        if not _is_clear(means, stdev(means), len(means) - 1) and not _is_of_layout(list(of_layout.values())):
            return None
        return _loss_of({layout: fmean(own) for layout, own in of_layout.items()})


def items_per_s(samples: Sequence[Sample]) -> float | None:
    """Return the throughput of a launch before its slices; None: it finished fewer than `FEWEST_ITEMS`.

    A window that turns out to have begun before steady state adds its samples to the warm-up's: the first of
    these is taken at once after the last one of the warm-up. A second warm-up begins after a longer pause.
    """
    before = list(samples[:1])
    for sample in samples[1:]:
        if not LEAST_STEP_S < sample.at_s - before[-1].at_s < MOST_STEP_S:
            break
        before.append(sample)
    if not before:
        return None
    n_done = before[-1].n_done_total - before[0].n_done_total
    lasted_s = before[-1].at_s - before[0].at_s
    return n_done / lasted_s if n_done >= FEWEST_ITEMS and lasted_s > 0 else None


def _is_of_layout(of_layouts: Sequence[Sequence[float]]) -> bool:
    """Return whether the loss of any layout is clear; they share the noise between heats."""
    df = sum(len(own) - 1 for own in of_layouts)
    if df < FEWEST_HEATS:
        return False
    within = sqrt(sum((one - fmean(own)) ** 2 for own in of_layouts for one in own) / df)
    return any(_is_clear(own, within, df) for own in of_layouts if len(own) > 1)


def _is_clear(logs: Sequence[float], sd: float, df: int) -> bool:
    mean, reach = fmean(logs), student_t_quantile(SURE_OF_LOSS, df)
    return mean < log(1 - MOST_LOST) and mean < -reach * sd / sqrt(len(logs))


def _loss_of(logs: Mapping[Layout, float]) -> LostInSlices:
    """Return a loss that is clear; it is of some layouts if the others lose less than half as much."""
    losing = [layout for layout, lost in logs.items() if lost < log(1 - MOST_LOST)]
    others = [lost for layout, lost in logs.items() if layout not in losing]
    mean = fmean(logs[layout] for layout in losing or logs)
    if others and fmean(others) > mean / 2:
        return LostInSlices(1 - exp(mean), tuple(sorted(losing)))
    return LostInSlices(1 - exp(fmean(logs.values())), ())


def slice_for(
    residence_s: float,
    *,
    freezes: bool,
    wait_s: float = 0.0,
    poll_interval_s: float = 0.0,
    skip_times: float = 1.0,
) -> Slice:
    """Return the slice for items of *residence_s* in the slowest layout; endless if it would be too long.

    Args:
        residence_s: time that an item takes.
        freezes: items in flight stand still between slices, so they need not end in one.
        wait_s: time of an item in sleeps and at servers, which a pause does not stop.
        poll_interval_s: time after which an idle worker looks for items again; until then it works on none.
        skip_times: by which the skipped part is longer, as it turned out to be too short.
    """
    counted_s = max(SHORTEST_S, ITEMS_PER_SLICE * residence_s, POLLS_PER_SLICE * poll_interval_s)
    if freezes:
        counted_s = max(min(counted_s, LONGEST_FROZEN_S), min(counted_s, ITEMS_PER_SLICE * wait_s))
    if counted_s > LONGEST_S:
        return Slice(min(ITEMS_SKIPPED * residence_s, LONGEST_S), inf)
    skip_s = min(max(LEAST_SKIP_S, ITEMS_SKIPPED * residence_s), MOST_SKIP_SHARE * counted_s)
    skip_s = max(skip_s, poll_interval_s + LEAST_SKIP_S if poll_interval_s else 0.0)
    return Slice(skip_times * skip_s, counted_s, min(residence_s, MOST_SPREAD_SHARE * counted_s))


def noise_of_second(
    own: Mapping[int, float], others: Sequence[Mapping[int, float]], counted_s: float
) -> float | None:
    """Return the noise of a launch from slice to slice, without changes that it shares with *others*.

    In each round, the launch's slice is compared with the mean of the others' slices, each as a multiple of
    the mean of its launch. Means of batches of slices count as independent; single slices are not, because a
    low one is often followed by a high one. All launches count as equally noisy.

    Args:
        own: items per second in the launch's slices, by round.
        others: the same of the launches with which it takes turns.
        counted_s: length of the counted part of a slice.

    Returns:
        The standard deviation of the throughput of one second, as a share of its mean; None: no other launch
        has `FEWEST_ROUNDS` rounds in common with it, or a launch finished no item in them.
    """
    others = [one for one in others if len(one.keys() & own.keys()) >= FEWEST_ROUNDS]  # others ended early
    rounds = [n for n in own if all(n in one for one in others)] if others else []
    if len(rounds) < FEWEST_ROUNDS:
        return None
    means = [fmean(one[n] for n in rounds) for one in (own, *others)]
    if min(means) <= 0:
        return None
    shared = [fmean(one[n] / mean for one, mean in zip(others, means[1:], strict=True)) for n in rounds]
    beyond = [own[n] / means[0] - of_others for n, of_others in zip(rounds, shared, strict=True)]
    size = max(1, len(beyond) // N_BATCHES)
    batches = [fmean(beyond[at : at + size]) for at in range(0, len(beyond) - size + 1, size)]
    return stdev(batches) * sqrt(size * counted_s / (1 + 1 / len(others)))


def williams_rows(n: int) -> list[list[int]]:
    """Return rows of 0 to n - 1 in which each number follows each other one equally often.

    There are n rows, or 2 n for odd n.
    """
    first = [0]
    low, high = 1, n - 1
    while len(first) < n:
        first.append(low)
        low += 1
        if len(first) < n:
            first.append(high)
            high -= 1
    rows = [[(number + shift) % n for number in first] for shift in range(n)]
    return rows if n % 2 == 0 else rows + [row[::-1] for row in rows]


def turns(n: int, random: Random) -> Iterator[list[int]]:
    """Yield endless rounds of Williams designs, rows in random order; each row has all numbers below *n*."""
    while True:
        names = list(range(n))
        random.shuffle(names)
        rows = williams_rows(n)
        random.shuffle(rows)
        for row in rows:
            yield [names[number] for number in row]


class LoadInSlices:
    """The load averages of a window in slices, from the active tasks counted since it began.

    They have the time constants of the kernel's, but no initial value: the load before the window has no
    weight. So load1 of a window of a few seconds is about the plain mean. The kernel updates every 5 s, too
    seldom for such a window, so here each count stands for the time since the previous one.
    """

    def __init__(self, now_s: float) -> None:
        self._at_s = now_s
        self._parts = [(0.0, 0.0)] * len(_MEMORIES_S)  #: weighted sum of tasks, and the sum of the weights

    def advance(self, now_s: float, n_active: float) -> list[float]:
        """Return the averages of 1, 5 and 15 minutes, with *n_active* tasks until *now_s*."""
        passed_s, self._at_s = now_s - self._at_s, now_s
        keeps = [exp(-passed_s / memory_s) for memory_s in _MEMORIES_S]
        self._parts = [
            (kept * tasks + (1 - kept) * n_active, kept * weight + 1 - kept)
            for kept, (tasks, weight) in zip(keeps, self._parts, strict=True)
        ]
        return [tasks / weight if weight > 0 else n_active for tasks, weight in self._parts]


def loads_in_slices(counts: Sequence[tuple[float, float]], began_s: float) -> list[float]:
    """Return the 1-minute load averages of a window in slices that count for its mean and maximum.

    A load average counts once it covers `COVERED_S`, and in a shorter window only the last one: an earlier
    one is that of a few counts, and the first that of a single count.

    Args:
        counts: pairs of the time and the number of active tasks, in time order.
        began_s: the time at which the window began.
    """
    load = LoadInSlices(began_s)
    seen = [(at_s, load.advance(at_s, n_active)[0]) for at_s, n_active in counts]
    return [load1 for at_s, load1 in seen if at_s - began_s >= COVERED_S] or [seen[-1][1]]
