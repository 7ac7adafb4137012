"""The crash processor's layouts: what is made of windows whose cause is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tuner.adapters.virtual.simulator import simulate_all
from tuner.config.settings import Settings
from tuner.core.domain.layout import Layout, parse_layouts
from tuner.core.domain.records import WARMING_BLOCK, WindowRecord
from tuner.core.domain.window import VoidReason
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.lab.experiments import socorro_claims
from tuner.lab.experiments.experiment import SIMULATED, LabClaim, LabRun, Outcome, outcome
from tuner.lab.experiments.socorro import Socorro
from tuner.lab.experiments.socorro_runs import (
    CORES,
    FAR,
    HERE,
    PUBLISHED,
    REFERENCE,
    SINGLE,
    THREADED,
    demands_in,
    figures_of,
    point,
)
from tuner.lab.experiments.studied import StudyExperiment
from tuner.lab.lab import read_published
from tuner.lab.page import lab_picture
from tuner.lab.program import find_pythons
from tuner.lab.report import render_lab
from tuner.lab.studies import study_file

from ..wording import start_of, wording

SEEDS = read_published()
BOX = Machine(cores=2.0)
ITEM = Demands(gil_s=0.005, child_s=0.048, asleep_s=0.007)
PYTHONS = {"3.11": "/opt/3.11/bin/python", "3.13": "/opt/3.13/bin/python"}
Slow = Callable[[Layout, int], float]


def window(layout: Layout, block: int = 0, slow: float = 1.0, foreign_cores: float = 0.0) -> WindowRecord:
    """What the model says of a layout on BOX, as a window tells it; *slow* items take so much longer."""
    plain = replace(layout, variant="")
    result = figures_of(predict(ITEM, replace(BOX, foreign_cores=foreign_cores), [plain]), 0, plain, ITEM)
    length_s, n = 1000.0, result["items_per_10min"] / 600 / slow
    return WindowRecord(
        launch_id=1, block=block, layout=layout, box="a box", index=0, attempt=1, started_wall_s=0.0,
        length_s=length_s, n_done=round(n * length_s), n_failed=0, load1_mean=result["load"],
        load1_max=result["load"], n_active_mean=result["load"], service_cpu_s=n * ITEM.cpu_s * length_s,
        tuner_cpu_s=0.0, backend_cpu_s=0.0, foreign_cpu_s=foreign_cores * length_s, steal_s=0.0,
        pss_bytes=None, void=(), worker_cpu_s=n * ITEM.gil_s * length_s,
        child_cpu_s=n * ITEM.child_s * length_s, run_delay_s=0.0, running_s=0.0, blocked_s=0.0,
        gil_waiting_s=result["gil_waiting"] * length_s,
    )  # fmt: skip


def studied(
    *,
    quick: bool = False,
    n: int = 3,
    slow: Slow = lambda _layout, block: 1 + 0.002 * block,
    foreign: float = 0.0,
) -> list[LabRun]:
    """The runs of every study, each window as the model has it."""
    experiment, runs = Socorro(), []
    for study in experiment.studies(2, None, {} if quick else PYTHONS, quick=quick):
        layouts = parse_layouts(",".join(study.settings["study"]["layouts"]))
        windows = [window(one, block, slow(one, block), foreign) for block in range(n) for one in layouts]
        runs += experiment.runs_of(windows, BOX)
    return experiment.together(runs, simulate_all)


def socorro_outcome(runs: Sequence[LabRun], seeds: Any = SEEDS) -> Outcome:
    return outcome(Socorro(), seeds, runs)


def findings(found: Outcome, begins: str) -> list[LabClaim]:
    return [one for one in found.findings if one.claim.removeprefix("Not published: ").startswith(begins)]


@pytest.fixture(scope="module")
def runs() -> list[LabRun]:
    return studied()


@pytest.fixture(scope="module")
def whole(runs: list[LabRun]) -> Outcome:
    return socorro_outcome(runs)


def test_what_is_held_against_the_runs_stands_in_the_publication() -> None:
    block = SEEDS["socorro_2014"]
    said = " ".join(block["also"])

    assert block["machine"]["cores"] == CORES
    assert {Layout(one["processes"], one["threads"]) for one in block["layouts"]} == set(PUBLISHED)
    assert f"ran {socorro_claims.MOB[0]} to {socorro_claims.MOB[1]} times" in said
    assert f"nothing beyond {socorro_claims.ENOUGH_THREADS} threads" in said
    data = {str(Layout(one["processes"], one["threads"])): one for one in block["layouts"]}
    items = {name: one["items_per_10min"] for name, one in data.items()}
    assert data[str(socorro_claims.BEST)]["best"] is True
    assert [str(one) for one in socorro_claims.BETWEEN] == sorted(
        map(str, socorro_claims.BETWEEN), key=items.__getitem__, reverse=True
    )
    assert data["24x1"]["load"] == f"steady at {CORES}"
    assert data["1x24"]["load"] == f"rarely above {socorro_claims.MOST_LOAD:g}"
    light = data[str(socorro_claims.LIGHT)]["load"]
    assert light == wording("lab.load-x", value=f"{100 * socorro_claims.LIGHT_SHARE:.0f}")


def test_published_items_become_times_of_one_process_and_loads_numbers() -> None:
    result = Socorro().published(SEEDS)

    assert result[point(HERE, Layout(4, 6))] == {"ratio": 2.6}
    assert result[point(FAR, Layout(12, 2))] == pytest.approx(
        {"ratio": 2.0, "items_per_10min": 2000.0, "load": 19.2}
    )
    loads = {str(at[2]): result[at].get("load") for at in result if at[0] == FAR and at[3] in (1.0, 12.0)}
    assert loads == {"24.0": 24.0, "1.0": None, "2.0": None}  # "never above 16" is no load


def test_an_item_is_reported_by_the_clocks_of_1x1(runs: list[LabRun]) -> None:
    (alone,) = [run for run in runs if run.at == point(HERE, Layout(1, 1)) and run.block == 0]
    demands = demands_in(alone.values)

    assert demands is not None
    assert demands.gil_s == pytest.approx(ITEM.gil_s, rel=1e-3)
    assert demands.child_s == pytest.approx(ITEM.child_s, rel=1e-3)
    assert demands.waiting_s == pytest.approx(ITEM.waiting_s, rel=0.02)
    assert all(demands_in(run.values) is None for run in runs if run.at[2:] != (1.0, 1.0))


def test_the_model_has_seen_1x1_alone_and_says_the_others(whole: Outcome) -> None:
    fitted = [row.at for row in whole.rows if row.is_fitted]
    errors = {
        row.at: row.modelled["items_per_10min"] / row.of("items_per_10min") - 1
        for row in whole.rows
        if row.measured
    }

    assert {at[2:] for at in fitted} == {(1.0, 1.0)}
    assert {at[0] for at in fitted} == {HERE}
    assert len(fitted) == 2 + 2 * len(PYTHONS)
    assert max(abs(error) for at, error in errors.items() if at[0] == HERE) < 0.02
    assert max(abs(error) for at, error in errors.items() if at[0] == FAR) < 0.10
    assert wording("lab.socorro-shares") in whole.model


def test_everything_is_reported_in_times_of_one_process_of_many_threads(runs: list[LabRun]) -> None:
    for run in runs:
        (reference,) = [
            one for one in runs if one.at == point(str(run.at[0]), REFERENCE) and one.block == run.block
        ]
        expected = run.values["items_per_10min"] / reference.values["items_per_10min"]
        assert run.values["ratio"] == pytest.approx(expected, rel=0.005)


def test_windows_that_do_not_count_are_no_runs() -> None:
    layout = Layout(1, 24, THREADED)
    void = replace(window(layout), void=(VoidReason("dry", "nothing left"),))
    nothing = replace(window(layout), n_done=0)
    warming = replace(window(layout), block=WARMING_BLOCK)

    assert Socorro().runs_of([void, nothing, warming], BOX) == []


def test_the_published_figures_reach_nothing_but_their_column_and_what_is_held_against_it(
    runs: list[LabRun], whole: Outcome
) -> None:
    other = deepcopy(SEEDS)
    for one in other["socorro_2014"]["layouts"]:
        one["items_per_10min"] = 7 * one["processes"] + 100
    found = socorro_outcome(runs, other)

    assert [row.measured for row in found.rows] == [row.measured for row in whole.rows]
    assert [row.modelled for row in found.rows] == [row.modelled for row in whole.rows]
    assert found.follows == whole.follows
    assert [row.published for row in found.rows] != [row.published for row in whole.rows]


def test_two_cores_are_full_with_any_layout_and_24_are_not(whole: Outcome) -> None:
    here, far = findings(whole, wording("lab.claim-24-processes"))
    enough_here, enough_far = findings(whole, wording("lab.claim-past-12"))

    assert here.holds is False
    assert wording("lab.cores-stop-every-layout") in whole.follows
    assert enough_here.holds is True
    assert (
        wording("lab.points-are-fewest", n=2) in enough_here.why
        or wording("lab.points-are-fewest", n=4) in enough_here.why
    )
    assert far.holds is True
    assert wording("lab.one-process-stops-gil") in whole.follows
    assert enough_far.holds is False  # 12 threads leave the GIL idle a part of the time: 24 do not
    assert whole.follows.count(". ") == 11
    assert wording("lab.cores-box") in start_of(whole.follows)


def test_mixed_layouts_that_lie_closer_than_their_runs_are_not_told_apart(whole: Outcome) -> None:
    here, _far = findings(whole, wording("lab.claim-in-between"))
    best, _ = findings(whole, wording("lab.claim-published-best"))

    assert here.holds is None
    assert wording("lab.do-tell-them-apart") in here.why
    assert best.holds is None


def test_a_spawn_that_holds_the_gil_and_a_slower_interpreter_are_seen() -> None:
    def slow(layout: Layout, block: int) -> float:
        by_spawn = 1.3 if layout.variant.endswith("posix_spawn") else 1.0
        return by_spawn * (1.2 if layout.variant.startswith("3.11") else 1.0) * (1 + 0.002 * block)

    found = socorro_outcome(studied(slow=slow))
    (interpreters,) = findings(found, wording("lab.claim-interpreter"))
    (spawn,) = findings(found, wording("lab.claim-spawn-holds-gil"))

    assert interpreters.holds is False
    assert wording("lab.times-python") in interpreters.why
    assert spawn.holds is True


def test_interpreters_that_are_alike_and_a_queue_that_costs_nothing_are_reported(whole: Outcome) -> None:
    (interpreters,) = findings(whole, wording("lab.claim-interpreter"))
    (spawn,) = findings(whole, wording("lab.claim-spawn-holds-gil"))
    (queue,) = findings(whole, wording("lab.claim-one-thread-a-process"))

    assert (interpreters.holds, spawn.holds, queue.holds) == (True, None, True)


def test_runs_beside_others_tell_nothing() -> None:
    found = socorro_outcome(studied(quick=True, n=1, foreign=0.8))

    assert {one.holds for one in found.findings} == {None}
    assert wording("lab.too-little-run-undisturbed") in start_of(found.follows)
    assert all(row.is_disturbed for row in found.rows if row.measured)


def test_layouts_that_gave_no_window_are_left_out_of_claims_and_of_the_model() -> None:
    """Neither 1x24, by which all is told, nor 1x1, of which the model is made."""
    kept = [run for run in studied(quick=True) if run.at[0] == HERE and run.at[2] == 24.0]
    bare = [LabRun(run.at, run.block, {k: v for k, v in run.values.items() if k != "ratio"}) for run in kept]
    found = socorro_outcome(bare)

    assert {one.holds for one in found.findings} == {None}
    assert any(wording("lab.layout-not-run-undisturbed") in one.why for one in found.findings)
    assert wording("lab.too-little-run") in start_of(found.follows)
    assert found.model == wording("lab.no-model-without-1x1")
    assert render_lab(found, "", "simple")
    assert ElementTree.fromstring(lab_picture(found).svg(standalone=True)) is not None


@pytest.mark.parametrize("quick", [False, True])
def test_it_is_reported_and_drawn(quick: bool) -> None:
    found = socorro_outcome(studied(quick=quick, n=1))
    svg = ElementTree.fromstring(lab_picture(found).svg(standalone=True))
    result = [one.text or "" for one in svg.iter("{http://www.w3.org/2000/svg}title")][1:]
    csv = render_lab(found, "", "csv").splitlines()

    assert len(result) == len(csv) - 1 == len(found.rows)
    assert all(row.measured for row in found.rows if row.at[0] == FAR or row.published)


@pytest.mark.parametrize("quick", [False, True])
def test_its_studies_are_settings_that_hold(quick: bool, tmp_path: Path) -> None:
    experiment = Socorro()
    studies = experiment.studies(2, None, PYTHONS, quick=quick)
    for study in studies:
        settings = Settings.model_validate(study.settings, context={"folder": tmp_path})
        assert [*map(str, settings.layouts_for(2))] == study.settings["study"]["layouts"]

    assert [study.name for study in studies] == (["layouts"] if quick else ["layouts", "interpreters"])
    layouts = studies[0].settings["study"]["layouts"]
    assert {f"{layout}@{THREADED}" for layout in PUBLISHED} < set(layouts)
    assert f"1x1@{SINGLE}" in layouts
    assert not [
        one for one in layouts if one.endswith(SINGLE) and not one.startswith(("1x1@", "2x1", "4x1", "24x1"))
    ]


def test_what_is_not_compared_is_said() -> None:
    experiment = Socorro()
    assert isinstance(experiment, StudyExperiment)
    assert len(experiment.studies(2, "python3", {}, quick=False)) == 1
    assert experiment.left_out(None, PYTHONS, quick=False) == []
    for python, pythons, quick in ((None, PYTHONS, True), ("python3", {}, False), (None, {}, False)):
        assert re.fullmatch(
            r"[A-Z][^.]+(3\.1\d[^.]*)*\.", experiment.left_out(python, pythons, quick=quick)[0]
        )


def test_simulated_rows_are_no_measured_runs(runs: list[LabRun]) -> None:
    assert all((SIMULATED in run.values) == (run.at[0] == FAR) for run in runs)


def test_studies_are_kept_beside_the_results() -> None:
    assert study_file(Path("a/socorro-1.lab.json"), "layouts") == Path("a/socorro-1.layouts.tuner.db")
    assert study_file(Path("it"), "layouts") == Path("it.layouts.tuner.db")


def _python(path: Path, version: str) -> Path:
    """A program that answers as such a Python does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '[\"CPython {version}\", {{}}]'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_pythons_are_found_by_name_before_pyenvs_and_the_newest_of_those(tmp_path: Path) -> None:
    named = _python(tmp_path / "bin" / "python3.12", "3.12.4")
    shim = tmp_path / "bin" / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    for version in ("3.11.9", "3.11.10", "3.12.9", "3.13.0", "3.15.0"):
        _python(tmp_path / "pyenv" / "versions" / version / "bin" / "python", version)

    found = find_pythons({"PATH": str(tmp_path / "bin"), "PYENV_ROOT": str(tmp_path / "pyenv")})

    assert found == {
        "3.11": str(tmp_path / "pyenv/versions/3.11.10/bin/python"),
        "3.12": str(named),
        "3.13": str(tmp_path / "pyenv/versions/3.13.0/bin/python"),
        "3.15": str(tmp_path / "pyenv/versions/3.15.0/bin/python"),
    }
    assert find_pythons({"PATH": str(tmp_path), "HOME": str(tmp_path)}) == {}
