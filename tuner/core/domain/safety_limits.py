"""Safety limits: the state of the host, the items or a command that stops a launch; parsing of limits.

A value must be over its limit for `BrakeLimits.holds_s`, so that a short peak does not end a study; memory
counts at once. The load average covers a minute: it is over its limit only if the load of the last seconds,
computed from it, is over the limit, too. Otherwise the load of the previous layout could stop a launch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Limit, LimitVerdict, Quantity, Verdict
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.requests import LONGEST_S
from tuner.core.domain.window import DECAY, STEP_S
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import (
    parse_duration,
    parse_size,
    percent,
    pluralize,
    render_duration,
    render_size,
)

#: prefix of the error of a launch that a safety limit interrupted, which is no evidence about its layout
BRAKED = "braked"
#: prefix of the error of a launch that a safety limit stopped because of its layout, which is then excluded
OVER_LIMIT = "over-limit"
#: two of the kernel's updates: the least time to separate the present load from the load before
LOAD_SEEN_S = 10.0
ERRORS_WITHIN_S = 30.0  #: seconds of items from which the share of errors is computed
FEWEST_ITEMS = 20  #: fewest items for a share of errors; a longer time is used until there are so many


class Braked(MeasurementError):
    """A safety limit stops a launch; ``problem`` gives the time, the value and the limit."""


def parse_brake_error(error: str | None, slug: str) -> str | None:
    """Return the part of a launch's *error* after *slug* (`BRAKED` or `OVER_LIMIT`); None: another error."""
    prefix = f"{slug}: "
    return error.removeprefix(prefix) if error is not None and error.startswith(prefix) else None


def was_stopped_by_brake(launch: LaunchRecord) -> bool:
    """Return whether a safety limit stopped *launch*: then a failed start is no fault of service or host."""
    return any(parse_brake_error(launch.error, slug) is not None for slug in (BRAKED, OVER_LIMIT))


def over_limit(launches: Iterable[LaunchRecord]) -> dict[Layout, str]:
    """Return the layouts that safety limits excluded, each with the passed limit as part of a sentence."""
    return {
        launch.layout: f"left out by a safety limit {passed}"
        for launch in launches
        if (passed := parse_brake_error(launch.error, OVER_LIMIT)) is not None
    }


@dataclass(frozen=True, slots=True)
class BrakeLimits:
    """The safety limits; None: no such limit."""

    load: float | None = None  #: largest load average of one minute
    memory_ratio: float | None = None  #: largest share of the host's memory in use
    memory_bytes: float | None = None  #: largest number of bytes in use on the host
    errors_ratio: float | None = None  #: largest share of failed items among all finished items
    holds_s: float = 10.0  #: seconds for which a value other than memory must be over its limit


@dataclass(frozen=True, slots=True)
class BoxNow:
    """The present load and memory of the host, including all processes."""

    load1: float
    memory_used_bytes: int  #: memory that is not available to a new process
    memory_bytes: int  #: total memory of the host


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The last result of the user's command."""

    began_s: float  #: start time of the command
    ended_s: float
    refusal: str | None  #: reason for a stop; None: the study may continue


class Braking:
    """The safety limits during one launch, or while none runs; call `look` about every second."""

    def __init__(self, limits: BrakeLimits) -> None:
        self._limits = limits
        self._over_since_s: dict[str, float] = {}
        self._loads: deque[tuple[float, float]] = deque()  # at_s, load1
        self._items: deque[tuple[float, int, int]] = deque()  # at_s, done, failed
        self._refusing_since_s: float | None = None
        self._over: dict[str, str] = {}

    @property
    def over(self) -> str | None:
        """The values over a limit at the last check, however briefly; None: none."""
        return "; ".join(self._over.values()) or None

    def look(
        self,
        at_s: float,
        box: BoxNow,
        items: tuple[int, int] | None = None,
        answer: CommandResult | None = None,
    ) -> str | None:
        """Check all limits; return the values that were over their limit for long enough; None: none.

        Args:
            at_s: monotonic seconds.
            box: the present state of the host.
            items: done and failed since the launch began; None: none can be finished yet.
            answer: of the command; None: there is no command, or it has not ended yet.
        """
        found = {
            "memory": self._memory_over(box),
            "load": self._load_over(at_s, box.load1),
            "errors": None if items is None else self._errors_over(at_s, *items),
        }
        self._over = {name: text for name, text in found.items() if text is not None}
        self._over_since_s = {name: self._over_since_s.get(name, at_s) for name in self._over}
        passed = [
            text if at_s == since_s else f"{text}, for {render_duration(round(at_s - since_s))}"
            for name, text in self._over.items()
            if (since_s := self._over_since_s[name]) <= at_s - self._needed_s(name)
        ]
        if refused := self._repeated_refusal(answer):
            passed.append(refused)
        return "; ".join(passed) or None

    def _needed_s(self, name: str) -> float:
        least_s = {"memory": 0.0, "load": max(LOAD_SEEN_S, self._limits.holds_s)}
        return least_s.get(name, self._limits.holds_s)

    def _memory_over(self, box: BoxNow) -> str | None:
        limits, used = self._limits, box.memory_used_bytes
        ratio = used / box.memory_bytes
        if limits.memory_ratio is not None and ratio > limits.memory_ratio:
            of = f"{render_size(used)} of {render_size(box.memory_bytes)}"
            return (
                f"memory in use on the host is {percent(ratio)} ({of}), over {percent(limits.memory_ratio)}"
            )
        if limits.memory_bytes is not None and used > limits.memory_bytes:
            return (
                f"memory in use on the host is {render_size(used)}, over {render_size(limits.memory_bytes)}"
            )
        return None

    def _load_over(self, at_s: float, load1: float) -> str | None:
        """Return the text if load1, and the load of the last seconds computed from it, are over the limit.

        As long as this load cannot be computed, load1 alone decides, but not yet for long enough.
        """
        limit = self._limits.load
        if limit is None:
            return None
        self._loads.append((at_s, load1))
        while len(self._loads) > 1 and self._loads[1][0] <= at_s - LOAD_SEEN_S:
            self._loads.popleft()
        began_s, before = self._loads[0]
        if load1 <= limit:
            return None
        if at_s - began_s >= LOAD_SEEN_S:
            keeps = DECAY ** ((at_s - began_s) / STEP_S)
            if (load1 - keeps * before) / (1 - keeps) <= limit:
                return None
        return f"load {load1:.2f} is over {limit:g}"

    def _errors_over(self, at_s: float, n_done: int, n_failed: int) -> str | None:
        limit = self._limits.errors_ratio
        if limit is None:
            return None
        self._items.append((at_s, n_done, n_failed))
        total = n_done + n_failed
        while (
            len(self._items) > 1
            and self._items[1][0] <= at_s - ERRORS_WITHIN_S
            and total - sum(self._items[1][1:]) >= FEWEST_ITEMS
        ):
            self._items.popleft()
        began_s, done_before, failed_before = self._items[0]
        n_items, n_bad = total - done_before - failed_before, n_failed - failed_before
        if n_items < FEWEST_ITEMS or n_bad <= limit * n_items:
            return None
        within = render_duration(round(at_s - began_s))
        share = f"{percent(n_bad / n_items)}, over {percent(limit)}"
        return f"{n_bad} of {n_items} items failed within {within}: {share}"

    def _repeated_refusal(self, answer: CommandResult | None) -> str | None:
        """Return the command's refusal if a run that ended long enough after the first refusal repeats it."""
        if answer is None:
            return None
        if answer.refusal is None:
            self._refusing_since_s = None
            return None
        self._over["command"] = answer.refusal
        if self._refusing_since_s is None:
            self._refusing_since_s = answer.ended_s
        if answer.ended_s - self._refusing_since_s < self._limits.holds_s:
            return None
        return answer.refusal


# Limits in the form that users write and read.


#: names in messages
WORDS: dict[Quantity, str] = {"load": "load", "memory_bytes": "memory", "p95_s": "p95"}
#: options that set the limits, of this command and of `tuner grid`
OPTIONS: dict[Quantity, str] = {"load": "--max-load", "memory_bytes": "--max-memory", "p95_s": "--max-p95"}


def parse_limit(name: Quantity, text: str) -> Limit:
    """Read the limit of one quantity: ``20`` for load, ``8G`` for memory, ``2s`` for p95.

    Raises:
        ConfigError: *text* is not a limit.
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
    """Read the given limits; errors begin with the option that sets the limit.

    Raises:
        ConfigError: a text is not a limit.
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
    """Render a value of one quantity: ``19.8``, ``7.98 GB``, ``1.87 s``."""
    if name == "memory_bytes":
        return render_size(value)
    if name == "load":
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"
    if value >= 0.999 * LONGEST_S:  # a mean of such values may be slightly less
        return "over 1 h"
    if value >= 1000:
        return f"{value:.0f} s"
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def render_limit(limit: Limit) -> str:
    """Render a limit: ``load at most 20``."""
    amount = f"{limit.at_most:g}" if limit.name == "load" else render_amount(limit.name, limit.at_most)
    return f"{WORDS[limit.name]} at most {amount}"


def render_level(finding: LimitVerdict) -> str:
    """Render the measured level with its interval: ``19.8 (19.1 to 20.6)``; ``-`` if there is none.

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


def describe_needed(finding: LimitVerdict) -> str:
    """Describe, as part of a sentence, the measurements that would decide an open finding."""
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
    """Return the reason why a measured layout may not win, as part of a sentence; None: it may."""
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
                parts.append(f"{seen} is not shown to keep to {limit}: {describe_needed(finding)}")
    return "; ".join(parts)


def _parse_load(text: str) -> float:
    try:
        load = float(text.strip())
    except ValueError:
        raise ConfigError(f"{text!r} is not a load average", hint="Write a number, as 20 or 7.5.") from None
    if not isfinite(load) or load <= 0:
        raise ConfigError(f"a load average of {text} cannot be kept", hint="Write a number above 0, as 20.")
    return load
