"""How the study goes, for the person at the terminal, or in a log. Everything goes to stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from tuner.core.durations import render_duration, render_rest
from tuner.core.layout import Layout
from tuner.core.window import Sample, Window
from tuner.ports import Progress

_PER_10_MIN = 600.0
_REFRESH_EVERY_S = (
    2.0  #: a refresh of the bars costs 0.8 ms of CPU (measured), and tuner may use 3 ms a second in all
)


@contextmanager
def showing_progress() -> Iterator[Progress]:
    """Bars when stderr is a terminal, else one plain line per window."""
    if not sys.stderr.isatty():
        yield LineProgress(sys.stderr)
        return
    with BarProgress() as bars:
        yield bars


class LineProgress:
    """One line for each window and each warning: what a log should hold."""

    def __init__(self, output: IO[str]) -> None:
        self._output = output
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
        self._line(render_window(window, self._block, n_taken, n_planned, remaining_s))

    def warning(self, slug: str, text: str) -> None:
        """With its slug, to look up in docs/messages.md."""
        self._line(f"Warning: {text} [{slug}]")

    def _line(self, text: str) -> None:
        with suppress(OSError, ValueError):  # nobody reads any more: no reason to stop measuring
            self._output.write(f"{time.strftime('%H:%M:%S')} {text}\n")
            self._output.flush()


class BarProgress:
    """Two bars: this window, and the study. Lines of finished windows scroll above them."""

    def __init__(self, output: IO[str] | None = None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = _console(output)
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            auto_refresh=False,
            transient=True,
        )
        self._now = self._progress.add_task("starting", total=1.0, note="")
        self._all = self._progress.add_task("study", total=None, note="")
        self._refreshed_at_s = 0.0
        self._block = 0
        self._taken = ""  # how many windows of how many, once it is known

    def __enter__(self) -> BarProgress:
        with suppress(OSError, ValueError):
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, ValueError):
            self._progress.stop()

    def launch_started(
        self,
        layout: Layout,
        block: int,
        position: int,  # noqa: ARG002
        remaining_s: float | None,
    ) -> None:
        """The bar begins anew."""
        self._block = block
        self._show(self._now, str(layout), 0.0, "starting", at_once=True)
        if remaining_s is not None:
            self._update(self._all, note=", ".join(filter(None, [self._taken, render_end(remaining_s)])))

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:
        """How long, and how fast it is by now."""
        rate = "" if items_per_s is None else f", {render_rate(items_per_s)}"
        self._show(self._now, str(layout), 0.0, f"warming up {elapsed_s:.0f} s{rate}")

    def sampled(
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        """Live throughput, load and active count."""
        active = "" if sample.n_active is None else f", active {sample.n_active}"
        note = f"{render_rate(items_per_s)}, load {sample.load1:.2f}{active}"
        self._show(self._now, str(layout), elapsed_s / window_s, note)

    def window_taken(
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """Its line goes above the bars."""
        self._print(render_window(window, self._block, n_taken, n_planned, remaining_s))
        self._taken = f"{n_taken} windows" if n_planned is None else f"{n_taken}/{n_planned} windows"
        end = "" if remaining_s is None else f", {render_end(remaining_s)}"
        self._update(self._all, total=n_planned, completed=n_taken, note=f"{self._taken}{end}")
        self._refresh()

    def warning(self, slug: str, text: str) -> None:
        """Above the bars, with its slug."""
        self._print(f"Warning: {text} [{slug}]")

    def _print(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._console.print(f"{time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False)

    def _show(self, task: Any, name: str, share: float, note: str, *, at_once: bool = False) -> None:
        now_s = time.monotonic()
        if not at_once and now_s - self._refreshed_at_s < _REFRESH_EVERY_S:
            return
        self._refreshed_at_s = now_s
        self._update(task, description=name, completed=min(share, 1.0), note=note)
        self._refresh()

    def _update(self, task: Any, **fields: Any) -> None:
        self._progress.update(task, **fields)

    def _refresh(self) -> None:
        with suppress(OSError, ValueError):
            self._progress.refresh()


def _console(output: IO[str] | None) -> Any:
    """A console that falls silent when nobody reads any more; rich's own would end the program."""
    from rich.console import Console

    class LastingConsole(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True

    return LastingConsole(file=output, stderr=output is None)


def render_window(
    window: Window, block: int, n_taken: int, n_planned: int | None, remaining_s: float | None
) -> str:
    """One window in one line: which, what came out, what is left."""
    where = f"{window.layout} block {block + 1}"
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
    end = "" if remaining_s is None else f", {render_end(remaining_s)}"
    length = _rounded(window.length_s)
    counted = f"window {n_taken}, of" if n_planned is None else f"{n_taken} of {n_planned} windows of"
    return f"{', '.join(parts)} ({counted} {length}{end})"


def _rounded(length_s: float) -> str:
    """A window lasts until the next look, some milliseconds longer than asked."""
    return render_duration(round(length_s) if length_s >= 1 else length_s)


def render_rate(items_per_s: float) -> str:
    """A throughput as it is always told, per ten minutes."""
    return f"{items_per_s * _PER_10_MIN:,.0f} items/10 min".replace(",", " ")


def render_end(remaining_s: float) -> str:
    """How long it still takes, and the time of day when it ends."""
    at = time.strftime("%H:%M", time.localtime(time.time() + remaining_s))
    return f"{render_rest(remaining_s)} left, until {at}"
