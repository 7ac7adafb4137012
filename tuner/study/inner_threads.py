"""What is kept and said of a layout whose workers compute in more threads than it has."""

from __future__ import annotations

from collections.abc import Callable

from tuner.core.domain.window import Window
from tuner.core.messages.launch import inner_threads
from tuner.core.windows.inner_threads import inner_of, inner_to_facts
from tuner.ports import Store


def note_inner(window: Window, store: Store, warn: Callable[[str, str], None]) -> None:
    """Keep it and warn, once for each layout: when a window that counts shows it for the first time."""
    study = store.study()
    if window.void or f"{window.layout}" in study.provenance.inner_threads:
        return
    if (found := inner_of(window)) is not None:
        store.add_to_study((), inner_to_facts(found))
        warn(*inner_threads(found.layout, found.n_threads, study.box_cores, found.cause))
