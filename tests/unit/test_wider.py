"""Whether an answer lies at the edge of its layouts while nothing of it is full, and what is said then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tuner.adapters.virtual.service import VirtualService, virtual_study
from tuner.core.domain.layout import Layout, parse_layout, parse_layouts
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.model.diagnosis.diagnose import Diagnosis, Figure, What
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.ranking.step_case import Wider, wider_than
from tuner.core.search.growth import Ended, Growth, Way, growth_to_json
from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import Noise
from tuner.reports.ranking.next_step import describe_wider

from ..wording import wording

pytestmark = pytest.mark.pythons


def study(layouts: str, **asked: Any) -> StudyRecord:
    service = VirtualService(dict.fromkeys(parse_layouts(layouts), 1.0))
    return virtual_study(service, **{"cores": 4, "box_cores": 4.0, **asked})


def ranking(layouts: str, cpu_ratio: float = 0.04) -> Ranking:
    """The first of *layouts* is best."""
    rows = tuple(
        RankedLayout(one, rank, Estimate(100.0 / rank), 1.0, 1.0, 1.0, 1.0, cpu_ratio, 1e6, 1, 0)
        for rank, one in enumerate(parse_layouts(layouts), 1)
    )
    return Ranking(rows, 0.95, None, Noise(None, None, None))


def diagnosis(
    layout: str,
    what: tuple[What, ...] = ("waiting",),
    gain_ratio: float | None = 2.0,
    gil: float = 0.04,
    cores: float = 0.04,
) -> Diagnosis:
    return Diagnosis(
        layout=parse_layout(layout),
        what=what,
        utilization={"cores": Figure(cores, "measured"), "gil": Figure(gil, "measured")},
        shares={},
        gain_ratio=gain_ratio,
        cores=4.0,
        others_cores=0.0,
        backend_cores=0.0,
    )


def found(layouts: str, **of: Any) -> Wider | None:
    best = layouts.split(",")[0]
    return wider_than(study(layouts), ranking(layouts), [diagnosis(best, **of)])


def test_an_answer_at_the_edge_that_waits_gets_the_doublings_that_would_fill_it() -> None:
    wider = found("4x2,2x2,1x8")

    assert wider is not None
    assert wider.is_sure
    assert [str(layout) for layout in wider.larger] == ["4x4", "4x8", "4x16", "4x32", "4x64"]


def test_the_busiest_gil_says_how_far_to_look() -> None:
    wider = found("4x2,2x2", gil=0.3)

    assert wider is not None
    assert [str(layout) for layout in wider.larger] == ["4x4", "4x8"]


@pytest.mark.parametrize("layouts", ["4x2,4x4", "2x2,4x2", "4x2,8x2"])
def test_an_answer_beside_a_larger_layout_of_its_kind_is_not_at_the_edge(layouts: str) -> None:
    assert found(layouts) is None


def test_a_larger_layout_of_another_variant_is_no_edge_for_it() -> None:
    assert found("4x2@threads,4x4@gevent") is not None


@pytest.mark.parametrize("what", [("cores",), ("gil",), ("cores", "gil"), ("memory",)])
def test_nothing_is_said_of_an_answer_that_is_full(what: tuple[What, ...]) -> None:
    assert found("4x2,2x2", what=what) is None


def test_nothing_is_said_where_the_bottleneck_is_not_known() -> None:
    assert wider_than(study("4x2,2x2"), ranking("4x2,2x2"), []) is None


def test_nothing_is_said_where_others_keep_the_cores_busy() -> None:
    assert found("4x2,2x2", cores=0.95, gain_ratio=None) is None


def test_nothing_is_said_where_the_model_foresees_no_gain() -> None:
    assert found("4x2,2x2", gain_ratio=1.01) is None


@pytest.mark.parametrize(("ended", "is_told"), [("no-gain", False), ("unseen", True), ("refused", True)])
def test_nothing_is_said_where_scouts_saw_that_twice_as_many_give_no_more(
    ended: Ended, is_told: bool
) -> None:
    edge = parse_layout("4x2")
    growth = growth_to_json(Growth(2, (Way(edge, edge, ended),)))

    wider = wider_than(
        study("4x2,2x2", provenance=Provenance(grid_grew=growth)), ranking("4x2,2x2"), [diagnosis("4x2")]
    )

    assert (wider is not None) is is_told


def test_other_objectives_and_commands_ask_another_question() -> None:
    at_edge = ranking("4x2,2x2"), [diagnosis("4x2")]

    assert wider_than(study("4x2,2x2", strategy="check"), *at_edge) is None
    assert (
        wider_than(study("4x2,2x2"), replace(at_edge[0], objective="throughput-per-cpu"), at_edge[1]) is None
    )


def told(of: str, layouts: str, **asked: Any) -> str:
    record = study(layouts, **asked)
    wider = wider_than(record, ranking(layouts), [diagnosis(of)])
    (sentence,) = describe_wider(replace(ranking(layouts), wider=wider))
    return sentence


def test_the_sentence_says_what_will_give_more() -> None:
    assert told("4x2", "4x2,2x2") == wording("rank.more-threads")
    assert told("4x-", "4x-,2x-").startswith("More processes will give more: 4x- has the most processes")


def test_the_sentence_names_what_keeps_larger_layouts_out() -> None:
    sentence = told("4x2", "4x2,2x2", config=StoredConfig('{"study": {"max_connections": 8}}'))

    assert sentence == wording("rank.more-threads-kept-out")


def test_threads_that_wait_for_what_they_share_only_may_give_more() -> None:
    wider = found("4x2,2x2", what=("backend",))

    assert wider is not None
    assert not wider.is_sure
    (sentence,) = describe_wider(replace(ranking("4x2,2x2"), wider=wider))
    assert sentence.startswith("More threads may give more: ")


def test_layouts_of_the_most_threads_have_none_beyond_them() -> None:
    wider = found("4x1024,1x1")

    assert wider is not None
    assert wider.larger == ()
    assert "4096 threads" in wider.refused
    assert Layout(4, 1024) == wider.leader
