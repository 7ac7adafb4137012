"""Gornir experiment: threads, coroutines and goroutines with 10 000 tasks that wait at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tuner.lab.experiments.experiment import (
    FOREIGN,
    GO,
    At,
    LabClaim,
    LabFigure,
    LabJob,
    Model,
    NotRunError,
    Row,
    Spread,
)
from tuner.lab.experiments.gornir_claims import (
    ASYNCIO,
    CORES,
    GO_POOLS,
    WORKERS,
    Table,
    gornir_findings,
    is_nornir,
    join_words,
    workers_of,
)
from tuner.lab.experiments.nornir import N_TASKS, Nornir, pool_model

_QUICK_WAITS_S = (0.05, 0.1, 0.3)
_KEYS = ("user_s", "system_s", "cpu_percent", "total_s")


class Gornir:
    """Goroutines, Python's coroutines and nornir's threads in one table."""

    name = "gornir"
    title = "threads, coroutines or goroutines?"
    publication = "gornir_2020"
    what = (
        "A batch has 10 000 tasks, each of which sleeps for the time of a round trip. The tasks run as "
        "goroutines, as asyncio coroutines, or on nornir's pool of threads. Go 1, Go cores and "
        "Go 100 are goroutines with GOMAXPROCS 1, GOMAXPROCS = cores and GOMAXPROCS 100. All times are times "
        "of the whole process, including its start. Instead of gornir's parallel runner, a small program of "
        "tuner starts the goroutines."
    )
    parameters = ("wait s", "pool")
    figures = (
        LabFigure("total_s", "total s", 3, caption="total time for each wait and pool"),
        LabFigure("user_s", "user s", 2),
        LabFigure("system_s", "system s", 2),
        LabFigure("cpu_percent", "CPU %", 0),
        LabFigure("n_threads", "threads", 0),
        FOREIGN,
    )
    needs = ()
    calibration = None

    def published(self, seeds: Mapping[str, Any]) -> dict[At, dict[str, float]]:
        """Return the figures of four waits: three values of GOMAXPROCS, five numbers of nornir's workers."""
        found: dict[At, dict[str, float]] = {}
        for wait, procs, *values in seeds[self.publication]["rows"]:
            found[float(wait), f"Go {procs}"] = dict(zip(_KEYS, map(float, values), strict=True))
        for (wait, workers), figures in Nornir().published(seeds).items():
            if workers in WORKERS:
                found[wait, f"nornir {workers:.0f}"] = figures
        return found

    def points(self, published: Sequence[At], *, quick: bool) -> list[At]:
        """Return every pool with every published wait, without the longest one if *quick*."""
        waits = sorted({float(at[0]) for at in published})
        pools = [*GO_POOLS, ASYNCIO, *(f"nornir {n}" for n in WORKERS)]
        return [(wait, pool) for wait in waits if not quick or wait in _QUICK_WAITS_S for pool in pools]

    def job(self, at: At) -> LabJob:
        """Return the program of one batch."""
        wait_s, pool = float(at[0]), str(at[1])
        options = ("--tasks", f"{N_TASKS}", "--wait-s", f"{wait_s:g}")
        if pool in GO_POOLS:
            return LabJob("goroutine_pool.go", options, {"GOMAXPROCS": GO_POOLS[pool]}, needs=(GO,))
        if pool == ASYNCIO:
            return LabJob("nornir_pool.py", ("--pool", ASYNCIO, *options, "--workers", f"{N_TASKS}"))
        return replace(Nornir().job((wait_s, workers_of(pool))), needs=("nornir",))

    def model(self, runs: Mapping[At, Mapping[str, Spread]]) -> Model:
        """Return the model: the wait plus a constant for goroutines and coroutines; a queue for the GIL
        for nornir.
        """
        modelled: dict[At, Mapping[str, float]] = {}
        fitted: set[At] = set()
        lines = []
        for pool in (*GO_POOLS, ASYNCIO):
            own = {float(at[0]): values for at, values in runs.items() if at[1] == pool}
            if not own:
                continue
            wait_s = min(own)
            fitted.add((wait_s, pool))
            beside = _Beside.of(wait_s, own[wait_s])
            modelled |= {(wait, pool): beside.modelled(wait) for wait in own}
            start, task = f"{1e3 * beside.start_s:.0f} ms", f"{1e6 * beside.task_s:.1f} us"
            lines.append(f"{start} and {task} per task ({pool})")
        sentences = []
        if lines:
            sentences.append(
                "In the model, a batch of goroutines or coroutines takes the time of one wait, a time to "
                "start and end the process, and a time per task. From the run with the shortest wait, these "
                f"times are: {'; '.join(lines)}."
            )
        threads = {at: values for at, values in runs.items() if is_nornir(at)}
        if threads:
            line = pool_model({(at[0], float(workers_of(str(at[1])))): one for at, one in threads.items()})
            modelled |= {at: line.modelled[at[0], float(workers_of(str(at[1])))] for at in threads}
            fitted |= {at for at in threads if (at[0], float(workers_of(str(at[1])))) in line.fitted_to}
            sentences.append(line.sentence)
        return Model(modelled, frozenset(fitted), " ".join(sentences))

    def findings(self, rows: Sequence[Row]) -> list[LabClaim]:
        """Return the claims: overhead of Go, effect of GOMAXPROCS, overhead of threads, position of
        asyncio.
        """
        return gornir_findings(rows)

    def follows(self, rows: Sequence[Row]) -> str:
        """Return the cost of a task in each of the three, and the overhead of all tasks."""
        table = Table(rows)
        if not table.waits:
            raise NotRunError("no batch was run")
        cpu_us, beside_s = [], []
        for pool, how, all_of_them in (
            (CORES, "with goroutines", "with goroutines"),
            (ASYNCIO, "with asyncio coroutines", "with coroutines"),
            (None, "with threads", "with threads"),
        ):
            own = [(wait, table.enough(wait) if pool is None else pool) for wait in table.waits]
            there = [(wait, table[wait, one]) for wait, one in own if one and (wait, one) in table]
            if there:
                cpu_us.append(f"{1e6 * median(row.of('cpu_s') for _, row in there) / N_TASKS:.0f} us {how}")
                late_s = median(row.of("total_s") - wait for wait, row in there)
                beside_s.append(f"{late_s:.2f} s {all_of_them}")
        if not cpu_us:
            raise NotRunError("neither Go with as many as cores, nor asyncio, nor nornir was run")
        of_threads = (
            " The figures for threads are those of the smallest pool within 5 % of the shortest time."
        )
        return (
            f"The CPU time of the process, divided by its number of tasks, is {join_words(cpu_us)}. "
            f"{N_TASKS} tasks that wait at the same time take longer than one wait, by "
            f"{join_words(beside_s)}. All these times are medians over waits of "
            f"{join_words([f'{1e3 * wait:g}' for wait in table.waits])} ms."
            f"{of_threads * beside_s[-1].endswith('with threads')}"
        )


@dataclass(frozen=True, slots=True)
class _Beside:
    """Time in seconds that a batch takes in addition to one wait."""

    start_s: float  #: start and end of the process
    task_s: float  #: time per task
    user_s: float
    system_s: float
    n_threads: float | None  #: None: Go chooses the number

    @classmethod
    def of(cls, wait_s: float, values: Mapping[str, Spread]) -> _Beside:
        total_s, run_s = values["total_s"].median, values["run_s"].median
        return cls(
            total_s - run_s,
            (run_s - wait_s) / N_TASKS,
            values["user_s"].median,
            values["system_s"].median,
            1.0 if "n_procs" not in values else None,
        )

    def modelled(self, wait_s: float) -> dict[str, float]:
        total_s = self.start_s + wait_s + N_TASKS * self.task_s
        cpu = {"user_s": self.user_s, "system_s": self.system_s}
        threads = {} if self.n_threads is None else {"n_threads": self.n_threads}
        return {"total_s": total_s, **cpu, "cpu_percent": 100 * sum(cpu.values()) / total_s, **threads}
