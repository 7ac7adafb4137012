"""Published pools of tasks that only wait: nornir (Python), gornir (Go), gnocchi (six threads or one)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tuner.core.model.pools import (
    MOST,
    NEAR,
    STEP,
    PoolCosts,
    PoolRun,
    TotalS,
    WaitingBatch,
    batch_s,
    costs_of,
    cpu_line,
    fit_pool_costs,
    residuals,
    waiting_pool_bound_s,
)

N_TASKS = 10_000
HELD_STARTS_S = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
CLOSE_RATIO = 0.005  #: mean error of the corners up to which they count as fitted
CORNERS = ((0.05, 100), (0.05, 10_000), (1.0, 100), (1.0, 10_000))
FITTED_RATIO, CORNERS_RATIO = 0.03, 0.05  #: the bars


@dataclass(frozen=True)
class Row:
    """One published run of nornir."""

    wait_s: float
    n_workers: int
    user_s: float
    system_s: float
    cpu_percent: float
    total_s: float

    @property
    def batch(self) -> WaitingBatch:
        return WaitingBatch(N_TASKS, self.wait_s, self.n_workers, self.total_s)


@dataclass(frozen=True)
class Form:
    """One structure of a model."""

    name: str
    free: tuple[str, ...]  #: of PoolCosts; the others are 0
    total_s: TotalS


def plain_bounds_s(batch: WaitingBatch, costs: PoolCosts, _lot: int = 1) -> float:
    """The longest of waves of waits, and of the GIL's work with a thread for each worker."""
    waves_s = ceil(N_TASKS / batch.n_workers) * batch.wait_s
    return costs.start_s + max(waves_s, N_TASKS * costs.task_s + batch.n_workers * costs.thread_s)


def ramp_s(batch: WaitingBatch, costs: PoolCosts, _lot: int = 1) -> float:
    return waiting_pool_bound_s(N_TASKS, batch.wait_s, batch.n_workers, costs)


THREE = ("start_s", "task_s", "thread_s")
FOUR = (*THREE, "wake_s")
CHOSEN = "line for the GIL, first come"
FORMS = (
    Form("bounds, every worker a thread", THREE, plain_bounds_s),
    Form("bounds, threads as needed", THREE, ramp_s),
    Form("bounds, and waits end late", FOUR, ramp_s),
    Form(CHOSEN, FOUR, partial(batch_s, turn="first come")),
    Form("the same, waits end in time", THREE, partial(batch_s, turn="first come")),
    Form("line, returning first", FOUR, partial(batch_s, turn="returning first")),
    Form("line, handing in first", FOUR, partial(batch_s, turn="handing in first")),
)


@dataclass(frozen=True)
class Fitted:
    """A form, fitted to all rows, to the four corners, and to all rows but one.

    Errors are model over measured, less 1.
    """

    form: Form
    costs: PoolCosts
    errors: tuple[float, ...]
    left_out: tuple[float, ...]
    corner_costs: PoolCosts
    corner_errors: tuple[float, ...]
    is_corner: tuple[bool, ...]

    @property
    def fitted_ratio(self) -> float:
        return mean_abs(self.errors)

    @property
    def corners_ratio(self) -> float:
        return mean_abs(self.corner_errors)

    @property
    def unseen_ratio(self) -> float:
        """Of the corner fit, rows that are no corner."""
        return mean_abs(
            [one for one, is_in in zip(self.corner_errors, self.is_corner, strict=True) if not is_in]
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "form": self.form.name,
            "free": list(self.form.free),
            "costs_s": asdict(self.costs),
            "error_ratio": list(self.errors),
            "mean_ratio": self.fitted_ratio,
            "left_out_error_ratio": list(self.left_out),
            "corner_costs_s": asdict(self.corner_costs),
            "corner_error_ratio": list(self.corner_errors),
            "corner_mean_ratio": self.corners_ratio,
            "corner_mean_ratio_of_the_others": self.unseen_ratio,
        }


def mean_abs(errors: ArrayLike) -> float:
    return float(np.mean(np.abs(errors)))


def rows_of(seeds: dict[str, Any]) -> list[Row]:
    return [Row(*row) for row in seeds["nornir_2020"]["rows"]]


def fit(rows: Sequence[Row], form: Form) -> Fitted:
    costs = fit_costs(rows, form)
    is_corner = tuple((row.wait_s, row.n_workers) in CORNERS for row in rows)
    corner_costs = fit_costs([row for row, is_in in zip(rows, is_corner, strict=True) if is_in], form)
    return Fitted(
        form,
        costs,
        errors_of(rows, form, costs),
        left_out_errors(rows, form, costs),
        corner_costs,
        errors_of(rows, form, corner_costs),
        is_corner,
    )


def fit_costs(rows: Sequence[Row], form: Form) -> PoolCosts:
    return fit_pool_costs([row.batch for row in rows], form.total_s, form.free)


def shares_of(free: Sequence[str], costs: PoolCosts) -> np.ndarray:
    """Return the shares that `costs_of` makes of *costs*."""
    return np.array([getattr(costs, name) / getattr(MOST, name) for name in free])


def left_out_errors(rows: Sequence[Row], form: Form, costs: PoolCosts) -> tuple[float, ...]:
    """Of each row, by the fit to the others: a Gauss-Newton step from the fit to all, with that row gone."""
    batches, at = [row.batch for row in rows], shares_of(form.free, costs)
    here = residuals(batches, form.total_s, form.free, at)
    steps = STEP * np.maximum(at, 0.01)
    moved = [
        residuals(batches, form.total_s, form.free, at + np.eye(len(at))[one] * step)
        for one, step in enumerate(steps)
    ]
    jacobian = (np.array(moved).T - here[:, None]) / steps
    weight = (1 + (here / NEAR) ** 2) ** -0.25  # the root of soft_l1's: a row's say in the fit
    errors = []
    for number, row in enumerate(rows):
        keep = np.arange(len(rows)) != number
        step = np.linalg.lstsq((weight[:, None] * jacobian)[keep], -(weight * here)[keep])[0]
        full = np.linalg.lstsq(weight[:, None] * jacobian, -weight * here)[0]  # 0 but for rounding, kinks
        without = costs_of(form.free, np.clip(at + step - full, 0, 1))
        errors.append(form.total_s(row.batch, without, 1) / row.total_s - 1)
    return tuple(errors)


def errors_of(rows: Sequence[Row], form: Form, costs: PoolCosts) -> tuple[float, ...]:
    return tuple(form.total_s(row.batch, costs, 1) / row.total_s - 1 for row in rows)


def along_the_line(rows: Sequence[Row], form: Form) -> list[dict[str, float]]:
    """The corner fit again with start_s held, for several values.

    Both corners of 100 workers run 100 waves, so that they tell no more than the sum start_s + 100 wake_s:
    four figures are worth three.
    """
    found = []
    corners = [row for row in rows if (row.wait_s, row.n_workers) in CORNERS]
    for start_s in HELD_STARTS_S:
        held = replace(form, free=form.free[1:], total_s=partial(_starting_at, form.total_s, start_s))
        costs = replace(fit_costs(corners, held), start_s=start_s)
        errors = errors_of(rows, form, costs)
        unseen = [
            error
            for row, error in zip(rows, errors, strict=True)
            if (row.wait_s, row.n_workers) not in CORNERS
        ]
        found.append(
            {
                **asdict(costs),
                "corner_ratio": mean_abs(errors_of(corners, form, costs)),
                "mean_ratio": mean_abs(errors),
                "unseen_ratio": mean_abs(unseen),
            }
        )
    return found


def _starting_at(
    total_s: TotalS, start_s: float, batch: WaitingBatch, costs: PoolCosts, lot: int = 1
) -> float:
    return total_s(batch, replace(costs, start_s=start_s), lot)


@dataclass(frozen=True)
class Cpu:
    """User and system time as a constant and so much per thread started, by least squares; seconds."""

    user_s: tuple[float, float]
    system_s: tuple[float, float]
    mean_error_s: float  #: of user + system
    mean_error_percent: float  #: points of the CPU share, whose denominator is the model's total


def fit_cpu(rows: Sequence[Row], runs: Sequence[PoolRun]) -> Cpu:
    user = cpu_line(runs, [row.user_s for row in rows])
    system = cpu_line(runs, [row.system_s for row in rows])
    cpu_s = np.array([user[0] + system[0] + run.n_threads * (user[1] + system[1]) for run in runs])
    percent = 100 * cpu_s / [run.total_s for run in runs]
    return Cpu(
        user,
        system,
        mean_abs(cpu_s - [row.user_s + row.system_s for row in rows]),
        mean_abs(percent - [row.cpu_percent for row in rows]),
    )


@dataclass(frozen=True)
class Go:
    """gornir: a wait, and some work in addition. There is no GIL, and threads are limited."""

    beside_s: dict[str, float]  #: mean of total less the wait, by GOMAXPROCS
    mean_ratio: float
    worst_ratio: float
    one_constant_ratio: float  #: the same with one figure for all settings


def fit_go(seeds: dict[str, Any]) -> Go:
    rows = seeds["gornir_2020"]["rows"]
    waits, totals = np.array([row[0] for row in rows]), np.array([row[-1] for row in rows])
    settings = [str(row[1]) for row in rows]
    beside = totals - waits
    means = {one: float(beside[[is_ == one for is_ in settings]].mean()) for one in dict.fromkeys(settings)}
    errors = (waits + [means[one] for one in settings]) / totals - 1
    return Go(
        means, mean_abs(errors), float(np.abs(errors).max()), mean_abs((waits + beside.mean()) / totals - 1)
    )


@dataclass(frozen=True)
class Batch:
    """gnocchi: a batch of eight operations with six threads, as measured and as modelled."""

    target: str
    round_trip_us: float
    one_ms: float
    six_ms: float
    model_ms: float

    @property
    def sign_is_right(self) -> bool:
        """Return whether the model predicts if six threads are faster."""
        return (self.model_ms < self.one_ms) == (self.six_ms < self.one_ms)


def fit_gnocchi(seeds: dict[str, Any]) -> tuple[float, list[Batch]]:
    """Six threads: waves of ceil(8 / 6) operations, and a constant, its median over the table (ms)."""
    share = ceil(8 / 6) / 8
    rows = seeds["gnocchi"]["rows"]
    constant = float(np.median([six - share * one for _, _, one, six in rows]))
    return constant, [
        Batch(target, float(trip_us), float(one), float(six), constant + share * one)
        for target, trip_us, one, six in rows
    ]
