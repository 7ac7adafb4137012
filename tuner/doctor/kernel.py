"""What the kernel tells of a running service, and what a study does without when it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuner.core.text.figures import render_size
from tuner.doctor.finding import UNKNOWN, Finding, doubtful, fine

#: read through the kernel and a device, not from memory: kernel/time/clocksource.c rates them lowest
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"})
#: of Yama: from here on nobody of the same user may look (Documentation/admin-guide/LSM/Yama.rst)
_PTRACE_ADMIN_ONLY = 2


@dataclass(frozen=True, slots=True)
class KernelSeen:
    """What this kernel shows of itself and of processes."""

    container: str  #: that we are in one, and what its figures are of; empty: in none
    has_pressure: bool  #: /proc/pressure (PSI), or in a container its cgroup's
    has_pss: bool  #: /proc/PID/smaps_rollup
    has_run_delays: bool  #: /proc/PID/schedstat, filled in
    delay_accounting: bool | None  #: kernel.task_delayacct
    has_syscalls: bool  #: /proc/PID/syscall
    ptrace_scope: int | None  #: of Yama; None: no Yama
    is_root: bool
    clock: str | None  #: the clock source in use
    clock_read_s: float  #: time of one reading, measured
    swap_used_bytes: int | None
    memory_available_bytes: int | None


def kernel_findings(seen: KernelSeen) -> Iterator[Finding]:
    """What a study sees less of, and the clock that it goes by."""
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
