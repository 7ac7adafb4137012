"""Limits of load, memory and latency for the answer, and whether a layout keeps them.

The claims and their reasons: `docs/method/limits.md`.

- A launch is one value: the mean over its windows of load, the largest of memory, the p95 of the requests of
  all of them. The claim is about the mean over many such launches (on the logarithmic scale).
- A layout is ``within`` if its whole interval keeps the limit, ``beyond`` if its whole interval passes the
  limit, otherwise ``open``. An open layout cannot win; more launches may decide it.
- All intervals of all layouts and limits hold at once with the requested confidence (Bonferroni). With
  ``at_any_look`` they also hold after every further launch: the n-th launch that gives information on the
  limit may use 1 / (n (n + 1)) of its layout's error probability, and these shares add up to 1.
- ``strict`` takes each layout's noise from its own launches, so that the choice of launches cannot make a
  verdict wrong; it needs about four launches. Other kinds pool the noise of all layouts (but use the
  layout's own if it is larger), and can decide from the first launch on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import exp, fsum, log, sqrt
from typing import Literal, Protocol, get_args

from tuner.core.defaults import LEAST_LAUNCHES
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WindowRecord
from tuner.core.domain.requests import BUCKET_RATIO, LONGEST_S, Requests
from tuner.core.domain.settled_load import settled_load
from tuner.core.domain.strategy import Kind
from tuner.core.errors import ConfigError
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile, student_t_tail

Quantity = Literal["load", "memory_bytes", "p95_s"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
State = Literal["within", "beyond", "open"]

_SMALLEST = {"load": 0.01, "memory_bytes": 4096.0, "p95_s": 1e-6}  # smaller values are not measurable
_UNSEEN = {
    "load": "no window has load figures",
    "memory_bytes": "--max-memory: this host does not report the memory of a service",
    "p95_s": "--max-p95: this service does not report latency",
}
#: Standard deviation that rounding hides, on the logarithmic scale: two launches in the same bucket may well
#: differ. Without it, strict verdicts on layouts at the limit were wrong 3 to 11 times as often as allowed.
_ROUNDED_SD = {"p95_s": BUCKET_RATIO / sqrt(12)}
_NOTHING_KNOWN = 50.0  # a wider interval, on the logarithmic scale, is left out
_MOST_LAUNCHES = 1000  #: a limit that needs more launches counts as not decidable


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest amount of one quantity that the best layout may use."""

    name: Quantity
    at_most: float  #: load: tasks; memory_bytes: bytes of the workers and their children; p95_s: seconds

    def __post_init__(self) -> None:
        if self.name not in QUANTITIES or not 0 < self.at_most < float("inf"):
            raise ValueError(f"no limit: {self.name} at most {self.at_most}")


class Watched(Protocol):
    """A window with the data for limits; `tuner.core.domain.strategy.Observed` is one."""

    @property
    def layout(self) -> Layout:
        """The layout of the window."""

    @property
    def launch(self) -> int:
        """The number of its launch; windows with the same number are of one launch."""

    @property
    def length_s(self) -> float:
        """The length in seconds."""

    @property
    def usage(self) -> Mapping[str, float]:
        """The amounts by quantity; a quantity that was not measured is absent."""

    @property
    def requests(self) -> Requests | None:
        """The requests that ended in it, to compute a p95 over several windows."""


@dataclass(frozen=True, slots=True)
class Later:
    """The use of a layout after the horizon, if it keeps growing."""

    estimate: Estimate
    horizon_s: float


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """The verdict on one layout and one limit."""

    limit: Limit
    state: State
    n_launches: int
    level: float | None = None  #: mean over launches; None: not measured
    sd: float | None = None  #: standard deviation of the logarithm of one launch's value; None: unknown
    df: float = 0.0  #: degrees of freedom of *sd*
    doubt: float = 0.0  #: error probability of the interval at this number of launches
    later: Later | None = None  #: memory after the horizon, if it grows; None: it does not grow

    @property
    def estimate(self) -> Estimate:
        """The level and its interval, which holds together with those of all layouts and limits."""
        if self.level is None or self.sd is None:
            return Estimate(self.level)
        reach = student_t_quantile(1 - self.doubt / 2, self.df) * self.sd / sqrt(self.n_launches)
        if reach > _NOTHING_KNOWN:
            return Estimate(self.level)
        return Estimate(self.level, self.level * exp(-reach), self.level * exp(reach))

    @property
    def launches_needed(self) -> int | None:
        """The approximate number of launches to a decision, if the level is right; None: unknown."""
        if self.state != "open":
            return 0
        if self.level is None or not self.sd or self.later is not None:
            return None
        gap = abs(log(self.limit.at_most / self.level))
        reach = student_t_quantile(1 - self.doubt / 2, self.df) * self.sd
        if gap * sqrt(_MOST_LAUNCHES) < reach:
            return None
        return max(1, round((reach / gap) ** 2 + 0.5) - self.n_launches)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a layout by all limits: whether it may be the best."""

    #: within: keeps every limit significantly; beyond: exceeds a limit significantly; open: neither
    state: State
    findings: tuple[LimitVerdict, ...]  #: one verdict per limit


def verdict_later(verdict: Verdict, name: Quantity, later: Later) -> Verdict:
    """Return *verdict* if the limit of one quantity must hold until the horizon, too."""
    findings = tuple(
        _until(finding, later) if finding.limit.name == name else finding for finding in verdict.findings
    )
    return Verdict(_together(findings), findings)


def _until(finding: LimitVerdict, later: Later) -> LimitVerdict:
    low, high, at_most = later.estimate.low, later.estimate.high, finding.limit.at_most
    state: State = "open"
    if finding.state == "beyond" or (low is not None and low > at_most):
        state = "beyond" if finding.n_launches >= LEAST_LAUNCHES else "open"
    elif finding.state == "within" and high is not None and high <= at_most:
        state = "within"
    return replace(finding, state=state, later=later)


def limits_from(largest: Mapping[str, float]) -> tuple[Limit, ...]:
    """Return the limits that a study's record stores as the largest value per quantity."""
    return tuple(Limit(name, largest[name]) for name in QUANTITIES if name in largest)


def usage_of(window: WindowRecord, *, is_load_of_host: bool = False) -> dict[str, float]:
    """Return the amounts that *window* used, by quantity.

    ``load`` is the load average without the load of the previous layout (`tuner.core.domain.settled_load`);
    *is_load_of_host*: it counts all tasks of the host; False also: not known. ``memory_bytes`` is the
    proportional set size.
    """
    usage = {"load": settled_load(window, is_of_host=is_load_of_host)}
    if window.pss_bytes is not None:
        usage["memory_bytes"] = window.pss_bytes
    p95_s = None if window.requests is None else window.requests.latency_s(0.95)
    if p95_s is not None:
        usage["p95_s"] = p95_s
    return usage


def check_measured(limits: Iterable[Limit], windows: Sequence[Watched]) -> None:
    """Check that *windows* have the quantities of *limits*; without windows there is no error.

    Raises:
        ConfigError: no window has one of the quantities.
    """
    for limit in limits:
        if windows and not any(limit.name in window.usage for window in windows):
            raise ConfigError(_UNSEEN[limit.name], hint="Leave that limit out.")


def verdicts(
    limits: Sequence[Limit],
    layouts: Sequence[Layout],
    windows: Iterable[Watched],
    confidence: float,
    *,
    kind: Kind = "strict",
    at_any_look: bool = True,
) -> dict[Layout, Verdict]:
    """Return for each of *layouts* whether it keeps *limits*, at *confidence* for all of them together.

    Args:
        limits: one per quantity; with none, every layout may be the best.
        layouts: all layouts that are or may be measured, because they share the confidence.
        windows: the valid windows, in any order.
        confidence: 0.5 to 1.
        kind: ``strict`` never pools noise; see the top of this module.
        at_any_look: the verdicts may be used after every launch. False: they are used once, at numbers of
            launches that were fixed beforehand.
    """
    if not 0.5 <= confidence < 1:
        raise ValueError(f"a confidence from 0.5 to 1, got {confidence}")
    if not (limits and layouts):
        return {layout: Verdict("within", ()) for layout in layouts}
    doubt = (1 - confidence) / (len(layouts) * len(limits))
    by_launch: dict[int, list[Watched]] = {}
    for window in windows:
        by_launch.setdefault(window.launch, []).append(window)
    findings: dict[Layout, list[LimitVerdict]] = {layout: [] for layout in layouts}
    for limit in limits:
        logs: dict[Layout, list[float]] = {layout: [] for layout in layouts}
        for of_launch in by_launch.values():
            value = _value_of_launch(of_launch, limit.name)
            own = logs.get(of_launch[0].layout)
            if value is not None and own is not None:
                own.append(log(value))
        spreads = {layout: _spread(own) for layout, own in logs.items()}
        endless = {one for one, own in logs.items() if limit.name == "p95_s" and any(map(_is_endless, own))}
        pooled = _noise(spread for layout, spread in spreads.items() if layout not in endless)
        for layout, own in logs.items():
            alone = _noise([spreads[layout]])
            look = len(own) - (kind == "strict")  # alone, the first launch gives no noise
            share = 1 / (look * (look + 1)) if at_any_look and look > 0 else 1.0
            # an endless value has no size: it gives no noise of other layouts, nor they of it
            noise = alone if kind == "strict" or layout in endless else _larger(pooled, alone)
            findings[layout].append(_judge(limit, own, noise, doubt * share))
    return {layout: Verdict(_together(own), tuple(own)) for layout, own in findings.items()}


def _value_of_launch(windows: Sequence[Watched], name: Quantity) -> float | None:
    """Return the value of one launch; None: not measured.

    For memory it is the largest window, because memory may grow and the maximum must fit. The p95 is that of
    all requests together, because a mean of quantiles is not a quantile.
    """
    if name == "p95_s" and len(windows) > 1:
        return _p95_s([window.requests for window in windows if window.requests is not None])
    seen = [window for window in windows if name in window.usage]
    if not seen:
        return None
    if len(seen) == 1:
        value = seen[0].usage[name]
    elif name == "memory_bytes":
        value = max(window.usage[name] for window in seen)
    else:
        value = fsum(window.usage[name] * window.length_s for window in seen)
        value /= fsum(window.length_s for window in seen)
    return max(value, _SMALLEST[name])


def mean_load_of_launches(loads: Iterable[float]) -> float | None:
    """Return the level of load that limits apply to, from the load of each launch; None: there is none."""
    logs = [log(max(load, _SMALLEST["load"])) for load in loads]
    return exp(fsum(logs) / len(logs)) if logs else None


def _p95_s(requests: Sequence[Requests]) -> float | None:
    found = reduce(Requests.merged, requests).latency_s(0.95) if requests else None
    return None if found is None else max(found, _SMALLEST["p95_s"])


def _is_endless(value_log: float) -> bool:
    """Return whether the logarithm of a launch's p95 is that of `LONGEST_S`, which has no upper end."""
    return value_log == log(LONGEST_S)


def _spread(logs: Sequence[float]) -> tuple[float, int]:
    """Return the sum of squares around the mean, and its degrees of freedom."""
    if len(logs) < 2:
        return 0.0, 0
    mean = fsum(logs) / len(logs)
    return fsum((value - mean) ** 2 for value in logs), len(logs) - 1


def _noise(spreads: Iterable[tuple[float, int]]) -> tuple[float, float] | None:
    """Return the variance of the logarithm of a launch's value, and its degrees of freedom; None: unknown."""
    found = list(spreads)
    df = sum(own for _, own in found)
    return (fsum(squares for squares, _ in found) / df, df) if df else None


def _larger(
    pooled: tuple[float, float] | None, own: tuple[float, float] | None
) -> tuple[float, float] | None:
    """Return the larger of the pooled and the own variance, with the degrees of freedom of the pool.

    Some layouts are noisier than others: the pooled variance alone would be too small for them.
    """
    if pooled is None or own is None:
        return pooled
    return max(pooled[0], own[0]), pooled[1]


def _judge(
    limit: Limit,
    logs: Sequence[float],
    noise: tuple[float, float] | None,
    doubt: float,
) -> LimitVerdict:
    n = len(logs)
    if not n:
        return LimitVerdict(limit, "open", 0)
    mean = fsum(logs) / n
    if noise is None:
        return LimitVerdict(limit, "open", n, exp(mean))
    variance, df = noise
    if exp(min(logs)) < 0.999 * LONGEST_S:  # otherwise all are in the last, widest bucket
        variance = max(variance, _ROUNDED_SD.get(limit.name, 0.0) ** 2)
    gap = log(limit.at_most) - mean
    state: State = "open"
    if not variance or 2 * student_t_tail(abs(gap) * sqrt(n / variance), df) <= doubt:
        state = "within" if gap >= 0 else "beyond"
    if state == "beyond" and n < LEAST_LAUNCHES:
        return LimitVerdict(limit, "open", n, exp(mean))  # no layout is ruled out by a single launch
    if state == "within" and limit.name == "memory_bytes" and exp(max(logs)) > limit.at_most * (1 + 1e-12):
        state = "open"  # it passed the limit in a window, so it must not win, whatever its mean
    return LimitVerdict(limit, state, n, exp(mean), sqrt(variance), df, doubt)


def _together(findings: Sequence[LimitVerdict]) -> State:
    states = {finding.state for finding in findings}
    if "beyond" in states:
        return "beyond"
    return "open" if "open" in states else "within"
