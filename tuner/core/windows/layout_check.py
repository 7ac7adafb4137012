"""Whether the numbers of running processes and threads were those of each layout.

A wrong assumption of tuner about an option parser, a configuration file or the application itself may fix a
number that the layout was to set. It shows if two layouts that set different numbers ran with the same
number. A difference from the number of one layout does not show it: a worker has further threads, also of its
application (an agent of a monitor, a pool of connections), which cannot be separated from the layout's. These
are the same in every layout, or grow with it. Hence the rule: *a layout that sets more must have more*.

Processes are all there once a service is ready, and so are the threads of some services. Other services start
a thread if an item finds none that is idle: then the load decides, and the rule takes three precautions. The
load always has more items than the layout has threads (a queue that is not dry; connections that each send a
request as soon as they have an answer, twice as many as threads; not requests at a rate). The layout has
to set at least twice as many threads as the other one: the first requests, which arrive at once, start more
than half of them. And its GIL is not full: if items compute, the thread that starts all other threads waits
for the GIL among them, and a pool of 16 threads may have six after half a minute (Celery's threads).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import median, median_high
from typing import Any

from tuner.core.domain.layout import Layout, LoadedPools, Pool
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.service import shape_of
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason, Window
from tuner.core.errors import ConfigError
from tuner.core.messages.invalid import processes_alike, threads_alike
from tuner.core.text.figures import list_names, pluralize

ALIKE = "layouts-alike"  #: slug of a window in which the layout ran like another one
EXTRA = "extra-workers"  #: slug of a window in which more processes ran than the layout has
_ON_DEMAND = "on-demand"
#: own CPU of a worker process, in cores, at which its GIL leaves little time to start threads
_FULL_CORES = 0.8
_HINT = (
    "Something fixes the number: an option of the command, a configuration file or the application. Leave it"
    " out there, so that the layout decides."
)


@dataclass(frozen=True, slots=True)
class Ran:
    """The processes and threads that ran for a layout."""

    layout: Layout
    processes: float  #: worker processes, median over the samples of a window
    #: threads of the worker process that has the most; if unknown, of the mean one; -inf: no evidence
    threads: float
    most_threads: float  #: threads of the worker process that has the most; infinite: unknown
    has_full_gil: bool = False  #: whether one worker process used most of a core


def ran_of(window: Window) -> Ran | None:
    """Return the processes and threads that ran in *window*; None if it has no sample with a worker."""
    looks = [usage for usage in window.usage if usage.n_processes]
    if not looks:
        return None
    if any(usage.computing is not None and usage.computing.loaded.causes for usage in looks):
        # a library starts threads, perhaps fewer per process if there are more processes: ignore the number
        return Ran(window.layout, median(usage.n_processes for usage in looks), -inf, inf)
    known = [usage.n_threads_most for usage in looks if usage.n_threads_most is not None]
    mean = max(usage.n_threads / usage.n_processes for usage in looks)
    is_one = all(usage.n_processes == 1 for usage in looks)
    most = max(known) if known else mean if is_one else inf
    return Ran(
        window.layout,
        median(usage.n_processes for usage in looks),
        max(known) if known else mean,
        most,
        _cores_per_process(window) >= _FULL_CORES,
    )


def _cores_per_process(window: Window) -> float:
    """Return the mean cores that one worker process used itself; 0 if that is not known."""
    first, last = window.usage[0], window.usage[-1]
    used_s, before_s = last.worker_cpu_s_total, first.worker_cpu_s_total
    elapsed_s, n_processes = last.at_s - first.at_s, max(one.n_processes for one in window.usage)
    if used_s is None or before_s is None or elapsed_s <= 0:
        return 0.0
    return (used_s - before_s) / elapsed_s / n_processes


@dataclass(slots=True)
class RanLayouts:
    """The processes and threads that ran for each layout of one study."""

    config: StoredConfig
    _of: dict[Layout, Ran] = field(default_factory=dict)

    def judged(self, window: Window) -> Window:
        """Return *window*, invalid if another layout ran with the same numbers; remember a valid window."""
        ran = None if window.void else ran_of(window)
        if ran is None:
            return window
        if (alike := self.alike(ran)) is not None:
            return replace(window, void=(alike,))
        self._of[window.layout] = ran
        return window

    def alike(self, ran: Ran) -> VoidReason | None:
        """Return why *ran*, or an earlier layout, did not run as requested; None if nothing shows it."""
        for other in self._of.values():
            if other.layout.variant == ran.layout.variant:
                for reason in (*self._alike_processes(ran, other), *self._alike_threads(ran, other)):
                    return reason
        return None

    def _alike_processes(self, *pair: Ran) -> Iterator[VoidReason]:
        pooled = self.config.service.pooled_variants
        fewer, more = sorted(pair, key=lambda one: shape_of(one.layout, pooled).processes)
        asks_for_more = (
            shape_of(more.layout, pooled).processes > shape_of(fewer.layout, pooled).processes
            and self.config.service.has_master(fewer.layout)  # else tuner itself started them
        )
        if asks_for_more and more.processes <= fewer.processes:
            yield processes_alike(more.layout, round(more.processes), fewer.layout, round(fewer.processes))

    def _alike_threads(self, *pair: Ran) -> Iterator[VoidReason]:
        fewer, more = sorted(pair, key=lambda one: one.layout.threads)
        started = self.config.service.os_threads(more.layout.variant)
        if started is None or more.layout.threads == fewer.layout.threads:
            return
        if started == _ON_DEMAND and not (
            more.layout.threads >= 2 * fewer.layout.threads and self._is_saturated() and not more.has_full_gil
        ):
            return
        if more.most_threads <= fewer.threads:
            yield threads_alike(more.layout, round(more.most_threads), fewer.layout, round(fewer.threads))

    def _is_saturated(self) -> bool:
        """Return whether the load always has more items than the layout has threads."""
        feeder = self.config.service.feeder
        return feeder.get("kind") == "queue" or (feeder.get("kind") == "http" and not feeder.get("rate"))


def refuse_wrong_layout(window: Window) -> None:
    """Stop a study whose layouts did not run as requested.

    Raises:
        ConfigError: *window* ran as another layout's.
    """
    for reason in window.void:
        if reason.slug in (ALIKE, EXTRA):
            raise ConfigError(f"a layout did not run as it is called: {reason.detail}", hint=_HINT)


# Layouts whose workers compute in more threads than the layout has: detection, storage and sentences.


_MOST_SHOWN = 3  #: most layouts named in a sentence


@dataclass(frozen=True, slots=True)
class InnerThreads:
    """Threads that a layout ran in addition to its own threads."""

    layout: Layout
    n_inner: int  #: computing threads in addition to the layout's, in all processes
    loaded: LoadedPools  #: libraries that may have started them

    @property
    def n_threads(self) -> int:
        """Return the number of all threads: the layout's and the additional ones."""
        return self.layout.total_threads + self.n_inner

    @property
    def cause(self) -> str:
        """Return the cause as part of a sentence: ``OMP_NUM_THREADS is not set (OpenMP)``."""
        pools = self.loaded.pools
        if causes := self.loaded.causes:
            libraries: dict[str, list[str]] = {}
            for pool in causes:
                libraries.setdefault(self._setting(pool), []).append(pool.library)
            return ", ".join(f"{setting} ({', '.join(names)})" for setting, names in libraries.items())
        text = ", ".join(dict.fromkeys(f"{pool.variable} is {pool.value}" for pool in pools))
        return f"no known library started them{f' ({text})' if text else ''}"

    def _setting(self, pool: Pool) -> str:
        if not pool.variable:
            return "intra_op_num_threads is not 1"
        if not self.loaded.is_environment_read:
            return f"{pool.variable} cannot be read"
        return f"{pool.variable} is {'not set' if pool.value is None else pool.value}"


def inner_of(window: Window) -> InnerThreads | None:
    """Return the additional threads that computed in *window*; None if there were none, or none were sampled.

    More than half of the samples must show such threads.
    """
    looks = [usage.computing for usage in window.usage if usage.computing is not None]
    seen = [look.n_inner for look in looks if look.n_inner]
    if 2 * len(seen) <= len(looks):
        return None
    return InnerThreads(window.layout, median_high(seen), looks[-1].loaded)


# ---------------------------------------------------------------------- storage in a study


def inner_to_facts(found: InnerThreads) -> Provenance:
    """Return *found* in the form that a study's provenance stores."""
    value = {
        "n_inner": found.n_inner,
        "pools": [[pool.library, pool.variable, pool.value] for pool in found.loaded.pools],
        "is_environment_read": found.loaded.is_environment_read,
    }
    return Provenance(inner_threads={f"{found.layout}": json.dumps(value, sort_keys=True)})


def inner_threads_of(study: StudyRecord) -> tuple[InnerThreads, ...]:
    """Return the additional threads of each layout of *study* that ran some, in the order of its layouts."""
    found = (
        _parse_stored(layout, study.provenance.inner_threads.get(f"{layout}")) for layout in study.layouts
    )
    return tuple(one for one in found if one is not None)


def _parse_stored(layout: Layout, text: str | None) -> InnerThreads | None:
    """Parse the stored *text* of a layout; None if nothing is stored, or it cannot be parsed."""
    try:
        kept: Any = json.loads(text or "null")
        pools = tuple(
            Pool(str(library), str(variable), None if value is None else str(value))
            for library, variable, value in kept["pools"]
        )
        return InnerThreads(
            layout, int(kept["n_inner"]), LoadedPools(pools, kept["is_environment_read"] is True)
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


# ---------------------------------------------------------------------- sentences


def describe_extra_threads(
    found: Sequence[InnerThreads], cores: float, *, is_measured: bool = False
) -> list[str]:
    """Return a sentence for each cause; *is_measured*: other numbers of these threads are measured, too."""
    by_cause: dict[str, list[InnerThreads]] = {}
    for one in found:
        by_cause.setdefault(one.cause, []).append(one)
    sentences = []
    for cause, alike in by_cause.items():
        most_first = sorted(alike, key=lambda one: -one.n_threads)
        ran = list_names([f"{one.layout} in {one.n_threads}" for one in most_first], _MOST_SHOWN)
        text = f"Workers computed in more threads than the layout has: {ran} on {pluralize(cores, 'core')}"
        is_to_set = any(pool.variable for pool in alike[0].loaded.causes)
        cure = " --axis omp=1,auto measures fewer." if is_to_set and not is_measured else ""
        sentences.append(f"{text}: {cause}.{cure}")
    return sentences
