"""The race on several hosts: no host waits for another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import log
from statistics import median

import numpy as np

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Proposal
from tuner.core.search.challengers import Challenge, standing_ahead
from tuner.core.search.fleet_posterior import LEVELS, FleetPosterior
from tuner.core.search.racing import N_REPLICATES, Racing
from tuner.core.stats.interval import Estimate

# The layout that a calibrated race on several hosts measures on each of them.

#: Cost of a launch of any other layout, relative to one of the leader, which must be measured again anyway.
OTHERS_COST = 2
#: number of launches per host; a host without one among the latest ones counts as gone
GONE_AFTER = 4


class References:
    """The layouts measured on each host, and the cheapest layout to measure on all hosts.

    This is usually the present leader, because it is measured more often than any other layout anyway. A
    layout that most hosts have measured remains the reference if the leader changes: it needs fewer
    launches. The choice depends only on results and running launches, so a resumed study makes the same
    choice.
    """

    def __init__(self) -> None:
        self._boxes_of: dict[Layout, set[str]] = {}  #: hosts that have tried each layout to the end
        self._order: list[str] = []  #: host of each finished place, in order
        self._gone: set[str] = set()  #: hosts that lost their order and have not reported since

    def learn(self, done: Done) -> None:
        """Add the result of a finished place."""
        box = done.place.box
        self._order.append(box)
        if done.is_whole:
            self._gone.discard(box)
            self._boxes_of.setdefault(done.place.asked.layout, set()).add(box)
        else:
            self._gone.add(box)

    def is_on_all(self) -> bool:
        """Return whether some layout was measured on every host that is still active."""
        boxes = self._at_work()
        return any(boxes <= have for have in self._boxes_of.values())

    def chosen_for(
        self, box: str, leader: Layout, under_way: Sequence[Place], failed: Collection[Layout]
    ) -> Layout | None:
        """Return the layout that *box* and all other hosts should measure; None: all candidates failed."""
        boxes = self._at_work() | {box}
        choice = [
            layout for layout in {leader: None, **dict.fromkeys(self._boxes_of)} if layout not in failed
        ]

        def cost(layout: Layout) -> int:
            at_it = {place.box for place in under_way if place.asked.layout == layout}
            lack = boxes - self._boxes_of.get(layout, set()) - at_it
            return len(lack) * (1 if layout == leader else OTHERS_COST)

        return min(choice, key=cost, default=None)  # on equal cost the leader, which is first

    def _at_work(self) -> set[str]:
        """Return the hosts that are active, judged by their latest results."""
        n = GONE_AFTER * len(set(self._order))
        return set(self._order[-n:]) - self._gone


#: Threshold of a calibrated race, in place of THRESHOLDS for one host. With several hosts it must be lower
#: for the same share of right answers, because error probabilities are summed within each filter
#: (bench/fleet.py).
THRESHOLD = 0.68
FILTER_KEPT = 1e-3  #: as in `tuner.core.search.guide`, but levels of hosts triple the number of filters
N_FILTERS = 8  #: number of the likeliest filters, in which launches in progress count as finished
MOST_BOXES = 200  #: most hosts; with more the race would end while each still measures a reference
#: share of a gap's variance due to differences between hosts, above which the race ends, because windows on
#: these hosts cannot reduce it
MOST_LEFT = 0.9


@dataclass(frozen=True, slots=True)
class _SeenLaunch:
    """One launch, in the form that a posterior takes."""

    layout: int
    log_value: float
    at_s: float
    length_s: float
    box: str


class FleetRace(Racing):
    """Race on several hosts: a shared first block and a reference on each host, then single launches.

    The reference connects the hosts: results of different hosts are compared through it. In a strict race it
    comes first. A calibrated race expects similar hosts, so it can wait and take a layout that is worth a
    launch anyway (`References`). The guide is the same as on one host. A free host gets the launch, of the
    leader or its most urgent rival, with the most information on this host, given the expected information of
    running launches; in a strict race also the reference again, if it adds more. On a single host the race is
    `tuner.core.search.racing.Race`, launch by launch, as long as no layout's own noise is clearly different.

    It ends without an answer if more windows on these hosts cannot give one, because the host-by-layout
    interaction exceeds the margin; then more hosts are needed.
    """

    def __init__(self, goal: Goal, seed: int) -> None:
        super().__init__(goal, seed)
        self._seen: list[_SeenLaunch] = []
        self._references = References()  #: references of a calibrated race
        self._tried: dict[str, set[Layout]] = {}  #: layouts tried to the end, by host
        self._last: dict[str, tuple[int, int]] = {}  #: latest block and position of each host
        self._given_up: dict[str, Place] = {}  #: places that hosts had not finished when they left
        #: prediction since the last place; None: not computed yet
        self._foreseen: tuple[Sequence[Proposal] | None] | None = None

    # ------------------------------------------------------------------ the strategy

    def next_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Place | None:
        """Return the next launch of *box*; None: none for now."""
        standing = self._standing()
        if (standing is not None and self._is_reached(standing)) or self._is_one_too_many(box, under_way):
            return None
        asked = self._first_for(box, under_way, boxes)
        is_first = asked is not None
        if asked is None and standing is not None:
            asked = self._decided_for(box, under_way, boxes, standing)
        if asked is None and standing is None:
            asked = self._help_others(under_way)
            is_first = asked is not None
        given_up = self._given_up.get(box)
        if asked is None or (given_up is not None and given_up.asked == asked):
            return None if asked is None else given_up
        block, position = self._last.get(box, (0, -1))
        return Place(block, position + 1, box, asked) if is_first else Place(block + 1, 0, box, asked)

    def learn(self, done: Done) -> None:
        """Add the result of a finished place."""
        place = done.place
        self._foreseen = None
        self._references.learn(done)
        tried = self._tried.setdefault(place.box, set())
        if done.is_whole:
            tried.add(place.asked.layout)
            self._given_up.pop(place.box, None)
        else:
            self._given_up[place.box] = place
        self._last[place.box] = max(self._last.get(place.box, (0, -1)), (place.block, place.position))
        self._take_in(done.windows, done.failed, place.box)

    def expected_rest(self, under_way: Sequence[Place]) -> Sequence[Proposal] | None:
        """Predict the launches that one average host would still make, as `Race` does."""
        if self._foreseen is None:
            ahead = copy(self)
            if isinstance(self._posterior, FleetPosterior):
                ahead._posterior = self._posterior.of_one_box()
                ahead._stands = None
            self._foreseen = (ahead._longest_rest(),)
        (rest,) = self._foreseen
        return None if rest is None else rest[len(under_way) :]

    def levels(self) -> Mapping[str, Estimate]:
        """Estimate each host's level as a ratio to the mean of hosts; empty for a single host."""
        bank = self._posterior
        return bank.box_levels(self._goal.confidence) if isinstance(bank, FleetPosterior) else {}

    # ------------------------------------------------------------------ observations

    def _observe(self, layout: int, log_value: float, at_s: float, length_s: float, box: str) -> None:
        """Add one launch; from the second host on, the posterior is one of several hosts."""
        seen = _SeenLaunch(layout, log_value, at_s, length_s, box)
        self._seen.append(seen)
        if isinstance(self._posterior, FleetPosterior) or box == self._seen[0].box:
            super()._observe(layout, log_value, at_s, length_s, box)
            return
        self._posterior, self._guide = FleetPosterior(self._new_bank()), None
        if self._goal.kind != "strict":
            self._threshold = THRESHOLD
            self._add_guide(LEVELS, FILTER_KEPT)
        for one in self._seen:
            super()._observe(one.layout, one.log_value, one.at_s, one.length_s, one.box)

    # ------------------------------------------------------------------ decisions

    @cached_property
    def _first_order(self) -> Sequence[Layout]:
        return self._first_block()

    @cached_property
    def _usual(self) -> Sequence[Layout]:
        """The layouts of the first block, the best reference first: as many threads as cores, if known.

        Such a layout runs on most hosts, has a good throughput, and is often among the best, so its launch is
        rarely wasted.
        """
        totals = [layout.total_threads for layout in self._first_order]
        usual = self._goal.cores or median(totals)
        return sorted(self._first_order, key=lambda layout: (abs(log(layout.total_threads / usual)), layout))

    def _is_reached(self, standing: Challenge) -> bool:
        """Return whether the answer is reached; on several hosts one layout must be measured on each."""
        reached = super()._is_reached(standing)
        if self._goal.kind == "strict" or not isinstance(self._posterior, FleetPosterior):
            return reached
        return reached and self._references.is_on_all()

    def _reference(self) -> Layout | None:
        """Return the reference of a strict race; None: the race is calibrated, or all layouts failed."""
        if self._goal.kind != "strict":
            return None
        return next((layout for layout in self._usual if layout not in self._failed), None)

    def _reference_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Layout | None:
        """Return the reference if there is one and *box* has not measured it."""
        standing, tried = self._standing(), self._tried.get(box, set())
        if {box, *boxes, *self._tried} == {box}:
            return None
        if self._goal.kind == "strict":
            reference = self._reference()
        elif standing is None or self._untried(self._tried):
            return None
        else:
            leader = self._layouts[standing.leader]
            reference = self._references.chosen_for(box, leader, under_way, self._failed)
        return None if reference in tried else reference

    def _is_one_too_many(self, box: str, under_way: Sequence[Place]) -> bool:
        at_it = {*self._tried, *(place.box for place in under_way)}
        return box not in at_it and len(at_it) >= MOST_BOXES

    def _first_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Proposal | None:
        """Return the reference, or a layout of the first block that no host measures."""
        reference = self._reference_for(box, under_way, boxes)
        if reference is not None:
            is_strict = self._goal.kind == "strict"
            length_s = self._first_window_s() if is_strict else self._window_s(self._index[reference])
            return Proposal(reference, length_s)
        left = self._untried({**self._tried, "": {place.asked.layout for place in under_way}})
        return Proposal(left[0], self._first_window_s()) if left else None

    def _untried(self, tried: Mapping[str, set[Layout]]) -> Sequence[Layout]:
        """Return the layouts of the first block that are not in *tried* on any host."""
        taken = self._failed.union(*tried.values())
        return [layout for layout in self._first_order if layout not in taken]

    def _help_others(self, under_way: Sequence[Place]) -> Proposal | None:
        """Return the unfinished layout of the first block that the fewest other hosts measure."""
        at_work = [place.asked.layout for place in under_way]
        left = [layout for layout in self._untried(self._tried) if layout in at_work]
        return Proposal(min(left, key=at_work.count), self._first_window_s()) if left else None

    def _decided_for(
        self, box: str, under_way: Sequence[Place], boxes: Sequence[str], standing: Challenge
    ) -> Proposal | None:
        bank, leader = self._posterior, standing.leader
        if not isinstance(bank, FleetPosterior):
            return self._decide()
        at_work = {self._index[place.asked.layout] for place in under_way}
        left = [k for k in standing.to_confirm() if k not in at_work]
        if standing.doubt <= self._allowed_error and left:
            return self._confirming(left[0])
        if standing.doubt <= self._allowed_error and self._state(self._layouts[leader]) == "open":
            return Proposal(self._layouts[leader], self._best_window_s())  # it may pass a limit
        if self._is_left_to_boxes(bank, standing, len({*boxes, *self._tried})):
            return None
        at_s = bank.at_s + self._lasts_s(Proposal(self._layouts[leader], self._best_window_s()))
        ahead, unheard = self._ahead(bank, under_way, at_s)
        later = standing_ahead(standing, ahead, self._margin, unheard)
        if bank.n_replicates < N_REPLICATES and self._goal.kind == "strict":
            k = later.to_repeat(1.5 * self._margin)
            return Proposal(self._layouts[k], self._best_window_s())
        rival = int(np.argmax(later.urgency))
        if later.urgency[rival] < 0:  # the only one left, or all windows are running
            return Proposal(self._layouts[leader], self._best_window_s())
        candidates, reference = [rival, leader], self._reference()
        if reference is not None and self._index[reference] not in candidates:
            candidates.append(self._index[reference])
        length_s = self._best_window_s()
        k = max(
            candidates,
            key=lambda one: ahead.expected_information(one, box, length_s, at_s, between=(leader, rival)),
        )
        return Proposal(self._layouts[k], self._window_s(k))

    def _ahead(
        self, bank: FleetPosterior, under_way: Sequence[Place], at_s: float
    ) -> tuple[FleetPosterior, set[int]]:
        """Return the bank as if the launches *under_way* had ended, and the layouts without a prediction.

        Those are layouts of a strict race without any window, because it has no prior for them.
        """
        ahead, unheard = bank.thinned(N_FILTERS), set()
        for place in sorted(under_way, key=lambda place: place.box):
            layout = self._index[place.asked.layout]
            if bank.n_of[layout] or self._goal.kind != "strict":
                ahead.imagine(layout, place.box, place.asked.window_s * place.asked.n_windows, at_s)
            else:
                unheard.add(layout)
        return ahead, unheard

    def _is_left_to_boxes(self, bank: FleetPosterior, standing: Challenge, n_boxes: int) -> bool:
        """Return whether the host-by-layout interaction, and no lack of windows, keeps the answer open."""
        rival = int(np.argmax(standing.urgency))
        if bank.n_replicates < N_REPLICATES or standing.urgency[rival] < 0:
            return False
        likelihood = standing.urgency[rival] * max(bank.n_of[rival], 0.5)
        left = bank.left_by_boxes(standing.leader, rival, n_boxes)
        return bool(likelihood > self._allowed_error and left > MOST_LEFT)
