"""An experiment on several interpreters: its points on each, and what the interpreter alone changes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.core.model.pools import PoolCosts
from tuner.lab.experiments.experiment import At, LabRun, Outcome, outcome
from tuner.lab.experiments.gornir import Gornir
from tuner.lab.experiments.interpreters import OnInterpreters, comparable_pairs
from tuner.lab.experiments.nornir import Nornir
from tuner.lab.experiments.pi_pools import PiPools
from tuner.lab.interpreters import LabAsked, by_version, on_interpreters
from tuner.lab.lab import read_published
from tuner.lab.page import lab_picture
from tuner.lab.report import render_lab, render_lab_json
from tuner.lab.results import Results, read_results, write_results
from tuner.lab.tools import tools_of

from ..e2e.typed import Typed
from ..wording import end_of, start_of, wording
from .lab_batches import batch_of
from .test_lab_gornir import a_run as gornir_run

pytestmark = pytest.mark.pythons

SEEDS = read_published()
COSTS = PoolCosts(0.25, 150e-6, 200e-6, 3e-3)
PYTHONS = {"3.11.7": "/usr/bin/one", "3.13.0": "/usr/bin/other"}
EXPERIMENT = OnInterpreters(Nornir(), PYTHONS)
POINTS = EXPERIMENT.points(list(EXPERIMENT.published(SEEDS)), quick=True)
#: CPU of the later Python over that of the earlier one: in the mean, and at every other point more or less
CPU_RATIO, UNLIKE = 0.8, 1.02


def a_run(at: At, ratio: float) -> LabRun:
    """A run as the model would have it; the CPU time of the later Python is another."""
    batch = batch_of(float(at[1]), int(at[2]), COSTS)
    unlike = UNLIKE if POINTS.index(at) % 2 else 1 / UNLIKE
    factor = ratio * unlike if at[0] == "3.13.0" else 1.0
    cpu = {"user_s": 0.8 * factor, "system_s": 0.4 * factor, "cpu_s": 1.2 * factor}
    percent = 120 * factor / batch.total_s
    values = {**cpu, "cpu_percent": percent, "n_threads": float(batch.n_threads), "usable_cores": 2.0}
    values["foreign_cores"] = 0.02 * factor  # a neighbour's, whatever it changes with
    return LabRun(at, 0, {"total_s": batch.total_s, **values})


def told_of(ratio: float = CPU_RATIO) -> Outcome:
    return outcome(EXPERIMENT, SEEDS, [a_run(at, ratio) for at in POINTS])


@pytest.fixture(scope="module")
def whole() -> Outcome:
    return told_of()


def test_every_point_is_run_by_each_interpreter_with_its_published_figures_beside(whole: Outcome) -> None:
    alone = Nornir().points(list(Nornir().published(SEEDS)), quick=True)

    assert [(python, *at) for python in PYTHONS for at in alone] == POINTS
    for at in POINTS:
        assert EXPERIMENT.job(at).python == PYTHONS[str(at[0])]
        assert EXPERIMENT.job(at).options == Nornir().job(at[1:]).options
    assert len([row for row in whole.rows if row.measured]) == len(POINTS)
    assert all(row.published["total_s"] > 0 for row in whole.rows)


def test_each_interpreter_has_a_model_and_findings_of_its_own(whole: Outcome) -> None:
    alone = outcome(Nornir(), SEEDS, [LabRun(run.at[1:], 0, run.values) for run in _runs("3.11.7")])
    own = {row.at[1:]: row.modelled for row in whole.rows if row.at[0] == "3.11.7"}

    assert own == {row.at: row.modelled for row in alone.rows}
    reported = [one for one in whole.findings if one.claim.startswith("Python 3.11.7. ")]
    assert [(one.holds, one.why) for one in reported] == [(one.holds, one.why) for one in alone.findings]


def test_what_the_interpreter_alone_changes_has_an_interval_over_the_points(whole: Outcome) -> None:
    ((one, other, changes),) = EXPERIMENT.changes(whole.rows)
    by_key = {change.figure.key: change for change in changes}
    cpu, total = by_key["cpu_s"], by_key["total_s"]

    assert (one, other) == ("3.11.7", "3.13.0")
    assert "foreign_cores" not in by_key
    assert cpu.n_points == 15
    assert cpu.low is not None
    assert cpu.high is not None
    assert cpu.least < cpu.low < cpu.ratio < cpu.high < cpu.most
    assert cpu.ratio == pytest.approx(CPU_RATIO, rel=0.01)
    assert cpu.is_sure
    assert (total.low, total.ratio, total.high) == (1, 1, 1)
    assert wording("lab.cpu-s-times") in whole.follows
    assert wording("lab.total-s") not in whole.follows


@pytest.mark.parametrize(
    ("versions", "pairs"),
    [
        ("3.11.7 3.13.0", "3.11.7-3.13.0"),
        ("3.13.0 3.13.0t 3.14.1", "3.13.0-3.13.0t 3.13.0-3.14.1"),
        ("3.13.0 3.13.0t 3.14.1 3.14.1t", "3.13.0-3.13.0t 3.13.0-3.14.1 3.14.1-3.14.1t"),
        ("3.13.0 3.13.1t 3.14.1t", "3.13.0-3.13.1t 3.13.1t-3.14.1t"),
        ("3.13.0", ""),
    ],
)
def test_interpreters_are_compared_where_they_differ_in_one_thing(versions: str, pairs: str) -> None:
    assert ["-".join(pair) for pair in comparable_pairs(versions.split())] == pairs.split()


def test_two_points_have_no_interval() -> None:
    runs = [a_run(at, CPU_RATIO) for at in POINTS if at[1:] in (POINTS[0][1:], POINTS[1][1:])]
    found = outcome(EXPERIMENT, SEEDS, runs)
    ((_, _, changes),) = EXPERIMENT.changes(found.rows)

    assert {change.n_points for change in changes} == {2}
    assert {(change.low, change.high, change.is_sure) for change in changes} == {(None, None, False)}
    assert any(wording("lab.no-interval-two-points") in one.why for one in found.findings)


def test_a_change_within_its_interval_is_none() -> None:
    found = told_of(ratio=1.0)
    reported = [
        one for one in found.findings if one.claim.startswith("Not published: Python 3.13.0 instead of")
    ]

    assert [one.holds for one in reported] == [False, None, None, None, False, None]
    assert reported[0].why == wording("lab.same-all-points")
    assert wording("lab.told-apart-none-times") in start_of(reported[1].why)
    assert wording("lab.interpreter-alone-changes-nothing") in end_of(found.follows)


def test_what_go_runs_is_run_once_and_is_no_change_by_an_interpreter() -> None:
    experiment = OnInterpreters(Gornir(), PYTHONS)
    points = experiment.points(list(experiment.published(SEEDS)), quick=True)
    of_go = [at for at in points if str(at[2]).startswith("Go ")]
    runs = [replace(gornir_run(at[1:], block=n), at=at) for n in range(3) for at in points]
    found = outcome(experiment, SEEDS, runs)
    claims = [one.claim for one in found.findings]

    assert sorted({at[0] for at in of_go}) == ["none"]
    assert len(of_go) == len(set(of_go)) == 9
    assert {experiment.job(at).python for at in of_go} == {""}
    ((_, _, changes),) = experiment.changes(found.rows)
    assert {change.n_points for change in changes} == {18}
    assert sum("for any GOMAXPROCS" in claim for claim in claims) == 1
    assert sum(wording("lab.goroutines-take-less-cpu") in claim for claim in claims) == 2
    assert wording("lab.goroutines-take-wait") in start_of(claims[0])
    assert wording("lab.python-goroutines-take-less") in start_of(claims[3])
    assert found.model.count("Go 100") == 1
    assert "with goroutines" in found.follows
    assert all(row.modelled for row in found.rows if row.measured)
    assert "<svg" in lab_picture(found).svg()


def test_people_and_programs_are_reported_the_interpreter_of_each_row(whole: Outcome) -> None:
    facts = {"quick": True, "repeats": 1, "seed": 1, "cores": 2, "provenance": {}}
    (found,) = json.loads(render_lab_json([(whole, facts)]))["experiments"]

    assert found["rows"][0]["at"] == {"python": "3.11.7", "wait s": 0.05, "workers": 100.0}
    assert any(
        line.split()[:3] == ["3.13.0", "0.05", "200"] for line in render_lab(whole, "", "simple").splitlines()
    )


def _runs(python: str) -> list[LabRun]:
    return [a_run(at, CPU_RATIO) for at in POINTS if at[0] == python]


def kept(folder: Path, runs: list[LabRun]) -> None:
    provenance = {f"python {version}": program for version, program in PYTHONS.items()}
    cores = len(os.sched_getaffinity(0))
    write_results(folder / "it.lab.json", Results("nornir", True, 1, 1, cores, provenance, tuple(runs)))


def test_results_of_several_are_reported_again_without_naming_them(tmp_path: Path) -> None:
    kept(tmp_path, [a_run(at, CPU_RATIO) for at in POINTS])

    done = Typed(tmp_path)("lab", "nornir", "--results", "it.lab.json")

    assert (done.returncode, done.stderr) == (0, "")
    assert wording("lab.interpreter-alone-changes") in done.stdout


def test_results_are_not_gone_on_with_by_other_interpreters(tmp_path: Path) -> None:
    kept(tmp_path, _runs("3.11.7"))
    other = a_python(tmp_path / "python", "CPython 3.99.1")
    words = ("lab", "nornir", "--results", "it.lab.json", "--python", sys.executable, "--python", other)

    done = Typed(tmp_path)(*words)

    assert done.returncode == 2
    assert (
        "it.lab.json " + wording("lab.was-made-with-python", were="3.11.7, 3.13.0", now="3.") in done.stderr
    )
    done = Typed(tmp_path)(*words[:-2])

    assert done.returncode == 2
    assert (
        "it.lab.json " + wording("lab.was-made-with-python", were="3.11.7, 3.13.0", now="3.") in done.stderr
    )
    assert wording("lab.leave-python-out") in done.stderr


@pytest.mark.parametrize("n_runs", [0, 1])
def test_those_of_which_no_run_is_there_are_gone_on_with_too(tmp_path: Path, n_runs: int) -> None:
    file = tmp_path / "it.lab.json"
    kept(tmp_path, _runs("3.11.7")[:n_runs])
    results = read_results(file)
    assert results is not None
    named = [a_python(tmp_path / f"python{version}", f"CPython {version}") for version in PYTHONS]

    unnamed, going_on = on_interpreters(Nornir(), LabAsked(file), results)
    again, _ = on_interpreters(Nornir(), LabAsked(file, python=named[1], also=(named[0],)), results)

    assert isinstance(unnamed, OnInterpreters)
    assert unnamed.programs == PYTHONS
    assert (going_on.python, going_on.also) == ("/usr/bin/one", ("/usr/bin/other",))
    assert isinstance(again, OnInterpreters)
    assert again.programs == dict(zip(PYTHONS, named, strict=True))


@pytest.mark.parametrize("at", [(0.05, 100.0), ("3.12.1", 0.05, 100.0), ()])
def test_a_file_with_a_point_of_another_experiment_is_refused(tmp_path: Path, at: At) -> None:
    kept(tmp_path, [LabRun(at, 0, {"total_s": 1.0})])

    done = Typed(tmp_path)("lab", "nornir", "--results", "it.lab.json")

    assert (done.returncode, done.stdout) == (2, "")
    assert wording("lab.no-point-of-nornir") in done.stderr


def test_two_interpreters_of_one_version_are_refused(tmp_path: Path) -> None:
    done = Typed(tmp_path)("lab", "nornir", "--python", sys.executable, "--python", sys.executable)

    assert done.returncode == 2
    assert wording("lab.two-of-one-python") in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_python_without_a_gil_and_one_of_another_kind_are_versions_of_their_own(tmp_path: Path) -> None:
    lines = ["PyPy 3.13.0", "CPython 3.13.0t", "CPython 3.13.0", "CPython 3.9.2"]
    programs = [a_python(tmp_path / f"python{n}", one) for n, one in enumerate(lines)]

    assert list(by_version(programs)) == ["3.9.2", "3.13.0", "3.13.0t", "pypy3.13.0"]


def a_python(program: Path, text: str) -> str:
    """A program that says that it is this Python, and nothing else."""
    program.write_text(f"#!/bin/sh\necho '[\"{text}\", {{}}]'\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def test_a_run_is_made_by_the_interpreter_of_its_point() -> None:
    tools = tools_of(PiPools(), [], sys.executable)

    for at in POINTS:
        _, words, _ = tools.runnable(EXPERIMENT.job(at), Path("/programs"), print)
        assert words == [PYTHONS[str(at[0])]]
    _, words, _ = tools.runnable(Nornir().job(POINTS[0][1:]), Path("/programs"), print)
    assert words == [sys.executable]


def test_the_order_in_which_interpreters_are_named_does_not_matter(tmp_path: Path) -> None:
    names = [a_python(tmp_path / f"python{n}", f"CPython 3.9{n}.1") for n in (1, 2)]

    one, other = (tools_of(PiPools(), [], *order) for order in ((names[0], names[1:]), (names[1], names[:1])))

    assert one.interpreter == other.interpreter == "CPython 3.91.1, CPython 3.92.1"
