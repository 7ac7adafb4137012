"""Replays: what counts as an answer, as right, and what it costs; figures that only the seed changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Kind, Observed, Proposal
from tuner.core.planning.replay import ReplayedStudy, ReplayJob, replay, run, summary
from tuner.core.search.own_suites import OWN_SUITES, SUITE_OPTIONS, own_suite
from tuner.core.search.strategies import STRATEGIES, make_strategy
from tuner.core.search.suite import SimulatedBox, Suite, SuiteNoise
from tuner.core.stats.interval import Estimate

GOOD, BAD = Layout(4, 6), Layout(24, 1)
SUITE = Suite("test", (GOOD, BAD), ((1000.0, 900.0),), SuiteNoise(), launch_s=120.0)


class Scripted:
    """Proposes what it was given, and answers the same at every look until it has reached its answer."""

    def __init__(
        self, proposals: Sequence[Sequence[Proposal]], layout: Layout, kind: Kind, reached_at: int = -1
    ) -> None:
        self._left: Iterator[Sequence[Proposal]] = iter(proposals)
        self._layout, self._kind, self._reached_at = layout, kind, reached_at
        self.seen: list[Observed] = []

    def propose(self) -> Sequence[Proposal]:
        return next(self._left, [])

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        self.seen += windows

    def answer(self) -> Answer:
        return Answer(self._layout, len(self.seen) == self._reached_at, self._kind)

    def estimates(self) -> Mapping[Layout, Estimate]:
        return {}


ONE_EACH = [Proposal(GOOD, 600.0), Proposal(BAD, 600.0)]


def of(strategy: Scripted, cap: int = 2000) -> ReplayedStudy:
    return run(strategy, SUITE.goal("strict"), SimulatedBox(SUITE, 0, ""), cap=cap)


def test_it_ends_as_soon_as_the_strategy_has_its_answer() -> None:
    done = of(Scripted([ONE_EACH] * 9, GOOD, "strict", reached_at=4))

    assert (done.answered, done.right, done.n_windows, done.n_launches) == (True, True, 4, 4)
    assert done.hours == pytest.approx(4 * 720 / 3600)


def test_an_answer_that_is_worse_than_the_margin_is_wrong() -> None:
    done = of(Scripted([ONE_EACH] * 9, BAD, "strict", reached_at=4))

    assert (done.answered, done.right, done.n_windows) == (True, False, 4)


def test_what_promises_and_does_not_reach_its_promise_has_no_answer_and_costs_the_cap() -> None:
    done = of(Scripted([ONE_EACH], GOOD, "strict"), cap=10)

    assert (done.answered, done.right, done.n_windows, done.n_launches) == (False, False, 10, 10)
    assert done.hours == pytest.approx((2 * 720 + 8 * 600) / 3600)


def test_what_promises_nothing_has_answered_when_it_asks_for_no_more() -> None:
    assert of(Scripted([ONE_EACH], GOOD, "none")).right
    assert not of(Scripted([ONE_EACH], BAD, "none")).right


def test_nothing_is_measured_beyond_the_cap() -> None:
    strategy = Scripted([[Proposal(GOOD, 600.0, 4), Proposal(BAD, 600.0, 4), *ONE_EACH]] * 9, GOOD, "none")
    done = of(strategy, cap=6)

    assert len(strategy.seen) == 6
    assert (done.answered, done.n_windows, done.n_launches) == (False, 6, 2)


def test_a_strategy_that_answers_exactly_at_the_cap_has_answered() -> None:
    assert of(Scripted([ONE_EACH] * 3, GOOD, "none"), cap=6).answered
    assert of(Scripted([ONE_EACH] * 9, GOOD, "strict", reached_at=6), cap=6).answered


@pytest.mark.parametrize(
    "proposal", [Proposal(GOOD, 300.0), Proposal(Layout(9, 9), 600.0), Proposal(GOOD, 600.0, 0)]
)
def test_what_was_not_offered_is_refused(proposal: Proposal) -> None:
    with pytest.raises(ValueError, match="Proposal"):
        of(Scripted([[proposal]], GOOD, "none"))


def test_every_look_is_shown_to_who_asks() -> None:
    looks: list[tuple[bool, int]] = []
    run(
        Scripted([ONE_EACH] * 9, GOOD, "strict", reached_at=4),
        SUITE.goal("strict"),
        SimulatedBox(SUITE, 0, ""),
        look=lambda answer, n_windows: looks.append((answer.reached, n_windows)),
    )

    assert looks == [(False, 2), (True, 4)]


def test_the_summary_counts_surfaces_by_themselves_and_names_windows_really_taken() -> None:
    runs = [ReplayedStudy(0, repeat, GOOD, True, True, 10 * (repeat + 1), 5, 1.0) for repeat in range(8)]
    runs += [
        ReplayedStudy(1, 0, BAD, True, False, 90, 5, 1.0),
        ReplayedStudy(1, 1, GOOD, False, False, 2000, 2000, 400.0),
    ]
    figures = summary(ReplayJob(SUITE, "race", "calibrated"), runs)

    assert (figures.n, figures.right_ratio, figures.worst_surface_right_ratio) == (10, 0.8, 0.0)
    assert (figures.p90_windows, figures.mean_windows) == (90, fmean([one.n_windows for one in runs]))
    assert (figures.unanswered_ratio, figures.kind) == (0.1, "calibrated")
    assert figures.right_low < 0.8 < figures.right_high


def test_a_strategy_that_promises_nothing_is_not_said_to_be_strict() -> None:
    assert (
        summary(ReplayJob(SUITE, "in-order"), [ReplayedStudy(0, 0, GOOD, True, True, 2, 2, 0.4)]).kind
        == "none"
    )


def test_the_fields_of_a_summary_are_what_programs_were_promised() -> None:
    figures = summary(ReplayJob(SUITE, "race"), [ReplayedStudy(0, 0, GOOD, True, True, 2, 2, 0.4)])

    assert list(asdict(figures)) == [
        "suite", "strategy", "kind", "n", "right_ratio", "right_low", "right_high",
        "worst_surface_right_ratio", "mean_windows", "p90_windows", "mean_hours", "mean_launches",
        "unanswered_ratio",
    ]  # fmt: skip


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_depends_on_seed_surface_and_repeat_only(name: str) -> None:
    suite = own_suite("identical+drift")  # so that who is named is all luck
    job = ReplayJob(suite, name, seed=3, n_windows=40)
    forwards = [replay(job, surface, repeat) for surface in range(3) for repeat in range(2)]
    backwards = [replay(job, surface, repeat) for surface in (2, 1, 0) for repeat in (1, 0)]

    assert forwards == backwards[::-1]
    assert [replay(replace(job, seed=4), surface, 0) for surface in range(3)] != forwards[::2]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_finds_what_stands_out(name: str) -> None:
    layouts = tuple(Layout(1, threads) for threads in range(1, 9))
    truths = tuple(1000.0 if layout.threads == 3 else 500.0 + 10 * layout.threads for layout in layouts)
    suite = Suite("clear", layouts, (truths,), SuiteNoise(window_sd=0.02, launch_sd=0.01))
    runs = [replay(ReplayJob(suite, name), 0, repeat) for repeat in range(5)]

    assert {one.layout for one in runs} == {Layout(1, 3)}
    assert all(one.right for one in runs)


@pytest.mark.parametrize("name", ["all", "in-order", "successive-halving", "f-race"])
def test_a_budget_of_windows_is_kept(name: str) -> None:
    suite = own_suite("identical")

    for n_windows in (8, 60, 100):
        taken = replay(ReplayJob(suite, name, n_windows=n_windows), 0, 0).n_windows
        assert n_windows - 8 < taken <= n_windows


def test_in_order_launches_one_layout_after_the_other() -> None:
    goal = Goal((GOOD, BAD))
    strategy = make_strategy("in-order", goal, 1, 6)
    box = SimulatedBox(SUITE, 0, "")
    order = []
    while proposals := strategy.propose():
        order += [str(proposal.layout) for proposal in proposals]
        strategy.learn([seen for proposal in proposals for seen in box.take(proposal)])

    assert order == ["4x6"] * 3 + ["24x1"] * 3


def test_halving_halves() -> None:
    layouts = tuple(Layout(1, threads) for threads in range(1, 9))
    suite = Suite("clear", layouts, (tuple(100.0 * x.threads for x in layouts),), SuiteNoise())
    strategy = make_strategy("successive-halving", suite.goal("strict"), 1, 72)
    box = SimulatedBox(suite, 0, "")
    blocks = []
    while proposals := strategy.propose():
        blocks.append({proposal.layout.threads for proposal in proposals})
        strategy.learn([seen for proposal in proposals for seen in box.take(proposal)])

    # 72 windows in three rounds: 3 blocks of 8, then 6 of 4, then 12 of 2
    assert blocks == [set(range(1, 9))] * 3 + [{5, 6, 7, 8}] * 6 + [{7, 8}] * 12


def test_f_race_drops_after_five_blocks_and_decides_the_last_two_by_signed_ranks() -> None:
    layouts = tuple(Layout(1, threads) for threads in range(1, 6))
    suite = Suite("clear", layouts, (tuple(100.0 * x.threads for x in layouts),), SuiteNoise(window_sd=0.01))
    strategy = make_strategy("f-race", suite.goal("strict"), 1)
    box = SimulatedBox(suite, 0, "")
    sizes = []
    while proposals := strategy.propose():
        sizes.append(len(proposals))
        strategy.learn([seen for proposal in proposals for seen in box.take(proposal)])

    # Always the same order, so rank sums are exact and any difference of them is significant.
    assert sizes == [5] * 5
    assert strategy.answer().layout == Layout(1, 5)


@pytest.mark.parametrize("name", ["in-order", "successive-halving", "f-race"])
def test_a_layout_that_fails_is_never_named_and_not_requested_again(name: str) -> None:
    layouts = tuple(Layout(1, threads) for threads in range(1, 6))
    suite = Suite("clear", layouts, (tuple(100.0 * x.threads for x in layouts),), SuiteNoise(window_sd=0.01))
    strategy = make_strategy(name, suite.goal("strict"), 1, 60)
    box = SimulatedBox(suite, 0, "")
    lost, asked = Layout(1, 5), 0
    while proposals := strategy.propose():
        asked += any(proposal.layout == lost for proposal in proposals)
        windows = [seen for proposal in proposals if proposal.layout != lost for seen in box.take(proposal)]
        strategy.learn(windows, failed=[lost] if any(x.layout == lost for x in proposals) else [])

    assert asked == 1
    assert strategy.answer().layout == Layout(1, 4)
    assert lost not in strategy.estimates()


@pytest.mark.parametrize("name", ["successive-halving", "f-race"])
def test_where_every_layout_fails_none_is_named(name: str) -> None:
    suite = own_suite("identical")
    strategy = make_strategy(name, suite.goal("strict"), 1, 60)
    box = SimulatedBox(suite, 0, "")
    first = strategy.propose()
    strategy.learn([seen for proposal in first for seen in box.take(proposal)])
    while proposals := strategy.propose():
        strategy.learn([], failed=[proposal.layout for proposal in proposals])

    assert strategy.answer().layout is None


def test_own_suites_are_the_same_every_time_and_ask_what_they_say() -> None:
    for name in OWN_SUITES:
        suite = own_suite(name)
        assert suite == own_suite(name)
        assert len(set(suite.layouts)) == len(suite.layouts) == len(suite.surfaces[0])
    for row in own_suite("slippage").surfaces:
        ranked = sorted(row)
        assert ranked[0] == pytest.approx(0.979 * ranked[-1])
        assert ranked[-2] < 0.98 * ranked[-1]
    assert {len(set(row)) for row in own_suite("identical").surfaces} == {1}
    assert {sum(value >= 0.98 * max(row) for value in row) for row in own_suite("ties").surfaces} == {6}


def test_options_of_own_suites_add_up() -> None:
    suite = own_suite("identical+drift+heavy-tails")

    assert (suite.noise.drift_sd, suite.noise.student_t_df, suite.noise.window_sd) == (0.06, 3.0, 0.05)
    assert own_suite("two-differ+free-length").window_s is None
    for option in SUITE_OPTIONS:
        assert own_suite(f"ties+{option}") != own_suite("ties")
    with pytest.raises(KeyError):
        own_suite("identical+nonsense")
