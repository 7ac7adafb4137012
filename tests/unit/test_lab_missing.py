"""Published experiments of which rows are missing: told as far as they go, never a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tuner import bootstrap
from tuner.adapters.lab.results import Results, read_results, write_results
from tuner.core.errors import ConfigError
from tuner.core.lab.experiment import At, Experiment, Failure, Outcome, Run, failures_told, outcome
from tuner.core.lab.gnocchi import Gnocchi
from tuner.core.lab.gornir import Gornir
from tuner.core.lab.nornir import Nornir
from tuner.core.lab.pi_pools import PiPools
from tuner.core.lab.verdicts import both, either
from tuner.reports.charts.lab import lab_picture
from tuner.reports.lab import lab_page, render_lab

from ..wording import wording
from . import test_lab, test_lab_gnocchi, test_lab_gornir, test_lab_pi_pools

SEEDS = test_lab.SEEDS
ROOT = Path(__file__).parents[2]
Made = Callable[[At], Run]
EVERY: Sequence[tuple[Experiment, Made]] = (
    (Nornir(), test_lab.nornir_run),
    (Gornir(), test_lab_gornir.a_run),
    (Gnocchi(), test_lab_gnocchi.made),
    (PiPools(), test_lab_pi_pools.pi_run),
)
each = pytest.mark.parametrize(("experiment", "made"), EVERY, ids=lambda one: getattr(one, "name", ""))


def points_of(experiment: Experiment) -> list[At]:
    return experiment.points(list(experiment.published(SEEDS)), quick=True)


def n_tries(experiment: Experiment) -> int:
    """Fits of nornir's model take seconds."""
    return 3 if isinstance(experiment, Nornir | Gornir) else 20


def told(experiment: Experiment, made: Made, points: Sequence[At]) -> Outcome:
    """What these points come to; it can be shown, too."""
    found = outcome(experiment, SEEDS, [made(at) for at in points])
    assert render_lab(found, "Here.", "simple")
    assert lab_page(found, "Here.", "it.svg", "tuner lab it")
    assert "<svg" in lab_picture(found).svg()
    assert found.follows
    return found


@each
def test_any_row_may_be_missing(experiment: Experiment, made: Made) -> None:
    points = points_of(experiment)
    for missing in random.Random(2).sample(points, n_tries(experiment)):
        found = told(experiment, made, [at for at in points if at != missing])

        assert missing not in [row.at for row in found.rows if row.measured]


@each
def test_a_single_row_tells_what_it_can(experiment: Experiment, made: Made) -> None:
    for at in random.Random(3).sample(points_of(experiment), n_tries(experiment)):
        assert sum(1 for row in told(experiment, made, [at]).rows if row.measured) == 1


@each
def test_any_handful_of_rows_is_told(experiment: Experiment, made: Made) -> None:
    chance, points = random.Random(1), points_of(experiment)
    for _ in range(n_tries(experiment)):
        told(experiment, made, chance.sample(points, chance.randint(1, len(points))))


def test_no_verdicts_are_none() -> None:
    assert (both(), either()) == (None, None)


def test_failures_are_told_by_reason_and_kept_until_they_succeed(tmp_path: Path) -> None:
    one, other = Failure((0.05, 200.0), 0, "it.py broke"), Failure((0.1, 200.0), 0, "it.py broke")
    late = Failure((0.1, 500.0), 0, "it.py took longer than 5 min and was killed")
    results = Results("nornir", True, 1, 1, 2, {})
    for failure in (one, other, late, one):
        results = results.with_failure(failure)
    write_results(tmp_path / "it.lab.json", results)

    assert read_results(tmp_path / "it.lab.json") == results
    assert failures_told(Nornir(), results.failed) == [
        wording("lab.runs-failed-wait-s"),
        wording("lab.run-failed-wait-s-workers"),
    ]
    assert results.with_run(Run(one.at, 0, {"total_s": 1.0})).failed == (other, late)


@pytest.mark.parametrize(
    ("name", "lacking"), [("gornir", "total_s"), ("pi-pools", "ratio"), ("gnocchi", "gain")]
)
def test_runs_without_a_figure_that_all_rests_on_are_told_in_a_line(
    name: str, lacking: str, tmp_path: Path
) -> None:
    file = tmp_path / "kept.lab.json"
    facts = json.loads((ROOT / "bench" / "lab" / f"{name}.lab.json").read_text("utf-8"))
    for run in facts["runs"]:
        del run["values"][lacking]
    file.write_text(json.dumps(facts), "utf-8")
    asked = bootstrap.LabAsked(file, None, None, None, None, ())

    with pytest.raises(ConfigError, match=f"{len(facts['runs'])} runs without {lacking}, and {name} rests"):
        bootstrap.lab_run(name, asked, lambda _text: None, lambda *_: 0)
    assert json.loads(file.read_text("utf-8")) == facts
