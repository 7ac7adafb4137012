"""What a study prints of a best layout that loses throughput as a launch lasts."""

from __future__ import annotations

import json
from functools import cache

import pytest

from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.ranking.aging import loss_per_h
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.ranking import rank
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.stats.interval import Estimate
from tuner.reports.ranking.evidence import describe_caveats
from tuner.reports.ranking.ranking_data import render_ranking_json
from tuner.reports.ranking.ranking_words import notes
from tuner.study.run import run_study

from ..wording import wording

A, B = Layout(4, 6), Layout(1, 24)
FALLS = "4x6 loses"


@cache
def measured(trend_per_h: float) -> MemoryStore:
    service = VirtualService({A: 200.0, B: 100.0}, trend_per_h={A: trend_per_h}, settle_s=0.0)
    store = MemoryStore(virtual_study(service, warms_cache=False))
    noise = Noise(window_sd=0.01, launch_sd=0.015, sample_sd=0.02)
    run_study(
        VirtualBox(service, noise).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
    )
    return store


def ranked(store: MemoryStore) -> Ranking:
    return rank(store.study(), store.windows(), launches=[launch for _, launch in store.launches()])


def test_a_best_layout_that_loses_throughput_is_reported_beside_the_answer() -> None:
    store = measured(-0.12)

    found = [one for one in notes(store.study(), ranked(store)) if one.startswith(FALLS)]

    assert found == [wording("rank.best-layout-falls")]
    assert found[0] in describe_caveats(store.study(), ranked(store))


def test_one_that_holds_its_throughput_is_not_but_its_trend_is_in_the_json() -> None:
    store = measured(0.0)
    facts = json.loads(render_ranking_json(store.study(), ranked(store)))
    trend = facts["layouts"][0]["trend_ratio_per_h"]

    assert not any(one.startswith(FALLS) for one in notes(store.study(), ranked(store)))
    assert trend["low"] < 0 < trend["high"]


def test_a_loss_that_the_margin_allows_or_that_may_be_chance_is_none() -> None:
    steep = Estimate(-0.05, -0.06, -0.04)

    assert loss_per_h(steep, 0.10) is None
    assert loss_per_h(Estimate(-0.05, -0.11, 0.01), 0.02) is None
    assert loss_per_h(Estimate(0.05, 0.04, 0.06), 0.02) is None
    assert loss_per_h(Estimate(-0.05), 0.02) is None
    assert loss_per_h(None, 0.02) is None


@pytest.mark.parametrize("per_h", [-0.05, -3.0])
def test_a_loss_is_a_share_of_what_is_left(per_h: float) -> None:
    loss = loss_per_h(Estimate(per_h, 1.2 * per_h, 0.8 * per_h), 0.02)

    assert loss is not None
    ends = [0.0, *(end for end in (loss.low, loss.mean, loss.high) if end is not None), 1.0]
    assert len(ends) == 5
    assert ends == sorted(set(ends))
