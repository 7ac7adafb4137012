"""Layouts whose workers compute in more threads than the layout has: found, kept, and put into words.

A layout of 2x4 has eight threads that work on items. Where a numeric library starts more of its own
(`domain.computing`), P x T is not what runs, and more threads than cores wait for each other. What makes
a thread a computing one: `tuner.adapters.proc.computing_threads`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import Any

from tuner.core.domain.computing import LoadedPools, Pool
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.window import Window
from tuner.core.text.figures import list_names, pluralize

_MOST_SHOWN = 3  #: layouts in a sentence


@dataclass(frozen=True, slots=True)
class InnerThreads:
    """What a layout ran beside its own threads."""

    layout: Layout
    n_inner: int  #: threads that compute beside the layout's, in all processes
    loaded: LoadedPools  #: the libraries that may have started them

    @property
    def n_threads(self) -> int:
        """The layout's and these."""
        return self.layout.total_threads + self.n_inner

    @property
    def cause(self) -> str:
        """Why there are more, as part of a sentence: ``OMP_NUM_THREADS is not set (OpenMP)``."""
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
    """What ran in *window* beside the layout's threads; None: nothing that computes, or nobody looked.

    More than half of the looks must have seen some.
    """
    looks = [usage.computing for usage in window.usage if usage.computing is not None]
    seen = [look.n_inner for look in looks if look.n_inner]
    if 2 * len(seen) <= len(looks):
        return None
    return InnerThreads(window.layout, median_high(seen), looks[-1].loaded)


# ---------------------------------------------------------------------- what a study keeps of them


def inner_to_facts(found: InnerThreads) -> Provenance:
    """*found* as a study's provenance keeps it."""
    value = {
        "n_inner": found.n_inner,
        "pools": [[pool.library, pool.variable, pool.value] for pool in found.loaded.pools],
        "is_environment_read": found.loaded.is_environment_read,
    }
    return Provenance(inner_threads={f"{found.layout}": json.dumps(value, sort_keys=True)})


def inner_threads_of(study: StudyRecord) -> tuple[InnerThreads, ...]:
    """The layouts of *study* that ran more threads than their own, in the order of its layouts."""
    found = (_read(layout, study.provenance.inner_threads.get(f"{layout}")) for layout in study.layouts)
    return tuple(one for one in found if one is not None)


def _read(layout: Layout, text: str | None) -> InnerThreads | None:
    """None: nothing is kept, or it cannot be read."""
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


# ---------------------------------------------------------------------- in sentences


def describe_extra_threads(
    found: Sequence[InnerThreads], cores: float, *, is_measured: bool = False
) -> list[str]:
    """Of all layouts, a sentence for each cause; *is_measured*: with other numbers of these threads, too."""
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
