from __future__ import annotations

import csv
import io
import json
import random
import re
from dataclasses import replace
from itertools import product

import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.ranking import rank
from tuner.core.stats.groups import OfBest
from tuner.core.stats.interval import Estimate
from tuner.reports.ranking.ranking import notes, render_ranking, verdict
from tuner.reports.ranking.ranking_cells import beside_cell, items_cell, ratio_cell
from tuner.reports.text.formats import table_formats

from ..printed import printed
from ..wording import start_of, wording

pytestmark = pytest.mark.pythons

TRUTH = {"4x6": 2600.0, "24x1": 2590.0, "1x24": 1000.0, "2x12@gevent": 1800.0, "8x3": 0.0}


def study_of(layouts: dict[str, float], *, cores: int = 24, box_cores: float = 24.0) -> StudyRecord:
    return StudyRecord(
        service="crash-processor",
        strategy="all",
        layouts=tuple(map(parse_layout, layouts)),
        cores=cores,
        box_cores=box_cores,
        window_s=600.0,
        warmup_s=None,
        n_blocks=3,
        windows_per_launch=1,
        seed=1,
        budget_s=None,
        created_wall_s=1_790_000_000.0,
        config=StoredConfig('{"service": {"kind": "crash-processor"}}'),
        provenance=Provenance(host="stage-1"),
    )


def window(
    layout: Layout, block: int, items: float, launch_id: int, void: tuple[VoidReason, ...]
) -> WindowRecord:
    return WindowRecord(
        launch_id=launch_id,
        block=block,
        layout=layout,
        box="stage-1",
        index=0,
        attempt=1,
        started_wall_s=1_790_000_000.0 + 700 * launch_id,
        length_s=600.0,
        n_done=round(items),
        n_failed=0,
        load1_mean=layout.processes * 0.9,
        load1_max=layout.processes * 1.1,
        n_active_mean=float(layout.processes),
        service_cpu_s=600.0 * layout.processes / 2,
        tuner_cpu_s=1.0,
        backend_cpu_s=0.0,
        foreign_cpu_s=3.0,
        steal_s=0.0,
        pss_bytes=50e6 * layout.processes,
        void=void,
        n_active_from_load1=layout.processes * 1.05,
    )


def ranking_of(study: StudyRecord, truth: dict[str, float], current: str | None = None) -> Ranking:
    noise = random.Random(7)
    windows = [
        window(parse_layout(text), block, items * (1 + 0.01 * noise.gauss(0, 1)), 100 * block + number, ())
        for block in range(3)
        for number, (text, items) in enumerate(truth.items())
        if items
    ]
    disturbed = (VoidReason("disturbed", "foreign CPU 0.80 cores"),)
    windows += [window(parse_layout(text), 0, 10.0, 900, disturbed) for text in truth if not truth[text]]
    return rank(study, windows, current=None if current is None else parse_layout(current))


@pytest.mark.parametrize("fmt", ["simple", "markdown", "html", "rst", "jira", "asciidoc", "csv", "json"])
def test_the_ranking_looks_as_it_should(fmt: str) -> None:
    study = study_of(TRUTH, box_cores=2.0)
    rendered = render_ranking(study, ranking_of(study, TRUTH, current="1x24"), fmt)

    # the libm of another system gives another last digit
    shown = re.sub(r"\d+\.\d{13,}", lambda number: f"{float(number[0]):.12g}", rendered)
    assert shown == printed("rank", f"plain.{fmt}")


@pytest.mark.parametrize("fmt", [*table_formats(), "json"])
def test_every_format_says_when_the_box_had_fewer_cores_than_the_layouts_are_for(fmt: str) -> None:
    study = study_of(TRUTH, box_cores=2.0)

    assert wording("rank.layouts-measured-on") in render_ranking(study, ranking_of(study, TRUTH), fmt)


@pytest.mark.parametrize("fmt", [*table_formats(), "json"])
def test_every_format_says_what_is_known_of_the_service_beforehand(fmt: str) -> None:
    study = study_of(TRUTH)
    known = {"service": {"cautions": {"loses-at-stop": "arq loses jobs in hand"}}}
    study = replace(study, config=StoredConfig.of_sections(known))

    text = render_ranking(study, ranking_of(study, TRUTH), fmt)

    assert wording("services.loses-jobs-in-hand") in text.replace("\\", "")


def test_the_json_has_the_fields_that_programs_rely_on() -> None:
    study = study_of(TRUTH)
    content = json.loads(render_ranking(study, ranking_of(study, TRUTH), "json"))

    assert content["schema_version"] == 1
    assert content["answer"] is None
    assert [row["layout"] for row in content["layouts"]] == ["4x6", "24x1", "2x12@gevent", "1x24", "8x3"]
    first, last = content["layouts"][0], content["layouts"][-1]
    assert (first["processes"], first["threads"], first["variant"], first["rank"]) == (4, 6, "", 1)
    assert first["throughput_per_10min"]["low"] < first["throughput_per_10min"]["mean"]
    assert {"load1", "active", "cpu_ratio", "pss_bytes", "n_windows", "n_void"} <= first.keys()
    assert (last["rank"], last["n_windows"], last["n_void"]) == (None, 0, 1)
    assert "disturbed" in last["note"]


def test_csv_is_one_row_a_layout_with_plain_numbers() -> None:
    study = study_of(TRUTH)
    rows = list(csv.DictReader(io.StringIO(render_ranking(study, ranking_of(study, TRUTH), "csv"))))

    assert [row["layout"] for row in rows] == ["4x6", "24x1", "2x12@gevent", "1x24", "8x3"]
    assert 2500 < float(rows[0]["throughput_per_10min"]) < 2700
    assert rows[-1]["rank"] == ""


def test_the_data_formats_carry_the_ratio_to_the_layout_in_use() -> None:
    study = study_of(TRUTH)
    ranking = ranking_of(study, TRUTH, current="1x24")

    for fmt, delimiter in (("csv", ","), ("tsv", "\t")):
        rows = list(csv.DictReader(io.StringIO(render_ranking(study, ranking, fmt)), delimiter=delimiter))
        best = rows[0]

        assert best["layout"] == "4x6"  # no blanks around it
        assert float(best["ratio_to_current_low"]) < float(best["ratio_to_current"]) < 3
        assert rows[-1]["ratio_to_current"] == ""


def test_the_verdict_names_what_is_not_known_from_the_best() -> None:
    study = study_of(TRUTH)

    assert wording("rank.measured-best-cannot-be-told") in start_of(verdict(ranking_of(study, TRUTH)))


def test_a_clear_winner_is_called_best() -> None:
    truth = {"4x6": 2600.0, "1x24": 1000.0, "2x12": 1800.0}
    study = study_of(truth)

    assert wording("rank.is-best", layout="4x6") in start_of(verdict(ranking_of(study, truth)))


def test_the_table_for_people_fits_a_hundred_columns() -> None:
    study = study_of(TRUTH)
    table = render_ranking(study, ranking_of(study, TRUTH), "simple").split("\n\n")[1]

    assert max(map(len, table.splitlines())) <= 100
    assert " 25.20 " in table  # settled load of 24x1
    assert "21.60" not in table  # its load1, with load of the layout before


def test_a_study_that_is_not_complete_says_how_much_of_it_is_measured() -> None:
    study = study_of({"4x6": 2600.0, "1x24": 1000.0})
    whole = ranking_of(study, {"4x6": 2600.0, "1x24": 1000.0})
    part = ranking_of(study, {"4x6": 2600.0})

    assert not any(note.startswith("Measured") for note in notes(study, whole))
    assert wording("rank.measured-windows-asked") in notes(study, part)


def noisy(*layouts: str) -> tuple[StudyRecord, Ranking]:
    """A study whose intervals give no information."""
    noise = {text: {"4x6": 2600.0, "1x24": 1000.0}[text] for text in layouts or ("4x6", "1x24")}
    study = replace(study_of(noise), n_blocks=2)
    windows = [
        window(parse_layout(text), block, items * (3 if (block == 0) == (text == "4x6") else 1), number, ())
        for number, (block, (text, items)) in enumerate(product(range(2), noise.items()))
    ]
    return study, rank(study, windows, current=parse_layout([*noise][-1]), confidence=0.99)


@pytest.mark.parametrize("fmt", ["simple", "markdown", "html"])
def test_intervals_that_say_nothing_are_called_unknown(fmt: str) -> None:
    rendered = render_ranking(*noisy(), fmt)

    assert "e+" not in rendered
    assert re.search(r"\d{10}", rendered) is None
    assert wording("rank.best-itself-unknown") in rendered
    assert wording("rank.interval-unknown") in rendered
    assert "(unknown)" in rendered  # the ratio to the layout in use


def test_the_interval_of_the_only_layout_may_say_nothing() -> None:
    rendered = render_ranking(*noisy("4x6"), "simple")

    assert re.search(r"4x6 +5200 +unknown ", rendered)
    assert wording("rank.interval-unknown") in rendered


def test_programs_get_the_numbers_of_intervals_that_say_nothing() -> None:
    study, ranking = noisy()
    facts = json.loads(render_ranking(study, ranking, "json"))["layouts"]

    for row, fact in zip(ranking.rows, facts, strict=True):
        own = row.throughput_per_10min
        assert own.low is not None
        assert own.high is not None
        assert own.high > 10 * own.low
        assert (fact["throughput_per_10min"]["low"], fact["throughput_per_10min"]["high"]) == (
            own.low,
            own.high,
        )


def test_narrow_intervals_need_no_explanation() -> None:
    study = study_of(TRUTH)

    assert wording("rank.interval-unknown") not in render_ranking(study, ranking_of(study, TRUTH), "simple")


def test_a_wide_interval_that_shows_a_layout_to_be_slower_is_printed() -> None:
    _, ranking = noisy()
    best, other = ranking.rows
    behind = replace(other, group="slower", of_best=OfBest(Estimate(0.1, 0.001, 0.9)))

    cell = beside_cell(behind, replace(ranking, rows=(best, behind)))

    first = best.throughput_per_10min.mean
    assert first is not None
    assert cell == f"{items_cell(0.001 * first)} to {items_cell(0.9 * first)}"


@pytest.mark.parametrize(
    ("ratio", "cell"),
    [
        (Estimate(1.2, 0.2, 2.0), "0.20 to 2.00"),
        (Estimate(1.2, 0.2, 2.1), "unknown"),
        (Estimate(4.0, 1.1, 40.0), "1.10 to 40.00"),
        (Estimate(0.3, 0.02, 0.9), "0.02 to 0.90"),
        (Estimate(1.2, 0.0, 2.0), "unknown"),
        (Estimate(1.2), "-"),
    ],
)
def test_a_ratio_is_unknown_if_its_interval_is_wide_and_includes_1(ratio: Estimate, cell: str) -> None:
    assert ratio_cell(ratio) == cell


def test_nothing_measured_is_said_so() -> None:
    truth = {"4x6": 0.0}
    study = study_of(truth)

    assert verdict(ranking_of(study, truth)) == wording("rank.nothing-could-ranked-why")


def test_layouts_that_have_no_rank_for_the_same_reason_are_reported_together() -> None:
    study = study_of({**TRUTH, "2x1": 0.0, "3x1": 0.0})
    windows = [
        window(parse_layout("4x6"), 0, 100.0, 1, ()),
        window(parse_layout("8x3"), 0, 1.0, 2, (VoidReason("disturbed", "a"),)),
    ]

    text = render_ranking(study, rank(study, windows), "simple")

    assert wording("rank.not-ranked") in text
    assert wording("rank.not-ranked-and-why") in text
