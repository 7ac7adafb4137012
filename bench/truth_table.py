"""The table of `truth.py`, and which of its bars are met."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TextIO

from truth_ideal import pairs_in_order

LOWEST, HIGHEST = 0.95, 1.02
SHARE_POINTS = 0.05
MEMORY_RATIO = 0.05
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
)


@dataclass(frozen=True, slots=True)
class Row:
    """A layout, measured, beside what it must be."""

    service: str
    kind: str
    layout: str
    ideal_per_s: float
    ratio: float | None  #: measured / ideal; None: no valid window
    bottleneck: Sequence[str]  #: as `tuner explain` has it
    true_bottleneck: Sequence[str]
    share_error: tuple[str, float] | None  #: the share that is most in error, and by how much
    memory_ratio: float | None  #: what tuner has / what the independent sampler found


def print_table(rows: Sequence[Row], to: TextIO = sys.stdout, *, markdown: bool = False) -> None:
    """One line per layout, then the bars."""
    table = [_HEAD, *(_cells(row) for row in rows)]
    if markdown:
        table.insert(1, tuple("---" for _ in _HEAD))
        lines = [f"| {' | '.join(cells)} |" for cells in table]
    else:
        widths = [max(len(cells[column]) for cells in table) for column in range(len(_HEAD))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in table
        ]
    print("\n".join(line.rstrip() for line in lines), file=to)
    print(file=to)
    for line in bars(rows):
        print(f"- {line}" if markdown else line, file=to, flush=True)


def bars(rows: Sequence[Row]) -> Iterable[str]:
    """Each bar: how many met it, and what missed it."""
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
        "no window" if row.ratio is None else f"{row.ratio:.3f}",
        "+".join(row.bottleneck) or "-",
        "+".join(row.true_bottleneck),
        "-" if row.share_error is None else f"{row.share_error[0]} {100 * row.share_error[1]:+.0f}",
        "-" if row.memory_ratio is None else f"{row.memory_ratio:.2f}",
    )
