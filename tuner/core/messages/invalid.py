"""Reasons for invalid windows."""

from __future__ import annotations

from math import inf
from typing import Literal

from tuner.core.domain.layout import Layout
from tuner.core.messages import invalid_window, with_reasons
from tuner.core.text.figures import busy_cores, percent, pluralize


@invalid_window(
    "braked",
    "To protect the host, tuner stops the service if a [safety limit](brake.md) is exceeded.",
    "If the safety limit is too low, raise the limit in the config.",
)
def braked(passed: str) -> str:
    return passed


_clock_jumped = invalid_window(
    "clock-jumped",
    "",
    "If the host's clock jumps often, check its time service (NTP).",
)


@_clock_jumped
def clock_went_back(back_s: float) -> str:
    return f"the monotonic clock went back by {back_s:.3f} s"


@_clock_jumped
def wall_clock_jumped(step_s: float) -> str:
    return (
        f"the wall clock moved by {step_s:+.1f} s relative to the monotonic clock: it was set, or the host"
        " was suspended"
    )


@invalid_window(
    "counts-fell",
    "",
    "Check whether a worker restarted, or whether the counted number can fall, such as a queue length.",
)
def counts_fell(which: Literal["finished", "failed"], before: int, after: int) -> str:
    return f"the count of {which} items fell from {before} to {after}"


@invalid_window(
    "counts-unreadable",
    "The warning `statsd-lines` prints one of the unreadable statsd lines.",
    "The service must count its finished items with lines such as `NAME:1|c` "
    "(see [statsd](probes-of-servers.md#statsd)).",
)
def counts_unreadable(n_lines: int) -> str:
    lines = pluralize(n_lines, "line")
    return f"the probe could not read {lines} that should count items, so their items are missing"


@invalid_window(
    "disturbed",
    "",
    "Stop programs that do not belong to the service (`top` lists them), or raise their limit "
    "(`--foreign-limit`). If the service uses a program such as a database, name the program under "
    "`backends` in the config.",
)
def disturbed(used_cores: float, limit_cores: float) -> str:
    used = busy_cores(used_cores)
    return f"other processes on the host used {used} on average; the limit is {limit_cores:.2f}"


@invalid_window(
    "extra-workers",
    "The application or its configuration sets the number of worker processes, so the study ends with exit "
    "code 2.",
    "Remove that setting, for example `server.num_workers` in a hook of `gunicorn.conf.py`.",
)
def processes_extra(layout: Layout, n_running: int, n_wanted: int) -> str:
    return f"{layout} ran {pluralize(n_running, 'worker process')}, not {n_wanted}"


@invalid_window(
    "launcher-died",
    "Another process or the kernel killed supervisord, which starts the workers.",
    "The kernel's log (`dmesg`) shows whether the host ran out of memory.",
)
def launcher_died(which: str) -> str:
    return f"{which} ended while the layout ran"


_layouts_alike = invalid_window(
    "layouts-alike",
    "If the service fixes the number of processes or threads, two layouts run alike, and the study "
    "ends with exit code 2.",
    "Remove the fixed number of processes or threads from the command, start script, configuration "
    "file or application (see [Known services](services/README.md#what-runs-is-compared)).",
)


@_layouts_alike
def processes_alike(more: Layout, n_more: int, fewer: Layout, n_fewer: int) -> str:
    return f"{more} ran {pluralize(n_more, 'worker process')}, no more than {fewer} ({n_fewer})"


@_layouts_alike
def threads_alike(more: Layout, n_more: int, fewer: Layout, n_fewer: int) -> str:
    ran = f"{pluralize(n_more, 'thread')} in a worker process"
    return f"{more} ran {ran}, no more than {fewer} ({n_fewer})"


@invalid_window(
    "memory-pressure",
    "The config key `memory_pressure_limit` sets the largest share of time in which tasks may wait for "
    "memory.",
    "Run fewer processes, or use a host with more memory.",
)
def memory_pressure(waited_ratio: float, limit_ratio: float) -> str:
    waited = f"tasks waited for memory in {percent(waited_ratio)} of the window"
    return f"{waited}; the limit is {percent(limit_ratio)}"


_no_items = invalid_window(
    "no-items",
    "",
    "Check that the worker gets items, does not hang, and counts its finished items (for example "
    "with `tuner.probe.counter`). If an item takes longer than the window, raise `--window`.",
)


@_no_items
def no_items(*problems: str) -> str:
    return with_reasons("no item finished in the window", *problems)


@_no_items
def only_failed_items(n_failed: int) -> str:
    return f"no item finished successfully in the window; {n_failed} failed"


@invalid_window(
    "packets-lost",
    "",
    "Raise the kernel setting `net.core.rmem_max` to 4194304 (bytes), or let the service send fewer metrics.",
)
def packets_lost(n_packets: int) -> str:
    return f"the kernel dropped {pluralize(n_packets, 'packet')} to the probe, so their counts are missing"


@invalid_window(
    "probe-gap",
    "",
    "Check by hand whether the page, server or command with the item count answers (see "
    "[Probes](probes.md)).",
)
def probe_gap(gap_s: float, interval_s: float, problem: str) -> str:
    gap = f"the probe had no new count for {gap_s:.1f} s; expected one every {interval_s:g} s"
    return with_reasons(gap, problem)


@invalid_window(
    "probes-disagree",
    "",
    "To find out which probe is wrong, count the items of one minute by hand. A wrong probe often "
    "counts retries or failed items, or misses log lines or packets (see [Probes](probes.md)).",
)
def probes_disagree(
    names: tuple[str, str], counts: tuple[int, float], apart_ratio: float, within_ratio: float, n_threads: int
) -> str:
    return (
        f"{names[0]} counted {pluralize(counts[0], 'item')} and {names[1]} {counts[1]:.0f} in the same time;"
        f" the counts differ by {percent(apart_ratio)}, but only {percent(within_ratio)} and"
        f" {pluralize(n_threads, 'item')} in progress are allowed"
    )


@invalid_window(
    "source-dry",
    "",
    "Feed items faster, or put more items into the queue or folder before the study. If you measure "
    "the built-in service, raise the config key `service.items`.",
)
def source_dry(problem: str) -> str:
    return with_reasons("the source ran out of items during the window", problem)


@invalid_window(
    "stalled",
    "",
    "The host was suspended or overloaded. If the host was overloaded, stop programs that do not "
    "belong to the service.",
)
def stalled(gap_s: float, interval_s: float) -> str:
    return f"tuner measured nothing for {gap_s:.1f} s; expected a sample every {interval_s:g} s"


@invalid_window(
    "stolen",
    "Other virtual machines on the same hardware used CPU time of this host.",
    "Measure on another host, or at a quieter time.",
)
def stolen(stolen_cores: float, limit_cores: float) -> str:
    return f"the hypervisor took {busy_cores(stolen_cores)} on average; the limit is {limit_cores:.2f}"


@invalid_window(
    "worker-died",
    "",
    "To find out why the worker ended, read its log.",
)
def worker_died(worker: str, how: str) -> str:
    return f"{worker} ended: {how}"


_wrong_layout = invalid_window(
    "wrong-layout",
    "",
    "Check that the command in the config passes `{threads}` to the service. If the service also "
    "starts threads that do not work on items, set the config key `max_extra_threads` to the number "
    "of these threads. In `max_extra_threads`, do not include threads of numeric libraries such as "
    "OpenBLAS (see [Threads of libraries](inner-threads.md)).",
)


@_wrong_layout
def too_few_threads(layout: Layout, n_running: int, n_counting: int) -> str:
    wanted = pluralize(layout.total_threads, "thread")
    return f"{layout} should have {wanted}, but {n_running} run and {n_counting} count items"


@_wrong_layout
def processes_missing(n_running: int, n_wanted: int, service: str) -> str:
    return f"{pluralize(n_running, 'worker process')} of {n_wanted} run below {service}"


@_wrong_layout
def wrong_threads(worker: str, n_threads: int, least: int, most: float) -> str:
    wanted = f"{least} or more" if most == inf else f"{least} to {most:g}"
    return f"{worker} has {pluralize(n_threads, 'thread')}, not {least if least == most else wanted}"
