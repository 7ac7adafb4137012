"""The cores that a study would run on: how many, what they share, how fast they go, who else uses them.

Thresholds: what voids a window (`foreign_limit_cores`) is doubtful when it is seen within a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.core.text.figures import busy_cores, percent, pluralize
from tuner.core.windows.validity import FOREIGN_SHARE_RATIO
from tuner.doctor.finding import UNKNOWN, Finding, doubtful, fine

#: whose clock does not follow load; intel_pstate's "powersave" does, as all others do
_STEADY_GOVERNORS = frozenset({"performance"})
_NAMED = 3  #: neighbours


@dataclass(frozen=True, slots=True)
class CoresSeen:
    """The CPUs of the box, as far as they are ours."""

    offered: float  #: cores' worth of time
    why: str  #: what sets that
    cpus: frozenset[int]  #: we may run on these
    wanted: int  #: cores that the layouts are for
    siblings: Mapping[int, frozenset[int]] | None  #: the CPUs of each one's core, itself among them
    governors: frozenset[str] | None  #: of our CPUs
    has_turbo: bool | None
    virtual: str  #: what the box says of a hypervisor; empty: nothing
    steal_ratio: float | None  #: of all CPU time since boot

    @property
    def held_to(self) -> frozenset[int]:
        """The CPUs that workers would run on."""
        return frozenset(sorted(self.cpus)[: self.wanted]) if self.wanted < self.offered else self.cpus


@dataclass(frozen=True, slots=True)
class Busy:
    """A process that used CPU while nobody measured."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What others did on the box, within some seconds."""

    seconds: float
    foreign_cores: float  #: mean
    stolen_cores: float  #: mean
    limit_cores: float  #: from which on a window is void
    busiest: tuple[Busy, ...]  #: the most first


def cores_findings(seen: CoresSeen) -> Iterator[Finding]:
    """All that does not take time to see."""
    yield _cores(seen)
    yield _smt(seen)
    yield _governor(seen)
    yield _turbo(seen)
    yield _steal_since_boot(seen)


def neighbours_findings(seen: Neighbours) -> Iterator[Finding]:
    """What some seconds of looking gave."""
    over = f"over {seen.seconds:.3g} s; a window is invalid from {busy_cores(seen.limit_cores)} on"
    if seen.foreign_cores > seen.limit_cores:
        yield doubtful(
            "neighbours",
            f"other processes use {busy_cores(seen.foreign_cores)} {over}{_who(seen)}",
            "windows are invalid (disturbed) and measured again: a night gives fewer valid windows, or none",
            "Stop them for the night (cron, backups, scans); name backends of the service under backends:.",
        )
    else:
        yield fine("neighbours", f"other processes use {busy_cores(seen.foreign_cores)} {over}")
    if seen.stolen_cores > seen.limit_cores:
        yield doubtful(
            "steal",
            f"the hypervisor withholds {busy_cores(seen.stolen_cores)} {over}",
            "windows are invalid (stolen) and measured again: a night gives fewer valid windows, or none",
            "Ask for a dedicated host, or measure at another hour.",
        )
    else:
        yield fine("steal", f"the hypervisor withholds {busy_cores(seen.stolen_cores)} {over}")


def _cores(seen: CoresSeen) -> Finding:
    found, effects, cures = f"{pluralize(seen.offered, 'core')} ({seen.why})", [], []
    if seen.offered < len(seen.cpus):
        found += f", on {pluralize(len(seen.cpus), 'CPU')}"
        effects.append(
            "once a quota is used up, all workers stand still until its period ends: throughput comes in"
            " bursts, and layouts of many processes use it up sooner"
        )
        cures.append(
            "Lift the quota for the study (CPUQuota=, --cpus), or give whole CPUs (AllowedCPUs=,"
            " --cpuset-cpus)."
        )
    is_short = seen.wanted > seen.offered + 0.01
    if is_short or (not effects and seen.wanted != seen.offered):
        found += f" for layouts of {seen.wanted}"
    if is_short:
        effects.append(
            f"the ranking is that of {pluralize(seen.offered, 'core')}: more processes than that only wait"
        )
        cures.append(
            f"Measure on {pluralize(seen.wanted, 'core')}, or add --cores {max(1, int(seen.offered))}."
        )
    return doubtful("cores", found, "; ".join(effects), " ".join(cures)) if effects else fine("cores", found)


def _smt(seen: CoresSeen) -> Finding:
    if seen.siblings is None:
        return fine("smt", UNKNOWN, "it is unknown whether CPUs share cores: a virtual machine may hide it")
    used = seen.held_to
    shared = sorted(cpu for cpu in used if len(seen.siblings.get(cpu, frozenset({cpu}))) > 1)
    if not shared:
        return fine("smt", "off: each CPU is a separate core")
    n_cores = len({seen.siblings.get(cpu, frozenset({cpu})) for cpu in used})
    found = f"on: {pluralize(len(used), 'CPU')} for the workers {_are(n_cores)}"
    strangers = {one for cpu in shared for one in seen.siblings[cpu]} - used
    if strangers:
        return doubtful(
            "smt",
            f"{found}, shared with {pluralize(len(strangers), 'CPU')} that {_is(len(strangers))} not theirs",
            "tuner, a feeder and other processes slow the cores that they share with the workers",
            "Measure with all CPUs of these cores: leave --cores out, or hand them out with taskset -c.",
        )
    return doubtful(
        "smt",
        found,
        "a CPU whose sibling is busy gives less than a core: the second half of the CPUs adds less, here"
        " and on similar hosts, but not on a host without SMT",
        "Leave it where production has it, too. Else measure with it off: echo off >"
        " /sys/devices/system/cpu/smt/control",
    )


def _governor(seen: CoresSeen) -> Finding:
    if seen.governors is None:
        return fine("governor", UNKNOWN, "the hypervisor or the firmware controls the clock")
    names = ", ".join(sorted(seen.governors))
    if seen.governors <= _STEADY_GOVERNORS:
        return fine("governor", names)
    return doubtful(
        "governor",
        names,
        "the clock follows the load: layouts that leave CPUs idle run at another clock than busy ones",
        "cpupower frequency-set -g performance, for the study.",
    )


def _turbo(seen: CoresSeen) -> Finding:
    if seen.has_turbo is None:
        return fine("turbo", UNKNOWN, "it is unknown whether the clock rises while few cores are busy")
    if not seen.has_turbo:
        return fine("turbo", "off: the clock is the same for one busy core and for all")
    return doubtful(
        "turbo",
        "on",
        "the clock is higher while few cores work and while the host is cool: small layouts look better per"
        " core, and the first block may be faster than the last (blocks are paired, so the ranking is not)",
        "Leave it where production has it, too. Else switch it off for the study: echo 1 >"
        " /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 > .../cpufreq/boost",
    )


def _steal_since_boot(seen: CoresSeen) -> Finding:
    where = f" ({seen.virtual})" if seen.virtual else ""
    if seen.steal_ratio is None:
        return fine("steal-since-boot", UNKNOWN)
    found = (
        f"{percent(seen.steal_ratio)} of all CPU time since boot{where}"
        if seen.steal_ratio
        else f"none{where}"
    )
    if seen.steal_ratio >= FOREIGN_SHARE_RATIO:  # as much voids every window when it goes on
        return doubtful(
            "steal-since-boot",
            found,
            f"from {percent(FOREIGN_SHARE_RATIO)} of the cores on, windows are invalid (stolen)"
            " while it lasts",
            "Ask for a dedicated host, or measure at another hour.",
        )
    return fine("steal-since-boot", found)


def _who(seen: Neighbours) -> str:
    named = [f"{one.name} (process {one.pid}) {one.cores:.2f}" for one in seen.busiest[:_NAMED]]
    return f": {', '.join(named)}" if named else ""


def _are(n_cores: int) -> str:
    return "are one core" if n_cores == 1 else f"are {n_cores} cores"


def _is(n: int) -> str:
    return "is" if n == 1 else "are"
