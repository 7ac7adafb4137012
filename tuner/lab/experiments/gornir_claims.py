"""Published claims on goroutines and threads, checked against the measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from statistics import fmean

from tuner.lab.experiments.experiment import At, LabClaim, Row
from tuner.lab.experiments.nornir import fewest_enough
from tuner.lab.experiments.verdicts import both, more, over

# Pools of the gornir experiment, and its rows by wait and pool.

CORES = "Go cores"
#: GOMAXPROCS of each pool; empty: Go's default, the number of cores
GO_POOLS = {"Go 1": "1", CORES: "", "Go 100": "100"}
ASYNCIO = "asyncio"
WORKERS = (500, 1000, 2000, 5000, 10_000)  #: numbers of nornir's workers, from too few to too many
MOST = f"nornir {WORKERS[-1]}"


def workers_of(pool: str) -> int:
    """Return the largest number of workers of a nornir pool."""
    return int(pool.split()[1])


def is_nornir(at: At) -> bool:
    """Return whether nornir runs a point."""
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
        """Return the rows of a pool, by wait."""
        return {wait: row for (wait, one), row in self._rows.items() if one == pool}

    def enough(self, wait: float) -> str | None:
        """Return the nornir pool with the fewest sufficient workers for *wait*; None: it was not run."""
        total_s = {
            workers_of(one): row.of("total_s")
            for (at, one), row in self._rows.items()
            if at == wait and is_nornir((at, one))
        }
        return f"nornir {fewest_enough(total_s)}" if total_s else None

    def pairs(self, one: str | None, other: str | None) -> Iterator[tuple[float, Row, Row]]:
        """Yield both rows of each wait that ran with both pools; None: the smallest sufficient nornir
        pool.
        """
        for wait in self.waits:
            first, second = one or self.enough(wait), other or self.enough(wait)
            if first and second and (wait, first) in self and (wait, second) in self:
                yield wait, self[wait, first], self[wait, second]


def join_words(lines: Sequence[str]) -> str:
    """Return the words as a list: a, b and c."""
    return lines[0] if len(lines) == 1 else f"{', '.join(lines[:-1])} and {lines[-1]}"


_WITHIN = 0.05  #: relative tolerance for total times and gains
_SURELY_S = 0.1  #: smaller differences between single runs may be caused by other processes


def gornir_findings(rows: Sequence[Row]) -> list[LabClaim]:
    """Return the claims: overhead of Go, effect of GOMAXPROCS, overhead of threads, position of asyncio."""
    table = Table(rows)
    return [
        _wait_and_a_constant(table),
        _one_is_slower(table),
        _a_hundred_cost(table),
        _less_cpu_than_threads(table),
        _sooner_than_threads(table),
        _compare_asyncio(table),
    ]


def _wait_and_a_constant(table: Table) -> LabClaim:
    published, lines, verdicts, worst = [], [], list[bool | None](), 0.0
    for pool in GO_POOLS:
        rows = table.of(pool)
        if len(rows) < 2:
            continue
        published.append(
            f"{1e3 * fmean(row.published['total_s'] - wait for wait, row in rows.items()):.0f} ms "
            f"(GOMAXPROCS {GO_POOLS[pool] or '= cores'})"
        )
        beside_s = fmean(row.of("total_s") - wait for wait, row in rows.items())
        lines.append(f"{1e3 * beside_s:.0f} ms (GOMAXPROCS {GO_POOLS[pool] or '= cores'})")
        for wait, row in rows.items():
            took = row.measured["total_s"]
            low, high = (wait + beside_s) / (1 + _WITHIN), (wait + beside_s) / (1 - _WITHIN)
            worst = max(worst, abs((wait + beside_s) / took.median - 1))
            apart = took.low > high or took.high < low
            near = True if low <= took.median <= high else False if apart else None
            verdicts.append(near if took.n > 1 else None)  # the result of a single run may be a disturbance
    claim = "A batch of goroutines takes the time of one wait plus a constant time, for any GOMAXPROCS"
    if not lines:
        return _undecided_claim(f"{claim}.", "Go was not run with two waits.")
    return LabClaim(
        f"{claim}. The constant time is {join_words(published)}.",
        both(*verdicts),
        f"Measured: the constant time is {join_words(lines)} on average. Wait plus constant differs from the "
        f"total time by at most {100 * worst:.1f} % (allowed: {100 * _WITHIN:.0f} %).",
    )


def _one_is_slower(table: Table) -> LabClaim:
    pairs = list(table.pairs("Go 1", CORES))
    claim = "A batch of goroutines takes longer with GOMAXPROCS 1 than with GOMAXPROCS = cores"
    if not pairs:
        return _undecided_claim(f"{claim}.", "Go was not run.")
    if pairs[0][2].of("n_procs") < 2:
        return _undecided_claim(f"{claim}.", "The claim needs two cores, and Go uses one here.")
    n_procs = pairs[0][2].of("n_procs")
    return LabClaim(
        f"{claim}, on average by {_more_ms(pairs, 'published')}.",
        more([(one.measured["total_s"], other.measured["total_s"]) for _, one, other in pairs], inf),
        f"Measured: with GOMAXPROCS 1, the time of a batch differs by {_more_ms(pairs, 'measured')} on "
        f"{n_procs:.0f} cores.",
    )


def _a_hundred_cost(table: Table) -> LabClaim:
    pairs = list(table.pairs("Go 100", CORES))
    claim = "GOMAXPROCS 100 saves no time compared with GOMAXPROCS = cores, but costs more CPU time"
    if not pairs:
        return _undecided_claim(f"{claim}.", "Go was not run.")
    if pairs[0][2].of("n_procs") < 2:
        return _undecided_claim(f"{claim}.", "The claim needs two cores, and Go uses one here.")
    sooner = more([(other.measured["total_s"], one.measured["total_s"]) for _, one, other in pairs], inf)
    no_sooner = both(*(_no_sooner(one, other) for _, one, other in pairs))
    dearer = more([(one.measured["cpu_s"], other.measured["cpu_s"]) for _, one, other in pairs], inf)
    published_s = fmean(_cpu_s(one.published) - _cpu_s(other.published) for _, one, other in pairs)
    cpu_s = fmean(one.of("cpu_s") - other.of("cpu_s") for _, one, other in pairs)
    return LabClaim(
        f"{claim}. On average, GOMAXPROCS 100 changes the time of a batch by {_more_ms(pairs, 'published')}, "
        f"and its CPU time by {published_s:+.2f} s.",
        both(False if sooner else no_sooner, dearer),
        f"Measured: GOMAXPROCS 100 changes the time by {_more_ms(pairs, 'measured')}, and the CPU time by "
        f"{cpu_s:+.3f} s. A saving of up to {100 * _WITHIN:.0f} % of the time does not count.",
    )


def _no_sooner(one: Row, other: Row) -> bool | None:
    """Return whether *one* gains no more than _WITHIN; None: the runs disagree, or there is only one."""
    if min(row.measured["total_s"].n for row in (one, other)) == 1:
        return None
    return over(one, other, "total_s").at_least(1 - _WITHIN)


def _less_cpu_than_threads(table: Table) -> LabClaim:
    pairs = list(table.pairs(MOST, CORES))
    claim = f"Goroutines take less CPU time than nornir's pool of at most {WORKERS[-1]} threads"
    if not pairs:
        return _undecided_claim(f"{claim}.", "Go and nornir were not both run.")
    published = [_cpu_s(threads.published) / _cpu_s(go.published) for _, threads, go in pairs]
    text = "; ".join(
        f"with waits of {1e3 * wait:g} ms goroutines take {go.of('cpu_s'):.2f} s of CPU and the pool "
        f"{threads.of('cpu_s'):.2f} s ({threads.of('cpu_s') / go.of('cpu_s'):.0f} times as much)"
        for wait, threads, go in pairs
    )
    return LabClaim(
        f"{claim}, which takes {min(published):.0f} to {max(published):.0f} times as much.",
        more([(threads.measured["cpu_s"], go.measured["cpu_s"]) for _, threads, go in pairs], _SURELY_S),
        f"Measured: {text}.",
    )


def _sooner_than_threads(table: Table) -> LabClaim:
    pairs = list(table.pairs(None, CORES))
    claim = "A batch finishes sooner with goroutines than with any number of nornir's threads"
    if not pairs:
        return _undecided_claim(f"{claim}.", "Go and nornir were not both run.")
    published, lines, fastest, fewest = list[str](), [], [], []
    for wait, enough, go in pairs:
        rows = [row for pool in _pools_of_nornir(table, wait) for row in [table[wait, pool]]]
        best = min(rows, key=lambda row: row.of("total_s"))
        least_s = min(row.published["total_s"] for row in rows)
        as_long = "" if published else "as long as goroutines for waits of "
        times = f"{least_s / go.published['total_s']:.1f} times {as_long}"
        published.append(f"{times}{'for ' * bool(published)}{1e3 * wait:g} ms")
        lines.append(
            f"with waits of {1e3 * wait:g} ms goroutines take {go.of('total_s'):.2f} s and the best pool "
            f"takes {best.of('total_s'):.2f} s ({best.of('total_s') / go.of('total_s'):.1f} times as long)"
        )
        fewest.append(f"{enough.at[1]} for {1e3 * wait:g} ms")
        fastest.append((best.measured["total_s"], go.measured["total_s"]))
    return LabClaim(
        f"{claim}. A pool with the best number of threads takes {join_words(published)}.",
        more(fastest, _SURELY_S),
        f"Measured: {'; '.join(lines)}. The smallest pool within {100 * _WITHIN:.0f} % of the best time is "
        f"{join_words(fewest)}.",
    )


def _compare_asyncio(table: Table) -> LabClaim:
    claim = (
        "Not published: with Python coroutines, a batch takes less time and less CPU time than with threads, "
        "but more time and more CPU time than with goroutines."
    )
    above, below = list(table.pairs(None, ASYNCIO)), list(table.pairs(ASYNCIO, CORES))
    waits = {wait for wait, _, _ in above} & {wait for wait, _, _ in below}
    above, below = ([pair for pair in pairs if pair[0] in waits] for pairs in (above, below))
    if not waits:
        return _undecided_claim(claim, "Go, asyncio and nornir were not all run.")
    verdicts = [
        more([(more.measured[key], less.measured[key]) for _, more, less in pairs], _SURELY_S)
        for pairs in (above, below)
        for key in ("total_s", "cpu_s")
    ]
    text = "; ".join(
        f"a batch with waits of {1e3 * wait:g} ms takes {go.of('total_s'):.2f} s (Go), "
        f"{coroutines.of('total_s'):.2f} s (asyncio) and {threads.of('total_s'):.2f} s "
        f"({workers_of(str(threads.at[1]))} threads); its CPU time is "
        f"{go.of('cpu_s'):.2f} s, {coroutines.of('cpu_s'):.2f} s and {threads.of('cpu_s'):.2f} s"
        for (wait, threads, coroutines), (_, _, go) in zip(above, below, strict=True)
    )
    return LabClaim(
        claim,
        both(*verdicts),
        f"Measured: {text}.",
    )


def _pools_of_nornir(table: Table, wait: float) -> list[str]:
    return [pool for pool in (f"nornir {n}" for n in WORKERS) if (wait, pool) in table]


def _undecided_claim(claim: str, why: str) -> LabClaim:
    return LabClaim(claim, None, why)


def _cpu_s(figures: Mapping[str, float]) -> float:
    return figures["user_s"] + figures["system_s"]


def _more_ms(pairs: Sequence[tuple[float, Row, Row]], side: str) -> str:
    """Return the mean extra time of the first of each pair."""
    total_s = [
        [row.published["total_s"] if side == "published" else row.of("total_s") for row in (one, other)]
        for _, one, other in pairs
    ]
    return f"{1e3 * fmean(one - other for one, other in total_s):+.0f} ms"
