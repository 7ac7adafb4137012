"""The race: what it proposes and when, what it claims, and how often it is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp, log
from random import Random
from statistics import fmean, median

import numpy as np
import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import limits_from, verdicts
from tuner.core.domain.strategy import Answer, Goal, Kind, Observed, Proposal
from tuner.core.planning.replay import ReplayedStudy, ReplayJob, replay
from tuner.core.search.posterior import smooth_posterior
from tuner.core.search.racing import Race
from tuner.core.search.suite import SimulatedBox, Suite, SuiteNoise

from ..luck import at_most
from ..raising import raises
from ..wording import wording

KINDS: tuple[Kind, ...] = ("strict", "calibrated")
LAYOUTS = tuple(Layout(24 // threads, threads) for threads in (1, 2, 3, 4, 6, 8, 12, 24))
TRUTH = (600.0, 700.0, 800.0, 1000.0, 900.0, 780.0, 700.0, 500.0)
both_kinds = pytest.mark.parametrize("kind", KINDS)


def suite(
    truth: Sequence[float] = TRUTH, *, sd: float = 0.05, within: float = 0.1, window_s: float | None = 600.0
) -> Suite:
    noise = SuiteNoise(window_sd=sd)
    return Suite("test", LAYOUTS[: len(truth)], (tuple(truth),), noise, within, 0.95, 120.0, window_s)


def led(
    race: Race,
    box: SimulatedBox,
    *,
    n_blocks: int = 200,
    usage: Callable[[Layout], Mapping[str, float]] | None = None,
) -> list[tuple[list[Proposal], list[Observed], Answer]]:
    """What *race* proposed, what it got and what it then claimed, block by block, until it ends."""
    blocks = []
    while len(blocks) < n_blocks and (proposals := list(race.propose())):
        windows = [window for proposal in proposals for window in box.take(proposal)]
        if usage is not None:
            windows = [replace(window, usage=usage(window.layout)) for window in windows]
        race.learn(windows)
        blocks.append((proposals, windows, race.answer()))
    return blocks


def seen(layout: Layout, value: float, number: int, length_s: float = 600.0, **usage: float) -> Observed:
    """The one window of launch *number*, of which there is one every 720 s."""
    return Observed(layout, value, number, 720.0 * number, 720.0 * number + 120, length_s, "", usage)


def test_there_is_no_other_kind() -> None:
    with raises(ValueError, wording("rank.no-such-kind-of-race")):
        Race(Goal(LAYOUTS, kind="none"), 1)


# ------------------------------------------------------------------ the same again


@both_kinds
@pytest.mark.parametrize("window_s", [600.0, None])
def test_the_same_seed_and_windows_give_the_same_proposals_and_answers(
    kind: Kind, window_s: float | None
) -> None:
    source = suite(window_s=window_s)
    one, two = (led(Race(source.goal(kind), 5), source.box(0, "luck"), n_blocks=20) for _ in range(2))

    assert len(one) > 3
    assert repr(one) == repr(two)


@both_kinds
@pytest.mark.parametrize("n_blocks", [1, 2, 4, 7])
def test_a_race_shown_the_windows_of_another_continues_as_that_one(kind: Kind, n_blocks: int) -> None:
    source = suite([1000, 970, 960, 950, 900], sd=0.1, window_s=None)
    first = Race(source.goal(kind), 5)
    blocks = led(first, source.box(0, "luck"), n_blocks=n_blocks)
    resumed = Race(source.goal(kind), 5)
    for _, windows, _ in blocks:
        resumed.learn(windows)

    assert repr(resumed.answer()) == repr(first.answer())
    assert repr(resumed.estimates()) == repr(first.estimates())
    assert repr(list(resumed.propose())) == repr(list(first.propose()))


def test_looking_changes_nothing() -> None:
    source = suite(sd=0.1)
    watched, box = Race(source.goal("strict"), 5), source.box(0, "luck")
    blocks = []
    while len(blocks) < 6:
        proposals = list(watched.propose())
        assert blocks == [] or list(watched.propose()) == proposals
        windows = [window for proposal in proposals for window in box.take(proposal)]
        watched.learn(windows)
        assert [watched.answer() for _ in range(3)] == [watched.answer()] * 3
        assert watched.estimates() == watched.estimates()
        blocks.append((proposals, windows, watched.answer()))

    assert repr(blocks) == repr(led(Race(source.goal("strict"), 5), source.box(0, "luck"), n_blocks=6))


# ------------------------------------------------------------------ the first block, the first looks


def test_strict_measures_each_layout_once_in_the_first_block_in_an_order_of_the_seed() -> None:
    goal = suite().goal("strict")
    orders = {tuple(one.layout for one in Race(goal, seed).propose()) for seed in range(20)}

    assert all(sorted(order) == sorted(LAYOUTS) for order in orders)
    assert len(orders) == 20
    assert {(one.window_s, one.n_windows) for one in Race(goal, 1).propose()} == {(600.0, 1)}


def test_calibrated_begins_with_six_different_layouts_or_with_all() -> None:
    many = [one.layout for one in Race(suite().goal("calibrated"), 1).propose()]
    few = [one.layout for one in Race(suite(TRUTH[:3]).goal("calibrated"), 1).propose()]

    assert len(many) == len(set(many)) == 6
    assert sorted(few) == sorted(LAYOUTS[:3])


@both_kinds
def test_before_anything_was_seen_nothing_is_claimed(kind: Kind) -> None:
    race = Race(suite().goal(kind), 1)

    assert race.answer() == Answer(None, False, kind)
    assert race.estimates() == {}


@both_kinds
def test_at_the_first_look_all_that_was_measured_may_be_best(kind: Kind) -> None:
    """However far apart they are: nothing is known of the noise."""
    source = suite((10.0, 1000.0, 1.0, 20.0), sd=0.0)
    (proposals, _, answer) = led(Race(source.goal(kind), 1), source.box(0, ""), n_blocks=1)[0]

    assert answer.layout == LAYOUTS[1]
    assert set(answer.ties) == {one.layout for one in proposals} - {answer.layout}
    assert answer.doubt is None
    assert not answer.reached


def test_strict_estimates_have_no_interval_before_any_noise_was_seen() -> None:
    source = suite()
    race = Race(source.goal("strict"), 1)
    led(race, source.box(0, ""), n_blocks=1)
    first = race.estimates()
    led(race, source.box(0, "more"), n_blocks=1)

    assert set(first) == set(LAYOUTS)
    assert all(one.low is None and one.high is None for one in first.values())
    for one in race.estimates().values():
        assert one.low is not None
        assert one.mean is not None
        assert one.high is not None
        assert one.low < one.mean < one.high


@both_kinds
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_reached_before_eight_windows_of_layouts_already_seen(kind: Kind, seed: int) -> None:
    source = suite((1.0, 1000.0, 1.0), sd=0.001)
    blocks = led(Race(source.goal(kind), seed), source.box(0, str(seed)))
    counted: Counter[Layout] = Counter()
    for _, windows, answer in blocks:
        counted.update(window.layout for window in windows)
        n_replicates = sum(counted.values()) - len(counted)
        assert answer.reached == (n_replicates >= 8 and min(counted.values()) >= 2)

    assert 8 <= n_replicates <= 10
    assert answer.layout == LAYOUTS[1]


# ------------------------------------------------------------------ a single launch


@both_kinds
@pytest.mark.parametrize("seed", range(3))
def test_no_layout_is_kept_apart_nor_ruled_out_by_a_single_launch(kind: Kind, seed: int) -> None:
    source = suite((1.0, 1000.0, 400.0, 1.0, 600.0), sd=0.001)
    blocks = led(Race(source.goal(kind), seed), source.box(0, str(seed)))
    counted: Counter[Layout] = Counter()
    for _, windows, answer in blocks:
        counted.update(window.layout for window in windows)
        once = {layout for layout, n in counted.items() if n == 1}
        assert once <= {answer.layout, *answer.ties}
        assert not (once and answer.reached)

    assert answer.reached
    assert min(counted.values()) == 2


@both_kinds
def test_the_best_layout_wins_though_its_first_launch_was_a_slow_one(kind: Kind) -> None:
    """Launches of two kinds: one in some is 20 % slower from start to end."""
    best, source = LAYOUTS[1], suite((900.0, 1000.0, 880.0), sd=0.002, within=0.02)
    race, box = Race(source.goal(kind), 1), source.box(0, "luck")
    n_of_best = 0
    while not race.answer().reached:
        windows = [window for proposal in race.propose() for window in box.take(proposal)]
        for place, window in enumerate(windows):
            n_of_best += window.layout == best
            if window.layout == best and n_of_best == 1:
                windows[place] = replace(window, value=0.8 * window.value)
        race.learn(windows)

    assert n_of_best > 1
    assert race.answer().layout == best


# ------------------------------------------------------------------ what cannot run


@both_kinds
def test_a_layout_that_cannot_run_is_never_proposed_again_and_never_answered(kind: Kind) -> None:
    source = suite(sd=0.02)
    race, box = Race(source.goal(kind), 3), source.box(0, "")
    first = list(race.propose())
    best = LAYOUTS[3]
    windows = [window for proposal in first for window in box.take(proposal)]
    broken = {best, first[0].layout}
    race.learn([window for window in windows if window.layout != first[0].layout], [*broken])
    answers = [race.answer()]
    later = led(race, box)
    answers += [answer for _, _, answer in later]

    assert later
    assert not broken & {one.layout for proposals, _, _ in later for one in proposals}
    for answer in answers:
        assert answer.layout not in broken
        assert not broken & set(answer.ties)
    assert answers[-1].reached


@both_kinds
def test_when_all_but_one_failed_that_one_is_the_answer(kind: Kind) -> None:
    source = suite(TRUTH[:3])
    race = Race(source.goal(kind), 1)
    left, *broken = [one.layout for one in race.propose()]
    race.learn([seen(left, 500.0, 0)], broken)

    assert race.answer().layout == left
    assert race.answer().reached
    assert list(race.propose()) == []


@both_kinds
def test_when_all_failed_there_is_nothing_to_propose_and_no_answer(kind: Kind) -> None:
    race = Race(suite(TRUTH[:3]).goal(kind), 1)
    race.learn([], [one.layout for one in race.propose()])

    assert list(race.propose()) == []
    assert race.answer() == Answer(None, False, kind)


@both_kinds
def test_a_single_layout_is_the_answer_after_one_window(kind: Kind) -> None:
    source = suite([700.0])
    blocks = led(Race(source.goal(kind), 1), source.box(0, ""))

    assert [len(proposals) for proposals, _, _ in blocks] == [1]
    assert (blocks[0][2].layout, blocks[0][2].reached) == (LAYOUTS[0], True)


# ------------------------------------------------------------------ limits


@both_kinds
def test_a_layout_beyond_a_limit_never_wins_and_is_no_longer_measured(kind: Kind) -> None:
    source = suite((1000.0, 2000.0, 900.0), sd=0.02)
    fast = LAYOUTS[1]
    luck, limits = Random(1), {"load": 8.0}

    def usage(layout: Layout) -> dict[str, float]:
        return {"load": (20.0 if layout == fast else 3.0) * exp(0.02 * luck.gauss())}

    race = Race(replace(source.goal(kind), limits=limits), 1)
    blocks = led(race, source.box(0, ""), usage=usage)
    n_since, windows, answer = -1, [], blocks[0][2]
    assert answer.layout == fast  # nothing is known of it yet, and this claims nothing
    for proposals, of_block, answer in blocks:
        windows += of_block
        assert n_since < 0 or fast not in {one.layout for one in proposals}
        known = verdicts(limits_from(limits), LAYOUTS[:3], windows, 0.95, kind=kind)
        n_since += known[fast].state == "beyond"
        assert n_since < 0 or fast not in {answer.layout, *answer.ties}
        assert not (answer.reached and answer.layout == fast)

    assert n_since > 2
    assert answer == replace(answer, layout=LAYOUTS[0], reached=True)


@both_kinds
def test_a_leader_not_yet_shown_to_keep_the_limits_is_measured_until_it_is(kind: Kind) -> None:
    source = suite((1000.0, 100.0, 100.0), sd=0.01)
    leader = LAYOUTS[0]

    def launches(load: float, n: int, first: int) -> list[Observed]:
        return [
            seen(leader, 1000.0 * exp(0.01 * (-1) ** k), k, load=load * exp(0.3 * (-1) ** k))
            for k in range(first, first + n)
        ]

    race = Race(replace(source.goal(kind), limits={"load": 8.0}), 1)
    race.learn([seen(layout, 100.0, n, load=3.0 + n) for n, layout in enumerate(LAYOUTS[1:3])])
    race.learn([seen(layout, 101.0, 2 + n, load=3.0 + n) for n, layout in enumerate(LAYOUTS[1:3])])
    race.learn(launches(6.0, 10, 4))
    without = Race(source.goal(kind), 1)
    without.learn([seen(layout, 100.0, n) for n, layout in enumerate(LAYOUTS[1:3])])
    without.learn([seen(layout, 101.0, 2 + n) for n, layout in enumerate(LAYOUTS[1:3])])
    without.learn(launches(6.0, 10, 4))

    assert without.answer().reached
    assert (race.answer().layout, race.answer().reached) == (leader, False)
    assert [one.layout for one in race.propose()] == [leader]

    race.learn(launches(6.0, 60, 14))

    assert (race.answer().layout, race.answer().reached) == (leader, True)
    assert list(race.propose()) == []


@both_kinds
def test_a_single_layout_left_still_has_to_keep_the_limits(kind: Kind) -> None:
    goal = replace(suite([700.0]).goal(kind), limits={"load": 8.0})
    race = Race(goal, 1)
    race.learn([seen(LAYOUTS[0], 700.0, 0, load=7.9)])

    assert not race.answer().reached
    assert [one.layout for one in race.propose()] == [LAYOUTS[0]]


# ------------------------------------------------------------------ how long a window


def chosen_lengths(
    kind: Kind, launch_s: float, low_s: float, high_s: float, seed: int = 1
) -> list[list[float]]:
    """Of each block; a second of the box differs from the next by 60 %, one launch from the next by 2 %."""
    noise = SuiteNoise(launch_sd=0.02, sample_sd_1s=0.6)
    source = Suite("test", LAYOUTS, (TRUTH,), noise, 0.02, 0.95, launch_s, None)
    goal = replace(source.goal(kind), min_window_s=low_s, max_window_s=high_s)
    blocks = led(Race(goal, seed), source.box(0, str(seed)), n_blocks=40)
    return [[one.window_s for one in proposals] for proposals, _, _ in blocks]


@both_kinds
@pytest.mark.parametrize(("low_s", "high_s"), [(10.0, 600.0), (30.0, 40.0), (1.0, 8.0), (100.0, 600.0)])
def test_lengths_stay_between_the_least_and_the_most(kind: Kind, low_s: float, high_s: float) -> None:
    lengths = [one for block in chosen_lengths(kind, 45.0, low_s, high_s) for one in block]

    assert all(low_s <= one <= high_s for one in lengths)


@both_kinds
def test_first_windows_are_short_and_later_ones_longer_when_a_launch_costs_45_s(kind: Kind) -> None:
    first, *later = chosen_lengths(kind, 45.0, 10.0, 600.0)

    assert set(first) == {15.0}
    assert fmean(one for block in later[-10:] for one in block) > 45.0


def test_a_layout_not_seen_before_gets_a_short_window_also_later() -> None:
    noise = SuiteNoise(launch_sd=0.02, sample_sd_1s=0.6)
    source = Suite("test", LAYOUTS, (TRUTH,), noise, 0.02, 0.95, 45.0, None)
    n_new, known = 0, set[Layout]()
    for seed in range(20):
        known.clear()
        for number, (proposals, _, _) in enumerate(
            led(Race(source.goal("calibrated"), seed), source.box(0, str(seed)), n_blocks=30)
        ):
            for one in proposals:
                if number and one.layout not in known:
                    n_new += 1
                    assert one.window_s <= 15.0
                known.add(one.layout)

    assert n_new > 0


def test_the_dearer_a_launch_the_longer_its_window() -> None:
    cheap, dear = (chosen_lengths("strict", launch_s, 1.0, 6000.0)[9:] for launch_s in (5.0, 500.0))

    # losers of the first block are then seen once more, for as short as before
    assert dear[0][0] > 2 * max(one for block in cheap for one in block)


@both_kinds
def test_the_length_is_the_one_requested_where_there_is_no_choice(kind: Kind) -> None:
    assert {one for block in chosen_lengths(kind, 45.0, 77.0, 77.0) for one in block} == {77.0}


@both_kinds
def test_windows_of_one_launch_count_as_one_value_weighted_by_length(kind: Kind) -> None:
    goal = replace(suite(TRUTH[:3], window_s=None).goal(kind), min_window_s=10.0)
    split, whole = Race(goal, 1), Race(goal, 1)
    for number in range(12):
        layout, luck = LAYOUTS[number % 3], exp(0.05 * Random(number).gauss())
        began_s = 2000.0 * number
        short = Observed(layout, 500.0 * luck, number, began_s, began_s + 45, 100.0)
        long = Observed(layout, 800.0 * luck, number, began_s, began_s + 145, 300.0)
        value = exp((log(500.0 * luck) * 100 + log(800.0 * luck) * 300) / 400)
        split.learn([short, long])
        whole.learn([Observed(layout, value, number, began_s, began_s + 45, 400.0)])

    assert split.answer().layout == whole.answer().layout
    assert split.answer().ties == whole.answer().ties
    assert split.answer().doubt == pytest.approx(whole.answer().doubt, rel=1e-6)
    for layout, one in split.estimates().items():
        assert one.mean == pytest.approx(whole.estimates()[layout].mean, rel=1e-9)
        assert one.high == pytest.approx(whole.estimates()[layout].high, rel=1e-6)
    assert [one.layout for one in split.propose()] == [one.layout for one in whole.propose()]
    assert [one.window_s for one in split.propose()] == pytest.approx(
        [one.window_s for one in whole.propose()]
    )


@both_kinds
def test_a_window_feels_the_drift_of_its_middle(kind: Kind) -> None:
    """Where lengths tell nothing of noise, windows of any length around the same times say the same."""
    goal, random = suite(TRUTH[:3]).goal(kind), Random(3)
    short, long = Race(goal, 1), Race(goal, 1)
    for number in range(12):
        middle_s, value = 2000.0 * number + 1000, 500.0 * exp(0.05 * random.gauss())
        for race, length_s in ((short, 10.0), (long, random.choice([20.0, 1800.0]))):
            began_s = middle_s - length_s / 2
            race.learn([Observed(LAYOUTS[number % 3], value, number, began_s, began_s, length_s)])

    assert short.answer().doubt == pytest.approx(long.answer().doubt, rel=1e-9)
    for layout, one in short.estimates().items():
        assert one.high == pytest.approx(long.estimates()[layout].high, rel=1e-9)


# ------------------------------------------------------------------ how often it is right


def studies(
    source: Suite, kind: Kind, n: int, look: Callable[[int, Answer], None] | None = None
) -> list[ReplayedStudy]:
    job = ReplayJob(source, "race", kind, seed=1, cap=400)
    return [
        replay(
            job, 0, repeat, None if look is None else lambda answer, _, repeat=repeat: look(repeat, answer)
        )
        for repeat in range(n)
    ]


@both_kinds
def test_a_clear_winner_is_found_within_few_windows(kind: Kind) -> None:
    runs = studies(suite((500.0, 1000.0, 400.0, 600.0, 300.0, 500.0), sd=0.03), kind, 30)

    assert all(run.right for run in runs)
    assert max(run.n_windows for run in runs) <= 6 + 9 + 5  # losers of the first block are seen once more


def test_identical_layouts_are_kept_apart_at_any_look_in_at_most_5_percent_of_studies() -> None:
    n, told_apart = 200, set()

    def look(repeat: int, answer: Answer) -> None:
        if len(answer.ties) < 3:
            told_apart.add(repeat)

    runs = studies(suite([1000.0] * 4, sd=0.1), "strict", n, look)

    assert all(run.answered for run in runs)
    assert len(told_apart) / n <= at_most(0.05, n, n_sds=3)
    assert max(run.n_windows for run in runs) > 20  # there was something to decide


@pytest.mark.parametrize("n_rivals", [1, 3])
def test_a_rival_just_outside_the_margin_is_called_best_in_at_most_5_percent_of_studies(
    n_rivals: int,
) -> None:
    n = 200
    truth = [899.0] * n_rivals + [1000.0] + [500.0] * (3 - n_rivals)
    runs = studies(suite(truth, sd=0.1), "strict", n)
    n_wrong = sum(run.answered and not run.right for run in runs)

    assert all(run.answered for run in runs)
    assert n_wrong / n <= at_most(0.05, n, n_sds=3)


def drawn_from_what_calibrated_expects(seed: int) -> Suite:
    """A surface, its noise and its drift, from the prior of its filters."""
    random = Random(seed)
    prior = smooth_posterior(LAYOUTS, lengths_vary=False)
    (n,) = random.choices(range(len(prior.weight)), prior.weight)
    sigma = 0.02 + 0.06 * random.random()  # of the usual size
    factor = np.linalg.cholesky(prior.covariance[n, :-1, :-1])
    levels = sigma * factor @ [random.gauss() for _ in LAYOUTS]
    noise = SuiteNoise(
        window_sd=sigma,
        drift_sd=sigma * float(prior.ratio[n]),
        drift_ar1_per_600s=exp(-600 / float(prior.tau_s[n])),
    )
    truth = tuple(1000.0 * exp(float(level - levels.mean())) for level in levels)
    return Suite("drawn", LAYOUTS, (truth,), noise, 0.05, 0.95, 120.0, 600.0)


def test_calibrated_is_wrong_in_at_most_5_percent_of_what_it_expects() -> None:
    n, wrong = 100, 0
    for seed in range(n):
        run = replay(
            ReplayJob(drawn_from_what_calibrated_expects(seed), "race", "calibrated", seed, cap=300), 0, 0
        )
        wrong += run.answered and not run.right

    assert wrong / n <= at_most(0.05, n, n_sds=3)


@both_kinds
def test_intervals_hold_the_truth_about_as_often_as_asked(kind: Kind) -> None:
    n, truth = 100, (1000.0, 950.0, 930.0, 900.0)
    n_held = n_intervals = 0
    widths = []
    source = suite(truth, sd=0.1)
    for repeat in range(n):
        race = Race(source.goal(kind), repeat)
        led(race, source.box(0, f"cover/{repeat}"), n_blocks=25)
        for layout, one in race.estimates().items():
            assert one.low is not None
            assert one.high is not None
            n_held += one.low <= truth[LAYOUTS.index(layout)] <= one.high
            n_intervals += 1
            widths.append(log(one.high / one.low))

    assert 1 - n_held / n_intervals <= at_most(0.05, n, n_sds=3)  # intervals of one study share its noise
    assert n_held < n_intervals
    assert 0.05 < fmean(widths) < 0.8  # of one window alone, sd known: 0.39


@both_kinds
def test_the_doubt_is_reported_from_eight_replicates_on_and_below_what_was_asked_when_reached(
    kind: Kind,
) -> None:
    source = suite((1000.0, 980.0, 940.0, 900.0), sd=0.15)
    n_reached = n_more = 0
    for seed in range(10):
        for number, (_, _, answer) in enumerate(led(Race(source.goal(kind), seed), source.box(0, str(seed)))):
            assert (answer.doubt is None) == (number < 8)  # the first block has each of the four once
            assert answer.doubt is None or 0 <= answer.doubt <= 1
            assert answer.layout not in answer.ties
            if answer.reached:
                assert answer.doubt is not None
                assert answer.doubt <= 0.05
            n_reached += answer.reached
            n_more += answer.doubt is not None and not answer.reached and answer.doubt > 0.05

    assert n_reached == 10
    assert n_more > 0


# ------------------------------------------------------------------ how much is to be expected


@both_kinds
def test_nothing_is_foreseen_before_it_can_be_and_nothing_is_left_at_the_end(kind: Kind) -> None:
    source = suite((1000.0, 950.0, 930.0), sd=0.1)
    race, box = Race(source.goal(kind), 1), source.box(0, "")

    assert race.expected_rest() is None
    led(race, box, n_blocks=7)
    assert race.expected_rest() is None
    led(race, box)
    assert race.answer().reached
    assert race.expected_rest() == []
    limited = Race(replace(source.goal(kind), limits={"load": 8.0}), 1)
    led(limited, source.box(0, ""), n_blocks=12, usage=lambda _: {"load": 1.0})
    assert limited.expected_rest() is None


def test_foreseeing_changes_nothing_and_leaves_out_what_was_proposed() -> None:
    source = suite((1000.0, 950.0, 930.0, 920.0), sd=0.12, within=0.05)
    race, other = (Race(source.goal("strict"), 1) for _ in range(2))
    for one in (race, other):
        led(one, source.box(0, ""), n_blocks=12)
    assert not race.answer().reached
    whole = race.expected_rest()
    proposals = list(race.propose())
    rest = race.expected_rest()

    assert whole is not None
    assert rest == whole[len(proposals) :]
    assert proposals == list(whole[: len(proposals)]) == list(other.propose())
    assert repr(race.answer()) == repr(other.answer())
    assert repr(race.estimates()) == repr(other.estimates())


def test_what_is_foreseen_is_seldom_less_than_it_takes() -> None:
    """Nine of ten hold; the bound is three standard errors below that, of 25 seeded races. Some are close."""
    source = suite((1000.0, 960.0, 930.0, 900.0), sd=0.12, within=0.1)
    ratios = []
    for seed in range(25):
        race, box = Race(source.goal("strict"), seed), source.box(0, str(seed))
        led(race, box, n_blocks=12)
        rest = race.expected_rest()
        if rest:
            ratios.append(len(rest) / sum(len(proposals) for proposals, _, _ in led(race, box)))

    assert len(ratios) > 10
    assert sum(ratio >= 1 for ratio in ratios) / len(ratios) >= 0.9 - 3 * (0.09 / len(ratios)) ** 0.5
    assert median(ratios) < 8


def test_nothing_is_foreseen_before_those_that_may_be_best_were_seen_again() -> None:
    """Of equals estimates differ: too early a race among them looks as if it were soon over."""
    source = suite((1000.0,) * 6, sd=0.02)
    race, box = Race(source.goal("strict"), 1), source.box(0, "1")
    led(race, box, n_blocks=1 + 9)

    assert len(race.answer().ties) == 5
    assert race.expected_rest() is None


def test_a_window_is_never_a_little_longer_or_shorter_than_allowed() -> None:
    layouts = (Layout(1, 1), Layout(1, 2))
    fixed = Race(Goal(layouts, min_window_s=20.000162, max_window_s=20.000162), 1)
    between = Race(Goal(layouts, min_window_s=17.34, max_window_s=17.36), 1)

    assert {proposal.window_s for proposal in fixed.propose()} == {20.000162}
    assert all(17.34 <= proposal.window_s <= 17.36 for proposal in between.propose())
