"""The values of an axis beside each other, each at its best layout: ratio, interval, sentence."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from math import log

import pytest

from tuner.core.domain.layout import parse_layout
from tuner.core.domain.provenance import Provenance, WorkerFacts
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.safety_limits import parse_limits
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import Answer, Claim
from tuner.core.ranking.axis_effects import AxisBest, axis_bests, axis_effects
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.race_result import by_claim
from tuner.core.ranking.ranking import rank
from tuner.core.ranking.study_difference import PairGaps, Side
from tuner.core.search.recheck import Launched
from tuner.core.stats.interval import Estimate
from tuner.reports.documents import render_document
from tuner.reports.page import render_page
from tuner.reports.ranking.axis_bests import describe_axis_bests
from tuner.reports.ranking.ranking import render_ranking
from tuner.reports.runbook.document import Starts, runbook_page

from ..wording import wording
from .test_report_ranking import study_of, window

PYTHON = ("python",)
#: with a GIL processes pay, without one threads do
TRUTH = {
    "1x8@3.14": 1000.0,
    "2x4@3.14": 1600.0,
    "8x1@3.14": 4000.0,
    "1x8@3.14t": 7200.0,
    "2x4@3.14t": 7000.0,
    "8x1@3.14t": 5000.0,
}


def bests(truth: Mapping[str, float], seed: int = 1, n_blocks: int = 3, noise: float = 0.0) -> AxisBest:
    """Of an axis python in the order of *truth*, whose launches are drawn with *noise*."""
    (found,) = all_bests(truth, seed, n_blocks, noise)
    return found


def all_bests(
    truth: Mapping[str, float],
    seed: int = 1,
    n_blocks: int = 3,
    noise: float = 0.0,
    *,
    is_adaptive: bool = False,
) -> tuple[AxisBest, ...]:
    drawn = random.Random(seed)
    seen = [
        Launched(block, parse_layout(text), log(value) + 0.05 * block + drawn.gauss(0, noise))
        for block in range(n_blocks)
        for text, value in truth.items()
    ]
    side = Side(seen, is_adaptive=is_adaptive)
    gaps = PairGaps.of(side, 0.95)
    values = list(dict.fromkeys(parse_layout(text).variant for text in truth))
    means = {
        layout: sum(one.value for one in seen if one.layout == layout)
        for layout in dict.fromkeys(one.layout for one in seen)
    }
    ranked = sorted(means, key=lambda layout: -means[layout])
    effects = axis_effects({"python": values}, side, 0.95)
    return axis_bests(PYTHON, effects, dict.fromkeys(means, True), ranked, gaps.gap)


def test_the_best_layouts_of_two_values_are_compared() -> None:
    found = bests(TRUTH)

    assert (found.value, found.beside, found.unknown) == ("3.14t", "3.14", None)
    assert (str(found.layout), str(found.layout_beside)) == ("1x8@3.14t", "8x1@3.14")
    assert found.ratio is not None
    assert found.ratio.mean == pytest.approx(1.8)


@pytest.mark.parametrize(
    "truth",
    [
        TRUTH,
        # the best of either is chosen by luck, which is in favour of whoever has more layouts
        {f"{n}x1@a": 1.0 for n in range(1, 9)} | {"1x1@b": 1.0},
        {f"{n}x1@a": 1.0 for n in range(1, 3)} | {f"{n}x1@b": 1.0 for n in range(1, 7)},
    ],
)
def test_the_interval_holds_the_ratio_of_the_true_bests_as_often_as_it_says(truth: dict[str, float]) -> None:
    """200 seeded studies; the bound is three standard errors below the nominal share."""
    variants = list(dict.fromkeys(parse_layout(text).variant for text in truth))
    best = [max(x for text, x in truth.items() if parse_layout(text).variant == one) for one in variants]
    true_ratio, n, n_held = best[1] / best[0], 200, 0
    for seed in range(n):
        ratio = bests(truth, seed, noise=0.05).ratio
        n_held += ratio.low <= true_ratio <= ratio.high

    assert n_held / n >= 0.95 - 3 * (0.95 * 0.05 / n) ** 0.5


def test_an_adaptive_study_pays_for_its_looks() -> None:
    fixed, adaptive = (
        all_bests(TRUTH, noise=0.02, is_adaptive=is_adaptive)[0].ratio for is_adaptive in (False, True)
    )

    assert adaptive.mean == fixed.mean
    assert adaptive.low < fixed.low < fixed.mean < fixed.high < adaptive.high


def test_a_layout_that_is_hardly_known_may_be_the_best_of_its_value() -> None:
    """One launch says nothing against it, so the other value may be as good."""
    known = [
        Launched(block, parse_layout(text), value + 0.001 * (block % 2))
        for block in range(4)
        for text, value in (("1x1@a", 0.0), ("1x1@b", 0.5))
    ]
    side = Side([*known, Launched(0, parse_layout("2x1@a"), -0.5)])
    layouts = [parse_layout(text) for text in ("1x1@b", "1x1@a", "2x1@a")]
    effects = axis_effects({"it": ["a", "b"]}, side, 0.95)

    (found,) = axis_bests(
        ("it",), effects, dict.fromkeys(layouts, True), layouts, PairGaps.of(side, 0.95).gap
    )

    assert found.ratio is not None
    assert found.ratio.mean == pytest.approx(1.6487, rel=1e-3)
    assert (found.ratio.low, found.unknown) == (None, "too-few-launches")


def config(**axes: list[str]) -> StoredConfig:
    kept = [[axis, [[value, {}] for value in values]] for axis, values in axes.items()]
    return StoredConfig.of_sections({"service": {"kind": "script", "axes": kept}})


def study(truth: Mapping[str, float], gils: Mapping[str, str], **axes: list[str]) -> StudyRecord:
    workers = WorkerFacts({f"worker_gil@{variant}": gil for variant, gil in gils.items()})
    provenance = Provenance(host="stage-1", workers=workers)
    return replace(study_of(dict(truth)), config=config(**axes), provenance=provenance)


def windows(truth: Mapping[str, float], noise: float = 0.002) -> list[WindowRecord]:
    drawn = random.Random(3)
    return [
        replace(
            window(parse_layout(text), block, items * drawn.gauss(1, noise), n + 100 * block, ()),
            pss_bytes=150e6 * parse_layout(text).processes + 40e6,
        )
        for block in range(3)
        for n, (text, items) in enumerate(truth.items())
        if items
    ]


GILS = {"3.14": "on", "3.14t": "off"}
RECORD = study(TRUTH, GILS, python=["3.14", "3.14t"])


def told(record: StudyRecord, seen: list[WindowRecord]) -> str:
    (sentence,) = describe_axis_bests(record, rank(record, seen))
    return sentence


def test_rank_report_runbook_and_json_end_with_the_same_sentence() -> None:
    ranking = rank(RECORD, windows(TRUTH))

    sentence = told(RECORD, windows(TRUTH))
    assert sentence == wording("axes.without-the-gil")
    text = render_ranking(RECORD, ranking, "simple")
    assert " ".join(text.split()).endswith(sentence)
    content = json.loads(render_ranking(RECORD, ranking, "json"))
    (fact,) = content["axis_bests"]
    assert fact["sentence"] == sentence
    assert (fact["layout"], fact["layout_beside"]) == ("1x8@3.14t", "8x1@3.14")
    assert (fact["has_gil"], fact["has_gil_beside"]) == (False, True)
    assert (fact["pss_bytes"], fact["pss_bytes_beside"]) == (190e6, 1240e6)
    assert fact["ratio"]["low"] < 1.8 < fact["ratio"]["high"]
    overview = Overview("s.tuner.db", RECORD, ranking, [], windows(TRUTH), "no model")
    assert sentence in unescape(render_page(overview))
    assert sentence in render_document(runbook_page(overview, Starts()), "markdown")


def test_two_without_a_gil_are_marked_and_a_difference_that_is_not_shown_is_called_so() -> None:
    truth = {"2x2@3.13t": 1000.0, "4x1@3.13t": 900.0, "2x2@3.14t": 1004.0, "4x1@3.14t": 900.0}
    record = study(truth, dict.fromkeys(("3.13t", "3.14t"), "off"), python=["3.13t", "3.14t"])

    sentence = told(record, windows(truth, noise=0.02))

    assert sentence.startswith(wording("axes.no-gil-with-both"))
    assert wording("axes.no-difference-shown") in sentence


def test_of_several_axes_the_bests_are_over_the_values_of_the_others() -> None:
    truth = {"1x1@a+x": 100.0, "1x1@a+y": 150.0, "1x1@b+x": 300.0, "1x1@b+y": 200.0}
    record = study(truth, {}, python=["a", "b"], malloc=["x", "y"])

    ranking = rank(record, windows(truth))

    first, second = ranking.axis_bests
    assert (str(first.layout), str(first.layout_beside)) == ("1x1@b+x", "1x1@a+y")
    assert (str(second.layout), str(second.layout_beside)) == ("1x1@b+y", "1x1@b+x")
    assert describe_axis_bests(record, ranking)[0] == wording("axes.best-over-other-axes")


def test_a_value_without_a_valid_window_is_called_not_known() -> None:
    truth = {"1x1@3.14": 100.0, "1x1@3.15": 0.0, "2x1@3.14": 90.0}
    record = study(truth, {}, python=["3.14", "3.15"])

    assert told(record, windows(truth)) == wording("axes.unmeasured")


def test_values_that_the_study_was_not_requested_are_not_told_of() -> None:
    truth = {"1x1@3.14": 100.0, "2x1@3.14": 150.0}
    record = study(truth, {}, python=["3.13", "3.14", "3.15"])

    assert describe_axis_bests(record, rank(record, windows(truth))) == []


def test_a_value_whose_layouts_break_the_limits_has_no_best() -> None:
    """1x8 takes 190 MB, 2x4 340 MB, 8x1 1240 MB."""
    limits = parse_limits({"memory_bytes": "300M"})
    only_8x1 = {text: items for text, items in TRUTH.items() if text not in ("1x8@3.14", "2x4@3.14")}
    left = study(only_8x1, GILS, python=["3.14", "3.14t"])

    (both,) = rank(RECORD, windows(TRUTH), limits=limits).axis_bests
    (one,) = describe_axis_bests(left, rank(left, windows(only_8x1), limits=limits))

    assert (str(both.layout), str(both.layout_beside)) == ("1x8@3.14t", "1x8@3.14")
    assert one == wording("axes.out-of-limits")


def test_a_best_layout_under_too_small_a_load_is_compared_with_nothing() -> None:
    ranking = rank(RECORD, windows(TRUTH))
    starved = ranking.with_bound_by({parse_layout("1x8@3.14t"): ("connections",)}, None)

    (sentence,) = describe_axis_bests(RECORD, starved)

    assert sentence == wording("axes.under-too-small-a-load")


def test_launches_that_share_no_block_are_not_compared() -> None:
    record = study({"1x1@3.13": 100.0, "1x1@3.14": 100.0}, {}, python=["3.13", "3.14"])
    seen = [
        window(parse_layout(text), block, 100.0 + block, block, ())
        for block, text in enumerate(("1x1@3.13", "1x1@3.13", "1x1@3.14", "1x1@3.14"))
    ]

    assert told(record, seen) == wording("axes.not-joined")


def test_one_launch_of_each_is_too_few() -> None:
    seen = [one for one in windows(TRUTH) if one.block == 0]

    assert told(RECORD, seen) == wording("axes.too-few-launches")


def test_the_answer_of_a_race_is_the_best_of_its_value() -> None:
    """Whatever measured more by luck: a sentence that names another layout would contradict the answer."""
    ranking = rank(replace(RECORD, strategy="race", n_blocks=0), windows(TRUTH))
    answer = parse_layout("2x4@3.14t")
    asked = tuple(row.layout for row in ranking.rows)
    claim = Claim(
        Answer(answer, kind="strict", reached=True, ties=(), tied=()), asked, (), (), 0.02, 0.95, 18, 10800.0
    )
    estimates = {row.layout: Estimate((row.throughput_per_10min.mean or 0) / 600) for row in ranking.rows}

    claimed = by_claim(ranking, claim, estimates)

    (before,), (after,) = ranking.axis_bests, claimed.axis_bests
    assert (str(before.layout), str(after.layout)) == ("1x8@3.14t", "2x4@3.14t")
    assert after.ratio.low <= after.ratio.mean <= after.ratio.high
