from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.adapters.virtual.box import VirtualService, virtual_study
from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Limit
from tuner.core.errors import ConfigError
from tuner.core.ranking.ranked import RankingOptions, parse_question, selected_boxes

from ..wording import key_of, wording

STUDY = virtual_study(VirtualService({Layout(4, 6): 1.0}))


def test_what_is_typed_is_read() -> None:
    asked = parse_question(
        objective="throughput-per-cpu", max_load="20", max_p95="2s", costs="cpu, load,cpu", within="5%"
    )

    assert asked == RankingOptions(
        "throughput-per-cpu", (Limit("load", 20.0), Limit("p95_s", 2.0)), ("cpu", "load"), 0.05
    )
    assert parse_question(within="0.02").within == 0.02
    assert parse_question() == RankingOptions()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"objective": "speed"}, "--objective: " + wording("rank.no-such-objective", name="speed")),
        ({"max_load": "low"}, "--max-load: " + wording("config.no-load-average", text="low")),
        ({"max_memory": "8"}, "--max-memory: " + wording("config.no-unit", text=8)),
        ({"max_p95": "fast"}, "--max-p95: " + wording("config.no-duration", text="fast")),
        ({"costs": "load,mem"}, "--costs: " + wording("rank.no-such-cost", name="mem")),
        ({"costs": ","}, "--costs: " + wording("rank.no-cost-named")),
        ({"within": "60%"}, "--within: " + wording("rank.no-margin", text="60%")),
        ({"within": "0"}, "--within: " + wording("rank.no-margin", text=0)),
        ({"within": "narrow"}, "--within: " + wording("rank.no-margin", text="narrow")),
    ],
    ids=key_of,
)
def test_nonsense_is_reported_in_one_line_with_its_option(typed: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_question(**typed)

    assert caught.value.problem == said
    assert caught.value.hint


def test_what_is_not_asked_is_as_the_study_was_asked() -> None:
    study = replace(
        STUDY, objective="throughput-per-cpu", limits={"load": 20.0, "memory_bytes": 1e9}, within_ratio=0.05
    )
    asked = RankingOptions(limits=(Limit("load", 10.0),))

    assert RankingOptions().objective_of(study) == "throughput-per-cpu"
    assert RankingOptions().within_of(study) == 0.05
    assert asked.limits_of(study) == (Limit("load", 10.0), Limit("memory_bytes", 1e9))


def test_a_race_answers_its_own_question_only() -> None:
    study = replace(STUDY, limits={"load": 20.0})

    assert RankingOptions(costs=("load",)).is_of(study)
    assert RankingOptions("throughput", (Limit("load", 20.0),)).is_of(study)
    assert not RankingOptions(limits=(Limit("load", 10.0),)).is_of(study)
    assert not RankingOptions("throughput-per-cpu").is_of(study)


def test_boxes_are_requested_once_each_in_their_order() -> None:
    asked = parse_question(boxes=["b", "a", "b"], without_boxes=["c"])

    assert asked.boxes == ("b", "a")
    assert asked.without_boxes == ("c",)
    assert selected_boxes(asked, ["a", "b", "c", "d"]) == {"a", "b"}


def test_without_a_box_named_all_are_looked_at() -> None:
    assert selected_boxes(RankingOptions(), ["a", "b"]) == {"a", "b"}
    assert selected_boxes(RankingOptions(), []) == set()
