"""Windows that are too short for their items, and items of very different lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from math import log, sqrt
from random import Random

import pytest

from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.requests import Latencies, Requests, bucket_of
from tuner.core.domain.window import Window
from tuner.core.messages.launch import several_interpreters
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.windows.validity import few_items_warning, mixed_items_warning
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


def test_a_window_of_two_items_is_reported_with_the_length_that_would_do(taken: Window) -> None:
    assert few_items_warning(window(taken, 2, 60.0)).text == wording("launch.few-items")


def test_a_window_shorter_than_three_of_the_longest_requests_is_reported(taken: Window) -> None:
    short = window(taken, 500, 10.0, requests(ms20=490, ms4000=10))

    assert few_items_warning(short).text == wording("launch.short-for-longest")


def test_where_nobody_tells_how_long_items_take_a_mean_item_stands_for_them(taken: Window) -> None:
    result = few_items_warning(replace(window(taken, 30, 10.0), layout=Layout(4, 4)))

    assert result.text == wording("launch.short-for-mean")


@pytest.mark.parametrize(("n_done", "length_s"), [(0, 60.0), (200, 10.0), (20, 60.0)])
def test_nothing_is_said_of_windows_that_are_long_enough(taken: Window, n_done: int, length_s: float) -> None:
    assert few_items_warning(window(taken, n_done, length_s)) is None


def test_a_few_long_requests_that_take_most_of_the_time_are_seen(taken: Window) -> None:
    result = mixed_items_warning(window(taken, 500, 60.0, requests(ms20=490, ms4000=10)))

    assert result.text == wording("launch.mixed-items")


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


#: how long the items of a queue take, in s, each of mean 1
LENGTHS: dict[str, Callable[[Random], float]] = {
    "constant": lambda _: 1.0,
    "exponential": lambda random: random.expovariate(1.0),
    "lognormal": lambda random: random.lognormvariate(-log(2) / 2, sqrt(log(2))),  # sd = mean
    "mixed": lambda random: 40.0 if random.random() < 0.02 else 0.2 / 0.98,
}


def worked_off(taken: Window, kind: str, n_threads: int, mean_s: float, length_s: int, seed: int) -> Window:
    """A window of threads that always have an item, whose lengths are of *kind*."""
    random, ends = Random(f"{kind} {n_threads} {mean_s} {seed}"), [0] * (length_s + 1)
    for _ in range(n_threads):
        at_s = 0.0 if kind == "constant" else -60.0 * mean_s * random.random()  # in step, at the worst
        while (at_s := at_s + mean_s * LENGTHS[kind](random)) < length_s:
            if at_s >= 0:
                ends[int(at_s) + 1] += 1
    totals = list(accumulate(ends))
    samples = tuple(replace(taken.samples[0], at_s=float(n), n_done_total=k) for n, k in enumerate(totals))
    changed = window(taken, totals[-1], float(length_s))
    return replace(changed, layout=Layout(n_threads, 1), samples=samples)


@pytest.mark.parametrize(("n_threads", "mean_s", "length_s"), [(4, 0.1, 60), (16, 0.5, 60), (4, 0.05, 20)])
def test_long_and_short_items_of_a_queue_are_seen_by_how_many_end(
    taken: Window, n_threads: int, mean_s: float, length_s: int
) -> None:
    seen = [worked_off(taken, "mixed", n_threads, mean_s, length_s, seed) for seed in range(20)]

    reported = [message for one in seen if (message := mixed_items_warning(one)) is not None]

    assert len(reported) >= 10  # of one launch; a study has many
    assert {message.slug for message in reported} == {"mixed-items"}


def test_what_is_said_of_a_queue_with_long_and_short_items(taken: Window) -> None:
    ends = [100, 100, 0, 0, 0, 90, 110, 0, 0, 0, 100, 0]
    totals = [0, *accumulate(ends)]
    samples = tuple(replace(taken.samples[0], at_s=float(n), n_done_total=totals[n // 5]) for n in range(61))
    result = mixed_items_warning(replace(window(taken, 500, 60.0), samples=samples))

    assert result.text == wording("launch.uneven-counts")


@pytest.mark.parametrize("kind", ["constant", "exponential", "lognormal"])
@pytest.mark.parametrize("length_s", [20, 60, 240])
def test_items_of_one_kind_are_no_mix(taken: Window, kind: str, length_s: int) -> None:
    for n_threads, mean_s in ((1, 0.1), (4, 0.1), (4, 1.0), (16, 0.5), (64, 3.0)):
        for seed in range(8):
            result = mixed_items_warning(worked_off(taken, kind, n_threads, mean_s, length_s, seed))
            assert result is None, (n_threads, mean_s, seed)


def test_a_moment_in_which_nothing_ends_and_a_trend_are_no_mix(taken: Window) -> None:
    totals = [0]
    for n in range(120):
        totals.append(totals[-1] + (0 if 50 <= n < 55 else 200 + n))
    samples = tuple(replace(taken.samples[0], at_s=float(n), n_done_total=k) for n, k in enumerate(totals))

    assert mixed_items_warning(replace(window(taken, totals[-1], 120.0), samples=samples)) is None


def test_what_holds_for_all_launches_is_reported_once(taken: Window) -> None:
    progress = MemoryProgress()
    box, store = VirtualBox(SERVICE).box(), MemoryStore(STUDY)
    bench = Workbench(STUDY, box, store, progress, PlannedStop())
    few = window(taken, 2, 60.0)

    for _ in range(3):
        bench._warn_of_items(few)
        bench._warn_once(several_interpreters(Layout(1, 1), 3))

    assert [slug for slug, _ in progress.warnings] == ["few-items", "several-interpreters"]
