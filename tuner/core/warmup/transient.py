"""The rest of a start-up transient: an exponential fitted to the samples and extrapolated.

MSER-5 stops cutting once the rest is hidden by the noise of a batch, a sixth of the level if seconds scatter
by a quarter; a mean over ten minutes has far less noise. The early seconds show the transient at its largest,
so its time constant is known well, and from it the time at which the rest no longer matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, sqrt
from typing import NamedTuple

from tuner.core.domain.layout import Layout

# Where the start-up transient ends: MSER-5.
#
# Cut as many leading batch means as make the marginal standard error of the mean of the rest smallest: the
# squared error that the cut saves by leaving a biased batch out, against the cost of the lost length.
#
# Source: White (1997); batches of five: White, Cobb & Spratt (2000). Its limits: Wang & Glynn (2016), and
# docs/method/warmup.md.

BATCH = 5  #: samples in a batch


def batch_means(values: Sequence[float]) -> list[float]:
    """Return the means of BATCH values each, in order; an incomplete last batch is left out."""
    return [sum(values[i : i + BATCH]) / BATCH for i in range(0, len(values) - BATCH + 1, BATCH)]


def truncation_point(batches: Sequence[float]) -> int:
    """Return how many leading batches are warm-up, by MSER.

    Returns:
        Index of the first batch to keep, 0..n//2. At n//2 steady state was probably not reached in the first
        half, and the rest is too short to show it.

    Raises:
        ValueError: fewer than 4 batches.
    """
    n = len(batches)
    if n < 4:
        raise ValueError(f"need 4 batches or more, got {n}")
    centre = sum(batches) / n  # keeps the squares small: sums of raw squares lose digits
    best, best_score = 0, float("inf")
    total = squares = 0.0
    for cut in range(n - 1, -1, -1):
        value = batches[cut] - centre
        total += value
        squares += value * value
        kept = n - cut
        score = max(0.0, squares - total * total / kept) / kept**2
        if cut <= n // 2 and score <= best_score:
            best, best_score = cut, score
    return best


TIME_CONSTANTS = tuple(
    s / BATCH for s in (2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 130, 200, 300, 450)
)  #: time constants that are tried, in batches
UNSEEN_TIME_CONSTANT = 30 / BATCH  #: a slower transient must be visible in the samples to be accepted
SEEN_GAIN = 6.0  #: variances by which a fit with a transient must be better, before a window begins
CERTAIN_GAIN = 8.0  #: variances by which it must be better when windows were measured
LEFT_RATIO = 0.002  #: a transient is over below this share of the mean of the rest
FEWEST_LAUNCHES = 5  #: fewest earlier launches from which a transient is expected
FEWEST_LEARNT_BATCHES = 6  #: fewest batches of such a launch
CONTRADICTS = 2.5  #: standard errors by which a launch's own transient contradicts the expected one
PLAUSIBLE = 1.0  #: another fit is as good within so many variances: one standard error


@dataclass(frozen=True, slots=True)
class _Exponential:
    """Level plus amplitude * exp(-t / time constant), fitted from batch *start* on."""

    start: int
    n: int  #: number of fitted batches
    time_constant: float  #: time constant in batches
    amplitude: float  #: value at *start*; negative: throughput rises
    spread: float  #: sum of squares of the regressor; variance / spread is the amplitude's variance
    squares: float  #: sum of squared residuals
    squares_without: float  #: sum of squared residuals of a constant level

    @property
    def score(self) -> float:
        """Return MSER's criterion for the level, with the transient removed."""
        return self.squares / self.n**2

    def left_at(self, batch: int) -> float:
        """Return the distance of throughput from its level at *batch*, per unit of amplitude."""
        return exp(-(batch - self.start) / self.time_constant)

    def mean_left(self, batch: int, length: float) -> float:
        """Return that distance, averaged over *length* batches from *batch* on."""
        scale = self.time_constant / length
        return self.left_at(batch) * scale * (1.0 - exp(-length / self.time_constant))


def remaining_ratio(
    batches: Sequence[float], window_batches: float, expected: Mapping[float, Expected] | None = None
) -> float:
    """Return a bound of the bias of a window that begins after *batches*, as a share of the level.

    It is the largest over the exponentials that fit as well as the best one, to one standard error. A time
    constant above 30 s counts only if it fits clearly: every slow and small transient fits into noise.

    Args:
        batches: since the first item.
        window_batches: length of the window.
        expected: transients of earlier launches: see `EarlierTransients`.

    Raises:
        ValueError: fewer than 4 batches.
    """
    fits = _best_fits(batches) if expected is None else _fits(batches, 0)
    level = _level(batches)
    variance = _variance(fits, level)
    least = min(fit.squares for fit in fits)
    bound = 0.0
    for fit in fits:
        worse = (fit.squares - least) / variance
        is_seen = (fit.squares_without - fit.squares) / variance > SEEN_GAIN
        if worse < PLAUSIBLE and (is_seen or fit.time_constant <= UNSEEN_TIME_CONSTANT):
            own = Expected(fit.amplitude / level, variance / fit.spread / level**2)
            if expected is not None:
                own = own.combined(expected[fit.time_constant])
            error = sqrt((PLAUSIBLE - worse) * own.variance)
            bound = max(bound, (abs(own.amplitude) + error) * fit.mean_left(len(batches), window_batches))
    return bound


class Expected(NamedTuple):
    """The amplitude of an exponential at the first item, as a share of the level, and its variance."""

    amplitude: float
    variance: float

    def combined(self, earlier: Expected) -> Expected:
        """Return this estimate of one launch, combined with the expectation from *earlier* launches.

        An estimate that contradicts the expectation stays as it is.
        """
        apart = self.amplitude - earlier.amplitude
        if apart**2 > CONTRADICTS**2 * (self.variance + earlier.variance):
            return self
        share = self.variance / (self.variance + earlier.variance)
        return Expected(self.amplitude - share * apart, share * earlier.variance)


@dataclass(slots=True)
class EarlierTransients:
    """The transients of a study's launches so far, as the expectation for its next launch.

    A single launch cannot exclude a small transient for a long time. Windows of seconds would wait for that
    in each launch. If the earlier launches had similar transients, or none, the next one likely has a similar
    one: for each time constant, amplitudes are normally distributed around their mean over all launches.

    Source: DerSimonian & Laird, Meta-analysis in clinical trials (1986), for the variance between launches.
    """

    #: layout and estimates of each launch, by time constant in batches
    _found: list[tuple[Layout, dict[float, Expected]]] = field(default_factory=list)

    def learn(self, layout: Layout, items_per_s: Sequence[float]) -> None:
        """Take note of a launch's items per second since its first item, windows included."""
        batches = batch_means(items_per_s)
        if len(batches) < FEWEST_LEARNT_BATCHES:
            return
        fits, level = _fits(batches, 0), _level(batches)
        variance = _variance(fits, level) / level**2
        found = {fit.time_constant: Expected(fit.amplitude / level, variance / fit.spread) for fit in fits}
        self._found.append((layout, found))

    def expected(self, layout: Layout) -> Mapping[float, Expected] | None:
        """Return the expectation by time constant, from *layout*'s launches or, if they are few, from all.

        None: there were too few launches.
        """
        of_all = [found for _, found in self._found]
        own = [found for one, found in self._found if one == layout]
        found = own if len(own) >= FEWEST_LAUNCHES else of_all
        if len(found) < FEWEST_LAUNCHES:
            return None
        return {key: _of_next([of_one[key] for of_one in found]) for key in found[0]}


def _of_next(found: Sequence[Expected]) -> Expected:
    """Return the mean of estimates, and the variance of the next launch's amplitude around it."""
    n, weights = len(found), [1 / one.variance for one in found]
    total = sum(weights)
    middle = sum(weight * one.amplitude for weight, one in zip(weights, found, strict=True)) / total
    squares = sum(weight * (one.amplitude - middle) ** 2 for weight, one in zip(weights, found, strict=True))
    own = total - sum(weight**2 for weight in weights) / total
    between = max(0.0, (squares - (n - 1)) / own)
    weights = [1 / (one.variance + between) for one in found]
    total = sum(weights)
    middle = sum(weight * one.amplitude for weight, one in zip(weights, found, strict=True)) / total
    return Expected(middle, between + 1 / total)


def transient_end(batches: Sequence[float], *, or_trend: bool = False) -> int:
    """Return the first batch from which the rest of the transient biases the mean by 0.2 % at most.

    It is never before MSER's point; len(batches) means that no end was found. If a straight line fits
    nearly as well, it may be a trend, which no cut would cure: it counts as a transient only if *or_trend*.

    Raises:
        ValueError: fewer than 4 batches.
    """
    n, cut = len(batches), truncation_point(batches)
    fits = _best_fits(batches)
    level = _level(batches)
    variance = _variance(fits, level)
    best = min(fits, key=lambda fit: fit.squares)
    without = best.squares_without
    if not or_trend:
        without = min(without, _squares_of_line(batches[best.start :]))
    if (without - best.squares) / variance < CERTAIN_GAIN:
        return cut
    for batch in range(max(cut, best.start), n):
        if abs(best.amplitude) * best.mean_left(batch, n - batch) <= LEFT_RATIO * level:
            return batch
    return n


def _best_fits(batches: Sequence[float]) -> list[_Exponential]:
    """Return one fit per time constant, all from the start that fits best: the transient may begin late."""
    cut = truncation_point(batches)
    starts = {cut * quarter // 4 for quarter in range(5)}
    fits = [_fits(batches, start) for start in sorted(starts) if len(batches) - start >= 4]
    return min(fits, key=lambda group: min(fit.score for fit in group))


def _fits(batches: Sequence[float], start: int) -> list[_Exponential]:
    kept = batches[start:]
    n = len(kept)
    mean = sum(kept) / n
    centred = [value - mean for value in kept]
    squares_without = sum(value * value for value in centred)
    found = []
    for time_constant in TIME_CONSTANTS:
        factor = exp(-1.0 / time_constant)
        product = 0.0
        for value in reversed(centred):  # Horner: the sum of value[i] * factor**i
            product = product * factor + value
        total = (1.0 - factor**n) / (1.0 - factor)
        spread = (1.0 - factor ** (2 * n)) / (1.0 - factor**2) - total * total / n
        amplitude = product / spread
        squares = max(0.0, squares_without - product * amplitude)
        found.append(_Exponential(start, n, time_constant, amplitude, spread, squares, squares_without))
    return found


def _squares_of_line(values: Sequence[float]) -> float:
    n = len(values)
    mean, middle = sum(values) / n, (n - 1) / 2
    product = sum((i - middle) * (value - mean) for i, value in enumerate(values))
    spread = n * (n * n - 1) / 12
    return sum((value - mean) ** 2 for value in values) - product * product / spread


def _level(batches: Sequence[float]) -> float:
    """Return the mean of the last quarter; tiny if no item is finished there."""
    last = batches[-max(2, len(batches) // 4) :]
    return max(sum(last) / len(last), 1e-9)


def _variance(fits: Sequence[_Exponential], level: float) -> float:
    """Return the variance of one batch; never quite 0, because callers divide by it."""
    n = fits[0].n
    return max(min(fit.squares for fit in fits) / max(1, n - 3), (1e-4 * level) ** 2)
