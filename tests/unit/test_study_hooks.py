"""When the user's commands run, and what becomes of a study when one fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tuner.adapters.virtual.box import Trouble, VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Window
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.run import run_study

from ..raising import raises
from ..wording import wording

A = Layout(1, 4)
SERVICE = VirtualService({A: 10.0})
SHORT: dict[str, Any] = {"window_s": 3.0, "warmup_s": 2.0, "n_blocks": 1, "warms_cache": False}


class HookedBox(VirtualBox):
    """Notes each event; *failing* ones fail, *stopping* ones are where Ctrl-C comes for the second time."""

    def __init__(self, *args: Any, failing: str = "", stopping: str = "", **named: Any) -> None:
        super().__init__(*args, **named)
        self.heard: list[tuple[str, dict[str, str]]] = []
        self.failing, self.stopping = failing, stopping

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        super().run(event, facts)
        self.heard.append((event, dict(facts)))
        if event == self.failing:
            raise MeasurementError(f"the {event} hook failed")
        if event == self.stopping:
            raise KeyboardInterrupt

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.heard]


def ran(box: VirtualBox, **asked: Any) -> tuple[StudyOutcome, MemoryStore, MemoryProgress]:
    store, progress = MemoryStore(virtual_study(SERVICE, **{**SHORT, **asked})), MemoryProgress()
    return run_study(box.box(), store, progress, PlannedStop(), strategy_of(store.study())), store, progress


def test_hooks_enclose_the_study_each_launch_and_each_window() -> None:
    box = HookedBox(SERVICE)
    ran(box, windows_per_launch=2)

    window = ["before_window", "after_window"]
    launch = ["before_launch", *window, *window, "after_launch"]
    assert box.events == ["before_study", *launch, "after_study", "finished"]


def test_hooks_are_reported_which_cell_and_try_it_is() -> None:
    box = HookedBox(SERVICE, troubles=[Trouble("dies", window_attempt=1)])
    ran(box)

    windows = [facts for event, facts in box.heard if event == "before_window"]
    reported = [
        (facts["layout"], facts["block"], facts["attempt"], facts["window_attempt"]) for facts in windows
    ]
    assert reported == [("1x4", "0", "1", "1"), ("1x4", "0", "2", "2")]
    assert (windows[0]["processes"], windows[0]["threads"], windows[0]["variant"]) == ("1", "4", "")


def test_the_last_hook_is_reported_how_it_ended() -> None:
    box = HookedBox(SERVICE)
    ran(box)

    assert box.heard[-1][0] == "finished"
    assert box.heard[-1][1]["exit_code"] == "0"
    assert box.heard[-1][1]["windows"] == "1"


def test_a_failing_hook_before_the_study_ends_it_before_anything_runs() -> None:
    box = HookedBox(SERVICE, failing="before_study")

    with pytest.raises(MeasurementError, match="before_study"):
        ran(box)
    assert box.events == ["before_study", "finished"]
    assert box.heard[-1][1]["exit_code"] == "3"


@pytest.mark.parametrize(("event", "n_launches"), [("before_launch", 2), ("before_window", 2)])
def test_a_failing_hook_before_a_launch_or_window_fails_that_launch(event: str, n_launches: int) -> None:
    outcome, store, progress = ran(HookedBox(SERVICE, failing=event))

    assert [launch.error for _, launch in store.launches()] == [f"the {event} hook failed"] * n_launches
    assert [slug for slug, _ in progress.warnings].count("launch-failed") == n_launches
    assert outcome.exit_code == 3


@pytest.mark.parametrize("event", ["after_window", "after_launch", "after_study"])
def test_a_failing_hook_afterwards_only_warns(event: str) -> None:
    outcome, store, progress = ran(HookedBox(SERVICE, failing=event))

    assert outcome.exit_code == 0
    assert len(store.windows()) == 1
    hooks = {warning for warning in progress.warnings if warning[0] != "few-items"}  # its window is short
    assert hooks == {("hook-failed", f"the {event} hook failed")}


def test_the_second_ctrl_c_still_runs_what_comes_after() -> None:
    box = HookedBox(SERVICE, stopping="before_window")

    with pytest.raises(KeyboardInterrupt):
        ran(box)
    assert box.events == [
        "before_study",
        "before_launch",
        "before_window",
        "after_launch",
        "after_study",
        "finished",
    ]
    assert box.heard[-1][1]["exit_code"] == "130"


def test_a_window_is_kept_before_the_hook_after_it_runs() -> None:
    box, store = HookedBox(SERVICE, stopping="after_window"), MemoryStore(virtual_study(SERVICE, **SHORT))

    with pytest.raises(KeyboardInterrupt):
        run_study(box.box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    assert len(store.windows()) == 1


def test_a_store_that_cannot_be_written_ends_the_study_with_everything_stopped() -> None:
    class FullStore(MemoryStore):
        def add_window(self, launch_id: int, window: Window) -> None:
            if len(self.windows()) == 2:
                raise ConfigError("the disk is full")
            super().add_window(launch_id, window)

    box, store = HookedBox(SERVICE), FullStore(replace(virtual_study(SERVICE, **SHORT), n_blocks=4))

    with raises(ConfigError, wording("launch.disk-full")):
        run_study(box.box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    assert len(store.windows()) == 2
    assert box.events[-3:] == ["after_launch", "after_study", "finished"]
    assert box.heard[-1][1]["exit_code"] == "2"
