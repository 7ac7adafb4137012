"""The cores that a study would use: number, speed, other users, and facts from the kernel.

Threshold of a warning: a value that makes a window invalid (`foreign_limit_cores`), within a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.core.domain.layout import whole_cores
from tuner.core.text.figures import busy_cores, percent, pluralize, render_size
from tuner.core.windows.validity import FOREIGN_SHARE_RATIO
from tuner.doctor.service import UNKNOWN, Finding, doubtful, fine

#: governors with a constant clock; all others follow the load, even "powersave" of intel_pstate
_STEADY_GOVERNORS = frozenset({"performance"})
_NAMED = 3  #: largest number of busy processes that are named
_LEAST_REST_CORES = 0.005  #: smallest CPU use by other processes than those named that is printed


@dataclass(frozen=True, slots=True)
class CoresSeen:
    """The CPUs of the host that tuner may use."""

    offered: float  #: CPU time per second that tuner may use, in cores
    why: str  #: the limit that sets `offered`
    cpus: frozenset[int]  #: CPUs on which tuner may run
    wanted: int  #: number of cores that the layouts are planned for
    siblings: Mapping[int, frozenset[int]] | None  #: CPU -> all CPUs of its core, itself included
    governors: frozenset[str] | None  #: governors of these CPUs
    has_turbo: bool | None
    virtual: str  #: the hypervisor that the host reports; empty: none
    steal_ratio: float | None  #: share of all CPU time since boot

    @property
    def held_to(self) -> frozenset[int]:
        """CPUs that workers would run on."""
        is_held = self.wanted < whole_cores(self.offered)
        return frozenset(sorted(self.cpus)[: self.wanted]) if is_held else self.cpus


@dataclass(frozen=True, slots=True)
class Busy:
    """Another process that used CPU before the study."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True, slots=True)
class Neighbours:
    """CPU use of other processes on the host within some seconds."""

    seconds: float
    foreign_cores: float  #: mean use by other processes
    stolen_cores: float  #: mean time stolen by the hypervisor
    limit_cores: float  #: stolen time above which a window is invalid
    busiest: tuple[Busy, ...]  #: busiest processes, busiest first
    room_cores: float = 0.0  #: `free_cores`, by which their limit is larger


def cores_findings(seen: CoresSeen) -> Iterator[Finding]:
    """Yield the findings about cores that need no measurement."""
    yield _cores(seen)
    yield _smt(seen)
    yield _governor(seen)
    yield _turbo(seen)
    yield _steal_since_boot(seen)


def neighbours_findings(seen: Neighbours) -> Iterator[Finding]:
    """Yield the findings of the measurement of other processes."""
    most_cores = seen.limit_cores + seen.room_cores
    use, over = busy_cores(seen.foreign_cores), _describe_limit(seen, most_cores)
    if seen.foreign_cores > most_cores:
        yield doubtful(
            "neighbours",
            f"other processes use {use} {over}{_describe_processes(seen)}",
            "windows are invalid (disturbed) and measured again: a night gives fewer valid windows, or none",
            "Stop them for the night (cron, backups, scans), or use `tuner grid --slices auto`; name backends"
            " of the service under backends:.",
        )
    else:
        yield fine("neighbours", f"other processes use {use} {over}")
    over = _describe_limit(seen, seen.limit_cores)
    if seen.stolen_cores > seen.limit_cores:
        yield doubtful(
            "steal",
            f"the hypervisor withholds {busy_cores(seen.stolen_cores)} {over}",
            "windows are invalid (stolen) and measured again: a night gives fewer valid windows, or none",
            "Ask for a dedicated host, or measure at another hour.",
        )
    else:
        yield fine("steal", f"the hypervisor withholds {busy_cores(seen.stolen_cores)} {over}")


def _describe_limit(seen: Neighbours, limit_cores: float) -> str:
    return f"over {seen.seconds:.3g} s; a window is invalid from {busy_cores(limit_cores)} on"


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
    is_short = seen.wanted > max(1.0, seen.offered) + 0.01
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
    if seen.steal_ratio >= FOREIGN_SHARE_RATIO:  # if it continues, every window is invalid
        return doubtful(
            "steal-since-boot",
            found,
            f"from {percent(FOREIGN_SHARE_RATIO)} of the cores on, windows are invalid (stolen)"
            " while it lasts",
            "Ask for a dedicated host, or measure at another hour.",
        )
    return fine("steal-since-boot", found)


def _describe_processes(seen: Neighbours) -> str:
    """Return the busiest processes, and the rest of the cores as one entry, so that the figures add up.

    The rest is that of all other processes, and of those that began or ended meanwhile.
    """
    busiest = seen.busiest[:_NAMED]
    named = [f"{one.name} (process {one.pid}) {one.cores:.2f}" for one in busiest]
    rest = round(seen.foreign_cores, 2) - sum(round(one.cores, 2) for one in busiest)
    if rest >= _LEAST_REST_CORES:
        named.append(f"other or short-lived processes {rest:.2f}")
    return f": {', '.join(named)}" if named else ""


def _are(n_cores: int) -> str:
    return "are one core" if n_cores == 1 else f"are {n_cores} cores"


def _is(n: int) -> str:
    return "is" if n == 1 else "are"


# Facts that the kernel reports about a running service, and the effect of missing ones on a study.


#: clocks read from a device instead of memory, which is slow (lowest ratings in kernel/time/clocksource.c)
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"})
#: least value of Yama's ptrace_scope with which only an administrator may trace
#: (Documentation/admin-guide/LSM/Yama.rst)
_PTRACE_ADMIN_ONLY = 2


@dataclass(frozen=True, slots=True)
class KernelSeen:
    """Facts that this kernel reports about itself and about processes."""

    #: sentence about the container in which tuner runs, and the scope of its figures; empty: no container
    container: str
    has_pressure: bool  #: /proc/pressure (PSI) or, in a container, the pressure of its cgroup
    has_pss: bool  #: /proc/PID/smaps_rollup
    has_run_delays: bool  #: /proc/PID/schedstat with values
    delay_accounting: bool | None  #: kernel.task_delayacct
    has_syscalls: bool  #: /proc/PID/syscall
    ptrace_scope: int | None  #: value of Yama's ptrace_scope; None: no Yama
    is_root: bool
    clock: str | None  #: the clock source in use
    clock_read_s: float  #: measured time of one reading
    swap_used_bytes: int | None
    memory_available_bytes: int | None


def kernel_findings(seen: KernelSeen) -> Iterator[Finding]:
    """Yield the findings about figures that a study would lack, and about its clock."""
    yield _container(seen)
    yield _pressure(seen)
    yield _memory_figures(seen)
    yield _run_delays(seen)
    yield _gil_looks(seen)
    yield _clock(seen)
    yield _swap(seen)


def _container(seen: KernelSeen) -> Finding:
    if not seen.container:
        return fine("container", "none: load and pressure are those of the host")
    return fine(
        "container",
        seen.container,
        "all other processes of the host on these CPUs are neighbours; a separate cpuset for the study avoids"
        " them (--cpuset-cpus; docs/containers.md)",
    )


def _pressure(seen: KernelSeen) -> Finding:
    if seen.has_pressure:
        return fine("pressure", "PSI is on")
    return doubtful(
        "pressure",
        f"PSI: {UNKNOWN}",
        "windows that are short of memory are not detected and count as valid; safety limits have no"
        " pressure",
        "Boot with psi=1 (CONFIG_PSI), in a container mount its cgroup of version 2, or see that no layout"
        " comes near the memory: --max-memory.",
    )


def _memory_figures(seen: KernelSeen) -> Finding:
    if seen.has_pss:
        return fine("memory-figures", "smaps_rollup can be read")
    return doubtful(
        "memory-figures",
        f"smaps_rollup: {UNKNOWN}",
        "no memory per layout: no such column, no trade-off, and --max-memory cannot be judged",
        "A kernel from 4.14 on has it (CONFIG_PROC_PAGE_MONITOR); a container may hide it.",
    )


def _run_delays(seen: KernelSeen) -> Finding:
    text = {True: "on", False: "off", None: UNKNOWN}[seen.delay_accounting]
    block = f"task_delayacct {text}, which tuner does not need"
    if seen.has_run_delays:
        return fine("delay-accounting", f"schedstat is filled in; {block}")
    return doubtful(
        "delay-accounting",
        f"schedstat: {UNKNOWN}; {block}",
        "time that threads wait for a core is not measured: tuner explain and the model are less precise",
        "A kernel with CONFIG_SCHED_INFO.",
    )


def _gil_looks(seen: KernelSeen) -> Finding:
    without = "time spent waiting for the GIL is not measured: tuner explain cannot name it as the bottleneck"
    if not seen.has_syscalls:
        return doubtful(
            "gil-looks",
            f"/proc/PID/syscall: {UNKNOWN}",
            without,
            "A kernel with CONFIG_HAVE_ARCH_TRACEHOOK; gVisor and some containers have none.",
        )
    if seen.ptrace_scope is not None and seen.ptrace_scope >= _PTRACE_ADMIN_ONLY and not seen.is_root:
        return doubtful(
            "gil-looks",
            f"kernel.yama.ptrace_scope is {seen.ptrace_scope}",
            without,
            "Run the study as root, or with kernel.yama.ptrace_scope at 1: workers are tuner's descendants.",
        )
    scope = "no Yama" if seen.ptrace_scope is None else f"ptrace_scope {seen.ptrace_scope}"
    return fine("gil-looks", f"/proc/PID/syscall can be read ({scope})")


def _clock(seen: KernelSeen) -> Finding:
    found = f"{seen.clock or UNKNOWN}, {seen.clock_read_s * 1e9:.0f} ns a reading"
    if seen.clock in SLOW_CLOCKS:
        return doubtful(
            "clock",
            found,
            "each reading of the clock is a system call and a read of a device: workers that measure times"
            " are slower, and more so in large layouts",
            "Find out why the kernel left tsc (dmesg | grep -i clocksource); in a virtual machine"
            " use kvm-clock.",
        )
    return fine("clock", found)


def _swap(seen: KernelSeen) -> Finding:
    if seen.swap_used_bytes is None:
        return fine("memory", UNKNOWN)
    free = seen.memory_available_bytes
    left = "" if free is None else f", {render_size(free)} of memory available"
    if seen.swap_used_bytes:
        return doubtful(
            "memory",
            f"{render_size(seen.swap_used_bytes)} of swap in use{left}",
            "a layout whose pages were swapped out is slow by chance",
            "Stop the processes that fill the memory; then swapoff -a && swapon -a brings its pages back.",
        )
    return fine("memory", f"no swap in use{left}")
