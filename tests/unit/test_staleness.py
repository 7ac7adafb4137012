"""Whether an answer still holds: known worlds, and how often the claim is wrong in them."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt
from random import Random
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Observed
from tuner.core.errors import ConfigError
from tuner.core.search.recheck import Asked, Check, Checked, Launched, Past, check_answer
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.search.strategies.recheck import Recheck
from tuner.core.stats.variance import MeanSquare
from tuner.reports.check import check_sentence, render_check
from tuner.study.recheck_plan import check_study, read_check, read_past, recheck_of, recheck_options
from tuner.study.run import run_study

from ..raising import raises
from ..wording import start_of, wording

BEST, NEXT, OLD = Layout(4, 6), Layout(6, 4), Layout(24, 1)
MARGIN = -log(0.98)
ASKED = Asked(BEST, (NEXT, OLD), 0.02, 0.95, "calibrated")
STRICT = Asked(BEST, (NEXT, OLD), 0.02, 0.95, "strict")


def past(of_next: float, of_old: float, se: float = 0.01, launch_sd: float = 0.02) -> Past:
    levels = {BEST: 5.0, NEXT: 5.0 + of_next, OLD: 5.0 + of_old}
    gaps = {NEXT: (of_next, se**2), OLD: (of_old, se**2)}
    return Past(gaps, levels, MeanSquare(launch_sd**2, 15))


def looked(
    random: Random,
    asked: Asked,
    then: Past | None,
    of_next: float,
    of_old: float,
    n_blocks: int = 8,
    launch_sd: float = 0.02,
    shift: float = 0.0,
) -> Check:
    launches: list[Launched] = []
    check = None
    for block in range(n_blocks):
        drift = random.gauss(shift, 0.06)
        for layout, gap in ((BEST, 0.0), (NEXT, of_next), (OLD, of_old)):
            launches.append(Launched(block, layout, 5.0 + drift + gap + random.gauss(0, launch_sd)))
        check = check_answer(asked, then, launches)
        if check.state != "open":
            break
    assert check is not None
    return check


def test_what_is_as_it_was_is_right_after_two_or_three_blocks() -> None:
    random = Random(1)
    checks = [looked(random, ASKED, past(-0.04, -0.06), -0.04, -0.06, shift=0.3) for _ in range(50)]

    assert {check.state for check in checks} == {"right"}
    assert sum(check.n_blocks for check in checks) / 50 < 3
    assert checks[0].level_shift == pytest.approx(0.3, abs=0.2)  # the box moved as a whole: no matter


def test_another_that_is_better_now_makes_it_stale() -> None:
    random = Random(2)
    checks = [looked(random, ASKED, past(-0.04, -0.06), -0.04, 0.12) for _ in range(50)]

    assert {check.state for check in checks} == {"stale"}
    assert {check.better for check in checks} == {OLD}
    last = {one.other: one for one in checks[0].against}
    assert last[OLD].low > MARGIN
    assert last[OLD].has_changed


@pytest.mark.parametrize("beyond", [1.0001, 0.9999])
def test_strict_is_wrong_in_one_of_twenty_at_most_however_often_one_looks(beyond: float) -> None:
    random, n = Random(3), 250
    checks = [looked(random, STRICT, None, beyond * MARGIN, beyond * MARGIN) for _ in range(n)]

    wrong = sum(check.state == ("right" if beyond > 1 else "stale") for check in checks)
    assert wrong / n <= 0.05 + 3 * sqrt(0.05 * 0.95 / n)


@pytest.mark.parametrize("times", [1, 1.4, 1.75, 2.5, 4])
@pytest.mark.parametrize("beyond", [1.0001, 0.9999])
def test_strict_judges_as_without_the_study_however_much_launches_differ(times: float, beyond: float) -> None:
    for seed in range(10):
        with_it, without = (
            looked(Random(seed), STRICT, then, beyond * MARGIN, beyond * MARGIN, launch_sd=0.02 * times)
            for then in (replace(past(-0.03, -0.05), levels={}), None)
        )

        assert not with_it.is_noisier  # the study's noise was never used
        assert judged(with_it) == judged(without)


@pytest.mark.parametrize("asked", [ASKED, STRICT], ids=["calibrated", "strict"])
@pytest.mark.parametrize(("shift", "state"), [(0.15, "open"), (-0.25, "open"), (0.0, "stale")])
def test_a_difference_that_a_change_of_the_host_may_explain_makes_no_answer_stale(
    asked: Asked, shift: float, state: str
) -> None:
    random = Random(6)
    checks = [
        looked(random, asked, past(-0.01, -0.06), 0.06, -0.06, launch_sd=0.005, shift=shift)
        for _ in range(20)
    ]

    assert sum(check.state == state for check in checks) >= (12 if state == "stale" else 18)
    assert all(check.explained <= 0.05 for check in checks)


def test_what_one_layout_alone_does_is_no_change_of_the_host() -> None:
    launches = [
        Launched(block, layout, 5.0 + gap + 0.001 * (block % 2) * (layout == OLD))
        for block in range(4)
        for layout, gap in ((BEST, 0.0), (NEXT, 0.12), (OLD, -0.06))
    ]
    check = check_answer(ASKED, past(-0.01, -0.06), launches)

    assert check.explained == pytest.approx(0.0, abs=1e-3)
    assert (check.state, check.better) == ("stale", NEXT)


def judged(check: Check) -> list[object]:
    """What the check says, and from what."""
    found: list[object] = [check.state, check.better, check.n_blocks, check.rest_blocks]
    for one in check.against:
        found += [one.other, one.parts, one.df, one.level_low, one.level_high, one.now, one.now_se]
    return found


@pytest.mark.parametrize(("moved", "in_turns"), [(0.005, False), (0.02, False), (0.08, False), (0.02, True)])
def test_calibrated_is_wrong_in_one_of_twenty_at_most_where_differences_moved(
    moved: float, *, in_turns: bool
) -> None:
    random, n, wrong = Random(4), 200, 0
    asked = replace(ASKED, in_turns=in_turns)
    launch_sd = 0.03 if in_turns else 0.02  # windows of layouts that take turns are shorter
    for _ in range(n):
        then = random.gauss(-0.02, 0.02), random.gauss(-0.03, 0.02)
        seen = past(*(gap + random.gauss(0, 0.01) for gap in then))
        now = [gap + random.gauss(0, moved) for gap in then]
        state = looked(random, asked, seen, *now, launch_sd=launch_sd).state
        is_stale = max(now) > MARGIN
        wrong += (state == "right" and is_stale) or (state == "stale" and not is_stale)

    assert wrong / n <= 0.05 + 3 * sqrt(0.05 * 0.95 / n)


def test_one_block_says_nothing_and_how_much_longer_it_takes_is_reported() -> None:
    check = looked(Random(5), ASKED, past(-0.01, -0.06), -0.01, -0.06, n_blocks=1)

    assert check.state == "open"
    assert not check.is_beyond_foreseeing
    assert check.rest_blocks is not None
    assert check.rest_blocks >= 1
    assert check_answer(ASKED, None, []) == Check("open", 0, (), None, None, 0.0, False, None)


@pytest.mark.parametrize("asked", [ASKED, STRICT], ids=["calibrated", "strict"])
def test_it_is_not_right_while_one_of_the_others_has_no_window(asked: Asked) -> None:
    random = Random(5)
    launches = [
        Launched(block, layout, gap + random.gauss(0, 0.005))
        for block in range(6)
        for layout, gap in ((BEST, 0.0), (OLD, -0.1))
    ]
    seen = check_answer(asked, past(-0.04, -0.06), launches)
    without = check_answer(Asked(BEST, (OLD,), 0.02, 0.95, asked.kind), past(-0.04, -0.06), launches)
    better = check_answer(asked, past(-0.04, -0.06), [*launches, *(Launched(n, NEXT, 0.2) for n in range(6))])

    assert seen.state == "open"
    assert [one.other for one in seen.against] == [OLD]
    assert without.state == "right"  # nobody asks for the other any more: it cannot be run
    assert (better.state, better.better) == ("stale", NEXT)


def test_a_check_whose_runner_up_is_disturbed_for_two_blocks_waits_for_it() -> None:
    void = [Trouble("foreign-cpu", layout=NEXT, block=block) for block in range(2)]
    found = checked({BEST: 100.0, NEXT: 150.0, OLD: 90.0}, *void)

    assert (found.check.state, found.check.better) == ("stale", NEXT)


def test_noise_of_now_counts_alone_where_it_is_larger() -> None:
    random = Random(6)
    launches = [
        Launched(block, layout, random.gauss(0, 0.2)) for block in range(6) for layout in (BEST, NEXT, OLD)
    ]
    check = check_answer(ASKED, past(-0.04, -0.06), launches)

    assert check.is_noisier
    assert check.state == "open"


def test_layouts_that_take_turns_are_judged_by_their_noise_of_now_alone() -> None:
    in_turns = replace(ASKED, in_turns=True)
    launches = [
        Launched(block, layout, random.gauss(0, 0.025))
        for random in [Random(7)]
        for block in range(3)
        for layout in (BEST, NEXT, OLD)
    ]
    of_study, of_now = (check_answer(one, past(-0.04, -0.06), launches) for one in (ASKED, in_turns))

    assert not of_study.is_noisier  # so the noise of the study is used
    assert {one.df for one in of_study.against} == {15 + 4}
    assert {one.df for one in of_now.against} == {4}


GRID = {BEST: 100.0, NEXT: 96.0, OLD: 90.0}
NOISE = Noise(window_sd=0.005, launch_sd=0.01, sample_sd=0.0)


def measured(store: MemoryStore, items_per_s: dict[Layout, float], strategy: Any, *troubles: Trouble) -> int:
    service = VirtualService(items_per_s, settle_s=1.0)
    box = VirtualBox(service, NOISE, seed=9, clock=VirtualClock.resumed(store), troubles=troubles).box()
    return run_study(box, store, MemoryProgress(), PlannedStop(), strategy).exit_code


def checked(now: dict[Layout, float], *troubles: Trouble, **asked: Any) -> Checked:
    """A study of GRID, and a check of it on a box that gives *now*."""
    usual: dict[str, Any] = {"warmup_s": 5.0, "warms_cache": False, "window_s": 60.0, "n_blocks": 4}
    parent = MemoryStore(virtual_study(VirtualService(GRID), **usual))
    measured(parent, GRID, strategy_of(parent.study()))
    options: dict[str, Any] = {"current": OLD, "window_s": None, "budget_s": None, "kind": "calibrated"}
    record = check_study(
        parent.study(),
        virtual_study(VirtualService(GRID), **usual, created_wall_s=1_010_000_000.0),
        ranked=[BEST, NEXT, OLD],
        parent_name="s.tuner.db",
        windows=parent.windows(),
        **{**options, **asked},
    )
    store = MemoryStore(record)
    measured(store, now, recheck_of(record, read_past(parent, recheck_options(record))), *troubles)
    return read_check(parent, store)


def test_a_check_of_a_box_that_is_slower_as_a_whole_is_still_right() -> None:
    found = checked({layout: 0.7 * value for layout, value in GRID.items()})

    assert found.check.state == "right"
    assert found.check.level_shift == pytest.approx(log(0.7), abs=0.05)
    assert wording("check.is-still-right") in start_of(check_sentence(found))
    assert wording("check.less-than-in-the-study") in render_check(found)
    assert found.age_s > 86400 * 100


def test_a_check_of_a_changed_box_is_stale() -> None:
    found = checked({**GRID, OLD: 120.0})

    assert (found.check.state, found.check.better) == ("stale", OLD)
    assert wording("check.is-stale") in check_sentence(found)
    assert wording("check.difference-has-changed") in render_check(found)


def test_a_budget_that_is_too_short_leaves_it_open_and_says_how_much_longer() -> None:
    found = checked({**GRID, NEXT: 100.0}, budget_s=250.0)

    assert found.check.state == "open"
    assert found.rest_s is not None
    assert found.rest_s > 100.0
    assert wording("check.can-be-expected-to-decide") in render_check(found)


def test_what_no_foreseeable_time_decides_is_not_laid_to_the_margin_alone() -> None:
    random = Random(9)
    both = (BEST, NEXT)
    launches = [Launched(block, layout, random.gauss(0, 0.2)) for block in range(6) for layout in both]
    check = check_answer(replace(ASKED, others=(NEXT,)), None, launches)
    found = replace(checked({**GRID, NEXT: 100.0}, budget_s=250.0), check=check, rest_s=None)

    assert (check.state, check.rest_blocks, check.is_beyond_foreseeing) == ("open", None, True)
    assert abs(check.against[0].gap) < check.against[0].now_se  # nothing to do with the margin
    assert wording("check.no-blocks-decide") in render_check(found)


def test_a_winner_that_cannot_be_run_any_more_is_said() -> None:
    found = checked(GRID, Trouble("dies-at-start", BEST))

    assert (found.check.state, found.failed) == ("open", (BEST,))
    assert wording("check.cannot-be-run-now") in start_of(check_sentence(found))


def test_a_layout_that_is_left_out_after_it_was_measured_is_not_compared_any_more() -> None:
    recheck = Recheck(ASKED, past(-0.04, -0.06), seed=1, window_s=60.0)
    for block, values in enumerate(({BEST: 100.0, NEXT: 96.0, OLD: 90.0}, {BEST: 101.0, NEXT: 96.0})):
        windows = [
            Observed(layout, value, 10 * block + n, 100.0 * block, 100.0 * block + 5, 60.0)
            for n, (layout, value) in enumerate(values.items())
        ]
        recheck.learn(windows, failed=[OLD] if block else [])

    assert [one.other for one in recheck.check().against] == [NEXT]
    assert all(one.layout != OLD for one in recheck.propose())


def test_a_layout_in_use_that_the_study_did_not_have_is_compared_all_the_same() -> None:
    new = Layout(3, 8)
    found = checked({**GRID, new: 80.0}, current=new)

    assert found.check.state == "right"
    assert {one.other: one.past is None for one in found.check.against} == {new: True, NEXT: False}
    assert exp(found.check.against[0].gap) < 1


def test_a_winner_with_nothing_beside_it_cannot_be_checked() -> None:
    study = virtual_study(VirtualService(GRID))
    with raises(ConfigError, wording("check.ranks-4x6-alone")):
        check_study(
            study, study, ranked=[BEST], current=BEST, window_s=60.0, budget_s=None, kind="strict",
            parent_name="s.tuner.db", windows=[],
        )  # fmt: skip
