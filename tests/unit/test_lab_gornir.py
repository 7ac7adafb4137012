"""Goroutines, coroutines and threads: what is made of runs of them, and what of none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tuner.core.model.pools import PoolCosts
from tuner.lab.experiments.experiment import (
    GO,
    At,
    LabClaim,
    LabJob,
    LabRun,
    Outcome,
    needs_at,
    outcome,
    source_of,
)
from tuner.lab.experiments.gornir import Gornir
from tuner.lab.experiments.nornir import Nornir
from tuner.lab.lab import read_published
from tuner.lab.page import lab_picture
from tuner.lab.report import describe_host, lab_page, render_lab, render_lab_json
from tuner.lab.tools import tools_of
from tuner.reports.text.formats import table_formats

from ..wording import end_of, start_of, wording
from .lab_batches import batch_of

SEEDS = read_published()
COSTS = PoolCosts(0.25, 60e-6, 100e-6, 2e-3)
#: what a batch takes beside the wait: to start, in the run, of CPU (seconds)
BESIDE = {
    "Go 1": (0.01, 0.10, 0.12),
    "Go cores": (0.01, 0.05, 0.20),
    "Go 100": (0.01, 0.07, 0.27),
    "asyncio": (0.10, 0.30, 0.35),
}
Beside = Mapping[str, tuple[float, float, float]]


def a_run(at: At, beside: Beside = BESIDE, block: int = 0) -> LabRun:
    """A run as the model would have it, each block 1 ms later than the one before."""
    wait_s, pool = float(at[0]), str(at[1])
    if pool in beside:
        start_s, run_s, cpu_s = beside[pool]
        values = {"total_s": start_s + wait_s + run_s, "run_s": wait_s + run_s, "n_threads": 5.0}
        values |= {"n_procs": 2.0} if pool.startswith("Go") else {}
    else:
        batch = batch_of(wait_s, int(pool.split()[1]), COSTS)
        cpu_s = 0.7 + 3e-4 * batch.n_threads
        values = {"total_s": batch.total_s, "run_s": batch.total_s, "n_threads": float(batch.n_threads)}
    values["total_s"] += 1e-3 * block
    values |= {"user_s": 0.6 * cpu_s, "system_s": 0.4 * cpu_s, "cpu_s": cpu_s}
    return LabRun(at, block, {**values, "cpu_percent": 100 * cpu_s / values["total_s"]})


def gornir_outcome(
    seeds: Mapping[str, Any] = SEEDS, beside: Beside = BESIDE, *, n: int = 3, without: str = "nobody"
) -> Outcome:
    """What one run of each point comes to, or three: their middle is the same, hence the fit, too."""
    points = Gornir().points(list(Gornir().published(SEEDS)), quick=False)
    points = [at for at in points if not str(at[1]).startswith(without)]
    blocks = {1: [1], 3: [0, 1, 2]}[n]
    return outcome(Gornir(), seeds, [a_run(at, beside, block) for block in blocks for at in points])


@pytest.fixture(scope="module")
def whole() -> Outcome:
    return gornir_outcome()


def verdicts(found: Outcome) -> list[bool | None]:
    return [finding.holds for finding in found.findings]


def finding_of(found: Outcome, words: str) -> LabClaim:
    (one,) = (finding for finding in found.findings if words in finding.claim)
    return one


def test_all_pools_stand_in_one_table_wait_by_wait(whole: Outcome) -> None:
    pools = [str(row.at[1]) for row in whole.rows[:9]]

    assert len(whole.rows) == 36
    assert pools[:4] == ["Go 1", "Go cores", "Go 100", "asyncio"]
    assert pools[4:] == [f"nornir {n}" for n in (500, 1000, 2000, 5000, 10_000)]
    assert [row.published.get("total_s") for row in whole.rows[:5]] == [0.158, 0.111, 0.139, None, 1.389]


def test_its_source_is_that_of_the_table_beside(whole: Outcome) -> None:
    assert wording("lab.article-of-nornir") in start_of(whole.source)
    assert source_of(Nornir(), SEEDS) == SEEDS["nornir_2020"]["source"]


@pytest.mark.parametrize(
    ("pool", "job"),
    [
        ("Go 1", LabJob("goroutine_pool.go", (), {"GOMAXPROCS": "1"}, needs=(GO,))),
        ("Go cores", LabJob("goroutine_pool.go", (), {"GOMAXPROCS": ""}, needs=(GO,))),
        ("asyncio", LabJob("nornir_pool.py", ("--pool", "asyncio", "--workers", "10000"))),
        ("nornir 500", LabJob("nornir_pool.py", ("--workers", "500"), needs=("nornir",))),
    ],
)
def test_each_pool_has_its_program_and_its_own_needs(pool: str, job: LabJob) -> None:
    found = Gornir().job((0.1, pool))

    assert (found.program, found.environment, found.needs) == (job.program, job.environment, job.needs)
    assert {"--wait-s", "0.1", "--tasks", "10000", *job.options} == set(found.options)


def test_the_model_sees_the_shortest_waits_and_the_corners_and_tells_the_others(whole: Outcome) -> None:
    errors = whole.errors("total_s")

    assert sorted(map(str, (row.at for row in whole.rows if row.is_fitted))) == [
        "(0.05, 'Go 1')", "(0.05, 'Go 100')", "(0.05, 'Go cores')", "(0.05, 'asyncio')",
        "(0.05, 'nornir 10000')", "(0.05, 'nornir 500')", "(1.0, 'nornir 10000')", "(1.0, 'nornir 500')",
    ]  # fmt: skip
    assert len(errors) == 28
    assert max(map(abs, errors.values())) < 0.05
    assert wording("lab.go-ms-start-end") in whole.model


def test_the_published_figures_reach_nothing_but_their_column_and_what_is_held_against_it(
    whole: Outcome,
) -> None:
    other = deepcopy(SEEDS)
    for name in ("gornir_2020", "nornir_2020"):
        for row in other[name]["rows"]:
            row[2:] = [3 * value for value in row[2:]]
    found = gornir_outcome(other)

    assert [row.measured for row in found.rows] == [row.measured for row in whole.rows]
    assert [row.modelled for row in found.rows] == [row.modelled for row in whole.rows]
    assert found.follows == whole.follows
    assert [row.published for row in found.rows] != [row.published for row in whole.rows]


def test_claims_hold_where_it_is_as_published(whole: Outcome) -> None:
    assert verdicts(whole) == [True] * 6
    assert wording("lab.ms-s-mean-waits") in end_of(finding_of(whole, "GOMAXPROCS 100 saves").claim)
    assert "+20 ms" in finding_of(whole, "GOMAXPROCS 100 saves").why


def test_claims_do_not_hold_where_it_is_otherwise() -> None:
    """One processor is faster than two, a hundred faster still; threads beat what is very slow."""
    slow = {
        "Go 1": (0.0, 7.0, 9.0),
        "Go cores": (0.0, 8.0, 20.0),
        "Go 100": (0.0, 6.0, 27.0),
        "asyncio": (0.1, 30.0, 30.0),
    }
    found = gornir_outcome(beside=slow)

    assert verdicts(found) == [True, False, False, False, False, False]


def test_a_constant_that_grows_with_the_wait_is_none(whole: Outcome) -> None:
    runs = []
    for at in (row.at for row in whole.rows if "nornir" not in str(row.at[1])):
        for block in range(3):
            run, more_s = a_run(at, block=block), float(at[0]) if str(at[1]).startswith("Go") else 0.0
            runs.append(replace(run, values={**run.values, "total_s": run.values["total_s"] + more_s}))

    assert outcome(Gornir(), SEEDS, runs).findings[0].holds is False


def test_runs_that_overlap_and_single_runs_cannot_tell_some_milliseconds() -> None:
    alike = {**BESIDE, "Go 1": BESIDE["Go cores"], "Go 100": BESIDE["Go cores"]}

    assert verdicts(gornir_outcome(beside=alike, without="nornir"))[:3] == [True, None, None]
    assert verdicts(gornir_outcome(n=1)) == [None, None, None, True, True, True]


def test_a_hundred_that_may_be_sooner_by_more_than_a_little_is_not_known_to_gain_no_time() -> None:
    """All runs cost more CPU; in one of three a hundred took a tenth less time."""
    runs = []
    for at in ((wait, pool) for wait in (0.05, 0.1) for pool in ("Go 1", "Go cores", "Go 100")):
        for block in range(3):
            run, sooner_s = a_run(at, block=block), 0.1 * float(at[0]) + 0.04 if block == 1 else 0.0
            if at[1] == "Go 100":
                run = replace(run, values={**run.values, "total_s": run.values["total_s"] - sooner_s})
            runs.append(run)

    assert finding_of(outcome(Gornir(), SEEDS, runs), "GOMAXPROCS 100 saves").holds is None


@pytest.mark.parametrize(
    ("without", "cannot"),
    [("nornir", [3, 4, 5]), ("Go", [0, 1, 2, 3, 4, 5]), ("asyncio", [5])],
)
def test_what_was_not_run_is_reported_by_each_finding(without: str, cannot: list[int]) -> None:
    found = gornir_outcome(without=without)

    assert [n for n, holds in enumerate(verdicts(found)) if holds is None] == cannot
    assert all("not" in found.findings[n].why for n in cannot)
    assert found.follows.startswith("The CPU time of the process, ")
    assert "<svg" in lab_picture(found).svg()


def test_it_is_reported_in_every_format(whole: Outcome) -> None:
    for fmt in table_formats():
        assert "asyncio" in render_lab(whole, "Here.", fmt)
    assert lab_page(whole, "Here.", "it.svg", "it.csv", "tuner lab gornir")
    assert '"holds": true' in render_lab_json([(whole, {})])


def test_the_box_is_reported_with_what_some_runs_needed_and_what_was_left_out() -> None:
    box = {"worker_python": "CPython 3.12.1", "go": "1.26.8", "cpu": "a CPU"}
    left_out = ["20 points left out: nornir is not installed for python3."]
    points: list[At] = [(0.1, "Go 1"), (0.1, "Go 100"), (0.1, "asyncio")]
    lines = describe_host(
        Gornir(), box, 2, 3, repeats=1, quick=False, also=needs_at(Gornir(), points), left_out=left_out
    )

    assert wording("lab.cpython-go-cores-cpu") in lines
    assert lines.endswith(left_out[0])


class OfElsewhere(Nornir):
    """A need of every point that no Python has."""

    needs = ()

    def job(self, at: At) -> LabJob:
        return replace(super().job(at), needs=("no-such-package",))


def test_a_need_that_is_not_there_leaves_its_points_out() -> None:
    python = sys.executable
    points: list[At] = [(0.1, 100.0), (0.1, 200.0), (0.1, 100.0)]
    tools = tools_of(OfElsewhere(), points, python)

    assert tools.left_out == (wording("lab.points-left-out-package", python=python),)
    assert not tools.can_run(OfElsewhere().job(points[0]))
    assert tools.can_run(LabJob("it.py", ()))
    assert tools.hint.startswith("pip install 'proctuner[lab]'")
