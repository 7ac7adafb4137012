"""A launch that was ordered is the launch that a study on its box would make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuner.adapters.virtual.box import Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.fleet import Began, Ended, News, Order, Place, Refused, Sampled, Took, WarmedUp, Warned
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord
from tuner.core.domain.strategy import Proposal
from tuner.core.errors import ConfigError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.fleet.remote_launch import make_order, report_interval_s
from tuner.study.run import run_study

from ..wording import wording

A, B = Layout(1, 4), Layout(2, 2)
SERVICE = VirtualService({A: 10.0, B: 20.0})
SHORT: dict[str, Any] = {"window_s": 10.0, "warmup_s": 5.0, "cores": 4, "box_cores": 4.0, "n_blocks": 1}


def study(**asked: Any) -> StudyRecord:
    return virtual_study(SERVICE, **{**SHORT, **asked})


def box(**made: Any) -> VirtualBox:
    return VirtualBox(SERVICE, seed=3, cores=4, clock=VirtualClock(), **made)


def ordered(layout: Layout = B, *, n_windows: int = 1, **asked: Any) -> Order:
    place = Place(0, 0, "virtual-box", Proposal(layout, 10.0, n_windows))
    return replace(Order("o", place, 1), **asked)


def told(order: Order, record: StudyRecord, on: VirtualBox, **how: Any) -> list[News]:
    found: list[News] = []
    make_order(order, record, on.box(), found.append, how.pop("stop", PlannedStop()), **how)
    return found


def kinds(news: list[News]) -> list[type]:
    return [type(one) for one in news]


def test_it_begins_warms_up_gives_its_windows_and_ends() -> None:
    news = told(ordered(n_windows=2), study(), box(), report_every_s=None)

    assert kinds(news) == [Began, WarmedUp, Took, Took, Ended]
    began, ended = news[0], news[-1]
    assert isinstance(began, Began)
    assert isinstance(ended, Ended)
    assert began.launch.ended_wall_s is None
    assert ended.launch.ended_wall_s is not None
    assert (ended.launch.window_s, ended.launch.n_windows) == (10.0, 2)
    assert [one.window.index for one in news if isinstance(one, Took)] == [0, 1]


def test_it_gives_the_windows_that_a_study_on_that_box_gives() -> None:
    record = study(warms_cache=False)
    store = MemoryStore(record)
    run_study(box().box(), store, MemoryProgress(), PlannedStop(), strategy_of(record))
    (_, first), (_, _) = store.launches()

    news = told(ordered(first.layout), record, box(), report_every_s=None)

    (took,) = [one.window for one in news if isinstance(one, Took)]
    assert took == store.window(1, 0, 1)


def test_what_the_place_has_already_is_not_measured_again() -> None:
    news = told(ordered(n_windows=3, kept=(0, 2), tries={0: 1, 1: 1, 2: 1}), study(), box())

    windows = [one.window for one in news if isinstance(one, Took)]
    assert [(one.index, one.attempt) for one in windows] == [(1, 2)]


def test_a_void_window_is_taken_again_and_both_are_reported() -> None:
    dry = Trouble("dry", layout=B, window_attempt=1)

    news = told(ordered(), study(), box(troubles=(dry,)), report_every_s=None)

    windows = [one.window for one in news if isinstance(one, Took)]
    assert [(one.attempt, bool(one.void)) for one in windows] == [(1, True), (2, False)]


def test_a_launch_that_is_discarded_only_warms_up() -> None:
    news = told(ordered(discards=True), study(), box(), report_every_s=None)

    assert kinds(news) == [Began, WarmedUp, Ended]
    assert isinstance(news[0], Began)
    assert news[0].launch.block == WARMING_BLOCK


def test_a_layout_that_does_not_start_ends_with_its_error_and_a_warning() -> None:
    news = told(ordered(), study(), box(troubles=(Trouble("dies-at-start", layout=B),)))

    assert kinds(news) == [Began, Warned, Ended]
    assert isinstance(news[-1], Ended)
    assert news[-1].launch.error == wording("grid.layout-died-at-start")


def test_a_box_that_cannot_run_the_service_at_all_refuses() -> None:
    class Missing(VirtualBox):
        def running(self, layout: Layout, environment: Any) -> Any:
            raise ConfigError("no such command", hint="Install it.")

    news = told(ordered(), study(), Missing(SERVICE, seed=3, cores=4, clock=VirtualClock()))

    assert news[-1] == Refused("o", "no such command", "Install it.")


def test_after_a_stop_the_window_in_hand_is_finished_and_none_begun() -> None:
    found: list[News] = []
    stop = PlannedStop(lambda: any(isinstance(one, Sampled) and one.sample for one in found))

    make_order(ordered(n_windows=3), study(), box().box(), found.append, stop)

    assert [one.window.index for one in found if isinstance(one, Took)] == [0]
    assert isinstance(found[-1], Ended)
    assert found[-1].launch.error is None


def test_how_it_goes_is_reported_every_few_seconds() -> None:
    news = told(ordered(), study(window_s=20.0), box(), report_every_s=5.0)

    seen = [one.elapsed_s for one in news if isinstance(one, Sampled) and one.sample is not None]
    assert len(seen) in (1, 2)


def test_the_first_second_of_a_window_is_reported_however_short_the_warm_up_was() -> None:
    news = told(ordered(), study(window_s=20.0), box(), report_every_s=50.0)

    assert [one.sample is None for one in news if isinstance(one, Sampled)] == [True, False]


def test_many_boxes_tell_how_it_goes_less_often_each() -> None:
    assert report_interval_s(1) == report_interval_s(100) == 5.0
    assert 1000 / report_interval_s(1000) == 20.0
