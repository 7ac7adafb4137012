from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from math import exp
from random import Random

import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.provenance import Provenance, WorkerFacts
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.errors import ConfigError
from tuner.core.planning.compared import Known, StudyComparison, compare_studies, slower
from tuner.core.planning.differences import differences
from tuner.core.ranking.ranking import rank
from tuner.reports.comparison.comparison import render_comparison
from tuner.reports.comparison.words import comparison_notes, comparison_sentences, describe_slower
from tuner.reports.page.comparison import render_comparison_page
from tuner.reports.text.formats import table_formats

from ..raising import raises
from ..wording import key_of, start_of, wording

BEFORE = {"4x6": 2600.0, "6x4": 2500.0, "24x1": 2000.0, "1x24": 900.0}
NASTY = "<script>|\x1b[31m*x*\u202etxt.exe"


def known(
    truth: dict[str, float],
    *,
    name: str = "before.tuner.db",
    seed: int = 1,
    n_blocks: int = 5,
    **fields: object,
) -> Known:
    layouts = tuple(map(parse_layout, truth))
    study = StudyRecord(
        service="crash-processor",
        strategy="all",
        layouts=layouts,
        cores=24,
        box_cores=24.0,
        window_s=600.0,
        warmup_s=None,
        n_blocks=n_blocks,
        windows_per_launch=1,
        seed=1,
        budget_s=None,
        created_wall_s=1_790_000_000.0 + 1e6 * seed,
        config=StoredConfig('{"service": {"kind": "crash-processor"}, "study": {"seed": 1}}'),
        provenance=Provenance(host="stage-1", python="CPython 3.11.7", cpu_frequency=f"{2600 + seed} MHz"),
    )
    study = replace(study, **fields)  # type: ignore[arg-type]
    random = Random(seed)
    windows = []
    for block in range(n_blocks):
        level = random.gauss(0, 0.03)
        for layout, items in zip(layouts, truth.values(), strict=True):
            gave = items * exp(level + random.gauss(0, 0.01))
            windows.append(window(layout, block, len(windows), round(gave)))
    return Known(name, study, rank(study, windows, confidence=0.95), windows)


def window(layout: Layout, block: int, launch_id: int, items: int) -> WindowRecord:
    return WindowRecord(
        launch_id=launch_id, block=block, layout=layout, box="stage-1", index=0, attempt=1,
        started_wall_s=1_790_000_000.0 + 700 * launch_id, length_s=600.0, n_done=items, n_failed=0,
        load1_mean=layout.processes * 0.9, load1_max=layout.processes * 1.1,
        n_active_mean=float(layout.processes), service_cpu_s=600.0 * layout.processes / 2, tuner_cpu_s=1.0,
        backend_cpu_s=0.0, foreign_cpu_s=1.0, steal_s=0.0, pss_bytes=1e8 * layout.processes, void=(),
    )  # fmt: skip


def changed(by: dict[str, float], **fields: object) -> StudyComparison:
    after = {layout: items * by.get(layout, 1.0) for layout, items in BEFORE.items()}
    return compare_studies(known(BEFORE), known(after, name="after.tuner.db", seed=2, **fields), 0.95)


def test_the_answer_that_moved_is_reported_with_what_the_new_one_gives_more() -> None:
    found = changed({"4x6": 0.9})
    text = " ".join(comparison_sentences(found))

    assert found.best.moved
    assert wording("compare.answer-moved") in text
    assert wording("compare.beside-the-others") in text
    assert "less" in text


def test_what_is_not_known_apart_is_reported_with_what_would_show() -> None:
    found = changed({"4x6": 0.957})
    if found.best.after == Layout(4, 6):
        pytest.fail("the draws were to have 6x4 first")

    assert wording("compare.nothing-tells-two-apart") in comparison_sentences(found)[0]
    assert "are not detectable" in comparison_sentences(found)[0]


def test_figures_of_noisy_studies_are_written_out() -> None:
    noisy = known({"1x1": 1000.0, "1x2": 1010.0}, n_blocks=2)
    wild = [
        replace(one, n_done=round(one.n_done * (40 if one.block and one.layout == Layout(1, 1) else 1)))
        for one in noisy.windows
    ]
    after = replace(noisy, name="after.tuner.db", ranking=rank(noisy.study, wild), windows=wild)

    result = render_comparison(compare_studies(noisy, after, 0.95), "simple")

    assert wording("compare.nothing-tells-two-apart") in result
    assert re.search(r"\de\+\d", result) is None


def test_nothing_that_changed_is_reported_with_the_change_that_would_show() -> None:
    found = changed({})

    assert not any(one.has_changed or one.stands_out for one in found.throughput.layouts)
    assert wording("compare.best-in-both") in comparison_sentences(found)[0]
    assert wording("compare.no-change-is-seen") in comparison_sentences(found)[-1]


def test_what_differs_is_named_and_what_is_another_in_every_study_is_not() -> None:
    found = changed(
        {},
        cores=12,
        config=StoredConfig(
            '{"service": {"kind": "crash-processor", "options": {"a": [1]}}, "study": {"seed": 7}}'
        ),
        provenance=Provenance(host="stage-2", python="CPython 3.11.7", cpu_frequency="2650 MHz", os="x"),
    )

    assert [(one.name, one.before, one.after) for one in found.differences] == [
        ("cores", "24", "12"),
        ("host", "stage-1", "stage-2"),
        ("os", None, "x"),
        ("config: service.options.a", None, "[1]"),
    ]


def of_workers(facts: dict[str, str]) -> Provenance:
    return Provenance(workers=WorkerFacts(facts))


def test_a_python_kept_for_each_variant_is_that_kept_for_all_of_fewer() -> None:
    found = {"worker_python@a": "CPython 3.11.7", "worker_python@b": "CPython 3.13.0"}
    whole = known({"1x1@a": 1.0, "1x1@b": 1.0}, provenance=of_workers(found)).study
    fewer = known({"1x1@a": 1.0}, provenance=of_workers({"worker_python": "CPython 3.11.7"})).study

    assert not [one for one in differences(whole, fewer) if "python" in one.name]
    newer = replace(fewer, provenance=of_workers({"worker_python": "CPython 3.11.9"}))
    (result,) = (one for one in differences(whole, newer) if "python" in one.name)
    assert (result.name, result.before, result.after) == (
        "worker_python@a",
        "CPython 3.11.7",
        "CPython 3.11.9",
    )


def test_a_default_that_was_written_out_is_no_difference() -> None:
    left = StoredConfig('{"service": {"kind": "crash-processor"}, "study": {"repeats": null, "cores": null}}')
    written = StoredConfig(
        '{"service": {"kind": "crash-processor"}, "study": {"repeats": 5, "cores": 24, "within": 0.02}}'
    )
    provenance = known(BEFORE).study.provenance
    sides = [
        known(BEFORE, seed=seed, config=config, provenance=provenance)
        for seed, config in ((1, left), (2, written))
    ]

    assert compare_studies(sides[0], sides[1], 0.95).differences == ()
    fewer = replace(sides[1], study=replace(sides[1].study, n_blocks=3, config=left))
    assert [
        (one.name, one.before, one.after) for one in compare_studies(sides[0], fewer, 0.95).differences
    ] == [("config: study.repeats", "5", "3")]


def test_all_figures_that_both_know_are_compared() -> None:
    found = changed({"4x6": 0.5})
    cpu = found.figures["cpu_s_per_item"].of(Layout(4, 6))

    assert set(found.figures) == {"throughput", "load", "memory_bytes", "cpu_s_per_item"}
    assert cpu is not None
    assert cpu.ratio.mean == pytest.approx(2, rel=0.1)
    assert found.figures["memory_bytes"].shared is not None
    assert found.figures["memory_bytes"].shared.mean == pytest.approx(1)


def test_studies_without_a_common_layout_are_reported() -> None:
    with raises(ConfigError, wording("compare.no-layout-of-both")):
        compare_studies(known(BEFORE), known({"2x2": 100.0}, name="after.tuner.db"), 0.95)


def test_a_layout_of_which_a_launch_finished_nothing_is_left_out_and_named() -> None:
    after = known(BEFORE, name="after.tuner.db", seed=2)
    windows = [replace(after.windows[0], n_done=0), *after.windows[1:]]
    found = compare_studies(known(BEFORE), replace(after, windows=windows), 0.95)

    assert found.left_out == (Layout(4, 6),)
    assert wording("compare.left-out") in comparison_notes(found)


def test_what_makes_two_studies_hard_to_compare_is_noted() -> None:
    found = changed(
        {}, service="other", n_blocks=1, created_wall_s=1.0, provenance=Provenance(simulated="socorro")
    )
    text = " ".join(comparison_notes(found))

    assert wording("compare.has-one-block") in text
    assert "different services" in text
    assert wording("compare.model-with-service") in text
    assert wording("compare.first-is-the-younger") in text
    assert wording("compare.too-little-measured") in " ".join(comparison_sentences(found))


@pytest.mark.parametrize(
    ("factor", "surely", "text"),
    [
        (1.0, 0, wording("compare.not-slower-by-more", share=15)),
        (0.92, 0, wording("compare.may-be-slower")),
        (0.7, 2, wording("compare.slower")),
    ],
    ids=key_of,
)
def test_a_release_is_slower_only_when_it_surely_is(factor: float, surely: int, text: str) -> None:
    found = changed(dict.fromkeys(BEFORE, factor))
    judged = slower(found, 0.15)

    assert len(judged.surely) == surely
    assert text in start_of(describe_slower(found, judged))


@pytest.mark.parametrize(
    ("change", "text", "is_slower"),
    [
        ("dead", wording("compare.best-finished-nothing"), True),
        ("idle", wording("compare.best-launch-finished-nothing"), False),
        ("void", wording("compare.best-without-window"), False),
        ("left out", wording("compare.best-not-measured"), False),
    ],
    ids=key_of,
)
def test_a_release_that_broke_the_best_layout_is_not_called_as_fast(
    change: str, text: str, is_slower: bool
) -> None:
    best = Layout(4, 6)
    after = known(BEFORE, name="after.tuner.db", seed=2)
    of_best = [window for window in after.windows if window.layout == best]
    others = [window for window in after.windows if window.layout != best]
    broken = {
        "dead": [replace(window, n_done=0) for window in of_best],
        "idle": [replace(of_best[0], n_done=0), *of_best[1:]],
        "void": [replace(window, void=(VoidReason("source-dry", "nothing left"),)) for window in of_best],
        "left out": [],
    }[change]
    study = after.study
    if change == "left out":
        study = replace(study, layouts=tuple(one for one in study.layouts if one != best))
    found = compare_studies(known(BEFORE), replace(after, study=study, windows=[*others, *broken]), 0.95)
    judged = slower(found, 0.15)

    assert (best in judged.surely) is is_slower
    assert text in describe_slower(found, judged)
    assert "does not know" not in " ".join(comparison_sentences(found))


@pytest.mark.parametrize(
    ("by", "fields", "data"),
    [
        ({}, {}, {"4x6": wording("compare.may-be-luck"), "1x24": wording("compare.may-be-luck")}),
        (
            dict.fromkeys(BEFORE, 0.7),
            {},
            {"4x6": wording("compare.surely-less"), "1x24": wording("compare.surely-less")},
        ),
        (
            {**dict.fromkeys(BEFORE, 0.7), "1x24": 0.5},
            {},
            {"4x6": wording("compare.surely-less-so"), "1x24": wording("compare.surely-more-so")},
        ),
        ({"4x6": 0.95}, {}, {"4x6": wording("compare.less-than-others")}),
        ({"4x6": 0.5}, {"n_blocks": 1}, {"4x6": wording("compare.noise-unknown")}),
    ],
)
def test_each_row_says_why_it_counts_as_changed_or_not(
    by: dict[str, float], fields: dict[str, object], data: dict[str, str]
) -> None:
    facts = json.loads(render_comparison(changed(by, **fields), "json"))
    whys = {row["layout"]: row["why"] for row in facts["layouts"]}

    assert {layout: whys[layout] for layout in data} == data
    table = render_comparison(changed(by, **fields), "simple")
    assert all(re.search(f"^{layout} .*  {why}$", table, re.MULTILINE) for layout, why in data.items())


def test_rows_are_in_the_order_of_the_second_ranking_even_if_the_comparison_estimates_another() -> None:
    found = changed({})
    ranked = replace(found.after.ranking, rows=tuple(reversed(found.after.ranking.rows)))
    table = render_comparison(replace(found, after=replace(found.after, ranking=ranked)), "simple")

    assert re.findall(r"^(\d+x\d+)  ", table, re.MULTILINE) == ["1x24", "24x1", "6x4", "4x6"] * 2


def test_the_table_of_other_figures_names_what_surely_changed() -> None:
    result = render_comparison(changed({"4x6": 0.5}), "simple")

    assert re.search("^4x6 .*  more CPU per item$", result, re.MULTILINE)
    assert re.search(r"^24x1 .*\)  -$", result, re.MULTILINE)


@pytest.mark.parametrize("fmt", [*table_formats(), "json"])
def test_no_format_lets_text_of_a_study_be_more_than_text(fmt: str) -> None:
    found = changed({"4x6": 0.8}, service=NASTY, provenance=Provenance(host=NASTY, python=NASTY))
    text = render_comparison(found, fmt)

    assert "\x1b" not in text
    assert "4x6" in text
    assert ("\u202e" in text) == (fmt == "json")  # whoever reads JSON shows it, as text that is not ours
    if fmt in ("html", "unsafehtml"):
        assert "<script>" not in text


def test_json_and_csv_say_the_same() -> None:
    found = changed({"4x6": 0.8})
    facts = json.loads(render_comparison(found, "json"))
    rows = list(csv.DictReader(io.StringIO(render_comparison(found, "csv"))))

    assert [row["layout"] for row in rows] == [row["layout"] for row in facts["layouts"]]
    for row, other in zip(facts["layouts"], rows, strict=True):
        assert float(other["throughput_ratio_low"]) == pytest.approx(row["ratios"]["throughput"]["low"])
        assert float(other["beside_ratio"]) == pytest.approx(row["beside"]["mean"])
        assert other["has_changed"] == str(row["has_changed"]).lower()
    assert rows[0]["p95_s_ratio"] == ""


def test_the_page_has_all_of_it_and_no_text_of_a_study_is_more_than_text() -> None:
    found = changed({"4x6": 0.8}, service=NASTY, provenance=Provenance(host=NASTY, python=NASTY))
    page = render_comparison_page(found)

    assert page == render_comparison_page(found)
    assert "<script>|" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    for name in ("answer", "made", "layouts", "others", "notes"):
        assert f'<section id="{name}"' in page
        assert f'href="#{name}"' in page
    assert re.search("<td[^>]*>4x6</td>", page)


def test_a_fleet_that_lost_its_fast_host_is_reported_to_have_other_hosts() -> None:
    fleet = Provenance(host="stage-1", is_fleet=True)
    before, after = (known(BEFORE, name=name, provenance=fleet) for name in ("before", "after"))
    after = replace(after, study=replace(after.study, created_wall_s=before.study.created_wall_s))
    windows = [replace(one, box=f"stage-{1 + one.block % 2}") for one in before.windows]
    before = replace(before, windows=windows, ranking=rank(before.study, windows))

    found = compare_studies(before, after, 0.95)

    assert [(one.before, one.after) for one in found.differences] == [("stage-1, stage-2", "stage-1")]
    assert compare_studies(before, before, 0.95).differences == ()


def on_two_hosts(one: Known, n_fast: int) -> Known:
    """Its first blocks are of a host that is twice as fast, the others of another one."""
    windows = [
        replace(window, box="fast", n_done=2 * window.n_done)
        if window.block < n_fast
        else replace(window, box="slow")
        for window in one.windows
    ]
    return replace(one, windows=windows, ranking=rank(one.study, windows))


def test_hosts_that_share_the_blocks_in_another_way_are_no_change() -> None:
    before = known(BEFORE, n_blocks=8, provenance=Provenance(is_fleet=True))

    compared = compare_studies(on_two_hosts(before, 6), on_two_hosts(before, 2), 0.95)

    for figure in compared.figures.values():  # CPU per item was 1.41
        assert [one.ratio.mean for one in figure.layouts] == pytest.approx([1.0] * 4, abs=0.06)
    found = compared.throughput
    assert found.shared is not None
    assert found.shared.mean == pytest.approx(1.0, abs=0.06)  # it was 0.71
    (best,) = (one for one in found.layouts if one.layout == Layout(4, 6))
    assert best.levels == pytest.approx([2600 / 600 * 2**0.5] * 2, rel=0.06)
    assert best.ratio.mean == pytest.approx(best.levels[1] / best.levels[0])


def test_a_box_that_drifted_on_within_blocks_is_noted() -> None:
    found = changed({})
    text = " ".join(comparison_notes(replace(found, drifting=("after.tuner.db",))))

    assert found.drifting == ()
    assert wording("compare.launches-are-alike") in text
