"""The ranking that follows from what a race claims, and the sentences that tell it."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from tuner.core.domain.layout import Layout, parse_layouts
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import (
    Answer,
    ChangedRatio,
    Claim,
    Guidance,
    RemainingTime,
    UnequalReaction,
)
from tuner.core.ranking.race_result import by_claim
from tuner.core.ranking.ranked import RankedLayout, Ranking, value_beside
from tuner.core.stats.groups import OfBest
from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import Noise
from tuner.reports.ranking.answer import answer_facts, answer_notes, answer_sentence
from tuner.reports.ranking.ranking import render_ranking
from tuner.reports.text.formats import table_formats

from ..printed import printed
from ..wording import key_of, wording

L4X6, L6X4, L8X3, L24X1, L1X24, L48X1 = LAYOUTS = parse_layouts("4x6,6x4,8x3,24x1,1x24,48x1")
STUDY = StudyRecord(
    service="crash-processor",
    strategy="race",
    layouts=tuple(LAYOUTS),
    cores=24,
    box_cores=24.0,
    window_s=600.0,
    warmup_s=None,
    n_blocks=0,
    windows_per_launch=1,
    seed=1,
    budget_s=None,
    created_wall_s=1_790_000_000.0,
    config=StoredConfig("{}"),
    min_window_s=60.0,
    provenance=Provenance(host="stage-1"),
)
ANSWER = Answer(L4X6, True, "strict", (L6X4,), 0.03)
ESTIMATES = {
    L4X6: Estimate(4.5, 4.4, 4.6),
    L6X4: Estimate(4.45, 4.2, 4.7),
    L8X3: Estimate(4.2, 4.0, 4.35),
    L24X1: Estimate(4.15, 3.9, 4.5),  # reaches into the answer's, and is told from it all the same
    L1X24: Estimate(1.8, 1.7, 1.9),
}
#: beside the answer; the one of a single launch has no interval
OF_BEST = {
    L6X4: OfBest(Estimate(0.989, 0.95, 1.03), 0.97),
    L8X3: OfBest(Estimate(0.933, 0.9, 0.97), 0.92),
    L24X1: OfBest(Estimate(0.922, 0.87, 0.99), 0.9),
    L1X24: OfBest(Estimate(0.4, 0.38, 0.42), 0.39),
}


def claim_of(answer: Answer = ANSWER, **more: Any) -> Claim:
    usual: dict[str, Any] = {
        "asked": tuple(LAYOUTS), "failed": (L48X1,), "unseen": (), "within": 0.02, "confidence": 0.95,
        "n_windows": 46, "spent_s": 28_200.0, "of_best": OF_BEST,
    }  # fmt: skip
    return Claim(answer, **{**usual, **more})


def row_of(layout: Layout) -> RankedLayout:
    seen = layout != L48X1
    return RankedLayout(
        layout=layout,
        rank=1 if seen else None,
        throughput_per_10min=Estimate(1.0 if seen else None),
        load1_mean=20.0 if seen else None,
        load1_max=24.0 if seen else None,
        n_active_mean=21.0 if seen else None,
        n_active_from_load1=None,
        cpu_ratio=0.9 if seen else None,
        pss_bytes=2e8 if seen else None,
        n_windows=9 if seen else 0,
        n_void=0,
        reason=None if seen else "no launch gave a window: 48x1 died at start",
    )


def ranking_of(claim: Claim | None = None, current: Layout | None = None, **estimates: Any) -> Ranking:
    rows = tuple(row_of(layout) for layout in LAYOUTS)
    plain = Ranking(rows, 0.95, current, Noise(None, None, None), ("of launches in the same block",))
    return by_claim(plain, claim or claim_of(), {**ESTIMATES, **estimates})


def test_the_answer_and_its_ties_share_the_first_rank_and_others_rank_by_their_intervals() -> None:
    ranking = ranking_of()

    assert [(str(row.layout), row.rank) for row in ranking.rows] == [
        ("4x6", 1), ("6x4", 1), ("8x3", 2), ("24x1", 2), ("1x24", 5), ("48x1", None),
    ]  # fmt: skip
    assert ranking.notes == ()  # what it says of blocks is not true of a race


def test_a_layout_that_measured_better_than_the_answer_stands_below_it_all_the_same() -> None:
    lucky = {**ESTIMATES, L6X4: Estimate(4.9, 4.0, 5.8)}
    ranking = by_claim(ranking_of(), claim_of(), lucky)

    assert [str(row.layout) for row in ranking.rows][:2] == ["4x6", "6x4"]


def test_others_say_how_far_behind_they_are_at_least_where_their_intervals_say_so() -> None:
    behind = {str(row.layout): row.behind_ratio for row in ranking_of().rows}

    assert behind["4x6"] is behind["6x4"] is behind["48x1"] is None
    assert behind["8x3"] == pytest.approx(1 - 0.97)
    assert behind["24x1"] == pytest.approx(1 - 0.99)
    assert behind["1x24"] == pytest.approx(1 - 0.42)


def test_while_there_is_no_answer_what_is_not_ruled_out_shares_the_first_rank() -> None:
    claim = claim_of(Answer(L4X6, False, "strict", (L8X3, L6X4)))
    ranking = ranking_of(claim)

    assert [str(row.layout) for row in ranking.rows if row.rank == 1] == ["4x6", "6x4", "8x3"]
    assert [row.group for row in ranking.rows][:4] == ["best-or-tied", *["not-ruled-out"] * 2, "slower"]


def test_rows_stand_in_three_groups_by_throughput_within_each() -> None:
    answer = replace(ANSWER, ties=(L8X3, L6X4, L24X1), tied=(L8X3,))
    ranking = ranking_of(claim_of(answer))

    assert [(str(row.layout), row.group) for row in ranking.rows] == [
        ("4x6", "best-or-tied"), ("8x3", "best-or-tied"), ("6x4", "not-ruled-out"),
        ("24x1", "not-ruled-out"), ("1x24", "slower"), ("48x1", None),
    ]  # fmt: skip


def test_the_interval_that_is_shown_is_the_one_of_the_difference_to_the_answer() -> None:
    ranking = ranking_of()
    shown = {row.layout: value_beside(row, ranking) for row in ranking.rows}

    assert shown[L4X6] == Estimate(2700.0)
    assert shown[L8X3] == Estimate(2520.0, 0.9 * 2700.0, 0.97 * 2700.0)
    for row in ranking.rows[1:5]:
        high = shown[row.layout].high
        assert high is not None
        assert (row.group == "slower") == (high < 2700.0)


def test_an_interval_that_says_nothing_tells_nothing_apart_and_is_not_shown() -> None:
    wide = {layout: Estimate(value.mean, 0.0, inf) for layout, value in ESTIMATES.items()}
    ranking = by_claim(ranking_of(), claim_of(Answer(L4X6, False, "strict", tuple(LAYOUTS[1:5]))), wide)

    assert {row.rank for row in ranking.rows} == {1, None}
    content = json.loads(render_ranking(STUDY, ranking, "json"))
    assert content["layouts"][0]["throughput_per_10min"] == {"mean": 2700.0, "low": None, "high": None}


def test_ratios_to_the_layout_in_use_have_the_interval_that_tells_layouts_apart() -> None:
    plain = ranking_of(current=L1X24)
    beside = {L4X6: OfBest(Estimate(2.5, 2.4, 2.6)), L6X4: OfBest(Estimate(2.4))}
    ratios = {row.layout: row.ratio_to_current for row in by_claim(plain, claim_of(), ESTIMATES, beside).rows}

    assert ratios[L1X24] == Estimate(1.0, 1.0, 1.0)
    assert ratios[L4X6] == Estimate(4.5 / 1.8, 2.4, 2.6)
    assert ratios[L6X4] == Estimate(4.45 / 1.8)
    assert ratios[L8X3] == Estimate(4.2 / 1.8)
    assert ratios[L48X1] is None


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (
            claim_of(),
            wording("rank.claim"),
        ),
        (
            claim_of(
                replace(ANSWER, kind="calibrated", ties=(), pools_noise=True),
                failed=(),
                within=0.005,
                n_windows=1,
            ),
            wording("rank.claim-alone"),
        ),
        (
            claim_of(Answer(L4X6, False, "strict", (L6X4,)), failed=(), unseen=(L8X3, L24X1)),
            wording("rank.no-answer-yet"),
        ),
        (
            claim_of(Answer(None, False, "strict"), failed=(), n_windows=0, spent_s=20.0),
            wording("rank.no-answer-nothing-measured"),
        ),
    ],
    ids=key_of,
)
def test_the_claim_is_one_sentence_with_its_kind(claim: Claim, said: str) -> None:
    assert answer_sentence(claim) == said


def test_a_long_list_of_layouts_is_cut_short_in_the_sentence_only() -> None:
    many = tuple(Layout(1, threads) for threads in range(1, 31))
    claim = claim_of(Answer(L4X6, False, "strict", many), failed=())

    assert answer_sentence(claim).count(", ") < 15
    assert wording("rank.layouts-and-more") in answer_sentence(claim)
    assert len(answer_facts(claim)["not_ruled_out"]) == 30


def test_without_an_answer_the_notes_say_what_is_not_known_and_what_more_time_would_buy() -> None:
    open_ = Answer(L4X6, False, "strict", (L6X4,), 0.2)

    assert answer_notes(claim_of()) == []
    assert answer_notes(claim_of(open_)) == [
        wording("rank.take-x-now-would"),
        wording("rank.how-much-more-takes"),
    ]
    assert answer_notes(claim_of(replace(open_, doubt=None), rest=RemainingTime(14, 8400.0))) == [
        wording("rank.most-more-windows-h")
    ]
    assert "another version" in answer_notes(claim_of(n_otherwise=3))[0]


def test_the_notes_report_a_ratio_that_changed_during_the_study() -> None:
    changed = ChangedRatio(L6X4, 1.031, 0.9876)
    claim = claim_of(replace(ANSWER, changed=(changed,)))

    assert answer_notes(claim) == [wording("rank.ratio-changed")]
    assert answer_facts(claim)["changed"] == [{"layout": "6x4", "early": 1.031, "late": 0.9876}]


@pytest.mark.parametrize(
    ("reaction", "text"),
    [
        (UnequalReaction("processes", L1X24, L24X1, 0.91, 0.8249), wording("rank.more-processes-react")),
        (UnequalReaction("threads", L24X1, L6X4, 1.02, 0.9), wording("rank.more-threads-react")),
        (UnequalReaction("threads", L6X4, L24X1, 0.97, 0.9), wording("rank.fewer-threads-react")),
        (UnequalReaction("total_threads", L24X1, L48X1, 0.97, 0.9), wording("rank.more-total-threads-react")),
    ],
    ids=str,
)
def test_the_notes_report_layouts_that_react_more_strongly_to_the_host(
    reaction: UnequalReaction, text: str
) -> None:
    claim = claim_of(replace(ANSWER, reaction=reaction))

    assert answer_notes(claim) == [text]
    facts = answer_facts(claim)["reaction"]
    assert (facts["weakest"], facts["strongest"]) == (str(reaction.weakest), str(reaction.strongest))
    assert (facts["axis"], facts["strongest_ratio"]) == (reaction.axis, reaction.strongest_ratio)
    assert answer_facts(claim_of())["reaction"] is None


def test_the_notes_say_whether_a_model_guided_the_race_and_how_far_it_was_off() -> None:
    guidance = Guidance(True, 11, 0.041, 0.0534)
    guided = claim_of(replace(ANSWER, guidance=guidance))
    off = claim_of(replace(ANSWER, guidance=replace(guidance, used=False, n_held_out=1, error_ratio=0.3)))
    early = claim_of(replace(ANSWER, guidance=Guidance(True, 0)))

    assert answer_notes(guided) == [wording("rank.queueing-model-helped-choose")]
    assert answer_notes(off) == [wording("rank.queueing-model-switched-off")]
    assert answer_notes(early) == [wording("rank.queueing-model-has-foretold")]
    assert answer_facts(claim_of())["guide"] is None
    assert answer_facts(guided)["guide"] == {
        "used": True,
        "n_held_out": 11,
        "error_ratio": 0.041,
        "error_without_ratio": 0.0534,
    }


@pytest.mark.parametrize("fmt", ["simple", "markdown", "json", "csv"])
def test_the_ranking_of_a_race_looks_as_it_should(fmt: str) -> None:
    rendered = render_ranking(STUDY, ranking_of(current=L1X24), fmt)

    assert rendered == printed("rank", f"race.{fmt}")


@pytest.mark.parametrize("fmt", [*table_formats(), "json"])
def test_every_format_carries_the_claim(fmt: str) -> None:
    rendered = render_ranking(STUDY, ranking_of(), fmt)

    for word in ("is within", "strict", "46 windows"):
        assert word in rendered


def test_the_table_for_people_fits_a_hundred_columns() -> None:
    table = render_ranking(STUDY, ranking_of(), "simple").split("\n\n")[2]

    assert max(map(len, table.splitlines())) <= 100
