"""The rows of socorro that were run, and what they say of themselves in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tuner.core.domain.layout import Layout
from tuner.core.lab import verdicts
from tuner.core.lab.experiment import USABLE_CORES, At, Row, Rows
from tuner.core.lab.socorro_runs import (
    HERE,
    REFERENCE,
    THREADED,
    demands_in,
    far_machine,
    machine_in,
    medians,
    point,
)
from tuner.core.lab.verdicts import Ratio
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine

ITEMS = "items_per_10min"
ALONE = Layout(1, 1)
_SINGLE = 0.10  #: a single window is taken to be off by so much
measured, over = (partial(one, single=_SINGLE) for one in (verdicts.measured_ratio, verdicts.over))


class SocorroRows:
    """The rows that were run."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows: dict[At, Row] = Rows("", {row.at: row for row in rows if row.measured})
        here = [row for at, row in self.rows.items() if at[0] == HERE]
        self.n_cores = here[0].of(USABLE_CORES) if here else 0.0

    def row(self, box: str, layout: Layout, manager: str = THREADED) -> Row:
        """A row that was run.

        Raises:
            NotRunError: it was not.
        """
        return self.rows[point(box, layout, manager)]

    def one_process(self, box: str) -> dict[int, Row]:
        """The threaded rows of one process, by threads, the fewest first."""
        found = {int(at[3]): row for at, row in self.rows.items() if at[:3] == (box, THREADED, 1.0)}
        return dict(sorted(found.items()))

    def item(self, box: str) -> tuple[Demands, Machine] | None:
        """What an item asks for by 1x1 of this box, and the machine of *box*."""
        alone = self.rows.get(point(HERE, ALONE, THREADED))
        demands = None if alone is None else demands_in(medians(alone.measured))
        if alone is None or demands is None:
            return None
        machine = machine_in(medians(alone.measured))
        return demands, machine if box == HERE else far_machine(machine)


def format_layout(row: Row) -> str:
    """4x6."""
    return f"{row.at[2]:g}x{row.at[3]:g}"


def format_items(row: Row) -> str:
    """Per ten minutes."""
    return f"{row.of(ITEMS):.0f}"


def format_ratio(ratio: Ratio) -> str:
    """With what it lies within."""
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def describe_bound(seen: SocorroRows, box: str) -> str:
    """What stops one process of many threads: its GIL, or the cores before it."""
    known, row = seen.item(box), seen.rows.get(point(box, REFERENCE, THREADED))
    if known is None or row is None:
        return "the bottleneck is unknown"
    demands, machine = known
    gil = 600 / demands.gil_s if machine.has_gil and demands.gil_s else float("inf")
    cores = 600 * float(machine.total_speed(np.asarray(np.inf))) / demands.cpu_s
    seen_s = row.measured.get("python_percent")
    held = "" if seen_s is None else f", and its Python used {seen_s.median:.0f} % of a core"
    busy = row.of("cpu_percent") / 100
    if gil < cores:
        return (
            f"the GIL limits one process to {gil:.0f} items ({1e3 * demands.gil_s:.1f} ms for each){held}; "
            f"the cores could do {cores:.0f}, and {busy:.1f} of {machine.cores:g} were busy"
        )
    one_gil = f"; one GIL could do {gil:.0f}" if machine.has_gil else ""
    return (
        f"the cores limit every layout to at most {cores:.0f} items ({busy:.2f} of "
        f"{machine.cores:g} busy){one_gil}{held}"
    )


def format_cpu(row: Row) -> str:
    """How many cores a layout keeps busy, and how many threads stand in line."""
    line = f", {row.of('gil_waiting'):.1f} threads waiting for a GIL" if "gil_waiting" in row.measured else ""
    return f"{format_layout(row)} keeps {row.of('cpu_percent') / 100:.2f} cores busy{line}"


def published(seen: SocorroRows, box: str) -> list[Row]:
    """The rows of published layouts that were run, best by the publication first."""
    rows = [row for at, row in seen.rows.items() if at[0] == box and "ratio" in row.published]
    return sorted(rows, key=lambda row: -row.published["ratio"])


def describe_best(seen: SocorroRows, box: str) -> str:
    """The best of the published layouts, and those that cannot be told from it."""
    rows = published(seen, box)
    best = max(rows, key=lambda row: (row.of(ITEMS), row.at[2:]))
    alike = [row for row in rows if row is best or over(best, row, ITEMS).low <= 1]
    if len(alike) == len(rows):
        return "no published layout differs significantly from the others"
    names = " and ".join(format_layout(row) for row in sorted(alike, key=lambda row: row.at[2:]))
    if len(alike) == 1:
        return f"{names} is the best published layout"
    return f"{names} are the best published layouts and do not differ significantly"
