"""Telling several how a study goes: the terminal, a file that others watch, metrics."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Sample, Window
from tuner.ports import Progress


class ProgressTee:
    """A Progress that tells each of several, in order."""

    def __init__(self, observers: Sequence[Progress]) -> None:
        self._observers = tuple(observers)

    def launch_started(  # noqa: D102  (ports.Progress says it; so for the others)
        self, layout: Layout, block: int, position: int, remaining_s: float | None
    ) -> None:
        for one in self._observers:
            one.launch_started(layout, block, position, remaining_s)

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: D102
        for one in self._observers:
            one.warming_up(layout, elapsed_s, items_per_s)

    def sampled(  # noqa: D102
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        for one in self._observers:
            one.sampled(layout, elapsed_s, window_s, sample, items_per_s)

    def window_taken(  # noqa: D102
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        for one in self._observers:
            one.window_taken(window, n_taken, n_planned, remaining_s)

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        for one in self._observers:
            one.warning(slug, text)
