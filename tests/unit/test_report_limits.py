"""What is printed of limits, objectives and fronts."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from dataclasses import replace

import pytest

from tuner.core.domain.layout import parse_layout
from tuner.core.domain.limits import Limit
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.ranking import rank
from tuner.reports.ranking.ranking import render_ranking, verdict
from tuner.reports.text.formats import table_formats

from ..printed import printed
from ..wording import start_of, wording

#: layout -> items, load, memory: 12x2 matches 24x1 for less; 2x12 is beaten by 4x6; 8x3 lies near 16.5
TRUTH = {
    "24x1": (2600.0, 24.0, 1.2e9), "12x2": (2598.0, 19.2, 0.7e9), "8x3": (2300.0, 16.4, 0.5e9),
    "4x6": (2100.0, 9.0, 0.2e9), "2x12": (1600.0, 10.0, 0.1e9),
}  # fmt: skip
STUDY = StudyRecord(
    service="crash-processor", strategy="all", layouts=tuple(map(parse_layout, TRUTH)), cores=24,
    box_cores=24.0, window_s=600.0, warmup_s=None, n_blocks=4, windows_per_launch=2, seed=1, budget_s=None,
    created_wall_s=1_790_000_000.0, config=StoredConfig("{}"), provenance=Provenance(host="stage-1"),
)  # fmt: skip
LOAD, MEMORY = Limit("load", 16.5), Limit("memory_bytes", 1e9)


def windows() -> list[WindowRecord]:
    noise, taken = random.Random(7), []
    for block in range(4):
        for number, (text, (items, load, memory)) in enumerate(TRUTH.items()):
            launch_id = 1 + block * len(TRUTH) + number
            seen = load * (1 + 0.008 * noise.gauss(0, 1))
            taken += [
                WindowRecord(
                    launch_id=launch_id, block=block, layout=parse_layout(text), box="stage-1", index=index,
                    attempt=1, started_wall_s=0.0, length_s=600.0,
                    n_done=round(items * (1 + 0.004 * noise.gauss(0, 1))), n_failed=0, load1_mean=load,
                    load1_max=1.2 * load, n_active_mean=seen, service_cpu_s=500 * load, tuner_cpu_s=1.0,
                    backend_cpu_s=0.0, foreign_cpu_s=3.0, steal_s=0.0, pss_bytes=memory + 1e6 * index,
                    void=(), n_active_from_load1=seen,
                )
                for index in range(2)
            ]  # fmt: skip
    return taken


def asked(**question: object) -> Ranking:
    return rank(STUDY, windows(), **question)  # type: ignore[arg-type]


CASES = {
    "limits": {"limits": (LOAD, MEMORY), "current": parse_layout("24x1")},
    "pareto": {"costs": ("load", "memory")},
    "per_cpu": {"objective": "throughput-per-cpu", "costs": ("cpu",), "current": parse_layout("2x12")},
}


@pytest.mark.parametrize("fmt", ["simple", "markdown", "csv", "json"])
@pytest.mark.parametrize("case", CASES)
def test_what_was_asked_looks_as_it_should(case: str, fmt: str) -> None:
    rendered = render_ranking(STUDY, asked(**CASES[case]), fmt)

    assert to_ten_digits(rendered) == printed("rank", f"{case}.{fmt}")


def to_ten_digits(text: str) -> str:
    """The last digits are those of a Python (3.12 adds floats more exactly) and of a C library."""
    return re.sub(r"\d+\.\d{6,}", lambda number: f"{float(number[0]):.10g}", text)


@pytest.mark.parametrize("case", CASES)
def test_the_tables_for_people_fit_a_hundred_columns(case: str) -> None:
    rendered = render_ranking(STUDY, asked(**{**CASES[case], "current": None}), "simple")
    tables = [part for part in rendered.split("\n\n") if "---" in part]

    assert len(tables) > 1
    assert max(len(line) for table in tables for line in table.splitlines()) <= 100


@pytest.mark.parametrize("fmt", [name for name in table_formats() if name not in ("csv", "tsv")])
def test_every_format_carries_the_finding_and_what_may_win(fmt: str) -> None:
    rendered = render_ranking(STUDY, asked(costs=("load",), limits=(Limit("load", 30.0),)), fmt)
    plain = rendered.replace("\\", "").replace("&#37;", "%")

    assert wording("rank.matches-within") in plain
    assert wording("rank.load-most") in plain


def test_the_best_is_best_of_what_keeps_the_limits() -> None:
    assert wording("rank.what-keeps-memory-most") in start_of(
        verdict(asked(limits=(MEMORY, Limit("load", 30.0))))
    )
    assert verdict(asked(limits=(Limit("load", 1.0),))) == wording(
        "rank.no-layout-keeps", limits=wording("rank.limit", quantity="load", value=1)
    )


def test_a_faster_layout_that_is_not_decided_is_named_with_what_would_decide_it() -> None:
    rendered = render_ranking(STUDY, asked(limits=(LOAD,)), "simple")

    assert wording("rank.measured-better-load-open") in rendered
    assert wording("rank.more-launches-would-tell") in rendered


def test_where_nothing_is_shown_to_keep_the_limits_what_is_open_is_named() -> None:
    rendered = render_ranking(STUDY, asked(limits=(Limit("load", 9.0),)), "simple")

    assert wording("rank.no-layout-keeps", limits=wording("rank.limit", quantity="load", value=9)) in rendered
    assert wording("rank.measured-load-open") in rendered


def test_many_open_layouts_are_not_told_one_by_one() -> None:
    one_block = [window for window in windows() if window.block == 0]
    rendered = render_ranking(STUDY, rank(STUDY, one_block, limits=(Limit("load", 9.0),)), "simple")

    assert rendered.count(wording("rank.launches-own-must-tell")) == 3
    assert wording("rank.same-open-more-layouts") in rendered


def test_json_has_the_figures_behind_each_verdict_and_each_front() -> None:
    content = json.loads(render_ranking(STUDY, asked(**CASES["limits"], costs=("load",)), "json"))
    first = content["layouts"][0]
    [front] = content["pareto"]

    assert content["study"]["limits"] == {"load": 16.5, "memory_bytes": 1e9}
    assert first["limits"]["verdict"] == "within"
    assert (
        first["limits"]["load"]["low"]
        < first["limits"]["load"]["mean"]
        < first["limits"]["load"]["high"]
        < 16.5
    )
    assert {row["layout"]: row["limits"]["verdict"] for row in content["layouts"]} == {
        "4x6": "within", "2x12": "within", "8x3": "open", "12x2": "beyond", "24x1": "beyond",
    }  # fmt: skip
    assert (front["cost"], front["reference"], front["within_ratio"]) == ("load", "4x6", 0.02)
    assert [row["layout"] for row in front["layouts"]] == ["4x6", "2x12"]
    assert front["layouts"][1]["on_front"] is False
    assert front["layouts"][1]["dominated_by"] == "4x6"


def test_columns_of_limits_and_fronts_are_there_only_when_requested() -> None:
    plain = render_ranking(STUDY, asked(), "csv").splitlines()[0]
    rows = list(
        csv.DictReader(io.StringIO(render_ranking(STUDY, asked(**CASES["limits"], costs=("load",)), "csv")))
    )

    assert "may_win" not in plain
    assert {row["layout"]: row["may_win"] for row in rows}["8x3"] == "open"
    assert {row["layout"]: row["on_load_front"] for row in rows} == {
        "4x6": "yes", "2x12": "no", "8x3": "", "12x2": "", "24x1": "",
    }  # fmt: skip


def test_a_service_without_memory_figures_says_so_instead_of_a_front() -> None:
    bare = [replace(window, pss_bytes=None) for window in windows()]
    rendered = render_ranking(STUDY, rank(STUDY, bare, costs=["memory"]), "simple")

    assert wording("rank.what-more-memory-buys-known") in rendered
