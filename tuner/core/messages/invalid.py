"""Why a window is invalid: one entry for each reason."""

from __future__ import annotations

from math import inf
from typing import Literal

from tuner.core.domain.layout import Layout
from tuner.core.messages.catalogue import invalid_window, with_reasons
from tuner.core.text.figures import busy_cores, percent, pluralize


@invalid_window(
    "braked",
    "tuner stopped the launch, because this [safety limit](brake.md) was exceeded. A launch that a safety "
    "limit stopped does not count as an attempt.",
    "Check that the safety limit is not too low.",
)
def braked(passed: str) -> str:
    return passed


_clock_jumped = invalid_window(
    "clock-jumped",
    "",
    "If the clock often makes windows invalid, check the time service of the host.",
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
    "Check whether a worker was restarted, or whether the probe reads a number that is not a running total.",
)
def counts_fell(which: Literal["finished", "failed"], before: int, after: int) -> str:
    return f"the count of {which} items fell from {before} to {after}"


@invalid_window(
    "counts-unreadable",
    "The warning `statsd-lines` prints one of the unreadable lines.",
    "The service must send lines of the form `NAME:1|c`, or `NAME:1|c|@0.1` at a sample rate of 0.1 "
    "([statsd](probes-of-servers.md#statsd)).",
)
def counts_unreadable(n_lines: int) -> str:
    lines = pluralize(n_lines, "line")
    return f"the probe could not read {lines} that should count items, so their items are missing"


@invalid_window(
    "disturbed",
    "",
    "Stop the other processes, which `top` lists, or raise `--foreign-limit`. If these processes are "
    "backends of the service, list them under `backends` in a config.",
)
def disturbed(used_cores: float, limit_cores: float) -> str:
    used = busy_cores(used_cores)
    return f"other processes on the host used {used} on average; the limit is {limit_cores:.2f}"


@invalid_window(
    "launcher-died",
    "",
    "Another process killed supervisord, or the host ran out of memory. Read the kernel's log (`dmesg`).",
)
def launcher_died(which: str) -> str:
    return f"{which} ended while the layout ran"


_layouts_alike = invalid_window(
    "layouts-alike",
    "The command, a start script, a configuration file or the application sets a fixed number of processes or"
    " threads. The study ends with exit code 2.",
    "Remove the fixed number of processes or threads ([how tuner compares "
    "layouts](services/README.md#what-runs-is-compared)).",
)


@_layouts_alike
def processes_alike(more: Layout, n_more: int, fewer: Layout, n_fewer: int) -> str:
    return f"{more} ran with {pluralize(n_more, 'worker process')}, no more than {fewer} ({n_fewer})"


@_layouts_alike
def threads_alike(more: Layout, n_more: int, fewer: Layout, n_fewer: int) -> str:
    ran = f"{pluralize(n_more, 'thread')} in a worker process"
    return f"{more} ran with {ran}, no more than {fewer} ({n_fewer})"


@invalid_window(
    "memory-pressure",
    "The config key `memory_pressure_limit` sets the limit for this share.",
    "Use fewer processes, or a host with more memory. If memory pressure makes all windows of a layout "
    "invalid, the host has too little memory for this layout.",
)
def memory_pressure(waited_ratio: float, limit_ratio: float) -> str:
    waited = f"tasks waited for memory in {percent(waited_ratio)} of the window"
    return f"{waited}; the limit is {percent(limit_ratio)}"


_no_items = invalid_window(
    "no-items",
    "",
    "Check that the worker counts its items (`tuner.probe.counter`), gets items and does not hang. If an "
    "item takes longer than the window, raise `--window`.",
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
    "Raise the kernel setting `net.core.rmem_max` to 4194304, or let the service send fewer metrics or only a"
    " sample of them (`@rate`).",
)
def packets_lost(n_packets: int) -> str:
    return f"the kernel dropped {pluralize(n_packets, 'packet')} to the probe, so their counts are missing"


@invalid_window(
    "probe-gap",
    "",
    "The web page, server or command that the probe reads was slow or did not answer. Query this page, "
    "server or command by hand ([probes](probes.md)).",
)
def probe_gap(gap_s: float, interval_s: float, problem: str) -> str:
    gap = f"the probe had no new count for {gap_s:.1f} s; expected one every {interval_s:g} s"
    return with_reasons(gap, problem)


@invalid_window(
    "probes-disagree",
    "",
    "Count the items of one minute by hand to find out which probe is wrong. Often a probe also counts "
    "retries, failed items or other queues, or misses lines or packets ([probes](probes.md)).",
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
    "Feed items faster, or put more items into the source before the study. For the built-in service raise"
    " `service.items`.",
)
def source_dry(problem: str) -> str:
    return with_reasons("the source ran out of items during the window", problem)


@invalid_window(
    "stalled",
    "",
    "The host was suspended or overloaded. For an overloaded host, follow the advice for `disturbed`.",
)
def stalled(gap_s: float, interval_s: float) -> str:
    return f"tuner took no sample for {gap_s:.1f} s; expected one every {interval_s:g} s"


@invalid_window(
    "stolen",
    "Other virtual machines on the same hardware used this CPU time.",
    "Measure on another host, or when the other virtual machines are less busy.",
)
def stolen(stolen_cores: float, limit_cores: float) -> str:
    return f"the hypervisor took {busy_cores(stolen_cores)} on average; the limit is {limit_cores:.2f}"


@invalid_window(
    "worker-died",
    "",
    "Read the log of the worker. If the worker ran out of memory or file descriptors, later launches of the "
    "layout will also fail.",
)
def worker_died(worker: str, how: str) -> str:
    return f"{worker} ended: {how}"


_wrong_layout = invalid_window(
    "wrong-layout",
    "",
    "Check that the command uses `{threads}`. If the service also starts threads that do not work on items, "
    "set `max_extra_threads` to their number. In this check, tuner ignores the threads of numeric libraries"
    " ([inner threads](inner-threads.md)).",
)


@_wrong_layout
def too_few_threads(layout: Layout, n_running: int, n_counting: int) -> str:
    wanted = pluralize(layout.total_threads, "thread")
    return f"{layout} has {wanted}: {n_running} run, {n_counting} count items"


@_wrong_layout
def processes_missing(n_running: int, n_wanted: int, service: str) -> str:
    return f"{pluralize(n_running, 'worker process')} of {n_wanted} run below {service}"


@_wrong_layout
def wrong_threads(worker: str, n_threads: int, least: int, most: float) -> str:
    wanted = f"{least} or more" if most == inf else f"{least} to {most:g}"
    return f"{worker} has {pluralize(n_threads, 'thread')}, not {least if least == most else wanted}"
