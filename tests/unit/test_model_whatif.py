"""What if an item asked for less: what people type, and what it makes of the demands."""

from __future__ import annotations

import pytest

from tuner.core.errors import ConfigError
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.prediction.whatif import CHANGES, DemandChange, WhatIf, parse_change, parse_what_if

from ..raising import raises
from ..wording import key_of, wording

ITEM = Demands(gil_s=0.1, child_s=0.4, asleep_s=0.3)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("x0.5", DemandChange("wait", factor=0.5)),
        ("X2", DemandChange("wait", factor=2.0)),
        ("x.25", DemandChange("wait", factor=0.25)),
        ("x0", DemandChange("wait", factor=0.0)),
        ("+200ms", DemandChange("wait", plus_s=0.2)),
        ("-1s500ms", DemandChange("wait", plus_s=-1.5)),
        (" +2s ", DemandChange("wait", plus_s=2.0)),
    ],
)
def test_a_change_multiplies_or_adds(text: str, change: DemandChange) -> None:
    assert parse_change("wait", text) == change


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.5", wording("model.no-change", text="0.5")),
        ("50%", wording("model.no-change", text="50%")),
        ("0.5x", wording("model.no-change", text="0.5x")),
        ("200ms", wording("model.no-change", text="200ms")),
        ("", wording("model.no-change", text="")),
        ("x", wording("model.no-change", text="x")),
        ("x-1", wording("model.no-change", text="x-1")),
        ("x1e3", wording("model.no-change", text="x1e3")),
        ("xnan", wording("model.no-change", text="xnan")),
        ("x٣", wording("model.no-change", text="x٣")),
        ("x1001", wording("model.more-than-x1000")),
        ("+200", "--wait +200: " + wording("config.no-unit", text=200)),
        ("+-2s", "--wait +-2s: " + wording("config.no-duration", text="-2s")),
        ("-", "--wait -: " + wording("config.no-duration", text="")),
        ("+400d", wording("config.longer-than-a-year")),
    ],
    ids=key_of,
)
def test_anything_else_is_refused_with_what_to_type(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_change("wait", text)

    assert said in caught.value.problem
    assert caught.value.hint or "x1000" in said


def test_changes_of_one_demand_are_made_one_after_the_other() -> None:
    change = parse_what_if({"wait": ["x0.5", "+200ms"], "child-cpu": ["x2"]}, no_gil=False)

    changed = change.of_demands(ITEM)

    assert changed.asleep_s == pytest.approx(0.35)
    assert changed.child_s == pytest.approx(0.8)
    assert changed.gil_s == ITEM.gil_s
    assert str(change) == wording("model.what-if-told-in-order")


def test_every_demand_that_takes_time_can_be_changed() -> None:
    whole = Demands(gil_s=1.0, python_s=1.0, child_s=1.0, asleep_s=1.0, blocked_s=1.0, spawn_s=1.0)

    for name, (field, _) in CHANGES.items():
        changed = parse_what_if({name: ["x3"]}, no_gil=False).of_demands(whole)
        assert getattr(changed, field) == 3.0
        assert changed.total_s == whole.total_s + 2.0


def test_no_gil_changes_the_interpreter_and_nothing_else() -> None:
    change = parse_what_if({}, no_gil=True)

    assert change.of_machine(Machine(24)) == Machine(24, has_gil=False)
    assert change.of_demands(ITEM) == ITEM
    assert str(change) == "no GIL"
    assert change


def test_nothing_typed_changes_nothing() -> None:
    change = parse_what_if({}, no_gil=False)

    assert not change
    assert change == WhatIf()
    assert change.of_machine(Machine(2)) == Machine(2)


def test_more_than_there_is_cannot_be_taken_away() -> None:
    change = parse_what_if({"wait": ["-400ms"]}, no_gil=False)

    with raises(ConfigError, wording("model.waiting-takes")) as caught:
        change.check(ITEM)

    assert caught.value.hint == wording("model.take-less-away")


def test_nothing_is_taken_away_from_nothing() -> None:
    """x0 is no way out: any share of nothing is refused, too."""
    with raises(ConfigError, wording("model.waiting-takes-nothing")) as caught:
        parse_what_if({"spawn": ["-1ms"]}, no_gil=False).check(Demands(gil_s=0.1))

    assert caught.value.hint == "Leave it out."


def test_a_draw_with_less_than_the_middle_loses_what_it_has() -> None:
    change = parse_what_if({"wait": ["-290ms"]}, no_gil=False)

    change.check(ITEM)
    assert change.of_demands(ITEM.scaled(asleep_s=0.9)).asleep_s == 0.0


def test_a_draw_that_loses_all_it_has_keeps_next_to_nothing() -> None:
    item = Demands(asleep_s=0.01, gil_s=0.0)
    draws = [item.scaled(asleep_s=factor) for factor in (0.8, 0.900001, 1.0, 1.2)]
    change = parse_what_if({"wait": ["-9ms"]}, no_gil=False)

    change.check(item)
    changed = change.of_draws(draws, item)

    assert [one.asleep_s for one in changed] == pytest.approx([1e-6, 1e-6, 1e-3, 3e-3])
    assert WhatIf().of_draws(draws, item) == tuple(draws)


def test_what_is_left_of_a_draw_is_of_the_demand_that_the_middle_has_most_of() -> None:
    change = parse_what_if({"wait": ["x0"]}, no_gil=False)

    (changed,) = change.of_draws([Demands(gil_s=0.0, asleep_s=0.3)], ITEM)

    assert changed == Demands(gil_s=0.0, child_s=1e-3 * 0.5)


def test_something_must_be_left_of_an_item() -> None:
    with raises(ConfigError, wording("model.leaves-nothing")):
        parse_what_if({"gil": ["x0"]}, no_gil=False).check(Demands(gil_s=0.1))
