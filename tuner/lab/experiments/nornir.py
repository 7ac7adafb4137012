"""Nornir experiment, how many threads are enough: 10 000 tasks that wait, on a pool of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tuner.core.model.pools import PoolCosts, WaitingBatch, cpu_line, fit_pool_costs, run_waiting_pool
from tuner.lab.experiments.experiment import (
    FOREIGN,
    USABLE_CORES,
    At,
    LabClaim,
    LabFigure,
    LabJob,
    Model,
    NotRunError,
    Row,
    Spread,
)
from tuner.lab.experiments.verdicts import both, measured_ratio, more, negate, over

N_TASKS = 10_000
KNEE_WITHIN = 0.05  #: relative distance from the best within which a number of workers is enough
_QUICK_WAITS_S = (0.05, 0.1, 0.3)
_QUICK_WORKERS = (200, 500, 1000, 2000, 10_000)
#: margin of the time limit: on a busy host thousands of threads took a minute for work of 3 s
_HANGS_S = 300.0
_SURELY_S = 0.1  #: smaller differences of CPU time may be caused by other processes
_SURELY_PERCENT = 105.0  #: least CPU use, in percent of a core, that other processes do not explain
_CPU = ("user_s", "system_s")


class Nornir:
    """nornir's own threaded runner."""

    name = "nornir"
    title = "how many threads are enough threads?"
    publication = "nornir_2020"
    what = (
        "A batch has 10 000 tasks, each of which sleeps for the time of a round trip. nornir runs the "
        "tasks of a batch on its pool of threads. The number of workers is the maximum number of threads of "
        "the pool. All times are times of the whole process, including its start."
    )
    parameters = ("wait s", "workers")
    figures = (
        LabFigure("total_s", "total s", 3, caption="total time for each wait and number of workers"),
        LabFigure("user_s", "user s", 2),
        LabFigure("system_s", "system s", 2),
        LabFigure("cpu_percent", "CPU %", 0),
        LabFigure("n_threads", "threads", 0),
        FOREIGN,
    )
    needs = ("nornir",)
    calibration = None

    def published(self, seeds: Mapping[str, Any]) -> dict[At, dict[str, float]]:
        """Return the 32 published rows: four waits, eight numbers of workers."""
        keys = ("user_s", "system_s", "cpu_percent", "total_s")
        return {
            (float(row[0]), float(row[1])): dict(zip(keys, map(float, row[2:]), strict=True))
            for row in seeds[self.publication]["rows"]
        }

    def points(self, published: Sequence[At], *, quick: bool) -> list[At]:
        """Return the published points, without the longest waits and the fewest workers if *quick*."""
        if not quick:
            return list(published)
        return [at for at in published if at[0] in _QUICK_WAITS_S and at[1] in _QUICK_WORKERS]

    def job(self, at: At) -> LabJob:
        """Return the program of one batch."""
        wait_s, n_workers = _numbers(at)
        options = ("--tasks", f"{N_TASKS}", "--wait-s", f"{wait_s:g}", "--workers", f"{n_workers}")
        alone_s = wait_s * N_TASKS / n_workers
        return LabJob("nornir_pool.py", options, at_most_s=_HANGS_S + 5 * alone_s)

    def model(self, runs: Mapping[At, Mapping[str, Spread]]) -> Model:
        """Return the model, a queue for the GIL, fitted to the four corners of the runs."""
        return pool_model(runs)

    def findings(self, rows: Sequence[Row]) -> list[LabClaim]:
        """Return the claims: the knee of each wait, the cost beyond it, and whether the CPU exceeds one
        core.
        """
        by_wait = _by_wait(rows)
        return [
            *(_knee(wait, same) for wait, same in by_wait.items() if len(same) > 1),
            *([_compare_idle_threads(by_wait)] if by_wait else []),
            _past_the_knee(by_wait),
            _more_than_a_core(rows),
        ]

    def follows(self, rows: Sequence[Row]) -> str:
        """Return the sufficient number of workers, and the result of the largest number."""
        knees, beyond = list[str](), list[str]()
        by_wait = _by_wait(rows)
        if not by_wait:
            raise NotRunError("no batch was run")
        for wait, same in by_wait.items():
            knee, most = fewest_enough(_totals(same)), max(same)
            is_most = " (the largest number tested)" * (knee == most)
            workers = "" if knees else "workers for waits of "
            knees.append(f"{knee} {workers or 'for '}{1e3 * wait:g} ms{is_most}")
            cpu_s = [sum(same[n].of(key) for key in _CPU) for n in (knee, most)]
            if knee != most:
                started = f"{same[most].of('n_threads'):.0f} threads started"
                waits = "" if beyond else "waits of "
                beyond.append(f"{cpu_s[1] - cpu_s[0]:+.2f} s for {waits}{1e3 * wait:g} ms ({started})")
        within = f"within {100 * KNEE_WITHIN:.0f} % of the shortest time of a batch"
        text = f"To come {within}, a pool needs at least {', '.join(knees)}."
        more = (
            " Compared with these pools, the largest tested pool changes the CPU time of a batch by "
            f"{', '.join(beyond)}."
        )
        return text + more if beyond else text


def pool_model(runs: Mapping[At, Mapping[str, Spread]]) -> Model:
    """Return the model of runs by wait and number of workers: a queue for the GIL, fitted to four corners."""
    by_point = {_numbers(at): values for at, values in runs.items()}
    waits = {wait for wait, _ in by_point}
    corners = [
        (wait, pick(n for other, n in by_point if other == wait))
        for wait in (min(waits), max(waits))
        for pick in (min, max)
    ]
    seen = list(dict.fromkeys(corners))
    costs = _kept_costs(
        tuple(WaitingBatch(N_TASKS, wait, n, by_point[wait, n]["total_s"].median) for wait, n in seen)
    )
    of_corners = [run_waiting_pool(N_TASKS, wait, n, costs) for wait, n in seen]
    user, system = (
        cpu_line(of_corners, [by_point[corner][key].median for corner in seen])
        for key in ("user_s", "system_s")
    )
    modelled = {}
    for at in runs:
        run = run_waiting_pool(N_TASKS, *_numbers(at), costs)
        user_s = user[0] + user[1] * run.n_threads
        system_s = system[0] + system[1] * run.n_threads
        modelled[at] = {
            "total_s": run.total_s,
            "user_s": user_s,
            "system_s": system_s,
            "cpu_percent": 100 * (user_s + system_s) / run.total_s,
            "n_threads": float(run.n_threads),
        }
    text = (
        "In the model of nornir's pool, threads get the GIL in order of arrival, and the process takes "
        f"{costs.start_s:.2f} s to start and end. In this model each task holds the GIL for "
        f"{1e6 * costs.task_s:.0f} us, each started thread holds it for {1e6 * costs.thread_s:.0f} us, and "
        f"waits end {1e3 * costs.wake_s:.1f} ms late. These four times are fitted to the total times of "
        f"{len(seen)} "
        "rows, which combine the fewest or the most workers with the shortest or the longest waits."
    )
    return Model(modelled, frozenset(at for at in runs if _numbers(at) in seen), text)


@lru_cache(maxsize=8)
def _kept_costs(batches: tuple[WaitingBatch, ...]) -> PoolCosts:
    """Return the fitted costs, cached, because a fit is slow and other rows or publications repeat it."""
    return fit_pool_costs(batches)


def _numbers(at: At) -> tuple[float, int]:
    return float(at[0]), int(at[1])


def _by_wait(rows: Sequence[Row]) -> dict[float, dict[int, Row]]:
    """Return the rows that were run, by wait and number of workers."""
    found: dict[float, dict[int, Row]] = {}
    for wait, n in sorted(_numbers(row.at) for row in rows if row.measured):
        found.setdefault(wait, {})[n] = next(row for row in rows if _numbers(row.at) == (wait, n))
    return found


def _totals(rows: Mapping[int, Row]) -> dict[int, float]:
    return {n: row.of("total_s") for n, row in rows.items()}


def fewest_enough(total_s: Mapping[int, float]) -> int:
    """Return the smallest number of workers whose time is within KNEE_WITHIN of the best."""
    best_s = min(total_s.values())
    return min(n for n, took_s in total_s.items() if took_s <= best_s * (1 + KNEE_WITHIN))


def _knee(wait_s: float, rows: Mapping[int, Row]) -> LabClaim:
    published = fewest_enough({n: row.published["total_s"] for n, row in rows.items()})
    modelled = fewest_enough({n: row.modelled["total_s"] for n, row in rows.items()})
    total_s = _totals(rows)
    here, best_s = fewest_enough(total_s), min(total_s.values())
    why = (
        f"Measured: to come within {100 * KNEE_WITHIN:.0f} %, the pool needs at least {here} workers (in the "
        f"model: {modelled}). With {here} workers, a batch takes {total_s[here]:.2f} s."
    )
    if here != published:
        off = total_s[published] / best_s - 1
        why += f" {published} workers take {total_s[published]:.2f} s here, {100 * off:.0f} % above the best."
    return LabClaim(
        f"For waits of {1e3 * wait_s:g} ms, a pool needs at least {published} workers to come within "
        f"{100 * KNEE_WITHIN:.0f} % of the shortest batch time.",
        both(
            _is_enough(rows, published),
            *(negate(_is_enough(rows, fewer)) for fewer in rows if fewer < published),
        ),
        why,
    )


def _is_enough(rows: Mapping[int, Row], n_workers: int) -> bool | None:
    """Return whether *n_workers* are sufficient; None: the runs disagree, or there is only one."""
    if rows[n_workers].measured["total_s"].n == 1:
        return None
    best = min(rows.values(), key=lambda row: row.of("total_s"))
    return over(rows[n_workers], best, "total_s").at_most(1 + KNEE_WITHIN)


def _compare_idle_threads(by_wait: Mapping[float, Mapping[int, Row]]) -> LabClaim:
    last = {wait: rows[max(rows)] for wait, rows in by_wait.items()}
    text = "; ".join(
        f"{row.of('n_threads'):.0f} for waits of {1e3 * wait:g} ms (model: {row.modelled['n_threads']:.0f})"
        for wait, row in last.items()
    )
    most = max(_numbers(row.at)[1] for row in last.values())
    return LabClaim(
        f"Not published: a pool of at most {most} workers starts fewer than {most} threads.",
        all(row.of("n_threads") < _numbers(row.at)[1] for row in last.values()),
        f"The pool starts a thread only if no thread is idle. With this limit it starts {text}.",
    )


def _past_the_knee(by_wait: Mapping[float, Mapping[int, Row]]) -> LabClaim:
    """Return the cost of the largest number of workers, compared with a sufficient one."""
    published, lines, pairs = [], list[str](), []
    for wait, rows in by_wait.items():
        knee, most = fewest_enough(_totals(rows)), max(rows)
        if knee == most:
            continue
        before, after = rows[knee], rows[most]
        published.append(_cpu_s(after.published) - _cpu_s(before.published))
        cpu_s = [sum(row.of(key) for key in _CPU) for row in (before, after)]
        pairs.append((after.measured["cpu_s"], before.measured["cpu_s"]))
        lines.append(
            f"with waits of {1e3 * wait:g} ms a batch takes {cpu_s[0]:.2f} s of CPU with {knee} workers and "
            f"{cpu_s[1]:.2f} s with {most}"
        )
    claim = "More workers than needed do not shorten a batch, but cost more CPU time"
    if not lines:
        return LabClaim(f"{claim}.", None, "No wait was run with more workers than are enough.")
    return LabClaim(
        f"{claim} (up to {max(published):.2f} s more).",
        more(pairs, _SURELY_S),
        f"Measured: {'; '.join(lines)}.",
    )


def _cpu_s(figures: Mapping[str, float]) -> float:
    return sum(figures[key] for key in _CPU)


def _more_than_a_core(rows: Sequence[Row]) -> LabClaim:
    claimed = max(row.published["cpu_percent"] for row in rows)
    claim = (
        f"Many threads of one interpreter use more than one core (up to {claimed:.0f} % of a core), although "
        f"only one of these threads runs Python at a time."
    )
    run = [row for row in rows if row.measured]
    if not run:
        return LabClaim(claim, None, "No batch was run.")
    most = max(run, key=lambda row: row.of("cpu_percent"))
    wait, n = _numbers(most.at)
    percent, kernel_s = most.of("cpu_percent"), most.of("system_s")
    can_tell = most.of(USABLE_CORES) > 1 and most.measured["cpu_percent"].n > 1
    return LabClaim(
        claim,
        measured_ratio(most, "cpu_percent").at_least(_SURELY_PERCENT) if can_tell else None,
        f"Measured: the threads use up to {percent:.0f} % of a core (with waits of {1e3 * wait:g} ms and {n} "
        f"workers). {kernel_s:.2f} s of these {kernel_s + most.of('user_s'):.2f} s are kernel time, which "
        "needs no GIL: the kernel starts and wakes threads.",
    )
