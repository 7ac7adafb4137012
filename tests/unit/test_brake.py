"""When a limit of the user's counts as passed."""

from __future__ import annotations

import pytest

from tuner.core.domain.safety_limits import BoxNow, BrakeLimits, Braking, CommandResult, parse_brake_error
from tuner.core.domain.window import DECAY

from ..wording import start_of, wording

GIB = 1024**3


def box(load1: float = 0.0, used: float = 1.0) -> BoxNow:
    return BoxNow(load1, int(used * GIB), 10 * GIB)


def test_memory_counts_at_once_as_a_share_of_the_box() -> None:
    braking = Braking(BrakeLimits(memory_ratio=0.9, holds_s=10.0))

    assert braking.look(0.0, box(used=9.0)) is None
    said = wording("brake.memory-over")
    assert braking.look(1.0, box(used=9.5)) == said


def test_memory_counts_at_once_as_bytes() -> None:
    braking = Braking(BrakeLimits(memory_bytes=4.0 * GIB))

    assert braking.look(0.0, box(used=4.0)) is None
    assert braking.look(1.0, box(used=4.5)) == wording("brake.memory-over-bytes")


def looked_at_load(braking: Braking, loads: list[float]) -> list[float]:
    """Seconds at which the brake says stop; one load a second."""
    return [at_s for at_s, load1 in enumerate(loads) if braking.look(float(at_s), box(load1))]


def loads_of(n_active: float, before: float, seconds: int) -> list[float]:
    """load1 each second when *n_active* tasks run from the first one on."""
    loads, load1 = [], before
    for at_s in range(seconds):
        if at_s % 5 == 4:
            load1 = load1 * DECAY + n_active * (1 - DECAY)
        loads.append(round(load1, 2))
    return loads


def test_a_load_over_its_limit_has_to_stay_so() -> None:
    limits = BrakeLimits(load=40.0, holds_s=20.0)

    assert looked_at_load(Braking(limits), [50.0] * 25)[0] == 20
    assert looked_at_load(Braking(limits), [50.0] * 15 + [39.0] + [50.0] * 20) == []


@pytest.mark.parametrize("before", [45.0, 100.0, 400.0])
def test_a_load_that_only_remembers_the_layout_before_is_none(before: float) -> None:
    assert looked_at_load(Braking(BrakeLimits(load=40.0)), loads_of(4.0, before, 300)) == []


def test_a_load_that_comes_of_what_runs_is_one_though_it_was_higher_before() -> None:
    assert looked_at_load(Braking(BrakeLimits(load=40.0)), loads_of(60.0, 100.0, 120))[0] <= 30


def test_a_load_takes_ten_seconds_to_tell_even_when_nothing_need_hold() -> None:
    assert looked_at_load(Braking(BrakeLimits(load=40.0, holds_s=0.0)), [50.0] * 15)[0] == 10


def looked_at_items(braking: Braking, items: list[tuple[int, int]]) -> list[tuple[int, str]]:
    said = [(at_s, braking.look(float(at_s), box(), counts)) for at_s, counts in enumerate(items)]
    return [(at_s, text) for at_s, text in said if text]


def test_the_share_of_errors_is_of_the_last_half_minute_and_has_to_last() -> None:
    braking = Braking(BrakeLimits(errors_ratio=0.05, holds_s=5.0))
    good = [(10 * n, 0) for n in range(60)]
    bad = [(590 + 9 * n, n) for n in range(1, 60)]

    said = looked_at_items(braking, good + bad)

    # one in ten fails from second 60 on: that is over 5 % of 300 items once 16 failed, in second 75
    assert said[0] == (80, wording("brake.items-failed-over"))


def test_few_items_have_no_share_of_errors() -> None:
    limits = BrakeLimits(errors_ratio=0.05, holds_s=0.0)

    assert looked_at_items(Braking(limits), [(0, n) for n in range(20)]) == []
    # slow items: as far back as it takes to have enough of them
    slow = looked_at_items(Braking(limits), [(n // 10, n // 10) for n in range(200)])
    assert slow[0][0] == 100
    assert wording("brake.items-failed") in start_of(slow[0][1])


def test_a_command_has_to_say_no_again_after_so_long() -> None:
    braking = Braking(BrakeLimits(holds_s=10.0))
    no, again = (
        CommandResult(0.0, 1.0, "sh ended with exit code 1"),
        CommandResult(10.0, 11.0, "sh: too deep"),
    )

    assert braking.look(2.0, box(), answer=no) is None
    assert braking.look(15.0, box(), answer=no) is None  # the same answer still
    assert braking.over == wording("launch.ended-with-exit-code", code=1)
    assert braking.look(16.0, box(), answer=again) == "sh: too deep"


def test_a_command_that_says_yes_between_begins_anew() -> None:
    braking = Braking(BrakeLimits(holds_s=10.0))

    for n, refusal in enumerate(["no", None, "no", None, "no", None]):
        assert braking.look(10.0 * n, box(), answer=CommandResult(10.0 * n, 10.0 * n, refusal)) is None


def test_everything_that_is_over_is_reported() -> None:
    braking = Braking(BrakeLimits(memory_ratio=0.5, load=4.0, holds_s=0.0))
    for at_s in range(11):
        said = braking.look(float(at_s), box(8.0, used=6.0))

    assert said == (wording("brake.memory-and-load-over"))


def test_what_a_launch_keeps_of_the_brake_can_be_read_back() -> None:
    assert parse_brake_error("over-limit: in window 1: load", "over-limit") == "in window 1: load"
    assert parse_brake_error("over-limit: in window 1: load", "braked") is None
    assert parse_brake_error("4x1 died", "braked") is None
    assert parse_brake_error(None, "braked") is None
