"""Limits as people write and read them."""

from __future__ import annotations

from math import isfinite

from tuner.core.domain.limits import Limit, LimitVerdict, Quantity, Verdict
from tuner.core.domain.requests import LONGEST_S
from tuner.core.errors import ConfigError
from tuner.core.stats.interval import Estimate
from tuner.core.text.durations import parse_duration, render_duration
from tuner.core.text.figures import parse_size, pluralize, render_size

#: what people call them
WORDS: dict[Quantity, str] = {"load": "load", "memory_bytes": "memory", "p95_s": "p95"}
#: the options that set them, here and in `tuner grid`
OPTIONS: dict[Quantity, str] = {"load": "--max-load", "memory_bytes": "--max-memory", "p95_s": "--max-p95"}


def parse_limit(name: Quantity, text: str) -> Limit:
    """Read the limit of one quantity: ``20`` for load, ``8G`` for memory, ``2s`` for p95.

    Raises:
        ConfigError: *text* is none.
    """
    if name == "load":
        return Limit(name, _parse_load(text))
    if name == "memory_bytes":
        return Limit(name, parse_size(text))
    seconds = parse_duration(text)
    if not seconds:
        raise ConfigError(f"{text!r} leaves no time at all", hint="Write a latency as 300ms or 2s.")
    return Limit(name, seconds)


def parse_limits(texts: dict[Quantity, str | None]) -> tuple[Limit, ...]:
    """Read the limits that were given; the errors begin with the option that sets them.

    Raises:
        ConfigError: one of them is none.
    """
    limits = []
    for name, text in texts.items():
        if text is None:
            continue
        try:
            limits.append(parse_limit(name, text))
        except ConfigError as error:
            raise ConfigError(f"{OPTIONS[name]}: {error.problem}", hint=error.hint) from error
    return tuple(limits)


def render_amount(name: Quantity, value: float) -> str:
    """A value of one quantity: ``19.8``, ``7.98 GB``, ``1.87 s``."""
    if name == "memory_bytes":
        return render_size(value)
    if name == "load":
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"
    if value >= 0.999 * LONGEST_S:  # a mean of such may be less by a hair
        return "over 1 h"
    if value >= 1000:
        return f"{value:.0f} s"
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def render_limit(limit: Limit) -> str:
    """A limit as it is told: ``load at most 20``."""
    amount = f"{limit.at_most:g}" if limit.name == "load" else render_amount(limit.name, limit.at_most)
    return f"{WORDS[limit.name]} at most {amount}"


def render_level(finding: LimitVerdict) -> str:
    """What was seen, with its interval: ``19.8 (19.1 to 20.6)``; ``-`` when nothing was.

    Memory that grows is followed by its size after the horizon: ``..., 1.69 GB after 24h``.
    """
    seen = _render_estimate(finding.estimate, finding.limit.name)
    if finding.later is None:
        return seen
    later = _render_estimate(finding.later.estimate, finding.limit.name)
    return f"{seen}, {later} after {render_duration(finding.later.horizon_s)}"


def _render_estimate(estimate: Estimate, name: Quantity) -> str:
    if estimate.mean is None:
        return "-"
    text = render_amount(name, estimate.mean)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ({render_amount(name, estimate.low)} to {render_amount(name, estimate.high)})"


def render_needed(finding: LimitVerdict) -> str:
    """What would decide an open finding, as part of a sentence."""
    if finding.later is not None:
        return "longer windows would show better how its memory grows"
    more = finding.launches_needed
    if finding.sd is None:
        return (
            "more launches of it are needed to estimate the noise"
            if finding.n_launches
            else "it was not measured"
        )
    if not more:
        return "the value is too close to the limit"
    return f"about {pluralize(more, 'more launch')} would decide it"


def why_kept_out(verdict: Verdict) -> str | None:
    """Why a layout that was measured may not win, as part of a sentence; None: it may."""
    if verdict.state == "within":
        return None
    parts = []
    for finding in verdict.findings:
        if finding.state == verdict.state:
            seen = f"{WORDS[finding.limit.name]} {render_level(finding)}"
            limit = render_amount(finding.limit.name, finding.limit.at_most)
            if verdict.state == "beyond":
                parts.append(f"{seen} is beyond {limit}")
            else:
                parts.append(f"{seen} is not shown to keep to {limit}: {render_needed(finding)}")
    return "; ".join(parts)


def _parse_load(text: str) -> float:
    try:
        load = float(text.strip())
    except ValueError:
        raise ConfigError(f"{text!r} is not a load average", hint="Write a number, as 20 or 7.5.") from None
    if not isfinite(load) or load <= 0:
        raise ConfigError(f"a load average of {text} cannot be kept", hint="Write a number above 0, as 20.")
    return load
