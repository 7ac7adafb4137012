"""Fits of all folds at once, and what a term would gain: the same as fits one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration import left_out as of_folds
from tuner.core.model.calibration.joint_fit import Fit, Problem
from tuner.core.model.calibration.left_out import folds_of, gains_of_terms, left_out, log_errors
from tuner.core.model.calibration.per_item import by_layout
from tuner.core.model.demand import Demands, Terms

from .synthetic_clocks import BOX, GRID, Noise, layouts, study_of

PYTHON = Demands(0.034, child_s=0.009, asleep_s=0.017)
NATIVE = Demands(0.012, 0.03, asleep_s=0.025)
BLOCKED = Demands(0.015, child_s=0.012, asleep_s=0.02, blocked_s=0.05)
FEW = layouts("1x1", "1x2", "1x4", "2x2", "4x1", "2x4", "8x1")
CONVOY = Terms(convoy_ratio=0.1)


def problem_of(item: Demands, measured: Sequence[Layout], terms: Terms, seed: int) -> Problem:
    windows = study_of(item, measured, terms=terms, noise=Noise(misfit=0.02), seed=seed)
    return Problem(by_layout(windows), BOX, 0.02)


def one_by_one(problem: Problem, fit: Fit) -> list[float]:
    return [one.log_error for one in left_out(problem, folds_of(problem), fit)]


@pytest.mark.parametrize("item", [PYTHON, NATIVE, BLOCKED])
@pytest.mark.parametrize("measured", [FEW, GRID])
@pytest.mark.parametrize("terms", [(), ("convoy_ratio",), ("process_cores", "threaded_asleep_s")])
def test_all_folds_at_once_say_what_fits_one_by_one_say(
    item: Demands, measured: Sequence[Layout], terms: Sequence[str]
) -> None:
    problem = problem_of(item, measured, CONVOY, seed=3)
    fit = problem.fit(list(problem.items), terms)

    found = log_errors(problem, folds_of(problem), fit)
    assert found == pytest.approx(one_by_one(problem, fit), abs=0.002)
    assert max(map(abs, found)) > 0.01


def test_a_fold_that_does_not_settle_is_fitted_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(NATIVE, FEW, CONVOY, seed=4)
    fit = problem.fit(list(problem.items))
    for most in ("_MOST_STEPS", "_MOST_TURNS"):
        monkeypatch.setattr(of_folds, most, 1)

    found = log_errors(problem, folds_of(problem), fit)
    assert found == pytest.approx(one_by_one(problem, fit), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_term_gains_is_nearly_what_its_fit_gains(seed: int) -> None:
    problem = problem_of(PYTHON, GRID, CONVOY, seed)
    fit = problem.fit(list(problem.items))
    gains = gains_of_terms(problem, ["convoy_ratio", "process_cores", "cpu_per_process_ratio"], fit)
    data = {term: gain.cost for term, gain in gains.items()}

    fitted = {term: fit.cost - problem.fit(list(problem.items), (term,), fit).cost for term in data}
    assert data == pytest.approx(fitted, rel=0.2, abs=0.2)
    assert max(data.values()) > 2
