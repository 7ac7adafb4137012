"""Whether a window is valid and the reasons if not; windows with few items.

`tuner.core.messages.invalid` has the texts of the reasons. Reasons of the launch (such as ``worker-died``)
are passed through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil

from tuner.core.defaults import MEMORY_PRESSURE_RATIO
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.requests import Latencies, bucket_limits_ns
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window
from tuner.core.messages import Message, invalid
from tuner.core.messages.launch import few_items, mixed_items, short_window, uneven_counts

#: CPU of other processes, in cores; more of it is the largest error of a prediction
FOREIGN_FLOOR_CORES = 0.15
FOREIGN_SHARE_RATIO = (
    0.01  #: share of the cores: on large hosts the floor would be within the error of CPU accounting
)
FULL_RATIO = 0.9  #: share of the cores in use, by all processes together, from which a layout may lack cores
#: least jump: both clocks are slewed alike, so a difference is a step or a suspend
WALL_STEP_S = 0.5
MISSED_INTERVALS = 2.0


def foreign_limit_cores(cores: float, limit_cores: float | None = None) -> float:
    """Return the mean cores that other processes may use: *limit_cores*, else 0.15 core or 1 % of *cores*."""
    if limit_cores is not None:
        return limit_cores
    return max(FOREIGN_FLOOR_CORES, FOREIGN_SHARE_RATIO * cores)


def free_cores(physical_cores: float | None, cores: float) -> float:
    """Return the CPU of other processes, in cores, that takes none from a study on *cores* of the host.

    It fits on the *physical_cores* beyond *cores*, which are fewer because of a CPU quota. A host seems full
    from `FULL_RATIO` on; threads of one core slow each other, so only whole cores count.
    """
    return 0.0 if physical_cores is None else max(0.0, FULL_RATIO * physical_cores - cores)


def room_in(study: StudyRecord) -> float:
    """Return the `free_cores` in *study*: only in a container.

    Elsewhere, load averages would include the other processes. There is none either if workers are held to
    some CPUs, which other processes may use at the same time.
    """
    if study.is_held or not study.provenance.in_container:
        return 0.0
    return free_cores(study.provenance.usable_physical_cores, study.box_cores)


def most_foreign_cores(study: StudyRecord) -> float:
    """Return the most cores that other processes can use on average in a valid window of *study*.

    Beyond the `foreign_limit_of`, they have the `room_in` the study, and the CPUs on which the study may not
    run.
    """
    return foreign_limit_of(study) + room_in(study) + study.provenance.n_cpus_elsewhere


def foreign_limit_of(study: StudyRecord) -> float:
    """Return the cores that other processes may use in a valid window of *study*, on average.

    The default is `foreign_limit_cores`. If layouts take turns, other processes disturb all of them alike,
    so that the default is all cores of the host. `free_cores` adds to it.
    """
    if study.foreign_limit_cores is None and study.n_resident > 1:
        return max(study.box_cores, float(study.provenance.usable_physical_cores or 0.0))
    return foreign_limit_cores(study.box_cores, study.foreign_limit_cores)


def missing_threads(layout: Layout, usage: Usage, reading: Reading) -> tuple[VoidReason, ...]:
    """Return a reason if fewer threads run than *layout* has.

    A thread is visible to the system, or counts items. Coroutines and threads of children only count items;
    a thread without an item yet is only visible to the system. Hence both numbers must be too small.
    """
    wanted, n_counting = layout.total_threads, reading.n_slots
    if n_counting is None or max(n_counting, usage.n_threads) >= wanted:
        return ()
    return (invalid.too_few_threads(layout, usage.n_threads, n_counting),)


def find_lost_counts(begin: Reading, end: Reading) -> tuple[VoidReason, ...]:
    """Return why finished items between two readings are missing from the later reading."""
    n_lost = end.n_lost_total - begin.n_lost_total
    n_unreadable = end.n_unreadable_total - begin.n_unreadable_total
    reasons = []
    if n_lost > 0:
        reasons.append(invalid.packets_lost(n_lost))
    if n_unreadable > 0:
        reasons.append(invalid.counts_unreadable(n_unreadable))
    return tuple(reasons)


def void_reasons(
    samples: Sequence[Sample],
    usage: Sequence[Usage],
    problems: Sequence[VoidReason] = (),
    *,
    cores: float,
    source_dry: bool = False,
    probe_problem: str = "",
    feeder_problem: str = "",
    foreign_limit: float | None = None,
    room_cores: float = 0.0,
    memory_pressure_limit: float = MEMORY_PRESSURE_RATIO,
    interval_s: float = 1.0,
    looked_s: Sequence[float] | None = None,
) -> tuple[VoidReason, ...]:
    """Return all reasons why a window is invalid; an empty tuple if it is valid.

    Args:
        samples: of the whole window in time order, the edges included.
        usage: in time order, at least the two edges.
        problems: problems of the launch (a worker that died, a wrong number of threads).
        cores: cores of the host that the study may use; sets the default limit.
        source_dry: the feeder had no items at some moment of the window.
        probe_problem: the reason if the probe had no fresh count.
        feeder_problem: the reason if no items were supplied, or answered.
        foreign_limit: mean cores that other processes may use, and the hypervisor too; None: see
            `foreign_limit_cores`.
        room_cores: the `free_cores`, which other processes may use beyond this limit; tuner and
            backends use a part of it.
        memory_pressure_limit: share (0..1) of the window in which some task may have waited for memory.
        interval_s: time between samples.
        looked_s: when each sample was taken, if its counts may be older; None: they never are.

    Raises:
        ValueError: fewer than two samples or two usages.
    """
    if len(samples) < 2 or len(usage) < 2:
        raise ValueError(f"a window has two edges; got {len(samples)} samples and {len(usage)} usages")
    reasons = [*problems]
    if source_dry:
        reasons.append(invalid.source_dry(feeder_problem))
    reasons.extend(_find_disturbance(usage, foreign_limit_cores(cores, foreign_limit), room_cores))
    reasons.extend(_short_of_memory(usage, memory_pressure_limit))
    reasons.extend(_clock_jumps(samples, usage))
    looks_s = [sample.at_s for sample in samples] if looked_s is None else looked_s
    gaps = _find_stall(looks_s, interval_s) or _probe_gap(samples, looks_s, interval_s, probe_problem)
    reasons.extend(gaps)
    reasons.extend(_counts_fell(samples))
    if not source_dry and not problems:
        reasons.extend(_no_items(samples, feeder_problem, "" if gaps else probe_problem))
    return tuple(dict.fromkeys(reasons))


def longest_gap_s(at_s: Sequence[float], looks_s: Sequence[float]) -> float:
    """Return the greatest age of a sampled count, or the longest time between two counts, in seconds.

    Raises:
        ValueError: the two differ in length, or have fewer than two values.
    """
    ages_s = [look_s - then_s for look_s, then_s in zip(looks_s, at_s, strict=True)]
    return max(*ages_s, *(later - earlier for earlier, later in pairwise(at_s)))


def _find_disturbance(usage: Sequence[Usage], limit_cores: float, room_cores: float) -> Iterator[VoidReason]:
    """Yield reasons for other processes and stolen time; both are means over the window.

    Other processes may use any CPU on which the study may not run, as far as backends cannot have used it.
    """
    first, last = usage[0], usage[-1]
    elapsed_s = last.at_s - first.at_s
    if elapsed_s <= 0:
        return  # the clock went back: reported by _clock_jumped
    foreign_cores = (last.foreign_cpu_s_total - first.foreign_cpu_s_total) / elapsed_s
    backend_cores = (last.backend_cpu_s_total - first.backend_cpu_s_total) / elapsed_s
    tuner_cores = (last.tuner_cpu_s_total - first.tuner_cpu_s_total) / elapsed_s
    most_cores = limit_cores + max(0.0, room_cores - tuner_cores - backend_cores)
    if first.elsewhere_cpu_s_total is not None and last.elsewhere_cpu_s_total is not None:
        # backends may run there, too; how much of their CPU they use there is unknown
        elsewhere_cores = (last.elsewhere_cpu_s_total - first.elsewhere_cpu_s_total) / elapsed_s
        most_cores += max(0.0, elsewhere_cores - backend_cores)
    if foreign_cores > most_cores:
        yield invalid.disturbed(foreign_cores, most_cores)
    stolen_cores = (last.steal_s_total - first.steal_s_total) / elapsed_s
    if stolen_cores > limit_cores:
        yield invalid.stolen(stolen_cores, limit_cores)


def _short_of_memory(usage: Sequence[Usage], limit_ratio: float) -> Iterator[VoidReason]:
    first, last = usage[0], usage[-1]
    elapsed_s = last.at_s - first.at_s
    if first.memory_pressure_s_total is None or last.memory_pressure_s_total is None or elapsed_s <= 0:
        return
    ratio = (last.memory_pressure_s_total - first.memory_pressure_s_total) / elapsed_s
    if ratio > limit_ratio:
        yield invalid.memory_pressure(ratio, limit_ratio)


def _clock_jumps(samples: Sequence[Sample], usage: Sequence[Usage]) -> Iterator[VoidReason]:
    moments_s = ([sample.at_s for sample in samples], [moment.at_s for moment in usage])
    back_s = max(earlier - later for at_s in moments_s for earlier, later in pairwise(at_s))
    if back_s > 0:
        yield invalid.clock_went_back(back_s)
    steps_s = [
        (later.wall_s - earlier.wall_s) - (later.at_s - earlier.at_s) for earlier, later in pairwise(usage)
    ]
    step_s = max(steps_s, key=abs)
    if abs(step_s) > WALL_STEP_S:
        yield invalid.wall_clock_jumped(step_s)


def _find_stall(looks_s: Sequence[float], interval_s: float) -> tuple[VoidReason, ...]:
    gap_s = max(later - earlier for earlier, later in pairwise(looks_s))
    if gap_s <= MISSED_INTERVALS * interval_s:
        return ()
    return (invalid.stalled(gap_s, interval_s),)


def _probe_gap(
    samples: Sequence[Sample], looks_s: Sequence[float], interval_s: float, problem: str
) -> tuple[VoidReason, ...]:
    """Return a reason if counts were old when sampled, or too much time passed between two of them."""
    gap_s = longest_gap_s([sample.at_s for sample in samples], looks_s)
    if gap_s <= MISSED_INTERVALS * interval_s:
        return ()
    return (invalid.probe_gap(gap_s, interval_s, problem),)


def _no_items(samples: Sequence[Sample], *problems: str) -> Iterator[VoidReason]:
    """Yield a reason if no item finished: either the worker hangs, or it does not count."""
    first, last = samples[0], samples[-1]
    if last.n_done_total == first.n_done_total:
        n_failed = last.n_failed_total - first.n_failed_total
        yield invalid.only_failed_items(n_failed) if n_failed else invalid.no_items(*problems)


def _counts_fell(samples: Sequence[Sample]) -> Iterator[VoidReason]:
    for earlier, later in pairwise(samples):
        if later.n_done_total < earlier.n_done_total:
            yield invalid.counts_fell("finished", earlier.n_done_total, later.n_done_total)
            return
        if later.n_failed_total < earlier.n_failed_total:
            yield invalid.counts_fell("failed", earlier.n_failed_total, later.n_failed_total)
            return


# Windows with too few items to estimate throughput, and items of very different lengths.


LEAST_ITEMS = 20  #: fewest items; one item more or less is 5 % of them
LEAST_LONGEST = 3  #: least length of a window, as a multiple of the longest item
ENOUGH_ITEMS = 100  #: number of items that a proposed window should have
_LONG_RATIO = 20.0  #: an item of this many times the median is a long one
_LEAST_TIME = 0.3  #: least share of the items' time spent in long items; with less they hardly matter
_MOST_LONG = 0.2  #: largest share of long items; more of them are no exception
_LEAST_SEEN = 50  #: fewest items to separate short from long ones
_ROUND_S = 5.0
_BINS_S = (1, 2, 5, 10, 20, 50, 100)  #: lengths of the intervals in which ends of items are counted
#: usual interval; shorter ones are used in short windows, because some counters count in batches
_USUAL_BIN_S = 5
_LEAST_BINS = 12
_UNEVEN = 6.0  #: variance of counts over their mean; for items of one kind it is about 1 at most
_COMMON_SD = 0.1  #: standard deviation of counts over their mean, caused by pauses of all threads


def few_items_warning(window: Window) -> Message | None:
    """Return the warning that *window* is too short for its items; None: it is not."""
    n = window.n_done + window.n_failed
    if n < 1:
        return None  # reported as a window without items
    longest_s, is_longest = _longest(window, n)
    enough_s = max(
        window.length_s * ENOUGH_ITEMS / n if n < LEAST_ITEMS else 0.0,
        LEAST_LONGEST * longest_s,
    )
    layout, length_s, enough_s = window.layout, window.length_s, _round_up(enough_s)
    if n < LEAST_ITEMS:
        return few_items(layout, n, length_s, enough_s)
    if length_s < LEAST_LONGEST * longest_s:
        return short_window(layout, length_s, LEAST_LONGEST, longest_s, enough_s, is_longest=is_longest)
    return None


def mixed_items_warning(window: Window) -> Message | None:
    """Return the warning that a few long items take much of the time; None: not found."""
    if window.requests is None:
        return _uneven_counts_warning(window)
    latencies = window.requests.latencies
    n = latencies.n_recorded
    if n < _LEAST_SEEN:
        return None
    median_s = _high_s(_quantile_bucket(latencies, 0.5))
    long_ones = {b: k for b, k in latencies.n_by_bucket.items() if _low_s(b) >= _LONG_RATIO * median_s}
    n_long = sum(long_ones.values())
    if not n_long or n_long > _MOST_LONG * n:
        return None
    long_s = sum(k * _low_s(bucket) for bucket, k in long_ones.items())
    all_s = sum(k * _low_s(bucket) for bucket, k in latencies.n_by_bucket.items())
    if long_s < _LEAST_TIME * all_s:
        return None
    return mixed_items(window.layout, median_s, n_long / n, _LONG_RATIO, long_s / all_s)


def _uneven_counts_warning(window: Window) -> Message | None:
    if window.n_done + window.n_failed < _LEAST_SEEN:
        return None
    n_s = len(window.samples) - 1
    bins_s = [length for length in _BINS_S if n_s >= _LEAST_BINS * length]
    for length in [length for length in bins_s if length >= _USUAL_BIN_S] or bins_s[-1:]:
        edges = window.samples[::length]
        lasted_s = [after.at_s - before.at_s for before, after in pairwise(edges)]
        counts = [
            after.n_done_total + after.n_failed_total - before.n_done_total - before.n_failed_total
            for before, after in pairwise(edges)
        ]
        if min(lasted_s) <= 0:
            return None
        mean = sum(counts) / len(counts)
        variance = _variance([n * length / lasted for n, lasted in zip(counts, lasted_s, strict=True)])
        in_step = window.layout.total_threads**2 / 2  # all threads may finish at once: one time more or less
        if variance > _UNEVEN * mean + (_COMMON_SD * mean) ** 2 + in_step:
            return uneven_counts(window.layout, length, min(counts), max(counts), variance / mean)
    return None


def _variance(counts: Sequence[float]) -> float:
    """Return the variance from one count to the next, which a trend does not raise.

    The two largest differences are left out: a moment in which no item ends makes two of them at most.
    """
    squares = sorted((after - before) ** 2 / 2 for before, after in pairwise(counts))[:-2]
    return sum(squares) / len(squares)


def _longest(window: Window, n: int) -> tuple[float, bool]:
    """Return the longest item in seconds and True; if it is not known, the mean of all and False."""
    if window.requests is not None and window.requests.latencies.n_recorded:
        buckets = window.requests.latencies.n_by_bucket
        return _low_s(max(buckets)), True
    return window.layout.total_threads * window.length_s / n, False


def _quantile_bucket(latencies: Latencies, share: float) -> int:
    wanted, seen = share * latencies.n_recorded, 0
    for bucket in sorted(latencies.n_by_bucket):
        seen += latencies.n_by_bucket[bucket]
        if seen >= wanted:
            return bucket
    raise AssertionError("a share of nothing")


def _low_s(bucket: int) -> float:
    return bucket_limits_ns(bucket)[0] / 1e9


def _high_s(bucket: int) -> float:
    return min(bucket_limits_ns(bucket)[1] / 1e9, 3600.0)


def _round_up(seconds: float) -> float:
    """Round up to a multiple of five seconds, or of a minute if above two minutes."""
    step = _ROUND_S if seconds <= 120 else 60.0
    return step * ceil(seconds / step - 1e-9)
