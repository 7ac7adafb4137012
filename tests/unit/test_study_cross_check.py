"""A study on the virtual box with a second probe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tuner.adapters.virtual.box import VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.core.errors import MeasurementError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.ports import Counting, CrossCheck, Probe
from tuner.study.run import run_study

from ..wording import wording

LAYOUT = Layout(2, 2)
SERVICE = VirtualService({LAYOUT: 50.0})
See = Callable[[Reading], Reading]


class Second:
    """A probe that sees what the virtual box counts in its own way."""

    def __init__(self, truth: Probe, see: See) -> None:
        self._truth, self._see = truth, see

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[SecondCounts]:
        with self._truth.counting(layout) as counting:
            yield SecondCounts(counting, self._see)


class SecondCounts:
    def __init__(self, counting: Counting, see: See) -> None:
        self._counting, self._see = counting, see

    @property
    def environment(self) -> Mapping[str, str]:
        return {"SECOND": "is told"}

    def pids(self) -> frozenset[int]:
        return frozenset()

    def read(self) -> Reading:
        return self._see(self._counting.read())


class Ran:
    def __init__(self, see: See, warmup_s: float | None = 5.0) -> None:
        study = virtual_study(SERVICE, window_s=30.0, warmup_s=warmup_s, n_blocks=1, warms_cache=False)
        self.store, self.progress = MemoryStore(study), MemoryProgress()
        virtual = VirtualBox(SERVICE, seed=5, cores=4, clock=VirtualClock.resumed(self.store))
        check = CrossCheck(Second(virtual, see), 0.02, ("probe virtual", "cross_check other"))
        box = replace(virtual.box(), cross_check=check)
        run_study(box, self.store, self.progress, PlannedStop(lambda: False), strategy_of(study))
        self.void = [[reason.slug for reason in window.void] for window in self.store.windows()]
        self.details = [reason.detail for window in self.store.windows() for reason in window.void]
        self.warned = [slug for slug, _ in self.progress.warnings]


def test_windows_count_when_both_probes_agree() -> None:
    for warmup_s in (5.0, None):
        ran = Ran(lambda truth: replace(truth, n_done_total=truth.n_done_total + 1234), warmup_s)

        assert ran.void == [[]]
        assert "cross-check-gap" not in ran.warned


def test_windows_are_void_when_the_second_probe_counts_otherwise() -> None:
    ran = Ran(lambda truth: replace(truth, n_done_total=truth.n_done_total * 9 // 10))

    assert ran.void == [["probes-disagree"]] * 2  # the study ends: both launches show the same
    assert all(
        re.search(r"probe virtual counted \d+ items and cross_check other \d+ in the same time; ", detail)
        for detail in ran.details
    ), ran.details


def test_a_second_probe_that_gives_no_fresh_count_spoils_no_window_and_is_reported() -> None:
    stopped: list[Reading] = []

    def stops_after_10(truth: Reading) -> Reading:
        stopped.append(truth)
        return stopped[min(len(stopped), 10) - 1]

    ran = Ran(stops_after_10)

    assert ran.void == [[]]
    assert ran.warned == ["cross-check-gap"]


def test_a_second_probe_that_fails_spoils_no_window_and_its_reason_is_reported() -> None:
    def fails(_: Reading) -> Reading:
        raise MeasurementError("the table is gone")

    ran = Ran(fails)

    assert ran.void == [[]]
    ((slug, text),) = ran.progress.warnings
    assert slug == "cross-check-gap"
    assert wording("probes.cross-check-gave-no-count") in text
    assert wording("probes.window-not-compared") in text
