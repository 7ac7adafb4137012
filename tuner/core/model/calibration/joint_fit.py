"""The demands that fit the network to every window of a study, by least squares.

The fit compares, layout by layout, each with a weight: the logarithm of throughput; CPU per item of workers
and of children; uninterruptible waiting per item, of which a known part (`looks`) is the start of children;
the mean of active tasks, some of which are those of other processes. The demands by 1x1 alone (`alone`) enter
with the weight of their standard errors; 1x1 is then no layout of the fit, because it would count twice. The
gain by a second thread on a physical core is fitted, too: if no layout has busy second threads, it stays as
assumed for the machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.alone import SoloDemands, estimate_solo_demands
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.gauss_newton import least_squares_near
from tuner.core.model.calibration.per_item import (
    Looks,
    PerItem,
    estimate_others_s,
    log_throughputs,
    looks_in_d,
    per_item,
    spawning_of,
)
from tuner.core.model.calibration.sampling import N_DEMANDS
from tuner.core.model.demand import Array, Demands, LayoutDemands, Terms, stacked_demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import Equilibrium, Prediction, solve

#: names of the values before the terms
NAMES = ("own_s", "gil_share", "child_s", "blocked_s", "asleep_s", "smt_gain_ratio")
_GAIN = NAMES.index("smt_gain_ratio")
TERMS = tuple(one.name for one in fields(Terms))

#: Standard deviations of the errors of the model, beyond noise, as found in `docs/method/model.md`.
THROUGHPUT_SD = 0.03
CPU_SD = 0.04
_BLOCKED_SD = 0.2
_ACTIVE_SD = 0.2
_ACTIVE_TASKS = 0.3  #: further standard deviation, in tasks
_GIL_SHARE_SD = 0.5  #: prior standard deviation around 1: own CPU holds the GIL unless layouts show otherwise
_SMT_GAIN_SD = 0.2  #: prior standard deviation around the assumed gain
_LEAST_SE = 0.005  #: least relative standard error of a demand from 1x1; no window is more certain
_LEAST_S = 1e-12  #: CPU of an item without measured CPU
_STEP = 1e-4  #: step of finite differences, in units of each parameter's scale
_N_FIGURES = 5  #: figures of each layout, throughput first; their residuals are last
_NO_LOOKS = Looks()
_MOST = {
    "process_cores": 0.5,
    "cpu_per_process_ratio": 0.5,
    "blocked_per_process_ratio": 2.0,
    "convoy_ratio": 2.0,
}


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted parameters of the network, with their uncertainty."""

    values: Array  #: `NAMES`, and the requested terms
    root: Array  #: (n, k): root @ root.T is the covariance of the values
    df: float  #: degrees of freedom of Student's t: one for each layout beyond the terms, and 3 at least
    terms: tuple[str, ...]  #: names of fields of `Terms`
    off: Array  #: differences over their standard deviations: `StandardResiduals`
    jacobian: Array  #: Jacobian of *off* by the parameters over their scale

    @property
    def cost(self) -> float:
        """Return half the sum of squared residuals."""
        return float(self.off @ self.off) / 2


class Problem:
    """Windows of some layouts, prepared for fits with or without some of the layouts."""

    def __init__(self, groups: Mapping[Layout, Sequence[Clocks]], machine: Machine, noise_sd: float) -> None:
        """Prepare the windows of *groups*; *noise_sd* is that of the logarithm of a launch's throughput."""
        self.machine = machine
        self._groups = dict(groups)
        self.items = {layout: per_item(windows) for layout, windows in groups.items()}
        launches = {layout: log_throughputs(windows) for layout, windows in groups.items()}
        self.logs = {layout: own.mean for layout, own in launches.items()}
        self.noise_sd = {layout: noise_sd / sqrt(own.n) for layout, own in launches.items()}
        self.anchors = {
            layout: estimate_solo_demands(windows, machine)
            for layout, windows in groups.items()
            if layout.total_threads == 1
        }
        self._in_d = {layout: looks_in_d(windows) for layout, windows in groups.items()}
        self.looks = self._estimate_looks()

    def fit(self, layouts: Sequence[Layout], terms: Sequence[str] = (), start: Fit | None = None) -> Fit:
        """Fit the demands, and *terms*, to *layouts*; *start* is the fit of a similar problem."""
        compared = self.compared(layouts, terms)
        begin = compared.placed(start)
        at = least_squares_near(compared.look, begin, compared.most)
        if at is None:
            at = _least_squares(compared, begin)
        off, jacobian = compared.look(at)
        # Errors of throughput beyond the weights increase the uncertainty of all parameters.
        worse = max(1.0, compared.throughput_square(at))
        _, sizes, right = np.linalg.svd(jacobian, full_matrices=False)
        root = compared.scale[:, None] * right.T / np.maximum(sizes, 1e-6) * sqrt(worse)
        df = max(3.0, float(len(layouts) - len(terms)))
        return Fit(at * compared.scale, root, df, tuple(terms), off, jacobian)

    def compared(self, layouts: Sequence[Layout], terms: Sequence[str] = ()) -> StandardResiduals:
        """Return the residuals of a fit of the demands, and *terms*, to *layouts*."""
        anchor = next((self.anchors[one] for one in layouts if one in self.anchors), None)
        others = [one for one in layouts if anchor is None or one.total_threads > 1]
        return StandardResiduals(self, others, anchor, terms, self._begin(layouts, anchor))

    def without(self, layouts: Collection[Layout]) -> Problem:
        """Return the problem without *layouts*; sums over the windows of all other layouts are reused."""
        found = copy(self)
        for name in ("_groups", "items", "logs", "noise_sd", "anchors", "_in_d"):
            known = getattr(self, name)
            setattr(found, name, {layout: one for layout, one in known.items() if layout not in layouts})
        found.looks = found._estimate_looks()
        return found

    def predict(self, fit: Fit, layouts: Sequence[Layout], looks: Looks) -> Prediction:
        """Predict *layouts* by *fit*, each with the other processes that ran when it was measured.

        *looks* are those of the layouts of the fit.
        """
        items = [self.items[layout] for layout in layouts]
        return solve_network(fit.values[None, :], fit.terms, items, self.machine, looks)[1]

    def _estimate_looks(self) -> Looks:
        """Estimate the samples' results; the activity of other tasks is only estimated at 1x1."""
        alone = (one for layout in self.anchors for one in self._groups[layout])
        return Looks(spawning_of(self._in_d), estimate_others_s(alone))

    def _begin(self, layouts: Sequence[Layout], anchor: SoloDemands | None) -> Array:
        """Return demands to start from: those of 1x1, or of the layout with the fewest threads."""
        if anchor is not None:
            gil_s, child_s, blocked_s, asleep_s = anchor.mean
            return np.array([gil_s, 1.0, child_s, blocked_s, asleep_s])
        item = self.items[min(layouts, key=lambda layout: (layout.total_threads, layout.threads))]
        cpu_s = item.own_s + item.children_s
        waiting_s = max(0.05 * cpu_s, item.residence_s - cpu_s)
        blocked_s = min(item.blocked_s or 0.0, 0.9 * waiting_s)
        return np.array([item.own_s, 1.0, item.children_s, blocked_s, waiting_s - blocked_s])


def _least_squares(compared: StandardResiduals, begin: Array) -> Array:
    """Minimize as `least_squares_near` does, from any distance."""
    from scipy.optimize import least_squares

    found: Array = least_squares(
        lambda at: compared.look(at)[0],
        np.clip(begin, 1e-9, compared.most * (1 - 1e-9)),
        jac=lambda at: compared.look(at)[1],
        bounds=(np.zeros(len(compared.most)), compared.most),
        xtol=1e-6,
        ftol=1e-7,
        max_nfev=60,
    ).x
    return found


def parts_of(values: Array, terms: Sequence[str]) -> tuple[Demands, Terms]:
    """Return the demands and terms of the parameters *values*; values out of bounds are set to these."""
    sets = _sets(values[None, :], _NO_LOOKS)
    demands = Demands(**{name: float(one[0]) for name, one in sets.items()})  # type: ignore[arg-type]
    more = {name: max(0.0, float(value)) for name, value in zip(terms, values[len(NAMES) :], strict=True)}
    return demands, Terms(**more)


def _sets(values: Array, looks: Looks) -> dict[str, Array]:
    """Return the demands of each row of *values*, by the names of `Demands`."""
    own_s, share, child_s, blocked_s, asleep_s = np.maximum(values[:, :N_DEMANDS], 0.0).T
    share = np.minimum(share, 1.0)
    return {
        "gil_s": own_s * share,
        "python_s": own_s * (1 - share),
        "child_s": child_s,
        "asleep_s": asleep_s,
        "blocked_s": blocked_s * (1 - looks.spawning_ratio),
        "spawn_s": blocked_s * looks.spawning_ratio,
        "others_s": np.full(len(values), looks.others_s),
    }


def stack_demands(
    values: Array, terms: Sequence[str], items: Sequence[PerItem], looks: Looks
) -> LayoutDemands:
    """Return the demands of all *items*' layouts for each row of *values*: rows in sequence, layouts within.

    Other processes in each layout's windows are added to the cores that processes use in addition to items:
    they use cores, and are active tasks.
    """
    processes = [item.layout.processes for item in items]
    threads = [item.layout.threads for item in items]
    foreign = np.array([item.foreign_cores for item in items])
    more = dict(zip(terms, np.maximum(values[:, len(NAMES) :], 0.0).T, strict=True))
    of = stacked_demands(_sets(values, looks), more, processes, threads)
    return replace(of, process_cores=of.process_cores + np.tile(foreign, len(values)))


def solve_network(
    values: Array,
    terms: Sequence[str],
    items: Sequence[PerItem],
    machine: Machine,
    looks: Looks,
    near: Equilibrium | None = None,
) -> tuple[LayoutDemands, Prediction]:
    """Solve the network for each row of *values*: rows in sequence, the layouts of *items* within."""
    of = stack_demands(values, terms, items, looks)
    if machine.physical_cores is None:
        return of, solve(of, machine, near=near)
    gains = np.repeat(np.clip(values[:, _GAIN], 0.0, 1.0), len(items))
    return of, solve(of, machine, gains, near)


class StandardResiduals:
    """Differences between measured values and the network, over standard deviations.

    Parameters are divided by their scale, which is about the largest value of each.
    """

    def __init__(
        self,
        problem: Problem,
        layouts: Sequence[Layout],
        anchor: SoloDemands | None,
        terms: Sequence[str],
        begin: Array,
    ) -> None:
        """Prepare a fit to *layouts* and *anchor*; *begin* are the demands to start from."""
        item_s = float(begin.sum() - begin[1])
        of_terms = [item_s if term == "threaded_asleep_s" else 0.1 for term in terms]
        self.scale = np.array([item_s, 1.0, item_s, item_s, item_s, 1.0, *of_terms])
        self.scale[0], self.scale[2] = max(begin[0], 0.02 * item_s), max(begin[2], 0.02 * item_s)
        most = [np.inf, 1.0, np.inf, np.inf, np.inf, 1.0, *(_MOST.get(term, np.inf) for term in terms)]
        self.most = np.array(most) / self.scale  #: upper bound of each parameter; the lower bound is 0
        self._begin = np.array([*begin, problem.machine.smt_gain_ratio, *([0.0] * len(terms))])
        self._machine, self._terms, self._anchor = problem.machine, tuple(terms), anchor
        self.layouts = list(layouts)  #: layouts without 1x1, if that was measured
        self._looks = problem.looks
        self._items = [problem.items[layout] for layout in layouts]
        self._logs = np.array([problem.logs[layout] for layout in layouts])
        self._log_sd = np.array([hypot(THROUGHPUT_SD, problem.noise_sd[layout]) for layout in layouts])
        is_split = [item.worker_s is not None for item in self._items]
        self._is_split = np.array(is_split, dtype=bool) | (not any(is_split))
        # If a layout's windows do not separate workers from children, their sum is compared.
        own_s, child_s = (np.array([getattr(one, n) for one in self._items]) for n in ("own_s", "children_s"))
        self._own_s = np.where(self._is_split, own_s, own_s + child_s)
        self._child_s = np.where(self._is_split, child_s, 0.0)
        self._service_s = np.array([item.service_s for item in self._items])
        self._near = Equilibrium()
        self._looked: tuple[Array, Array, Array] | None = None
        self._pull = _pull(anchor) if anchor is not None else None
        #: number of residuals that belong to no layout
        self._n_reported = 2 + (0 if anchor is None else len(anchor.mean))

    def placed(self, start: Fit | None) -> Array:
        """Return the scaled parameters of *start*, with missing terms at 0; None: those to start from."""
        found = self._begin.copy()
        if start is not None:
            found[: len(NAMES)] = start.values[: len(NAMES)]
            known = dict(zip(start.terms, start.values[len(NAMES) :], strict=True))
            found[len(NAMES) :] = [known.get(term, 0.0) for term in self._terms]
        placed: Array = found / self.scale
        return placed

    def rows_of(self, layouts: Collection[Layout]) -> NDArray[np.bool_]:
        """Return which residuals are those of *layouts*."""
        is_of = [one in layouts for one in self.layouts]
        return np.array([False] * self._n_reported + is_of * _N_FIGURES, dtype=bool)

    def log_errors(self, residuals: Array) -> Array:
        """Return log(predicted / measured throughput) for *residuals*, (..., layouts)."""
        errors: Array = self._of_throughput(residuals) * self._log_sd
        return errors

    def throughput_square(self, at: Array) -> float:
        """Return the mean square of the throughput errors over their variance; 0 without layouts."""
        off = self._of_throughput(self.look(at)[0])
        return float((off**2).mean()) if len(off) else 0.0

    def _of_throughput(self, residuals: Array) -> Array:
        found: Array = residuals[..., self._n_reported : self._n_reported + len(self.layouts)]
        return found

    def look(self, at: Array) -> tuple[Array, Array]:
        """Return residuals and Jacobian of one set of parameters; the last result is cached."""
        if self._looked is None or not np.array_equal(self._looked[0], at):
            rows, jacobians = self.linear(at[None, :])
            self._looked = at.copy(), rows[0], jacobians[0]
        return self._looked[1:]

    def linear(self, at: Array) -> tuple[Array, Array]:
        """Return residuals of many sets of parameters, (sets, residuals), and their Jacobians by differences.

        All come from one solution of the network.
        """
        n = at.shape[1]
        steps = np.full(at.shape, _STEP)
        for one in (1, _GAIN):  # these may lie at their upper bounds
            steps[:, one] *= np.where(at[:, one] > 0.5, -1, 1)
        moved = at[:, None, :] + np.eye(n) * steps[:, None, :]
        found = self.rows(np.concatenate([at[:, None, :], moved], axis=1).reshape(-1, n))
        found = found.reshape(len(at), n + 1, -1)
        slopes = (found[:, 1:] - found[:, :1]) / steps[:, :, None]
        return found[:, 0], slopes.transpose(0, 2, 1)

    def slopes(self, at: Array, off: Array, first: int) -> Array:
        """Return the Jacobian's columns from the *first* term on, for *at* with residuals *off*."""
        found = self.rows(at + _STEP * np.eye(len(at))[first:])
        slopes: Array = (found - off).T / _STEP
        return slopes

    def rows(self, at: Array) -> Array:
        """Return residuals of many sets of parameters, (sets, residuals), by one solution."""
        values = at * self.scale
        off = values[:, _GAIN] - self._machine.smt_gain_ratio
        reported = [((1 - values[:, 1]) / _GIL_SHARE_SD)[:, None], (off / _SMT_GAIN_SD)[:, None]]
        if self._anchor is not None and self._pull is not None:
            reported.append((values[:, [0, 2, 3, 4]] - self._anchor.mean) @ self._pull.T)
        if self._items:
            reported.extend(self._of_layouts(values))
        return np.concatenate(reported, axis=1)

    def _of_layouts(self, values: Array) -> list[Array]:
        of, seen = solve_network(values, self._terms, self._items, self._machine, self._looks, self._near)
        shape = (len(values), len(self._items))
        reported = [(np.log(seen.throughput_per_s).reshape(shape) - self._logs) / self._log_sd]
        # The kernel counts a core whole however slow its second thread makes it: more CPU than work.
        slowed = (seen.busy_cores - of.process_cores) / np.maximum(seen.throughput_per_s * of.cpu_s, _LEAST_S)
        own_s, child_s = ((slowed * part).reshape(shape) for part in (of.gil_s + of.python_s, of.child_s))
        foreign = np.tile([item.foreign_cores for item in self._items], len(values))
        own_s = own_s + ((of.process_cores - foreign) / seen.throughput_per_s).reshape(shape)
        for of_model, of_window in (
            (np.where(self._is_split, own_s, own_s + child_s), self._own_s),
            (np.where(self._is_split, child_s, 0.0), self._child_s),
        ):
            # of the CPU demand of an item, so that a demand near 0 does not get a large weight
            sd = CPU_SD * np.maximum(of_window, 0.1 * self._service_s)
            reported.append((of_model - of_window) / np.maximum(sd, _LEAST_S))
        for model, window, sd in (
            (of.blocked_s + of.spawn_s, *self._blocked_waits()),
            (seen.load, *self._active()),
        ):
            reported.append((model.reshape(shape) - window) / sd)
        return reported

    def _blocked_waits(self) -> tuple[Array, Array]:
        """Return the measured uninterruptible waits and their sd: infinite if not measured."""
        seen = np.array([item.blocked_s or 0.0 for item in self._items])
        looks = np.array([item.length_s for item in self._items])
        residence_s = np.array([item.residence_s for item in self._items])
        share = np.clip((seen / residence_s * looks + 0.5) / (looks + 1), 0.0, 1.0)
        sd = np.hypot(_BLOCKED_SD * seen, np.sqrt(share * (1 - share) / looks) * residence_s)
        return seen, np.where([item.blocked_s is None for item in self._items], np.inf, sd)

    def _active(self) -> tuple[Array, Array]:
        """Return the measured active tasks and their sd: infinite if not measured.

        They may include tasks of other processes that wait for a core, which the model does not predict.
        """
        seen = np.array([item.n_active or 0.0 for item in self._items])
        waiting = np.array([item.n_strangers_waiting for item in self._items])
        sd = np.hypot(np.hypot(_ACTIVE_SD * seen, _ACTIVE_TASKS), waiting)
        return seen, np.where([item.n_active is None for item in self._items], np.inf, sd)


def _pull(anchor: SoloDemands) -> Array:
    """Return the matrix that whitens differences from 1x1: the inverse square root of its covariance."""
    covariance = anchor.root @ anchor.root.T
    floor = (_LEAST_SE * np.maximum(anchor.mean, 0.02 * anchor.mean.sum())) ** 2
    sizes, axes = np.linalg.eigh(covariance + np.diag(floor))
    pull: Array = (axes / np.sqrt(sizes)) @ axes.T
    return pull
