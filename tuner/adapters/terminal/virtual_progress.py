"""How a simulated study goes: one line per window, marked, with the time of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import IO

from tuner.adapters.terminal.progress import render_window
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Sample, Window


class SimulatedProgress:
    """A Progress for studies that take no time: lines, on terminals too, and never the time of day."""

    def __init__(self, output: IO[str], elapsed_s: Callable[[], float]) -> None:
        """*elapsed_s* gives the time since the study began, as the simulation has it."""
        self._output, self._elapsed_s = output, elapsed_s
        self._block = 0

    def launch_started(  # noqa: D102  (ports.Progress says it; so for the others)
        self,
        layout: Layout,  # noqa: ARG002
        block: int,
        position: int,  # noqa: ARG002
        remaining_s: float | None,  # noqa: ARG002
    ) -> None:
        self._block = block

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: D102
        pass

    def sampled(  # noqa: D102
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        pass

    def window_taken(  # noqa: D102
        self,
        window: Window,
        n_taken: int,
        n_planned: int | None,
        remaining_s: float | None,  # noqa: ARG002  (in no time at all)
    ) -> None:
        self._line(render_window(window, self._block, n_taken, n_planned, None))

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        self._line(f"Warning: {text} [{slug}]")

    def _line(self, text: str) -> None:
        minutes, seconds = divmod(int(self._elapsed_s()), 60)
        hours, minutes = divmod(minutes, 60)
        with suppress(OSError, ValueError):  # nobody reads any more: no reason to stop
            self._output.write(f"simulated {hours}:{minutes:02}:{seconds:02} {text}\n")
            self._output.flush()
