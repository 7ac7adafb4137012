"""The table of `truth.py`, and which of its bars are met."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TextIO

from truth_ideal import pairs_in_order

LOWEST, HIGHEST = 0.95, 1.02
SHARE_POINTS = 0.05
MEMORY_RATIO = 0.05
_NONE, _NO_WINDOW = "-", "no window"
_HEAD = (
    "service",
    "item",
    "layout",
    "ideal/s",
    "measured/ideal",
    "bottleneck",
    "it is",
    "worst share",
    "memory",
    "service cores",
    "other cores",
    "CPU per item, ms",
)


@dataclass(frozen=True, slots=True)
class Uses:
    """CPU during a window: why a layout that fills the cores misses its ideal."""

    service_cores: float
    other_cores: float  #: of all else: tuner, load generator, broker, other programs, the hypervisor
    item_cpu_s: float  #: CPU of the service per item, that of its framework included


@dataclass(frozen=True, slots=True)
class Row:
    """Measured figures of a layout, with the ideal ones."""

    service: str
    kind: str
    layout: str
    ideal_per_s: float
    ratio: float | None  #: measured / ideal; None: no valid window
    bottleneck: Sequence[str]  #: as `tuner explain` has it
    true_bottleneck: Sequence[str]
    share_error: tuple[str, float] | None  #: the share that is most in error, and by how much
    memory_ratio: float | None  #: what tuner has / what the independent sampler found
    uses: Uses | None = None  #: None: not kept


def print_table(rows: Sequence[Row], to: TextIO = sys.stdout) -> None:
    """One line per layout, then the bars."""
    table = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(_HEAD))]
    for cells in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip(), file=to
        )
    print(file=to)
    for line in bars(rows):
        print(line, file=to, flush=True)


def print_csv(rows: Sequence[Row], to: TextIO = sys.stdout) -> None:
    """The table as CSV, as docs/truth.csv has it: ratios have no unit, the share's error is in points."""
    csv.writer(to, lineterminator="\n").writerows([_HEAD, *(_cells(row) for row in rows)])


def read_csv(lines: Iterable[str]) -> list[Row]:
    """Rows that `print_csv` wrote."""
    return [_row(one) for one in csv.DictReader(lines)]


def print_ranges(rows: Sequence[Row], to: TextIO = sys.stdout) -> None:
    """Lowest and highest measured / ideal of each service and kind of item, as Markdown."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    print(f"| service | {' | '.join(f'`{kind}`' for kind in kinds)} |", file=to)
    print(f"|{'---|' * (len(kinds) + 1)}", file=to)
    for service in sorted({row.service for row in rows}):
        cells = []
        for kind in kinds:
            ratios = [row.ratio for row in rows if (row.service, row.kind) == (service, kind) and row.ratio]
            cells.append(f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-")
        print(f"| {service} | {' | '.join(cells)} |", file=to)


def bars(rows: Sequence[Row]) -> Iterable[str]:
    """Return for each bar how many results met it, and those that missed it."""
    ratios = [row.ratio for row in rows]
    yield _bar(
        f"measured / ideal from {LOWEST} to {HIGHEST}",
        [ratio is not None and LOWEST <= ratio <= HIGHEST for ratio in ratios],
        _range([ratio for ratio in ratios if ratio is not None]),
    )
    n_right = n_all = 0
    for _, group in groupby(rows, key=lambda row: (row.service, row.kind)):
        measured = [row for row in group if row.ratio is not None]
        ideals = [row.ideal_per_s for row in measured]
        right, every = pairs_in_order(ideals, [row.ideal_per_s * (row.ratio or 0.0) for row in measured])
        n_right, n_all = n_right + right, n_all + every
    yield f"pairs that differ by 5 % or more, in order: {n_right} of {n_all}"
    yield _bar("bottleneck", [list(row.bottleneck) == list(row.true_bottleneck) for row in rows])
    errors = [abs(row.share_error[1]) for row in rows if row.share_error]
    yield _bar("shares within 5 points", [error <= SHARE_POINTS for error in errors])
    memory = [row.memory_ratio for row in rows if row.memory_ratio is not None]
    yield _bar("memory within 5 %", [abs(ratio - 1) <= MEMORY_RATIO for ratio in memory], _range(memory))


def _bar(what: str, met: Sequence[bool], more: str = "") -> str:
    return f"{what}: {sum(met)} of {len(met)}{more}"


def _range(ratios: Sequence[float]) -> str:
    return f" ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.service,
        row.kind,
        row.layout,
        f"{row.ideal_per_s:.4g}",
        _NO_WINDOW if row.ratio is None else f"{row.ratio:.3f}",
        "+".join(row.bottleneck) or _NONE,
        "+".join(row.true_bottleneck),
        _NONE if row.share_error is None else f"{row.share_error[0]} {100 * row.share_error[1]:+.0f}",
        _NONE if row.memory_ratio is None else f"{row.memory_ratio:.2f}",
        *_uses_cells(row.uses),
    )


def _uses_cells(uses: Uses | None) -> tuple[str, str, str]:
    if uses is None:
        return _NONE, _NONE, _NONE
    return f"{uses.service_cores:.2f}", f"{uses.other_cores:.2f}", f"{1000 * uses.item_cpu_s:.1f}"


def _row(cells: dict[str, str]) -> Row:
    name, _, points = cells["worst share"].rpartition(" ")
    return Row(
        cells["service"],
        cells["item"],
        cells["layout"],
        float(cells["ideal/s"]),
        None if cells["measured/ideal"] == _NO_WINDOW else float(cells["measured/ideal"]),
        [] if cells["bottleneck"] == _NONE else cells["bottleneck"].split("+"),
        cells["it is"].split("+"),
        None if cells["worst share"] == _NONE else (name, float(points) / 100),
        None if cells["memory"] == _NONE else float(cells["memory"]),
        _uses(cells),
    )


def _uses(cells: dict[str, str]) -> Uses | None:
    if cells.get("service cores", _NONE) == _NONE:
        return None
    return Uses(
        float(cells["service cores"]), float(cells["other cores"]), float(cells["CPU per item, ms"]) / 1000
    )
