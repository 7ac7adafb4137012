"""Measured rows of the pi-pools experiment, and the spread of their single runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from tuner.lab.experiments.experiment import NotRunError, Row, Rows

C, PYTHON = "C", "Python"  #: kind of work: without the GIL, or with it
CPU, SLEEPS = "computes", "sleeps too"
OWN, FIXED, SEMAPHORE, SCHEDULED = "own threads", "fixed", "semaphore", "scheduled"
JITTER = "own threads, jitter"  #: pool whose jobs sleep for unequal times
ALONE = "alone"  #: one job, instead of a number of jobs per core

TAILS = ("wait_p99_ms", "beat_p99_ms")  #: high percentiles, which mean nothing for a single run


class PoolRows:
    """The rows that were run.

    Raises:
        NotRunError: by each property whose row was not run.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        run = {row.at: row for row in rows if row.measured}
        off = _apart(list(run.values()))
        self.rows = Rows("", {at: _widen(row, off) for at, row in run.items()})
        self.published = {row.at: row.published for row in rows}

    @property
    def alone(self) -> Row:
        """A single job that computes."""
        return self.rows[C, CPU, OWN, ALONE]

    @property
    def all_cores(self) -> Row:
        """One computing job per core."""
        return self.rows[C, CPU, OWN, 1.0]

    @property
    def asleep(self) -> Row:
        """A single job that also sleeps."""
        return self.rows[C, SLEEPS, OWN, ALONE]

    @property
    def fill(self) -> float:
        """Number of threads that fill a core, by utilization."""
        return self.asleep.of("fill_core")

    @property
    def n_cores(self) -> float:
        """Number of cores of the runs."""
        return next(iter(self.rows.values())).of("n_cores")

    @property
    def all_cores_claimed(self) -> float:
        """Published time of one job per core, over that of a single job."""
        return self.published[C, CPU, OWN, 1.0]["ratio"] / self.published[C, CPU, OWN, ALONE]["ratio"]

    @property
    def flat_to(self) -> float:
        """Published number of jobs per core up to which a thread per job takes constant time."""
        return max(
            float(at[3])
            for at, reported in self.published.items()
            if at[:3] == (C, SLEEPS, OWN) and reported and at[3] != ALONE
        )

    def per_core(self, work: str, kind: str, pool: str) -> Rows:
        """Return the rows of a pool by jobs per core, the fewest first; there is at least one."""
        found = {
            float(at[3]): row
            for at, row in self.rows.items()
            if at[:3] == (work, kind, pool) and at[3] != ALONE
        }
        if not found:
            raise NotRunError(f"{work}, {kind}, {pool} was not run undisturbed")
        return Rows(f"{work}, {kind}, {pool}, jobs per core: ", dict(sorted(found.items())))

    def least(self, n: float) -> float:
        """Return the least time of *n* jobs per core: the total work per core, or a job's own time."""
        return max(self.asleep.of("ratio"), n * self.all_cores.of("ratio"))

    def in_step(self, n: float) -> float:
        """Return the time of *n* jobs per core if sleep never overlaps another job's work."""
        asleep = self.asleep.of("ratio") - self.alone.of("ratio")
        return asleep + n * self.all_cores.of("ratio")


def _apart(rows: Sequence[Row]) -> float:
    """Return the error of single runs, in either direction: the spread of equal single jobs."""
    off = 0.0
    for work in (C, PYTHON):
        took_s = [row.measured["job_cpu_s"] for row in rows if row.at[0] == work]
        if took_s:
            off = max(off, max(one.high for one in took_s) / min(one.low for one in took_s) - 1)
    return off


def _widen(row: Row, off: float) -> Row:
    """Return *row* with the range of single runs widened by *off*; the tail of one run has no meaning."""
    measured = {
        key: one
        if one.n > 1
        else replace(one, low=0.0, high=inf)
        if key in TAILS
        else replace(one, low=one.median / (1 + off), high=one.median * (1 + off))
        for key, one in row.measured.items()
    }
    return replace(row, measured=measured)
