"""How well the model does on layouts that it did not see, and which terms make it do better there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import Literal

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.folds import gains_of_terms, log_errors, nearly_without
from tuner.core.model.calibration.joint_fit import TERMS, Fit, Problem
from tuner.core.model.calibration.per_item import log_throughputs

_LEAST_LAYOUTS = 6  #: to choose terms on: fewer cannot tell a term from a coincidence
_FOLDS = 8  #: at most, where terms are chosen
_WORTH = (
    4.0  #: a term must first take so much off the sum of squares, as a parameter of no use does in 1 of 20
)
#: of that, if the model were linear: what gains less is not even fitted (mostly the two agree to 1 %)
_NEARLY = 0.5
_MOST_TERMS = 2
_USUAL_LAUNCH_SD = 0.02
_USUAL_DF = 2


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A layout as it was measured, and as a calibration predicts it that did not see it."""

    layout: Layout
    measured_per_s: float
    predicted_per_s: float
    measured_active: float | None  #: mean of active tasks; None: not seen
    predicted_active: float
    n_seen: int  #: layouts that the calibration saw
    method: Literal["alone", "joint"] = "joint"

    @property
    def log_error(self) -> float:
        """The logarithm of predicted over measured throughput."""
        return log(self.predicted_per_s / self.measured_per_s)


def launch_noise_sd(groups: Mapping[Layout, Sequence[Clocks]]) -> float:
    """Standard deviation of a launch's log throughput, over all layouts; 2 % weighs as much as two more."""
    squares, df = _USUAL_DF * _USUAL_LAUNCH_SD**2, _USUAL_DF
    for windows in groups.values():
        launches = log_throughputs(windows)
        squares += launches.squares
        df += launches.n - 1
    return sqrt(squares / df)


def left_out(problem: Problem, folds: Sequence[Sequence[Layout]], start: Fit) -> list[HeldOut]:
    """The layouts of each fold, predicted by a fit to all others; *start* is one to all."""
    found = []
    for fold in folds:
        seen = problem.without(fold)
        fit = seen.fit(list(seen.items), start.terms, nearly_without(problem, fold, start))
        found.extend(predicted_by(problem, seen, fit, fold))
    return found


def predicted_by(
    problem: Problem,
    seen: Problem,
    fit: Fit,
    layouts: Sequence[Layout],
    method: Literal["alone", "joint"] = "joint",
) -> list[HeldOut]:
    """*layouts* as they were measured, and what *fit* says of them, a fit to *seen*, which has them not."""
    reported = problem.predict(fit, layouts, seen.looks)
    return [
        HeldOut(
            layout=layout,
            measured_per_s=exp(problem.logs[layout]),
            predicted_per_s=float(reported.throughput_per_s[n]),
            measured_active=problem.items[layout].n_active,
            predicted_active=float(reported.load[n]),
            n_seen=len(seen.items),
            method=method,
        )
        for n, layout in enumerate(layouts)
    ]


def folds_of(problem: Problem) -> list[list[Layout]]:
    """Every layout but 1x1 once, at most 8 folds; neighbours in different ones."""
    layouts = [layout for layout in problem.items if layout.total_threads > 1]
    n_folds = min(_FOLDS, len(layouts))
    return [layouts[n::n_folds] for n in range(n_folds)]


def with_terms_of_worth(problem: Problem, base: Fit) -> Fit:
    """The fit to all layouts with the terms that make layouts left out come out better, by more than chance.

    They are at most 2, mostly none: then it is *base*. A term is tried where it takes something off the sum
    of squares of what was seen; it is kept where the mean square error of layouts left out falls by more
    than the standard error of that difference.
    """
    if len(problem.items) < _LEAST_LAYOUTS:
        return base
    folds, fit, best = folds_of(problem), base, None
    while len(fit.terms) < _MOST_TERMS:
        tried = [(_squares(problem, folds, more), more) for more in _with_one_more(problem, fit)]
        if not tried:
            break
        best = best or _squares(problem, folds, fit)
        squares, more = min(tried, key=lambda one: fmean(one[0]))
        gains = [before - after for before, after in zip(best, squares, strict=True)]
        if fmean(gains) <= stdev(gains) / sqrt(len(gains)):
            break
        best, fit = squares, more
    return fit


def _with_one_more(problem: Problem, fit: Fit) -> Iterator[Fit]:
    """Fits with one term more than *fit*, each of which is better by more than a useless one would be."""
    terms = [term for term in _sensible(problem, fit) if term not in fit.terms]
    for term, gain in gains_of_terms(problem, terms, fit).items() if terms else ():
        if gain.cost > _WORTH / 2 * _NEARLY:
            more = problem.fit(list(problem.items), (*fit.terms, term), gain.near)
            if fit.cost - more.cost > _WORTH / 2:
                yield more


def _sensible(problem: Problem, fit: Fit) -> list[str]:
    has_threads = any(layout.threads > 1 for layout in problem.items)
    has_processes = any(layout.processes > 1 for layout in problem.items)
    allowed = {
        "process_cores": has_processes,
        "cpu_per_process_ratio": has_processes,
        "blocked_per_process_ratio": has_processes
        and (1 - problem.looks.spawning_ratio) * fit.values[3] > 0.02 * fit.values[[0, 2, 3, 4]].sum(),
        "threaded_asleep_s": has_threads,
        "convoy_ratio": has_threads and problem.machine.has_gil,
    }
    return [term for term in TERMS if allowed[term]]


def _squares(problem: Problem, folds: Sequence[Sequence[Layout]], fit: Fit) -> list[float]:
    return [error**2 for error in log_errors(problem, folds, fit)]
