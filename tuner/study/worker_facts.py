"""What is kept and said of workers: threads that the layout does not have, and whether they have a GIL."""

from __future__ import annotations

from collections.abc import Callable

from tuner.core.domain.provenance import GIL, GIL_MODULE, GIL_SEEN, Provenance, WorkerFacts
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.window import Window
from tuner.core.messages.launch import gil_came_back, inner_threads
from tuner.core.windows.layout_check import inner_of, inner_to_facts
from tuner.ports import Store


def note_inner(window: Window, store: Store, warn: Callable[[str, str], None]) -> None:
    """Keep it and warn, once for each layout: when a window that counts shows it for the first time."""
    study = store.study()
    if window.void or f"{window.layout}" in study.provenance.inner_threads:
        return
    if (found := inner_of(window)) is not None:
        store.add_to_study((), inner_to_facts(found))
        warn(*inner_threads(found.layout, found.n_threads, study.box_cores, found.cause))


# Keeping what a launch showed of the GIL of its workers, and telling of one that nobody expected.


def keep_gil(store: Store, launch: LaunchRecord, warn: Callable[[str, str], None]) -> None:
    """Keep among the facts of the study what *launch* showed; warn where its interpreter alone has no GIL.

    A GIL that was seen in one launch of a variant is taken to be there in all: each imports the same modules.
    """
    if launch.has_gil is None:
        return
    workers, variant = store.study().provenance.workers, launch.layout.variant
    before, now = workers.fact(GIL_SEEN, variant), "on" if launch.has_gil else "off"
    if before in ("on", now):
        return
    data = {GIL_SEEN: now}
    if launch.gil_module is not None:
        data[GIL_MODULE] = launch.gil_module
    store.add_to_study((), Provenance(workers=WorkerFacts.of_variant(variant, data)))
    if launch.has_gil and workers.fact(GIL, variant) == "off":
        warn(*gil_came_back(launch.gil_module, variant))
