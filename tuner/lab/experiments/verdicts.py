"""Verdicts on claims: true, false, or undecided because runs differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from tuner.lab.experiments.experiment import LabClaim, NotRunError, Row, Spread

ALIKE = 0.10  #: largest relative difference of times that count as equal


@dataclass(frozen=True, slots=True)
class Ratio:
    """A measured figure, or a ratio of two, with its range over the runs."""

    low: float
    value: float
    high: float

    def times(self, factor: float) -> Ratio:
        """Return the ratio in other units."""
        return Ratio(factor * self.low, factor * self.value, factor * self.high)

    def at_most(self, limit: float) -> bool | None:
        """Return whether it is at most *limit*; None: the runs disagree."""
        return True if self.high <= limit else False if self.low > limit else None

    def at_least(self, limit: float) -> bool | None:
        """Return whether it is at least *limit*; None: the runs disagree."""
        return True if self.low >= limit else False if self.high < limit else None

    def near(self, claimed: float, within: float = ALIKE) -> bool | None:
        """Return whether it is *within* that share of *claimed*."""
        return both(self.at_least(claimed * (1 - within)), self.at_most(claimed * (1 + within)))


def judge_claim(claim: str, judge: Callable[[], tuple[bool | None, str]]) -> LabClaim:
    """Return *claim* with the verdict and reason of *judge*; undecided if a row is missing."""
    try:
        return LabClaim(claim, *judge())
    except NotRunError as missing:
        return LabClaim(claim, None, f"A row is missing: {missing}.")


def both(*verdicts: bool | None) -> bool | None:
    """Return False if one is False; else None if one is None, or there is none."""
    return None if not verdicts else False if False in verdicts else None if None in verdicts else True


def negate(verdict: bool | None) -> bool | None:
    """Return the opposite verdict; None stays None."""
    return None if verdict is None else not verdict


def more(pairs: Sequence[tuple[Spread, Spread]], surely: float) -> bool | None:
    """Return whether the first is more than the second: clearly in most pairs, and clearly less in none.

    Clearly: the ranges of their runs do not overlap; single runs differ by more than *surely*. None:
    undecided.
    """
    up = sum(_apart(one, other, surely) for one, other in pairs)
    down = sum(_apart(other, one, surely) for one, other in pairs)
    if up and down:
        return None
    return True if 2 * up > len(pairs) else False if 2 * down > len(pairs) else None


def _apart(greater: Spread, less: Spread, surely: float) -> bool:
    return greater.low - less.high > (0.0 if min(greater.n, less.n) > 1 else surely)


def either(*verdicts: bool | None) -> bool | None:
    """Return True if one is True; else None if one is None, or there is none."""
    return None if not verdicts else True if True in verdicts else None if None in verdicts else False


def over(one: Row, other: Row, key: str = "ratio", *, single: float = 0.0) -> Ratio:
    """Return a figure of *one* over that of *other*; over itself it is 1 for any range of its runs.

    *single* as for `measured_ratio`.
    """
    if one is other:
        return Ratio(1.0, 1.0, 1.0)
    a, b = measured_ratio(one, key, single=single), measured_ratio(other, key, single=single)
    return Ratio(a.low / b.high, a.value / b.value, a.high / b.low if b.low else inf)


def measured_ratio(row: Row, key: str = "ratio", *, single: float = 0.0) -> Ratio:
    """Return a figure of *row* with its range; *single*: the relative error assumed for a single run."""
    spread = row.measured[key]
    off = 1 + (single if spread.n == 1 else 0.0)
    return Ratio(spread.low / off, spread.median, spread.high * off)
