import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tuner.adapters.proc.cores import EVERY_S, MOST_SHARE_RATIO, HostSpeed, do_fixed_work
from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord
from tuner.core.ranking.host_speed import SpeedChange, speed_changes
from tuner.core.ranking.ranking import rank
from tuner.core.search.strategies.of_study import strategy_of
from tuner.reports.ranking.evidence import describe_caveats
from tuner.reports.ranking.ranking_data import render_ranking_json
from tuner.reports.ranking.ranking_words import notes
from tuner.study.run import run_study

from ..wording import wording

A, B = Layout(2, 2), Layout(1, 4)
STARTED_WALL_S = 1_800_000_000.0


class Cpu:
    """A thread whose units of work take the given CPU times, the last one again and again."""

    def __init__(self, *units_s: float) -> None:
        self.units_s: Iterator[float] = iter(units_s)
        self.unit_s, self.used_s, self.now_s, self.n_done = units_s[-1], 0.0, 100.0, 0

    def work(self) -> None:
        self.unit_s = next(self.units_s, self.unit_s)
        self.used_s += self.unit_s
        self.n_done += 1

    def speed(self) -> HostSpeed:
        return HostSpeed(lambda: self.now_s, self.work, lambda: self.used_s)


def ranked(slower: float) -> tuple[list[str], list[str], list[dict[str, object]] | None]:
    """Notes, caveats and JSON of a study whose host becomes *slower* halfway."""
    store = MemoryStore(virtual_study(VirtualService({A: 200.0, B: 100.0}), n_blocks=12, warms_cache=False))
    box = VirtualBox(VirtualService({A: 200.0, B: 100.0})).box()
    run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    random, seen = Random(1), []
    for n, (_, launch) in enumerate(store.launches()):
        cost_s = 0.004 * (1 + slower * (n >= 12)) * (1 + random.gauss(0, 0.005))
        seen.append(replace(launch, fixed_work_cpu_s=cost_s))
    study, found = store.study(), rank(store.study(), store.windows(), launches=seen)
    facts = json.loads(render_ranking_json(study, found))["study"]
    return notes(study, found), describe_caveats(study, found), facts.get("speed_changes")


def launches(
    costs_s: list[tuple[Layout, float]], *, box: str = "box", heats_of: int | None = None
) -> list[LaunchRecord]:
    return [
        LaunchRecord(
            block=n if heats_of is None else n // heats_of,
            position=0 if heats_of is None else n % heats_of,
            attempt=1,
            layout=layout,
            box=box,
            started_wall_s=STARTED_WALL_S + 60.0 * n,
            running_after_s=1.0,
            warmup_s=1.0,
            settled=True,
            heat=None if heats_of is None else 0,
            fixed_work_cpu_s=cost_s,
        )
        for n, (layout, cost_s) in enumerate(costs_s)
    ]


def noisy(n: int, *, slower_from: int, slower: float, seed: int) -> list[tuple[Layout, float]]:
    """Costs of *n* launches of two layouts in turn; those of B are twice A's, noise is 1 %."""
    random = Random(seed)
    return [
        (
            A if k % 2 else B,
            (0.004 if k % 2 else 0.008) * (1 + slower * (k >= slower_from)) * (1 + random.gauss(0, 0.01)),
        )
        for k in range(n)
    ]


def test_fixed_work_is_the_same_computation_each_time() -> None:
    assert do_fixed_work() == do_fixed_work() != 0


def test_a_look_stands_until_the_next() -> None:
    cpu = Cpu(0.004, 0.006)
    speed = cpu.speed()

    began = speed.total(100.0)
    assert speed.total(110.0) - began == pytest.approx(0.04)
    cpu.now_s = 110.0
    speed.look_if_due()
    assert speed.total(120.0) - began == pytest.approx(0.04 + 0.06)


def test_looks_are_at_least_five_seconds_apart() -> None:
    cpu = Cpu(0.004)
    speed = cpu.speed()
    for _ in range(100):
        cpu.now_s += 1.0
        speed.look_if_due()

    assert cpu.n_done == pytest.approx(100 / EVERY_S, abs=1)


def test_looks_use_at_most_a_thousandth_of_a_core_of_a_slow_host() -> None:
    cpu = Cpu(0.05)
    speed = cpu.speed()
    for _ in range(1000):
        cpu.now_s += 1.0
        speed.look_if_due()

    assert 0 < cpu.used_s <= 1000 * MOST_SHARE_RATIO + 0.05


def test_a_window_after_a_launch_began_does_not_use_the_speed_before_the_launch() -> None:
    cpu = Cpu(*(0.003,) * 9, 0.009)
    speed = cpu.speed()

    assert speed.before_launch() == pytest.approx(0.003)
    cpu.now_s += 1.0
    speed.total(cpu.now_s)
    speed.look_if_due()
    began = speed.total(cpu.now_s)
    assert speed.total(cpu.now_s + 10.0) - began == pytest.approx(0.09)


def test_a_host_that_becomes_slower_is_reported_with_the_moment_and_the_size() -> None:
    (found,) = speed_changes(launches(noisy(30, slower_from=12, slower=0.12, seed=1)), 0.95)

    assert found.box == "box"
    assert found.from_wall_s == STARTED_WALL_S + 60.0 * 12
    assert found.slower.low is not None
    assert found.slower.high is not None
    assert found.slower.low < 0.12 < found.slower.high
    assert found.slower.high - found.slower.low < 0.03


def test_a_host_that_becomes_faster_is_reported_as_negative() -> None:
    (found,) = speed_changes(launches(noisy(30, slower_from=20, slower=-0.1, seed=2)), 0.95)

    assert found.slower.mean == pytest.approx(-0.1, abs=0.015)


def test_layouts_that_use_caches_differently_are_no_change_of_the_host() -> None:
    """A is launched early and B late: their costs differ, but no layout is seen before and after."""
    costs = [(A, 0.004)] * 6 + [(B, 0.008)] * 6

    assert speed_changes(launches(costs), 0.95) == ()


def test_a_host_of_constant_speed_is_reported_in_at_most_one_of_a_hundred_studies() -> None:
    """200 studies at a level of 1 %; without the least size, which would hide most of them."""
    n_found = sum(
        bool(
            speed_changes(
                launches([(x, cost**8) for x, cost in noisy(24, slower_from=99, slower=0, seed=s)]), 0.95
            )
        )
        for s in range(200)
    )

    assert n_found <= 6  # 2 expected; more than 6 are found with a probability of 0.5 %


def test_launches_that_took_turns_are_not_parted() -> None:
    """The change is amid a group of four, which were on the host at the same time."""
    costs = [(x, cost) for x, cost in noisy(24, slower_from=14, slower=0.2, seed=3)]
    (found,) = speed_changes(launches(costs, heats_of=4), 0.95)

    assert (found.from_wall_s - STARTED_WALL_S) / 60.0 % 4 == 0


def in_heats(seed: int, n_heats: int = 12) -> list[LaunchRecord]:
    """Heats of four launches of A and B; the speed differs between heats (sd 15 %), and noise is 5 %."""
    random, costs = Random(seed), []
    for _ in range(n_heats):
        speed = 1 + random.gauss(0, 0.15)
        costs += [(x, 0.004 * speed * (1 + random.gauss(0, 0.05))) for x in (A, B, A, B)]
    return launches(costs, heats_of=4)


def test_launches_of_a_heat_share_its_speed_and_are_one_observation() -> None:
    """Of 100 studies without a change, about one is expected; launches as observations give more than 30."""
    assert sum(bool(speed_changes(in_heats(seed), 0.95)) for seed in range(100)) <= 4


def test_a_change_between_heats_is_found() -> None:
    seen = in_heats(1, 16)
    later = [replace(one, fixed_work_cpu_s=1.8 * (one.fixed_work_cpu_s or 0)) for one in seen[32:]]
    (found,) = speed_changes([*seen[:32], *later], 0.95)

    assert found.from_wall_s == later[0].started_wall_s
    assert found.slower.low is not None
    assert found.slower.high is not None
    assert found.slower.low < 0.8 < found.slower.high


def test_each_host_is_judged_alone() -> None:
    quiet = launches(noisy(20, slower_from=99, slower=0.0, seed=4), box="quiet")
    slower = launches(noisy(20, slower_from=10, slower=0.1, seed=5), box="slower")

    found: tuple[SpeedChange, ...] = speed_changes([*quiet, *slower], 0.95)
    assert [one.box for one in found] == ["slower"]


def test_launches_without_a_measured_speed_are_left_out() -> None:
    unknown = [(A, 0.0)] * 10

    assert speed_changes(launches(unknown), 0.95) == ()


def test_a_slower_host_is_printed_with_the_answer_and_is_in_the_json() -> None:
    printed, caveats, facts = ranked(0.12)

    assert wording("rank.host-slower") in printed
    assert wording("rank.host-slower") in caveats
    assert facts is not None
    assert [one["box"] for one in facts] == ["virtual-box"]


def test_nothing_is_printed_of_a_host_of_constant_speed() -> None:
    printed, caveats, facts = ranked(0.0)

    assert not [one for one in printed + caveats if "test computation" in one]
    assert facts is None
