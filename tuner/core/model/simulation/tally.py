"""Counts of a simulation: tasks in each state, finished items, a digest of all events."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import frexp

from tuner.core.model.simulation.scenario import (
    BUCKET_RATIO,
    N_BUCKETS,
    STAGE_KINDS,
    Counts,
    Scenario,
    TaskSeconds,
    batch_ends,
    least_residence_s,
)

# Random numbers that are equal, to the last bit, in Python and in C, on every machine.
#
# Only operations that IEEE 754 defines exactly are used (no libm), equally in `variates.py` and
# `simulate.c`. Source: Blackman & Vigna, Scrambled linear pseudorandom number generators (2021):
# xoshiro256**, splitmix64.

_WORD_MASK = 2**64 - 1
_SQRT_HALF = 0.7071067811865476
_LN_2 = 0.6931471805599453
#: 1/19 ... 1/5, 1/3: artanh(s) = s (1 + s^2/3 + s^4/5 + ...). For |s| <= 0.172 the omitted terms are below
#: 1e-16.
_SERIES = tuple(1 / n for n in range(19, 1, -2))


class Exponentials:
    """Exponential variates of mean 1, by -log(1 - u) of xoshiro256**'s u."""

    def __init__(self, seed: int) -> None:
        self._words = Xoshiro(splitmix(seed, 4))

    def next(self) -> float:
        """Return the next variate."""
        return -natural_log(1.0 - (self._words.next() >> 12) * 2.0**-52)


class Xoshiro:
    """xoshiro256**: random words of 64 bits, from four that are not all 0."""

    def __init__(self, state: Sequence[int]) -> None:
        self._state = tuple(state)

    def next(self) -> int:
        """Return the next word."""
        a, b, c, d = self._state
        word = _rotate(b * 5 & _WORD_MASK, 7) * 9 & _WORD_MASK
        c ^= a
        d ^= b
        self._state = (a ^ d, b ^ c, c ^ (b << 17 & _WORD_MASK), _rotate(d, 45))
        return word


def splitmix(seed: int, n: int) -> list[int]:
    """Return the first *n* words of splitmix64: a state that differs in half of its bits from seed + 1's."""
    words = []
    for _ in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) & _WORD_MASK
        mixed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & _WORD_MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD_MASK
        words.append(mixed ^ (mixed >> 31))
    return words


def natural_log(x: float) -> float:
    """Return log(x) for normal numbers above 0, to a few units in the last place; exact operations only."""
    mantissa, exponent = frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa += mantissa
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    squared = s * s
    series = 0.0
    for term in _SERIES:
        series = (series + term) * squared
    return exponent * _LN_2 + (s + s) * (1.0 + series)


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _WORD_MASK


_KINDS = (*STAGE_KINDS, "forced", "arrival")  # of events: the end of a stage, or what ends none
FORCED, ARRIVAL = _KINDS.index("forced"), _KINDS.index("arrival")
_FNV_OFFSET, _FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a simulation."""

    at_s: float
    what: str  #: kind of the stage that ended, or "forced" (a hand-over), or "arrival"
    thread: int  #: thread of the stage, or thread that lost the GIL; thread k is one of process k modulo P


class Tally:
    """Number of tasks in each state, their integrals over time, and the finished items."""

    def __init__(self, scenario: Scenario, trajectory: list[Event] | None) -> None:
        self._trajectory = trajectory
        self.n_runnable = self.n_gil_held = self.n_gil_waiting = 0
        self.n_asleep = self.n_blocked = self.n_queued = 0
        self.n_forced = 0
        self.is_complete = False
        self._cores = scenario.cores
        self._n_warm_items = scenario.n_warm_items
        self._batch_ends = batch_ends(scenario.n_items)
        self._least_residence_s = least_residence_s(scenario)
        self._per_log = 1.0 / natural_log(BUCKET_RATIO)
        self._n_done = 0
        self._n_events = 0
        self._digest = _FNV_OFFSET
        self._begin(0.0)

    def _begin(self, now_s: float) -> None:
        self._begin_s = now_s
        self._integrals_s = [0.0] * len(fields(TaskSeconds))
        self._residence_sum_s = 0.0
        self._batch_ends_s: list[float] = []
        self._histogram: dict[int, int] = {}
        self.n_forced = 0

    def pass_time(self, passed_s: float, speed: float) -> None:
        """Add *passed_s* seconds without a change, while the cores do *speed* of work a second."""
        now = (
            self.n_runnable,
            speed,
            min(self.n_runnable, self._cores),
            self.n_gil_held,
            self.n_gil_waiting,
            self.n_asleep,
            self.n_blocked,
            self.n_queued,
        )
        for which, level in enumerate(now):
            self._integrals_s[which] += level * passed_s

    def note(self, now_s: float, kind: int, thread: int) -> None:
        """Take an event into the digest: FNV-1a, a word of 64 bits at a time."""
        self._n_events += 1
        if self._trajectory is not None:
            self._trajectory.append(Event(now_s, _KINDS[kind], thread))
        (bits,) = struct.unpack("<Q", struct.pack("<d", now_s))
        for word in (bits, kind << 32 | thread):
            self._digest = (self._digest ^ word) * _FNV_PRIME & _MASK

    def end_item(self, now_s: float, residence_s: float) -> None:
        """Count a finished item. Measuring begins after the warm-up's last item, and ends with the last."""
        self._n_done += 1
        if self._n_done == self._n_warm_items:
            self._begin(now_s)
        n_measured = self._n_done - self._n_warm_items
        if n_measured <= 0:
            return
        self._residence_sum_s += residence_s
        bucket = self._bucket(residence_s)
        self._histogram[bucket] = self._histogram.get(bucket, 0) + 1
        if n_measured == self._batch_ends[len(self._batch_ends_s)]:
            self._batch_ends_s.append(now_s - self._begin_s)
        self.is_complete = n_measured == self._batch_ends[-1]

    def _bucket(self, residence_s: float) -> int:
        ratio = residence_s / self._least_residence_s
        return min(int(natural_log(ratio) * self._per_log), N_BUCKETS - 1) if ratio > 1.0 else 0

    def counts(self, now_s: float) -> Counts:
        """Return all counts, up to *now_s*."""
        return Counts(
            elapsed_s=now_s - self._begin_s,
            tasks=TaskSeconds(*self._integrals_s),
            residence_sum_s=self._residence_sum_s,
            batch_ends_s=tuple(self._batch_ends_s),
            histogram=tuple(sorted(self._histogram.items())),
            n_forced=self.n_forced,
            n_events=self._n_events,
            digest=self._digest,
        )
