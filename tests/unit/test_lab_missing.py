"""Published experiments of which rows are missing: told as far as they go, never a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tuner.core.errors import ConfigError
from tuner.lab import lab
from tuner.lab.experiments.experiment import (
    At,
    Experiment,
    Failure,
    LabRun,
    Outcome,
    describe_failures,
    outcome,
)
from tuner.lab.experiments.gnocchi import Gnocchi
from tuner.lab.experiments.gornir import Gornir
from tuner.lab.experiments.nornir import Nornir
from tuner.lab.experiments.pi_pools import PiPools
from tuner.lab.experiments.verdicts import both, either
from tuner.lab.interpreters import LabAsked
from tuner.lab.page import lab_picture
from tuner.lab.report import lab_page, render_lab
from tuner.lab.results import Results, read_results, write_results

from ..wording import wording
from . import test_lab, test_lab_gnocchi, test_lab_gornir, test_lab_pi_pools

SEEDS = test_lab.SEEDS
ROOT = Path(__file__).parents[2]
Made = Callable[[At], LabRun]
EVERY: Sequence[tuple[Experiment, Made]] = (
    (Nornir(), test_lab.nornir_run),
    (Gornir(), test_lab_gornir.a_run),
    (Gnocchi(), test_lab_gnocchi.made),
    (PiPools(), test_lab_pi_pools.pi_run),
)
each = pytest.mark.parametrize(("experiment", "made"), EVERY, ids=lambda one: getattr(one, "name", ""))


def points_of(experiment: Experiment) -> list[At]:
    return experiment.points(list(experiment.published(SEEDS)), quick=True)


def dear_rows(experiment: Experiment) -> list[At]:
    """The corners of what is run on nornir's threads: without one of them the model is fitted anew, 0.6 s."""
    if not isinstance(experiment, Nornir | Gornir):
        return []
    threads = {at: n for at in points_of(experiment) if (n := n_workers_of(at)) is not None}
    waits = [at[0] for at in threads]
    ends = {(pick(waits), most(threads.values())) for pick in (min, max) for most in (min, max)}
    return [at for at, n in threads.items() if (at[0], n) in ends]


def n_workers_of(at: At) -> float | None:
    """How many threads of nornir a row has; None: it is run by something else."""
    pool = str(at[1])
    return float(pool.split()[-1]) if pool.startswith("nornir") or isinstance(at[1], float) else None


def n_tries(experiment: Experiment) -> int:
    """Of an experiment with nornir's model each takes several times as long."""
    return 4 if isinstance(experiment, Nornir | Gornir) else 20


def told(experiment: Experiment, made: Made, points: Sequence[At]) -> Outcome:
    """What these points come to; it can be shown, too."""
    found = outcome(experiment, SEEDS, [made(at) for at in points])
    assert render_lab(found, "Here.", "simple")
    assert lab_page(found, "Here.", "it.svg", "it.csv", "tuner lab it")
    assert "<svg" in lab_picture(found).svg()
    assert found.follows
    return found


@each
def test_any_row_may_be_missing(experiment: Experiment, made: Made) -> None:
    points, dear = points_of(experiment), dear_rows(experiment)
    for missing in random.Random(2).sample([at for at in points if at not in dear], n_tries(experiment)):
        found = told(experiment, made, [at for at in points if at != missing])

        assert missing not in [row.at for row in found.rows if row.measured]


def few_alone(experiment: Experiment) -> list[At]:
    """Rows to stand alone: of the experiments with nornir's model, one of each kind of pool."""
    points = points_of(experiment)
    if isinstance(experiment, Nornir | Gornir):
        return list({str(at[1]) if n_workers_of(at) is None else "": at for at in points}.values())
    return random.Random(3).sample(points, n_tries(experiment))


@each
def test_a_single_row_tells_what_it_can(experiment: Experiment, made: Made) -> None:
    for at in few_alone(experiment):
        assert sum(1 for row in told(experiment, made, [at]).rows if row.measured) == 1


@each
def test_any_handful_of_rows_is_reported(experiment: Experiment, made: Made) -> None:
    chance, points, dear = random.Random(1), points_of(experiment), dear_rows(experiment)
    others = [at for at in points if at not in dear]
    for _ in range(n_tries(experiment)):
        handful = [*chance.sample(others, chance.randint(1, len(others))), *dear]
        told(experiment, made, chance.sample(handful, len(handful)))


@pytest.mark.parametrize(("experiment", "made"), EVERY[:2], ids=["nornir", "gornir"])
def test_a_handful_without_most_corners_of_nornirs_threads_is_reported(
    experiment: Experiment, made: Made
) -> None:
    chance, points, dear = random.Random(1), points_of(experiment), dear_rows(experiment)
    handful = chance.sample(points, 3)
    assert any(n_workers_of(at) is not None for at in handful)
    assert sum(at in dear for at in handful) < 2
    told(experiment, made, handful)


def test_no_verdicts_are_none() -> None:
    assert (both(), either()) == (None, None)


def test_failures_are_reported_by_reason_and_kept_until_they_succeed(tmp_path: Path) -> None:
    one, other = Failure((0.05, 200.0), 0, "it.py broke"), Failure((0.1, 200.0), 0, "it.py broke")
    late = Failure((0.1, 500.0), 0, "it.py took longer than 5 min and was killed")
    results = Results("nornir", True, 1, 1, 2, {})
    for failure in (one, other, late, one):
        results = results.with_failure(failure)
    write_results(tmp_path / "it.lab.json", results)

    assert read_results(tmp_path / "it.lab.json") == results
    assert describe_failures(Nornir(), results.failed) == [
        wording("lab.runs-failed-and-why"),
        wording("lab.run-failed-and-why"),
    ]
    assert results.with_run(LabRun(one.at, 0, {"total_s": 1.0})).failed == (other, late)


@pytest.mark.parametrize(
    ("name", "lacking"), [("gornir", "total_s"), ("pi-pools", "ratio"), ("gnocchi", "gain")]
)
def test_runs_without_a_figure_that_all_rests_on_are_reported_in_a_line(
    name: str, lacking: str, tmp_path: Path
) -> None:
    file = tmp_path / "kept.lab.json"
    facts = json.loads((ROOT / "bench" / "lab" / f"{name}.lab.json").read_text("utf-8"))
    for run in facts["runs"]:
        del run["values"][lacking]
    file.write_text(json.dumps(facts), "utf-8")
    asked = LabAsked(file, None, None, None, None, ())

    with pytest.raises(ConfigError, match=f"{len(facts['runs'])} runs without {lacking}, and {name} rests"):
        lab.lab_run(name, asked, lambda _text: None, lambda *_: 0)
    assert json.loads(file.read_text("utf-8")) == facts
