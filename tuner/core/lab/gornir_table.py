"""The pools of gornir's experiment, and its rows by wait and pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.core.lab.experiment import At, Row
from tuner.core.lab.nornir import fewest_enough

CORES = "Go cores"
GO_POOLS = {"Go 1": "1", CORES: "", "Go 100": "100"}  #: GOMAXPROCS of each; empty: Go's own choice, the cores
ASYNCIO = "asyncio"
WORKERS = (500, 1000, 2000, 5000, 10_000)  #: of nornir: what is enough is among them, and what is too many
MOST = f"nornir {WORKERS[-1]}"


def workers_of(pool: str) -> int:
    """The most workers of a pool of nornir's."""
    return int(pool.split()[1])


def is_nornir(at: At) -> bool:
    """Whether a point is run by nornir."""
    return str(at[1]).startswith("nornir ")


class Table:
    """The rows that were run, by wait and pool."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = {(float(row.at[0]), str(row.at[1])): row for row in rows if row.measured}
        self.waits = sorted({wait for wait, _ in self._rows})

    def __getitem__(self, at: tuple[float, str]) -> Row:
        return self._rows[at]

    def __contains__(self, at: tuple[float, str]) -> bool:
        return at in self._rows

    def of(self, pool: str) -> dict[float, Row]:
        """The rows of a pool, by wait."""
        return {wait: row for (wait, one), row in self._rows.items() if one == pool}

    def enough(self, wait: float) -> str | None:
        """nornir with the fewest workers that are enough for *wait*; None: it was not run."""
        total_s = {
            workers_of(one): row.of("total_s")
            for (at, one), row in self._rows.items()
            if at == wait and is_nornir((at, one))
        }
        return f"nornir {fewest_enough(total_s)}" if total_s else None

    def pairs(self, one: str | None, other: str | None) -> Iterator[tuple[float, Row, Row]]:
        """Both rows of each wait that both were run with; None: nornir with as many workers as are enough."""
        for wait in self.waits:
            first, second = one or self.enough(wait), other or self.enough(wait)
            if first and second and (wait, first) in self and (wait, second) in self:
                yield wait, self[wait, first], self[wait, second]


def join_words(lines: Sequence[str]) -> str:
    """Some words, one after the other: a, b and c."""
    return lines[0] if len(lines) == 1 else f"{', '.join(lines[:-1])} and {lines[-1]}"
