"""Windows that are too short for their items, and items of very different lengths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.latency import Latencies, bucket_of
from tuner.core.domain.layout import Layout
from tuner.core.domain.requests import Requests
from tuner.core.domain.window import Window
from tuner.core.messages.launch import several_interpreters
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.windows.few_items import few_items_warning, mixed_items_warning
from tuner.study.launch.launching import Workbench
from tuner.study.run import run_study

from ..wording import wording

SERVICE = VirtualService({Layout(2, 2): 20.0})
STUDY = virtual_study(SERVICE, window_s=5.0, warmup_s=1.0, n_blocks=1)


@pytest.fixture(scope="module")
def taken() -> Window:
    store = MemoryStore(STUDY)
    run_study(VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(STUDY))
    return store.window(2, 0, 1)


def window(taken: Window, n_done: int, length_s: float, requests: Requests | None = None) -> Window:
    return replace(taken, n_done=n_done, n_failed=0, length_s=length_s, requests=requests)


def requests(**n_of: int) -> Requests:
    """So many of each latency: ``ms20=98``."""
    latencies = {bucket_of(int(name[2:]) * 1_000_000): n for name, n in n_of.items()}
    return Requests(latencies=Latencies(latencies))


def test_a_window_of_two_items_is_told_with_the_length_that_would_do(taken: Window) -> None:
    assert few_items_warning(window(taken, 2, 60.0)).text == wording("launch.few-items")


def test_a_window_shorter_than_three_of_the_longest_requests_is_told(taken: Window) -> None:
    short = window(taken, 500, 10.0, requests(ms20=490, ms4000=10))

    assert few_items_warning(short).text == wording("launch.short-for-longest")


def test_where_nobody_tells_how_long_items_take_a_mean_item_stands_for_them(taken: Window) -> None:
    told = few_items_warning(replace(window(taken, 30, 10.0), layout=Layout(4, 4)))

    assert told.text == wording("launch.short-for-mean")


@pytest.mark.parametrize(("n_done", "length_s"), [(0, 60.0), (200, 10.0), (20, 60.0)])
def test_nothing_is_said_of_windows_that_are_long_enough(taken: Window, n_done: int, length_s: float) -> None:
    assert few_items_warning(window(taken, n_done, length_s)) is None


def test_a_few_long_requests_that_take_most_of_the_time_are_seen(taken: Window) -> None:
    told = mixed_items_warning(window(taken, 500, 60.0, requests(ms20=490, ms4000=10)))

    assert told.text == wording("launch.mixed-items")


@pytest.mark.parametrize(
    "n_of",
    [
        {"ms20": 490, "ms40": 10},  # not so long
        {"ms20": 499, "ms500": 1},  # hardly any of the time
        {"ms20": 250, "ms4000": 250},  # no exception
        {"ms20": 30, "ms4000": 2},  # too few to say
    ],
)
def test_requests_that_differ_as_usual_are_no_mix(taken: Window, n_of: dict[str, int]) -> None:
    assert mixed_items_warning(window(taken, 500, 60.0, requests(**n_of))) is None
    assert mixed_items_warning(window(taken, 500, 60.0)) is None


def test_what_holds_for_all_launches_is_told_once(taken: Window) -> None:
    progress = MemoryProgress()
    box, store = VirtualBox(SERVICE).box(), MemoryStore(STUDY)
    bench = Workbench(STUDY, box, store, progress, PlannedStop())
    few = window(taken, 2, 60.0)

    for _ in range(3):
        bench._warn_of_items(few)
        bench._warn_once(several_interpreters(Layout(1, 1), 3))

    assert [slug for slug, _ in progress.warnings] == ["few-items", "several-interpreters"]
