"""Published experiments: what is made of the runs, and that the published figures stay in their column."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tuner.adapters.proc.cores import usable_cores
from tuner.core.errors import ConfigError
from tuner.core.model.pools import PoolCosts
from tuner.lab.experiments import EXPERIMENTS
from tuner.lab.experiments.experiment import At, Experiment, LabRun, Outcome, in_blocks, outcome
from tuner.lab.experiments.nornir import Nornir, fewest_enough
from tuner.lab.experiments.verdicts import Ratio, over
from tuner.lab.lab import find_experiment, read_published
from tuner.lab.page import lab_picture
from tuner.lab.report import describe_host, lab_page, render_lab, render_lab_json, render_list
from tuner.lab.results import Results, read_results, write_results
from tuner.reports.documents import render_document
from tuner.reports.text.formats import table_formats

from ..e2e.typed import Typed
from ..raising import raises
from ..wording import key_of, start_of, wording
from .lab_batches import batch_of

SEEDS = read_published()
COSTS = PoolCosts(0.25, 150e-6, 200e-6, 3e-3)  # slower than what was published of


def nornir_run(at: At, block: int = 0, factor: float = 1.0) -> LabRun:
    """A run as the model would have it, with these costs."""
    batch = batch_of(float(at[0]), int(at[1]), COSTS)
    cpu = {"user_s": 0.5 + 1e-4 * batch.n_threads, "system_s": 0.2 + 2e-4 * batch.n_threads}
    total_s = factor * batch.total_s
    percent = 100 * sum(cpu.values()) / total_s
    return LabRun(
        at,
        block,
        {
            "total_s": total_s,
            **cpu,
            "cpu_s": sum(cpu.values()),
            "cpu_percent": percent,
            "n_threads": float(batch.n_threads),
            "usable_cores": 2.0,
        },
    )


def nornir_outcome(seeds: Mapping[str, Any] = SEEDS, *, quick: bool = False, n: int = 1) -> Outcome:
    """What *n* runs of each point come to, an odd number: all have the same middle, hence the same fit."""
    experiment = Nornir()
    points = experiment.points(list(experiment.published(SEEDS)), quick=quick)
    runs = [nornir_run(at, block, 1 + 0.01 * (block - n // 2)) for block in range(n) for at in points]
    return outcome(experiment, seeds, runs)


@pytest.fixture(scope="module")
def whole() -> Outcome:
    return nornir_outcome(n=3)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_an_experiment_repeats_what_was_published(experiment: Experiment) -> None:
    result = experiment.published(SEEDS)
    points = experiment.points(list(result), quick=False)
    quick = experiment.points(list(result), quick=True)
    keys = {figure.key for figure in experiment.figures}

    assert set(result) <= set(points)
    assert 0 < len(quick) < len(points)
    assert all(len(at) == len(experiment.parameters) for at in points)
    assert all(figures.keys() <= keys for figures in result.values())
    assert experiment.figures[0].key in keys & set(next(iter(result.values())))


def test_each_block_has_each_point_once_in_an_order_of_its_own() -> None:
    points: list[At] = [(float(n),) for n in range(12)]
    order = in_blocks(points, 3, seed=1)

    assert Counter(at for _, at in order) == dict.fromkeys(points, 3)
    assert [block for block, _ in order] == sorted(block for block, _ in order)
    blocks = [[at for block, at in order if block == one] for one in range(3)]
    assert len({tuple(block) for block in blocks}) == 3
    assert in_blocks(points, 3, seed=1) == order
    assert in_blocks(points, 3, seed=2) != order


def test_a_row_has_the_middle_of_its_runs_and_how_far_they_lie_apart(whole: Outcome) -> None:
    row = next(row for row in whole.rows if row.at == (0.05, 100.0))
    spread = row.measured["total_s"]
    middle_s = nornir_run(row.at).values["total_s"]

    assert spread.n == 3
    assert (spread.low, spread.median, spread.high) == pytest.approx(
        (0.99 * middle_s, middle_s, 1.01 * middle_s)
    )
    assert row.published["total_s"] == 5.532


def test_the_model_is_fitted_to_the_corners_and_tells_the_others(whole: Outcome) -> None:
    errors = whole.errors("total_s")

    assert sorted(row.at for row in whole.rows if row.is_fitted) == [
        (0.05, 100.0), (0.05, 10_000.0), (1.0, 100.0), (1.0, 10_000.0)
    ]  # fmt: skip
    assert len(errors) == 28
    assert max(map(abs, errors.values())) < 0.05


def test_the_published_figures_reach_nothing_but_their_column_and_what_is_held_against_it(
    whole: Outcome,
) -> None:
    other = deepcopy(SEEDS)
    for row in other["nornir_2020"]["rows"]:
        row[2:] = [3 * value for value in row[2:]]
    found = nornir_outcome(other, n=3)

    assert [row.measured for row in found.rows] == [row.measured for row in whole.rows]
    assert [row.modelled for row in found.rows] == [row.modelled for row in whole.rows]
    assert found.follows == whole.follows
    assert [row.published for row in found.rows] != [row.published for row in whole.rows]


def test_a_published_knee_is_held_against_the_measured_one(whole: Outcome) -> None:
    """With these costs, 500 workers are enough for 50 ms: the table says 1000."""
    here = whole.findings[0]
    agreeing = deepcopy(SEEDS)
    for row in agreeing["nornir_2020"]["rows"]:
        row[-1] = nornir_run((row[0], row[1])).values["total_s"]

    assert wording("lab.waits-ms-numbers-workers") in start_of(here.claim)
    assert here.holds is False
    assert all(finding.holds for finding in nornir_outcome(agreeing, n=3).findings[:4])


def test_one_run_of_each_tells_no_knee() -> None:
    assert nornir_outcome(n=1).findings[0].holds is None


def test_runs_that_differ_on_what_is_enough_tell_no_knee() -> None:
    """One run of three of the fewest that are enough takes half as long again, where tasks wait for 0.3 s."""
    agreeing = deepcopy(SEEDS)
    for row in agreeing["nornir_2020"]["rows"]:
        row[-1] = nornir_run((row[0], row[1])).values["total_s"]
    experiment = Nornir()
    points = experiment.points(list(experiment.published(SEEDS)), quick=False)
    totals = {int(at[1]): nornir_run(at).values["total_s"] for at in points if at[0] == 0.3}
    knee = (0.3, float(fewest_enough(totals)))
    runs = [
        nornir_run(at, block, 1.5 if block == 1 and at == knee else 1.0)
        for block in range(3)
        for at in points
    ]

    knees = outcome(experiment, agreeing, runs).findings[:4]
    assert [one.holds for one in knees] == [True, True, None, True]


@pytest.mark.parametrize(("dearer_up_to_s", "holds"), [(1.0, True), (0.1, None)], ids=["all", "some"])
def test_what_workers_past_enough_cost_is_judged_by_all_waits(
    whole: Outcome, dearer_up_to_s: float, holds: bool | None
) -> None:
    runs = []
    for row in whole.rows:
        wait_s, n_workers = row.at
        dearer_s = 1e-3 * float(n_workers) if float(wait_s) <= dearer_up_to_s else 0.0
        for block in range(3):
            run = nornir_run(row.at, block)
            runs.append(LabRun(row.at, block, {**run.values, "cpu_s": 0.5 + dearer_s}))

    (found,) = (
        one
        for one in outcome(Nornir(), SEEDS, runs).findings
        if one.claim.startswith("More workers than needed")
    )
    assert found.holds is holds


@pytest.mark.parametrize(
    ("cores", "n_blocks", "percent", "holds"),
    [(1.0, 3, 130.0, None), (2.0, 3, 130.0, True), (2.0, 3, 90.0, False), (2.0, 1, 130.0, None)],
)
def test_more_than_a_core_takes_two_and_several_runs(
    cores: float, n_blocks: int, percent: float, holds: bool | None
) -> None:
    runs = []
    for at in ((0.05, 100.0), (0.05, 10_000.0)):
        for block in range(n_blocks):
            run = nornir_run(at, block)
            runs.append(LabRun(at, block, {**run.values, "cpu_percent": percent, "usable_cores": cores}))

    assert outcome(Nornir(), SEEDS, runs).findings[-1].holds is holds


def test_points_that_were_not_run_stay_published(whole: Outcome) -> None:
    quick = nornir_outcome(quick=True)

    assert len(quick.rows) == len(whole.rows) == 32
    assert sum(1 for row in quick.rows if row.measured) == 15
    assert all(row.modelled for row in quick.rows if row.measured)


@pytest.mark.parametrize("fmt", [one for one in table_formats() if one not in ("csv", "tsv")])
def test_it_is_reported_in_every_format(whole: Outcome, fmt: str) -> None:
    result = render_lab(whole, "Measured here: somewhere.", fmt)

    assert "5.532" in result
    assert "somewhere" in result


def test_people_read_a_table_and_then_what_was_claimed(whole: Outcome) -> None:
    box = describe_host(
        whole.experiment,
        {"worker_python": "CPython 3.11.7", "nornir": "3.6.0", "cpu": "a CPU"},
        2,
        96,
        repeats=3,
        quick=False,
    )
    lines = render_lab(whole, box, "simple").splitlines()

    assert lines[0] == wording("lab.title-of-nornir")
    assert wording("lab.nornir-cores-cpu") in lines[4]
    (row,) = (line for line in lines if line.split()[:3] == ["0.05", "100", "5.532"])
    assert row.split()[-1] == "*"  # the model was fitted to it
    assert any(line.startswith(wording("lab.model-fitted-measured-rows")) for line in lines)
    verdicts = [line.partition(": ")[0] for line in lines]
    assert sum(one.endswith(("confirmed here", wording("lab.does-hold-here"))) for one in verdicts) == 6
    assert sum(one.endswith(wording("lab.cannot-be-told-by-these-runs")) for one in verdicts) == 1


def test_the_picture_has_a_mark_for_each_row_and_tells_its_figures(whole: Outcome) -> None:
    svg = ElementTree.fromstring(lab_picture(whole).svg(standalone=True))
    result = [one.text or "" for one in svg.iter("{http://www.w3.org/2000/svg}title")][1:]

    assert len(result) == 32
    first_s = whole.rows[0].of("total_s")
    assert wording("lab.row-of-nornir", seconds=f"{first_s:.3f}") in start_of(result[0])


def test_the_page_begins_with_what_one_learns_and_has_the_picture(whole: Outcome) -> None:
    blocks = lab_page(whole, "Measured here: x.", "it.svg", "it.csv", "tuner lab nornir")
    page = render_document(blocks, "markdown")

    assert wording("lab.page-of-nornir-begins") in start_of(page)
    assert "](it.svg)" in page
    assert "it.csv" in page
    assert wording("lab.sh-tuner-lab-nornir") in page
    assert page.count("\n- ") == 7


def test_csv_has_every_figure(whole: Outcome) -> None:
    head, *rows = render_lab(whole, "", "csv").splitlines()

    assert wording("lab.columns-of-csv") in start_of(head)
    assert len(set(head.split(","))) == len(head.split(","))
    assert len(rows) == 32


def test_programs_read_json_without_nan(whole: Outcome) -> None:
    text = render_lab_json([(whole, {"quick": False, "repeats": 3, "seed": 1, "cores": 2, "provenance": {}})])
    (facts,) = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))["experiments"]

    assert facts["rows"][0]["at"] == {"wait s": 0.05, "workers": 100.0}
    assert facts["rows"][0]["measured"]["total_s"]["n"] == 3
    assert 0 <= facts["model"]["mean_error_ratio"] < 0.05
    assert [finding["holds"] for finding in facts["findings"]].count(None) == 1


def test_the_list_names_every_experiment_with_its_source() -> None:
    result = render_list([(one, "somebody, some day") for one in EXPERIMENTS], "simple")

    assert all(one.name in result for one in EXPERIMENTS)
    assert "somebody, some day" in result


def test_an_experiment_that_is_not_there_is_reported_with_the_nearest() -> None:
    with raises(ConfigError, wording("lab.experiment-called-nornri")) as result:
        find_experiment("nornri")
    assert result.value.hint == wording("command-line.did-you-mean", meant="nornir")


def test_a_package_that_is_missing_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)

    alone = Typed(tmp_path)("lab", "nornir", "--quick", "--python", bare)

    assert alone.returncode == 2
    assert wording("lab.nornir-not-installed", bare=bare) in start_of(alone.stderr)
    assert list(tmp_path.glob("*.lab.json")) == []


def test_a_row_over_itself_is_one_however_far_its_runs_lie_apart(whole: Outcome) -> None:
    assert over(whole.rows[0], whole.rows[0], "total_s") == Ratio(1.0, 1.0, 1.0)


@pytest.mark.parametrize("page", ["/", ".", "it.svg", "no/such/folder/it.md"])
def test_a_page_that_cannot_be_written_is_reported_before_anything_runs(tmp_path: Path, page: str) -> None:
    done = Typed(tmp_path)("lab", "pi-pools", "--page", page)

    assert done.returncode == 2
    assert done.stderr.startswith(("Error: --page", "Error: invalid --page"))
    assert list(tmp_path.iterdir()) == []


RESULTS = Results("nornir", True, 2, 7, 2, {"cpu": "a CPU"}, (nornir_run((0.05, 200.0)),))


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "it.lab.json"
    more = RESULTS.with_run(LabRun(("local", 3.0), 1, {"total_s": 0.1}))
    write_results(file, more)

    assert read_results(file) == more
    assert read_results(tmp_path / "none.lab.json") is None


@pytest.mark.parametrize(
    ("cores", "provenance", "text"),
    [
        (9999, {}, wording("lab.begun-with", setting="cores", value=9999)),
        (
            max(1, int(usable_cores().count)),
            {"tuner": "0.0"},
            wording("lab.begun-with", setting="tuner", value="0.0"),
        ),
    ],
    ids=key_of,
)
def test_runs_of_other_cores_or_another_tuner_are_not_gone_on_with(
    tmp_path: Path, cores: int, provenance: dict[str, str], text: str
) -> None:
    one = LabRun(("C", "computes", "own threads", "alone"), 0, {"ratio": 1.0})
    write_results(tmp_path / "it.lab.json", Results("pi-pools", True, 1, 1, cores, provenance, (one,)))

    done = Typed(tmp_path)("lab", "pi-pools", "--results", "it.lab.json")

    assert done.returncode == 2
    assert text in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", wording("lab.reads-as-no-results")),
        ("[]", wording("lab.reads-as-no-results")),
        ('{"tuner_lab": 2}', wording("lab.reads-as-no-results")),
        ('{"tuner_lab": 1}', wording("lab.other-version", version=1)),
        ('{"tuner_lab": 3}', wording("lab.other-version", version=3)),
        (
            '{"tuner_lab": 2, "name": "nornir", "quick": true, "repeats": "many"}',
            wording("lab.reads-as-no-results"),
        ),
        (
            '{"tuner_lab": 2, "name": "nornir", "quick": true, "repeats": 0, "seed": 1, "cores": 2, '
            '"provenance": {}, "runs": []}',
            wording("lab.reads-as-no-results"),
        ),
        ("[" * 100_000, wording("lab.reads-as-no-results")),
    ],
    ids=key_of,
)
def test_another_file_is_reported_and_left_alone(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "notes.json"
    file.write_text(text, encoding="utf-8")

    with raises(ConfigError, why):
        read_results(file)
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("number", ["1e999", "NaN"])
@pytest.mark.parametrize("key", ["repeats", "total_s", "units"])
def test_numbers_without_end_are_no_results(tmp_path: Path, key: str, number: str) -> None:
    file = tmp_path / "it.lab.json"
    run = LabRun((0.05, 500.0), 0, {"total_s": 7.0})
    write_results(file, Results("nornir", True, 7, 1, 2, {}, (run,), calibration={"units": 7.0}))
    text = file.read_text(encoding="utf-8")
    wrong = re.sub(rf'"{key}": 7(\.0)?', f'"{key}": {number}', text)
    file.write_text(wrong, encoding="utf-8")

    assert wrong != text
    with raises(ConfigError, wording("lab.reads-as-no-results")):
        read_results(file)
