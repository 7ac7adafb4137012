"""How the study goes, in lines: for a log, and above the view of a terminal. Everything goes to stderr."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import IO

from tuner.core.durations import render_duration, render_rest, until
from tuner.core.figures import block_told
from tuner.core.layout import Layout
from tuner.core.window import Sample, Window

_PER_10_MIN = 600.0


class LineProgress:
    """One line for each window and each warning: what a log should hold."""

    def __init__(self, output: IO[str], *, is_race: bool = False) -> None:
        self._output, self._is_race = output, is_race
        self._block = 0

    def launch_started(  # a port's names are kept, whether used or not
        self,
        layout: Layout,  # noqa: ARG002
        block: int,
        position: int,  # noqa: ARG002
        remaining_s: float | None,  # noqa: ARG002
    ) -> None:
        """Remembered for the window's line."""
        self._block = block

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:
        """Not a line's worth."""

    def sampled(
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        """Not a line's worth."""

    def window_taken(
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """The window's figures, and what is left."""
        self._line(render_window(window, self._block, n_taken, n_planned, remaining_s, is_race=self._is_race))

    def warning(self, slug: str, text: str) -> None:
        """With its slug, to look up in docs/messages.md."""
        self._line(f"Warning: {text} [{slug}]")

    def _line(self, text: str) -> None:
        with suppress(OSError, ValueError):  # nobody reads any more: no reason to stop measuring
            self._output.write(f"{time.strftime('%H:%M:%S')} {text}\n")
            self._output.flush()


def render_window(
    window: Window,
    block: int,
    n_taken: int,
    n_planned: int | None,
    remaining_s: float | None,
    *,
    is_race: bool = False,
    box: str = "",
) -> str:
    """One window in one line: where, which, what came out, what is left: of a race at most."""
    where = f"{box + ': ' if box else ''}{window.layout} {block_told(block)}"
    if window.void:
        reasons = "; ".join(f"{reason.slug}: {reason.detail}" for reason in window.void)
        return f"{where}: void window, {reasons}"
    loads = [sample.load1 for sample in window.samples]
    active = [sample.n_active for sample in window.samples if sample.n_active is not None]
    parts = [f"{where}: {render_rate(window.throughput_per_s)}"]
    if loads:
        parts.append(f"load {sum(loads) / len(loads):.2f}")
    if active:
        parts.append(f"active {sum(active) / len(active):.1f}")
    if window.n_failed:
        parts.append(f"{window.n_failed} failed")
    most = "at most " if is_race else ""
    end = "" if remaining_s is None else f", {most}{render_end(remaining_s)}"
    length = _rounded(window.length_s)
    if block < 0:
        return f"{', '.join(parts)} (a look at the edge of the grid, {length})"
    counted = f"window {n_taken}, of" if n_planned is None else f"{n_taken} of {most}{n_planned} windows of"
    return f"{', '.join(parts)} ({counted} {length}{end})"


def _rounded(length_s: float) -> str:
    """A window lasts until the next look, some milliseconds longer than asked."""
    return render_duration(round(length_s) if length_s >= 1 else length_s)


def render_rate(items_per_s: float) -> str:
    """A throughput as it is always told, per ten minutes."""
    return f"{items_per_s * _PER_10_MIN:,.0f} items/10 min".replace(",", " ")


def render_end(remaining_s: float) -> str:
    """How long it still takes, and the time of day when it ends."""
    now_s = time.time()
    return f"{render_rest(remaining_s)} left{until(now_s + remaining_s, now_s)}"
