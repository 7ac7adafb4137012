"""Slices that are wrong: warm-ups or windows alone differ from them. On a simulated host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import exp, inf
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from tuner.adapters.virtual.box import Trouble, VirtualBox, VirtualService
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.app.study_queries import overview_of
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Agreement, LostInSlices, Observed
from tuner.core.domain.window import Reading
from tuner.core.errors import MeasurementError
from tuner.core.ranking.live_status import BoardKeeper
from tuner.core.ranking.next_step import next_step
from tuner.core.ranking.step_case import facts_of
from tuner.core.search.heat_race import HeatRace
from tuner.core.search.recheck import Asked
from tuner.core.search.strategies.of_study import Followed, goal_of, strategy_of
from tuner.core.search.strategies.recheck import Pairs
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import percent
from tuner.ports import Box, Counting, Probe
from tuner.reports.charts.in_time import in_time
from tuner.reports.charts.slices import compare_turns
from tuner.reports.ranking.answer import answer_facts, answer_notes, answer_sentence
from tuner.study.counted import counted_sums, counts_slices, judged_launches, left_out
from tuner.study.pilot_run import read_pilot
from tuner.study.recheck_plan import read_past
from tuner.study.run import run_study
from tuner.study.strategy_driver import Recalled, replay_study

from ..wording import Wording, wording
from .heat_studies import RATES, SERVICE, box_with_places, heat_study, measured

#: while other layouts are started, 4x1 does more than alone, where 2x2 is the best
ALONE = VirtualService({**RATES, Layout(4, 1): 20.0}, settle_s=3.0)


class Interfering(VirtualBox):
    """A host where layout 4x1 is slower alone than together with started layouts."""

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        """Know from the study whether the next launch runs alone."""
        if event == "before_launch":
            self.service = SERVICE if facts.get("heat") else ALONE
        super().run(event, facts)


def ratios_of(seen: Agreement) -> dict[str, str]:
    """The figures of the sentence."""
    low, high = seen.expected.low, seen.expected.high
    return {
        "slices": f"{seen.in_slices:.2f}",
        "alone": f"{seen.alone:.2f}",
        "low": f"{low:.2f}",
        "high": f"{high:.2f}",
    }


def recalled(store: MemoryStore) -> Recalled:
    return replay_study(store, strategy_of(store.study()))


def test_slices_that_agree_with_windows_alone_are_confirmed() -> None:
    progress = MemoryProgress()
    claim = recalled(measured(heat_study(), box_with_places(), progress=progress)).claim()
    seen = claim.answer.agreement
    assert seen is not None
    assert seen.holds
    assert (claim.answer.layout, claim.answer.reached) == (Layout(4, 1), True)
    assert seen.alone == pytest.approx(30 / 24, rel=0.02)
    assert "slices-disagree" not in {slug for slug, _ in progress.warnings}
    assert answer_facts(claim)["slices"]["agree"] is True
    assert answer_notes(claim) == [wording("grid.slices-agree", **ratios_of(seen))]


def test_ratios_in_slices_are_those_of_the_simulated_service() -> None:
    """Ratios of single studies have a standard deviation of 1.3 %, because of the noise of launches."""
    claims = [recalled(measured(heat_study(), box_with_places(seed=seed))).claim() for seed in range(1, 9)]
    ratios = [one.answer.agreement.in_slices for one in claims if one.answer.agreement is not None]

    assert len(ratios) == 8
    assert fmean(ratios) == pytest.approx(30 / 24, rel=0.013)


def test_if_started_layouts_disturb_each_other_windows_alone_decide() -> None:
    progress = MemoryProgress()
    store = measured(heat_study(), box_with_places(kind=Interfering), progress=progress)
    known = recalled(store)
    claim = known.claim()
    seen = claim.answer.agreement
    assert seen is not None
    assert not seen.holds
    assert seen.alone == pytest.approx(20 / 24, rel=0.02)
    assert (claim.answer.layout, claim.answer.reached) == (Layout(2, 2), True)
    assert known.strategy.estimates()[Layout(4, 1)].mean == pytest.approx(20.0, rel=0.02)
    assert known.otherwise == ()
    warned = [text for slug, text in progress.warnings if slug == "slices-disagree"]
    slices, alone = ratios_of(seen)["slices"], ratios_of(seen)["alone"]
    assert warned == [wording("grid.slices-disagree", slices=slices, alone=alone)]
    assert wording("grid.only-windows-alone-count") in answer_sentence(claim)


def stopped_after_the_disagreement(store: MemoryStore) -> None:
    """Measure until the second window alone is taken."""
    launches = {}

    def is_over() -> bool:
        launches.update(store.launches())
        alone = [one for one in store.windows() if launches[one.launch_id].heat is None]
        return len(alone) >= 2

    measured(store.study(), box_with_places(kind=Interfering), store=store, stop=PlannedStop(is_over))


def test_the_answer_of_slices_is_not_claimed_once_windows_alone_differ_from_them() -> None:
    store = MemoryStore(heat_study())
    stopped_after_the_disagreement(store)
    claim = recalled(store).claim()
    assert not claim.answer.reached
    assert claim.answer.agreement is not None
    assert wording("grid.only-windows-alone-count") in answer_sentence(claim)


def test_once_slices_do_not_count_the_ranking_is_of_windows_alone() -> None:
    store = MemoryStore(heat_study())
    stopped_after_the_disagreement(store)
    one = overview_of(store, Path("no-such.tuner.db"))
    rows = {row.layout: row for row in one.ranking.rows}
    keeper = BoardKeeper(store.study(), store.windows())
    strategy = recalled(store).strategy
    board = keeper.board(strategy.answer(), strategy.estimates(), (), tuple)
    states = {place.layout: place.state for place in board.places}

    assert {layout for layout, row in rows.items() if row.n_windows} == {Layout(2, 2), Layout(4, 1)}
    assert rows[Layout(4, 1)].throughput_per_10min.mean == pytest.approx(20.0 * 600, rel=0.02)
    assert states[Layout(2, 2)] == "leads"
    assert states[Layout(1, 1)] == states[Layout(8, 1)] == "unseen"
    assert {place.value for place in board.places if place.state == "unseen"} == {Estimate(None)}


def test_a_study_that_was_stopped_after_the_disagreement_goes_on_with_windows_alone() -> None:
    store = MemoryStore(heat_study())
    stopped_after_the_disagreement(store)
    n_before = len(store.launches())
    clock = box_with_places().clock.resumed(store)
    measured(store.study(), box_with_places(clock=clock, kind=Interfering), store=store)
    assert all(launch.heat is None for _, launch in store.launches()[n_before:])
    assert recalled(store).claim().answer.layout == Layout(2, 2)


def agreement_after(random: Random, host_sd: float, disturbed: float = 0.0) -> Agreement:
    """Play a race of three layouts, of which one is the best by far, and return the result."""
    layouts = (Layout(1, 1), Layout(2, 2), Layout(4, 1))
    study = heat_study(layouts=layouts, within_ratio=0.05)
    race, at_s, n = HeatRace(goal_of(study), 1, 3), 0.0, 0
    while True:
        block = race.propose()
        windows, heats = [], {one.heat for one in block}
        host = {heat: random.gauss(0, host_sd) for heat in heats}
        for one in block:
            own = 0.0 if one.heat is not None else random.gauss(0, host_sd)
            level = {layouts[0]: -0.5, layouts[1]: -0.2, layouts[2]: 0.0}[one.layout]
            level += disturbed * (one.heat is not None and one.layout == layouts[2])
            noise = random.gauss(0, 0.01) + (host[one.heat] if one.heat is not None else own)
            n += 1
            turns_s = None if one.heat is None else at_s
            windows.append(
                Observed(one.layout, exp(level + noise), n, at_s, at_s, one.window_s, turns_s=turns_s)
            )
            at_s += 100.0
        race.learn(windows)
        if (found := race.answer().agreement) is not None:
            return found


@pytest.mark.parametrize("host_sd", [0.01, 0.1])
def test_noise_of_the_host_is_no_disagreement(host_sd: float) -> None:
    random = Random(7)
    found = [agreement_after(random, host_sd) for _ in range(30)]
    assert sum(not one.holds for one in found) <= 2


def test_a_difference_beyond_the_noise_is_a_disagreement() -> None:
    random = Random(8)
    found = [agreement_after(random, 0.01, disturbed=0.3) for _ in range(10)]
    assert all(not one.holds for one in found)


class LosingProbe:
    """A probe that reports a share of the items once the launch has stood still for a while."""

    def __init__(self, probe: Probe, losing: Callable[[Layout], bool], share: float) -> None:
        self._probe, self._losing, self._share = probe, losing, share

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[Counting]:
        with self._probe.counting(layout) as counting:
            read, before, from_n = counting.read, counting.read(), inf

            def fewer() -> Reading:
                nonlocal before, from_n
                reading = read()
                if reading.at_s - before.at_s > 1.5:
                    from_n = min(from_n, before.n_done_total)
                before, n = reading, reading.n_done_total
                return replace(reading, n_done_total=round(min(n, from_n) + self._share * max(0, n - from_n)))

            if self._losing(layout):
                counting.read = fewer  # type: ignore[method-assign]
            yield counting


class LosesItems(VirtualBox):
    """A host whose probe loses items of launches that take turns."""

    share = 0.5

    def box(self) -> Box:
        box = super().box()
        return replace(box, probe=LosingProbe(box.probe, self.losing, self.share))

    @staticmethod
    def losing(layout: Layout) -> bool:
        """All layouts lose items."""
        return layout is not None


class Silent(LosesItems):
    """A host whose probe reports no items of the best layout once it has stood still."""

    share = 0.0

    @staticmethod
    def losing(layout: Layout) -> bool:
        return layout == BEST


class LosesItemsOfOne(LosesItems):
    """A host whose probe loses items of the best layout only."""

    @staticmethod
    def losing(layout: Layout) -> bool:
        return layout == BEST


BEST = max(RATES, key=lambda layout: RATES[layout])


def texts_of(lost: LostInSlices) -> tuple[Wording, Wording]:
    """The warning, and the end of the answer's sentence."""
    share = percent(lost.ratio)
    if lost.layouts:
        return (
            wording("grid.slices-lose-throughput-of-one", share=share),
            wording("grid.only-windows-alone-count-loss-of-one", share=share),
        )
    return (
        wording("grid.slices-lose-throughput", share=share),
        wording("grid.only-windows-alone-count-loss", share=share),
    )


@pytest.mark.parametrize("kind", [LosesItems, LosesItemsOfOne, Silent])
def test_if_launches_lose_throughput_in_slices_windows_alone_decide(kind: type[LosesItems]) -> None:
    progress = MemoryProgress()
    store = measured(heat_study(), box_with_places(kind=kind), progress=progress)
    known = recalled(store)
    claim = known.claim()
    lost = claim.answer.lost_in_slices
    assert lost is not None
    assert lost.layouts == (() if kind is LosesItems else (BEST,))
    assert (claim.answer.layout, claim.answer.reached) == (BEST, True)
    assert known.strategy.estimates()[BEST].mean == pytest.approx(30.0, rel=0.02)
    assert known.otherwise == ()
    warned, why = texts_of(lost)
    assert [text for slug, text in progress.warnings if slug == "slices-lose-throughput"] == [warned]
    assert why in answer_sentence(claim)
    layouts = [str(layout) for layout in lost.layouts]
    assert answer_facts(claim)["lost_in_slices"] == {"ratio": lost.ratio, "layouts": layouts}


@pytest.mark.parametrize("kind", [Interfering, LosesItems, Silent])
def test_windows_in_slices_that_do_not_count_are_in_no_figure(kind: type[VirtualBox]) -> None:
    store = measured(heat_study(), box_with_places(kind=kind))
    in_slices = {number for number, launch in store.launches() if launch.heat is not None}
    counting = counted_sums(store, store.sums()).launches
    pilot, past = read_pilot(store), read_past(store, Asked(BEST, (Layout(2, 2),), 0.05, 0.95, "strict"))

    assert left_out(store) == in_slices
    assert {launch.heat for launch in judged_launches(store)} == {None}
    assert not counts_slices(store)
    assert pilot is not None
    assert past is not None
    assert {one.launch for one in counting} == set(dict(store.launches())) - in_slices
    rates = {**RATES, BEST: 20.0} if kind is Interfering else RATES
    for layout, level in past.levels.items():
        assert exp(level) == pytest.approx(rates[layout], rel=0.02)


class SilentAll(LosesItems):
    """A host whose probe reports no items of any launch once it has stood still."""

    share = 0.0


class DiesInSlices(LosesItems):
    """A host where the best layout dies whenever it takes turns, and the others lose items."""

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        """Know from the study whether the next launch takes turns."""
        super().run(event, facts)
        if event == "before_launch":
            dies = (Trouble("dies", layout=BEST),) if facts.get("heat") else ()
            self._fate = replace(self._fate, troubles=dies)

    @staticmethod
    def losing(layout: Layout) -> bool:
        return layout != BEST


@pytest.mark.parametrize("kind", [SilentAll, DiesInSlices])
def test_after_slices_all_layouts_are_tried_again_alone(kind: type[LosesItems]) -> None:
    store = MemoryStore(heat_study())
    strategy = Followed(strategy_of(store.study()))
    run_study(box_with_places(kind=kind), store, MemoryProgress(), PlannedStop(), strategy)
    known = recalled(store)
    claim = known.claim()

    assert (claim.answer.layout, claim.answer.reached, claim.failed) == (BEST, True, ())
    assert strategy.failed == ()
    assert known.otherwise == ()
    assert strategy.answer() == claim.answer


def test_a_warm_up_that_is_repeated_after_a_dry_source_counts_the_same_when_it_is_read_again() -> None:
    class LosesSome(LosesItems):
        share = 0.62

    dry = Trouble("dry", window_attempt=1, after_s=0.5, lasts_s=1.5)
    store = MemoryStore(heat_study())
    strategy = strategy_of(store.study())
    box = box_with_places(kind=LosesSome, troubles=(dry,))
    run_study(box, store, MemoryProgress(), PlannedStop(), strategy)

    assert strategy.answer().lost_in_slices is not None
    assert strategy.answer() == recalled(store).strategy.answer()


def test_a_launch_that_fails_before_its_slices_explains_why_its_layout_has_no_window() -> None:
    store = measured(heat_study(), box_with_places(kind=LosesItems))
    number, launch = next((number, launch) for number, launch in store.launches() if launch.heat is not None)
    store.finish_launch(number, replace(launch, warmup_s=None, error="failed to start"))

    assert [one.error for one in judged_launches(store) if one.heat is not None] == ["failed to start"]


def test_windows_in_slices_without_any_item_are_no_valid_windows() -> None:
    store = measured(heat_study(), box_with_places(kind=Silent))
    silent = [window for window in store.windows() if window.void]

    assert {window.layout for window in silent} == {BEST}
    assert recalled(store).n_windows == len(store.windows()) - len(silent)


def test_windows_alone_are_as_without_slices() -> None:
    disturbed = Trouble("foreign-cpu", window_attempt=1, lasts_s=1e6, size=0.5)
    store = measured(heat_study(), box_with_places(kind=LosesItems, troubles=(disturbed,)))
    in_slices = {number for number, launch in store.launches() if launch.heat is not None}
    alone = [window for window in store.windows() if window.launch_id not in in_slices]

    assert not any(window.void for window in store.windows() if window.launch_id in in_slices)
    assert {bool(window.void) for window in alone if window.attempt == 1} == {True}
    assert {round(window.length_s) for window in alone if not window.void} == {60}


def test_the_page_shows_no_slices_that_do_not_count() -> None:
    store = measured(heat_study(), box_with_places(kind=LosesItems))
    overview = overview_of(store, Path("no-such.tuner.db"))
    course = in_time(overview).course

    assert compare_turns(overview) is None
    assert max(abs(off) for off in course.off if off is not None) < 0.1


def test_windows_in_slices_count_if_slices_are_right() -> None:
    store = measured(heat_study(), box_with_places())
    assert left_out(store) == set()
    assert counts_slices(store)


def test_a_study_that_was_stopped_after_the_loss_goes_on_with_windows_alone() -> None:
    store, progress = MemoryStore(heat_study()), MemoryProgress()
    lost = PlannedStop(lambda: any(slug == "slices-lose-throughput" for slug, _ in progress.warnings))
    measured(store.study(), box_with_places(kind=LosesItems), store=store, progress=progress, stop=lost)
    n_before = len(store.launches())
    assert all(launch.heat is not None for _, launch in store.launches())
    one = overview_of(store, Path("no-such.tuner.db"))
    assert not any(row.n_windows for row in one.ranking.rows)
    assert one.ranking.claim is not None
    assert not one.ranking.claim.answer.reached
    step = next_step(one.study, one.ranking, facts_of(one, "no-such.tuner.db"))
    assert (step.slug, step.words[:3]) == ("go-on", ("tuner", "grid", "--resume"))

    again = MemoryProgress()
    clock = box_with_places().clock.resumed(store)
    measured(store.study(), box_with_places(clock=clock, kind=LosesItems), store=store, progress=again)
    assert [slug for slug, _ in again.warnings].count("slices-lose-throughput") == 1
    assert all(launch.heat is None for _, launch in store.launches()[n_before:])
    assert recalled(store).claim().answer.reached


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(LosesItems, wording("grid.slower-in-slices")), (Silent, wording("grid.no-item-in-slices"))],
)
def test_a_self_test_ends_if_launches_lose_throughput_in_slices(
    kind: type[LosesItems], problem: Wording
) -> None:
    store = MemoryStore(heat_study(strategy="aa", n_resident=2, layouts=(BEST,), kind="none"))
    pairs = Pairs(BEST, 20, 20.0, 1, in_turns=True)
    with pytest.raises(MeasurementError) as result:
        run_study(box_with_places(kind=kind), store, MemoryProgress(), PlannedStop(), pairs)
    assert result.value.problem == problem
    assert result.value.hint == wording("grid.slower-in-slices-hint")
    n_before = len(store.launches())

    again = Pairs(BEST, 20, 20.0, 1, in_turns=True)
    with pytest.raises(MeasurementError):
        run_study(box_with_places(kind=kind), store, MemoryProgress(), PlannedStop(), again)
    assert len(store.launches()) == n_before
