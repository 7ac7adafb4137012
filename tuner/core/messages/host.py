"""Warnings about the host: other programs, unreadable facts, unwritable files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tuner.core.domain.layout import Layout
from tuner.core.messages import warning
from tuner.core.text.figures import percent, render_duration

_MOST_LEFTOVERS = 8


@warning(
    "backend-found",
    "",
    "If the printed program only forwards connections, as `docker-proxy` and `ssh` do, add the real "
    "server to `backends` in the config.",
)
def backend_found(program: str, pid: int, address: str, *, forwards: bool) -> str:
    more = "to change this, set `backends` in the config"
    if forwards:
        more = "it only forwards connections, so also list the real backend under `backends`"
    return (
        f"{program} (process {pid}) counts as a backend, because it listens at {address}, which the config"
        f" names; {more}"
    )


@warning(
    "container-load",
    "",
    "If other processes make windows invalid, reserve CPUs for the container, or raise "
    "`--foreign-limit` (see [Containers](containers.md)).",
)
def container_load(n_cpus: int, *, has_cgroup: bool, hidden: str) -> str:
    """Return the text; *hidden* is why other processes cannot be detected, empty: they can."""
    pressure = "reads pressure from its cgroup"
    if not has_cgroup:
        pressure = "cannot read pressure (no cgroup of version 2 is mounted)"
    others = f"looks for other processes on {n_cpus} CPUs"
    if hidden:
        others = f"cannot detect other processes, so they make no window invalid ({hidden})"
    return (
        "this is a container, so /proc/loadavg is that of the host. tuner counts load and active tasks of the"
        f" service alone, {pressure}, and {others}"
    )


@warning(
    "hook-failed",
    "A failed `after_` or `finished` hook does not change the result of the study.",
    "To find the reason, read the output of the failed command.",
)
def hook_failed(problem: str) -> str:
    return problem


@warning(
    "leftover-processes",
    "",
    "Change the service so that all its processes end when the worker ends.",
)
def leftover_processes(when: Literal["before", "after"], processes: Sequence[str], *, ended: bool) -> str:
    named, n_more = ", ".join(processes[:_MOST_LEFTOVERS]), len(processes) - _MOST_LEFTOVERS
    more = f" and {n_more} more" if n_more > 0 else ""
    done = "had to end" if ended else "could not end"
    return f"{when} a launch tuner {done} these processes: {named}{more}"


@warning(
    "memory-missed",
    "",
    "No action is needed. Processes that live less than about 20 ms often end before tuner can read "
    "their memory.",
)
def memory_missed(missed_ratio: float) -> str:
    return (
        f"{percent(missed_ratio)} of the service's processes ended before tuner could read their memory;"
        " tuner estimates their memory from similar processes"
    )


@warning(
    "metrics-file",
    "",
    "Free some disk space, or check that the folder of the metrics file is writable.",
)
def metrics_file(path: object, error: str | None) -> str:
    return f"cannot write {path}: {error}; the study continues without it"


@warning(
    "host-speed",
    "tuner measures the host's speed by the CPU time of a test computation. The test computation needs "
    "more CPU time at a lower clock rate, or if other programs or virtual machines share its core, "
    "caches or memory. The CPU time of the service may change less.",
    "The printed throughput is an average over both speeds. The ranking stays valid if all layouts "
    "changed by the same share. If possible, measure again on a host with constant speed.",
)
def host_speed(host: str, slower: float, least: float, most: float, since: str) -> str:
    """Return the text; *slower*: change of CPU time, *least* and *most*: its interval; *host*: of a fleet."""
    ends = sorted((abs(least), abs(most)))
    return (
        f"the test computation{f' on {host}' if host else ''} took {percent(abs(slower))}"
        f" {'more' if slower > 0 else 'less'} CPU time from {since} on"
        f" ({100 * ends[0]:.3g} to {percent(ends[1])})"
    )


@warning(
    "no-backend",
    "",
    "Start the missing server (backend), or correct its name under `backends` in the config. If "
    "`/proc` is mounted with `hidepid`, run tuner as root.",
)
def no_backend(name: str) -> str:
    return f"no process is called {name}, so the CPU of this backend counts as that of other processes"


@warning(
    "no-launch-cgroup",
    "",
    "No action is needed: tuner also finds leftover processes without a cgroup.",
)
def no_launch_cgroup(layout: Layout, why: str) -> str:
    return f"{layout} runs without a separate cgroup: {why}"


@warning(
    "no-live-file",
    "Without the file `.live`, `tuner watch` cannot show which layout tuner measures now.",
    "Free some disk space, or check that you can write to the folder of the study.",
)
def no_live_file(path: object, error: str | None) -> str:
    return f"cannot write {path}: {error}"


@warning(
    "no-memory-figures",
    "",
    "To measure the memory of the workers, run tuner as their user or as root.",
)
def no_memory_figures() -> str:
    return "cannot read the workers' memory: they belong to another user, or the kernel does not provide it"


@warning(
    "still-over",
    "",
    "Find the programs that load the host although no layout runs (see [Safety limits](brake.md)).",
)
def still_over(over: str, longest_s: float) -> str:
    return f"although no layout runs, {over}; waiting for at most {render_duration(longest_s)}"


@warning(
    "unfit",
    "",
    "Follow the printed advice. `tuner doctor CONFIG` checks more properties of the host "
    "(see [`tuner doctor`](doctor.md)).",
)
def unfit(check: str, found: str, effect: str, cure: str) -> str:
    return f"{check}: {found}: {effect}; {cure}"


@warning(
    "view-failed",
    "The failure of the live view is a bug in tuner, and does not affect the measurement.",
    "Report the printed line.",
)
def view_failed(error: Exception) -> str:
    return f"the live view failed, so tuner prints plain lines instead: {error!r}"
