"""The comparison of a layout with itself: how often tuner's rules find a false difference.

Launches come in pairs. A random draw labels the launches of a pair A and B, so the share of all labellings in
which a rule finds A and B different *is* the rule's false-alarm rate for these launches, without assumptions
about the noise. For other launches, only studies without common launches give evidence, and there are few of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, fsum, log, sqrt
from random import Random
from statistics import fmean, variance

from tuner.core.defaults import CONFIDENCE, WITHIN
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Observed
from tuner.core.search.racing import Race
from tuner.core.search.strategies.launches import launch_value
from tuner.core.stats.interval import Estimate, exact_interval, wilson_interval
from tuner.core.stats.quantiles import student_t_quantile
from tuner.core.stats.variance import MeanSquare, estimate_sd

MOST_LABELLINGS = 1024  #: all labellings of ten pairs; with more pairs, a random sample of this size
_RACED_PAIRS = 5_000  #: pairs x labellings tried by a race, which takes some seconds; at least 200 labellings
PAIRS_OF_A_STUDY = 3  #: pairs per study without common launches: as many launches of a layout as `grid` makes
POWER = 0.9
HOURS = (1.0, 4.0, 8.0)

#: windows of two launches, in the order of the launches
Pair = tuple[tuple[Observed, ...], tuple[Observed, ...]]
Labelling = Sequence[bool]  #: for each pair, whether the second launch is labelled A


@dataclass(frozen=True, slots=True)
class AlarmRate:
    """The number of false differences that a rule finds between a layout and itself."""

    rule: str  #: name of the rule: ranking, race or welch
    n_alarms: int
    n: int  #: number of labellings tried
    every: bool  #: True: all possible labellings; False: a sample
    #: lower end of the share among all labellings, Wilson 95 %; the share itself if all were tried
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """The share of labellings with a false alarm."""
        return self.n_alarms / self.n


@dataclass(frozen=True, slots=True)
class Separate:
    """The false alarms of the ranking's rule in separate studies without common launches."""

    n_alarms: int
    n: int
    low: float  #: lower end of the share, exact (Clopper-Pearson), 95 %
    high: float


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest difference that is found with the power `POWER` after a number of hours."""

    hours: float
    n_pairs: int  #: number of pairs that these hours allow
    #: share by which one layout must be slower; None: fewer than two pairs are possible
    ratio: Estimate | None


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The result of a comparison of a layout with itself."""

    n_pairs: int
    confidence: float
    rates: tuple[AlarmRate, ...]
    separate: Separate | None  #: None: not enough pairs for one study
    pair_sd: Estimate  #: standard deviation of one launch around its pair, as a ratio
    detectable: tuple[Detectable, ...]


def self_test(
    pairs: Sequence[Pair],
    *,
    launch_s: float,
    confidence: float = CONFIDENCE,
    within: float = WITHIN,
    seed: int = 1,
) -> SelfTest:
    """Apply tuner's rules and Welch's test to labellings of *pairs*.

    Args:
        pairs: two or more, in the order of their launches.
        launch_s: duration of a launch with its windows, to compute the detectable difference per hour.
        confidence: of the rules; a rule may give at most a share of 1 - confidence false alarms.
        within: the race's margin.
        seed: of the random labellings.
    """
    if len(pairs) < 2:
        raise ValueError(f"{len(pairs)} pairs")
    labellings, every = _labellings(len(pairs), seed)
    rules: dict[str, Callable[[Labelling], bool]] = {
        "ranking": lambda labels: ranking_alarm(pairs, labels, confidence),
        "race": lambda labels: race_alarm(pairs, labels, confidence, within),
    }
    if all(len(launch) > 1 for pair in pairs for launch in pair):
        rules["welch"] = lambda labels: welch_alarm(pairs, labels, confidence)
    rates = []
    for name, alarm in rules.items():
        n_alarms, n = sum(map(alarm, labellings)), len(labellings)
        low, high = (n_alarms / n, n_alarms / n) if every else wilson_interval(n_alarms, n)
        rates.append(AlarmRate(name, n_alarms, n, every, low, high))
    # A and B are the same layout, so the mean difference is known to be 0.
    square = MeanSquare(fsum(gap**2 for gap in _gaps(pairs)) / (2 * len(pairs)), len(pairs))
    sd = estimate_sd(square, confidence)
    return SelfTest(
        n_pairs=len(pairs),
        confidence=confidence,
        rates=tuple(rates),
        separate=_separate(pairs, confidence, seed),
        pair_sd=sd,
        detectable=tuple(detectable(sd, hours, launch_s, confidence) for hours in HOURS),
    )


def detectable(sd: Estimate, hours: float, launch_s: float, confidence: float) -> Detectable:
    """Compute the difference that a paired t-test finds with the power `POWER` after *hours* of pairs."""
    n_pairs = int(hours * 3600 / (2 * launch_s))
    if n_pairs < 2 or sd.mean is None or sd.low is None or sd.high is None:
        return Detectable(hours, n_pairs, None)
    reach = student_t_quantile((1 + confidence) / 2, n_pairs - 1) + student_t_quantile(POWER, n_pairs - 1)
    shares = (-(exp(-reach * one * sqrt(2 / n_pairs)) - 1) for one in (sd.mean, sd.low, sd.high))
    return Detectable(hours, n_pairs, Estimate(*shares))


def ranking_alarm(pairs: Sequence[Pair], labels: Labelling, confidence: float) -> bool:
    """Return whether the ranking finds A and B different: for two layouts, the paired t-test."""
    gaps = [-gap if swap else gap for gap, swap in zip(_gaps(pairs), labels, strict=True)]
    n = len(gaps)
    spread = sqrt(variance(gaps) / n)
    return abs(fmean(gaps)) > max(1e-9, student_t_quantile((1 + confidence) / 2, n - 1) * spread)


def race_alarm(pairs: Sequence[Pair], labels: Labelling, confidence: float, within: float) -> bool:
    """Return whether a strict race of A and B names, at any time, one of them without the other as a tie."""
    one = pairs[0][0][0].layout
    a, b = replace(one, variant="A"), replace(one, variant="B")
    lengths = [window.length_s for pair in pairs for launch in pair for window in launch]
    race = Race(
        Goal((a, b), within, confidence, "strict", min(lengths), max(lengths)),
        seed=0,
    )
    for pair, swap in zip(pairs, labels, strict=True):
        names: tuple[Layout, Layout] = (b, a) if swap else (a, b)
        race.learn(
            [
                replace(window, layout=name)
                for name, launch in zip(names, pair, strict=True)
                for window in launch
            ]
        )
        answer = race.answer()
        if answer.layout is not None and not answer.ties:
            return True
    return False


def welch_alarm(pairs: Sequence[Pair], labels: Labelling, confidence: float) -> bool:
    """Return whether Welch's test finds A and B different; it wrongly takes windows as independent."""
    of: tuple[list[float], list[float]] = ([], [])
    for pair, swap in zip(pairs, labels, strict=True):
        for place, launch in enumerate(pair):
            of[place != swap].extend(window.value for window in launch)
    (var_a, n_a), (var_b, n_b) = ((variance(values), len(values)) for values in of)
    square = var_a / n_a + var_b / n_b
    if square == 0:
        return fmean(of[0]) != fmean(of[1])
    df = square**2 / ((var_a / n_a) ** 2 / (n_a - 1) + (var_b / n_b) ** 2 / (n_b - 1))
    return abs(fmean(of[0]) - fmean(of[1])) > student_t_quantile((1 + confidence) / 2, df) * sqrt(square)


def _gaps(pairs: Sequence[Pair]) -> list[float]:
    return [log(launch_value(one) / launch_value(other)) for one, other in pairs]


def _labellings(n_pairs: int, seed: int) -> tuple[list[tuple[bool, ...]], bool]:
    """Return all ways to label *n_pairs* pairs, or a sample of them; and whether they are all."""
    if 2**n_pairs <= MOST_LABELLINGS:
        return list(product((False, True), repeat=n_pairs)), True
    random = Random(f"{seed}/labels")
    n = max(200, _RACED_PAIRS // n_pairs)
    drawn = [random.getrandbits(n_pairs) for _ in range(n)]
    return [tuple(bool(bits >> place & 1) for place in range(n_pairs)) for bits in drawn], False


def _separate(pairs: Sequence[Pair], confidence: float, seed: int) -> Separate | None:
    """Split *pairs* into consecutive small studies, label each once, and count false alarms."""
    n = len(pairs) // PAIRS_OF_A_STUDY
    if not n:
        return None
    random = Random(f"{seed}/separate")
    n_alarms = 0
    for number in range(n):
        own = pairs[number * PAIRS_OF_A_STUDY : (number + 1) * PAIRS_OF_A_STUDY]
        n_alarms += ranking_alarm(own, [random.getrandbits(1) == 1 for _ in own], confidence)
    return Separate(n_alarms, n, *exact_interval(n_alarms, n))
