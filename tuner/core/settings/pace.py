"""At which rate requests are sent: a number, a share of what a layout can do, the most that keeps a p95."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import ConfigError
from tuner.core.text.durations import parse_duration, render_exact_duration

MOST_PER_S = 1e6
P95 = 0.95
N_TRIED = 6  #: rates of a search: the answer is known to 1/64 of the capacity
_HINT = "Write requests per second, as 200; a share of each layout's capacity, as 70%; or p95=200ms."


@dataclass(frozen=True, slots=True)
class Share:
    """A share of what each launch answers in a closed loop."""

    ratio: float  #: above 0, below 1


@dataclass(frozen=True, slots=True)
class WithinP95:
    """The highest rate at which 95 % of the requests are answered within a time."""

    p95_s: float


Pace = Share | WithinP95  #: what a rate follows from, for each launch anew


@dataclass(frozen=True, slots=True)
class TriedRate:
    """A rate that was tried, as a share of the capacity."""

    ratio: float
    kept: bool  #: whether the p95 was


def parse_rate(text: str) -> float | Pace:
    """Read ``200``, ``70%`` or ``p95=200ms``.

    Raises:
        ConfigError: it is none of them.
    """
    compact = text.strip().lower().replace(" ", "")
    if compact.startswith("p95="):
        seconds = parse_duration(compact.removeprefix("p95="))
        if not seconds:
            raise ConfigError(f"{text!r} leaves no time at all", hint=_HINT)
        return WithinP95(seconds)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%|/s)?", compact, re.ASCII)
    if match is None:
        raise ConfigError(f"{text!r} is no rate", hint=_HINT)
    if match[2] == "%":
        return _share(text, float(f"{float(match[1]) / 100:.12g}"))
    return checked_rate(float(match[1]))


def checked_rate(per_s: float) -> float:
    """A rate as it is; ConfigError when nothing, or more than a box can, would be sent."""
    if not 0 < per_s <= MOST_PER_S:
        raise ConfigError(
            f"a rate should be greater than 0 and at most {MOST_PER_S:.0f}/s, got {per_s:g}", hint=_HINT
        )
    return per_s


def render_rate(rate: float | Pace) -> float | str:
    """What ``parse_rate`` reads back, exactly; a number stays one."""
    if isinstance(rate, Share):
        return f"{100 * rate.ratio:.12g}%"
    if isinstance(rate, WithinP95):
        return f"p95={render_exact_duration(rate.p95_s)}"
    return rate


def rate_kept(config: StoredConfig) -> float | Pace | None:
    """The rate that a study's settings, as it keeps them, ask for; None: none, or no requests are sent."""
    rate: str | float | None = config.service.feeder.get("rate")
    return parse_rate(rate) if isinstance(rate, str) else rate


def next_ratio(tried: Sequence[TriedRate]) -> float | None:
    """Which share of the capacity to try next for the highest one that keeps the p95; None: it is found.

    Bisection, from half the capacity on: what keeps the p95 is taken to keep it at every lower rate. The
    capacity itself is not tried: at it the queue has no end.
    """
    if len(tried) >= N_TRIED:
        return None
    low = max((one.ratio for one in tried if one.kept), default=0.0)
    high = min((one.ratio for one in tried if not one.kept and one.ratio > low), default=1.0)
    return (low + high) / 2


def found_ratio(tried: Sequence[TriedRate]) -> float:
    """The highest share that kept the p95; where none did, the lowest that was tried."""
    kept = [one.ratio for one in tried if one.kept]
    return max(kept) if kept else min(one.ratio for one in tried)


def _share(text: str, ratio: float) -> Share:
    if not 0 < ratio < 1:
        raise ConfigError(
            f"{text!r}: at its whole capacity a layout falls behind without end; a share is above 0 and"
            " below 100 %",
            hint=_HINT,
        )
    return Share(ratio)
