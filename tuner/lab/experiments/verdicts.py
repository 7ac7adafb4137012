"""Verdicts on claims: true, false, or undecided because runs differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from tuner.lab.experiments.experiment import LabClaim, NotRunError, Row, Spread

ALIKE = 0.10  #: times that differ by no more are called alike


@dataclass(frozen=True, slots=True)
class Ratio:
    """A measured figure, or one over another, and within what it lies by the runs."""

    low: float
    value: float
    high: float

    def times(self, factor: float) -> Ratio:
        """The same in other units."""
        return Ratio(factor * self.low, factor * self.value, factor * self.high)

    def at_most(self, limit: float) -> bool | None:
        """None: some runs say so, others not."""
        return True if self.high <= limit else False if self.low > limit else None

    def at_least(self, limit: float) -> bool | None:
        """None: some runs say so, others not."""
        return True if self.low >= limit else False if self.high < limit else None

    def near(self, claimed: float, within: float = ALIKE) -> bool | None:
        """Whether it is *within* that share of *claimed*."""
        return both(self.at_least(claimed * (1 - within)), self.at_most(claimed * (1 + within)))


def judge_claim(claim: str, judge: Callable[[], tuple[bool | None, str]]) -> LabClaim:
    """Whether *claim* holds, and why, as *judge* says; it cannot be told without a row that it rests on."""
    try:
        return LabClaim(claim, *judge())
    except NotRunError as missing:
        return LabClaim(claim, None, f"A row is missing: {missing}.")


def both(*verdicts: bool | None) -> bool | None:
    """False if one is; else None if one is, or there is none."""
    return None if not verdicts else False if False in verdicts else None if None in verdicts else True


def negate(verdict: bool | None) -> bool | None:
    """The other one; None stays."""
    return None if verdict is None else not verdict


def more(pairs: Sequence[tuple[Spread, Spread]], surely: float) -> bool | None:
    """Whether the first is more than the second: in most pairs surely, and in none surely less.

    Surely: their runs lie apart; single runs, by more than *surely*. None: these runs cannot tell.
    """
    up = sum(_apart(one, other, surely) for one, other in pairs)
    down = sum(_apart(other, one, surely) for one, other in pairs)
    if up and down:
        return None
    return True if 2 * up > len(pairs) else False if 2 * down > len(pairs) else None


def _apart(greater: Spread, less: Spread, surely: float) -> bool:
    return greater.low - less.high > (0.0 if min(greater.n, less.n) > 1 else surely)


def either(*verdicts: bool | None) -> bool | None:
    """True if one is; else None if one is, or there is none."""
    return None if not verdicts else True if True in verdicts else None if None in verdicts else False


def over(one: Row, other: Row, key: str = "ratio", *, single: float = 0.0) -> Ratio:
    """A figure of *one* over that of *other*; over its own it is 1, however far its runs lie apart.

    *single* as `measured` has it.
    """
    if one is other:
        return Ratio(1.0, 1.0, 1.0)
    a, b = measured_ratio(one, key, single=single), measured_ratio(other, key, single=single)
    return Ratio(a.low / b.high, a.value / b.value, a.high / b.low if b.low else inf)


def measured_ratio(row: Row, key: str = "ratio", *, single: float = 0.0) -> Ratio:
    """A figure of *row*, and within what it lies; *single*: by what share one run alone may be off."""
    spread = row.measured[key]
    off = 1 + (single if spread.n == 1 else 0.0)
    return Ratio(spread.low / off, spread.median, spread.high * off)
