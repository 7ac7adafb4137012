"""The full grid on several hosts: each host measures whole blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Proposal
from tuner.core.search.strategies.full_grid import PILOT_BLOCKS, GridFit, GridOrder
from tuner.core.search.strategies.launches import by_launch
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import pluralize

MOST_GIVEN_UP = 3  #: number of times a place of a block may be lost with its host; then it stays empty


class FleetGrid:
    """The full grid on several hosts, in the order of `domain.layout.blocks`; a host runs whole blocks.

    A host finishes its own block, then the rest of a block whose host is gone, then begins the next block. A
    block that another host finishes has a part for each host, and layouts are compared within a part. If a
    part would have a single launch, another layout of the block is launched with it, even a second time.

    Results of launches and layouts, arguments, answer, and the number of blocks of a grid that sizes itself
    are those of `search.strategies.full_grid.FullGrid`; blocks that have begun are finished.
    """

    def __init__(
        self, goal: Goal, seed: int, n_blocks: int | None = None, windows_per_launch: int = 1
    ) -> None:
        self._goal = goal
        self._n_blocks, self._windows_per_launch = n_blocks, windows_per_launch
        self._order = GridOrder(goal.layouts, seed)
        self._begun: set[int] = set()  #: numbers of the blocks that have begun
        self._open: dict[int, str] = {}  #: incomplete blocks, and the host that last had each
        self._parts: dict[int, dict[str, set[Layout]]] = {}  #: measured layouts by block and host
        self._empty: dict[int, set[Layout]] = {}  #: layouts tried to the end without a valid window, by block
        self._n_given_up: Counter[tuple[int, Layout]] = Counter()
        self._failed: set[Layout] = set()
        self._fit = GridFit(goal)
        self._numbers: dict[tuple[int, str], int] = {}  #: numbers of parts in the fit
        self._latest: dict[str, int] = {}  #: latest block of each host

    # ------------------------------------------------------------------ the strategy

    def next_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Place | None:
        """Return the next launch of the host's own block, of an abandoned block, or of a new block."""
        in_hand = {**self._open, **{place.block: place.box for place in under_way}}
        there = {box, *boxes}
        own = sorted(block for block, who in in_hand.items() if who == box)
        left = sorted(block for block, who in in_hand.items() if who not in there)
        for block in (*own, *left):
            missing = self._missing(block, box)
            if missing:
                return self._place(block, box, missing[0])
        block = self._next_block(in_hand)
        missing = self._missing(block, box)
        return None if not missing or self._is_enough(block) else self._place(block, box, missing[0])

    def learn(self, done: Done) -> None:
        """Add the result of a finished place."""
        place = done.place
        block, box, layout = place.block, place.box, place.asked.layout
        self._failed.update(done.failed)
        self._begun.add(block)
        self._end_parts(block, box)
        for launch in by_launch(done.windows):
            self._parts.setdefault(block, {}).setdefault(box, set()).add(layout)
            self._fit.add(launch, self._number(block, box))
        if not done.is_whole:
            self._n_given_up[block, layout] += 1
        elif not done.windows:
            self._empty.setdefault(block, set()).add(layout)
        self._open[block] = box
        for one in [block, *self._open] if done.failed else [block]:
            if one in self._open and not self._missing(one, self._open[one]):
                del self._open[one]

    def expected_rest(self, under_way: Sequence[Place]) -> Sequence[Proposal] | None:
        """Return the missing launches of begun and later blocks; None for a self-sized grid."""
        if self._n_blocks is None:
            return None
        in_hand = {**self._open, **{place.block: place.box for place in under_way}}
        at_work = {(place.block, place.asked.layout) for place in under_way}
        started = self._begun.union(in_hand)
        rest = [
            layout
            for block, box in sorted(in_hand.items())
            for layout in self._missing(block, box)
            if (block, layout) not in at_work
        ]
        for block in range(self._n_blocks):
            if block not in started:
                rest += [layout for layout in self._order.of(block) if layout not in self._failed]
        return [self._proposal(layout) for layout in rest]

    def answer(self) -> Answer:
        """Return the layout with the best mean over the blocks so far."""
        return self._fit.answer(self._failed)

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate each launched layout's value, without the hosts' levels and drift between blocks."""
        return self._fit.estimates()

    # ------------------------------------------------------------------ blocks

    def _next_block(self, in_hand: Collection[int]) -> int:
        """Return the first block that is neither begun nor assigned."""
        taken = self._begun.union(in_hand)
        return next(block for block in range(len(taken) + 1) if block not in taken)

    def _missing(self, block: int, box: str) -> list[Layout]:
        """Return the layouts that *box* must launch to finish *block*."""
        own: Collection[Layout] = self._parts.get(block, {}).get(box, set())
        empty = self._empty.get(block, set())
        elsewhere = [part for who, part in self._parts.get(block, {}).items() if who != box]
        settled = empty.union(own, *(part for part in elsewhere if len(part) > 1))  # one alone is useless
        can_run = [
            layout
            for layout in self._order.of(block)
            if layout not in self._failed and self._n_given_up[block, layout] < MOST_GIVEN_UP
        ]
        missing = {layout for layout in can_run if layout not in settled}
        if elsewhere and len(missing.union(own)) == 1:
            others = (layout for layout in can_run if layout not in missing.union(own, empty))
            missing.update(list(islice(others, 1)))
        return [layout for layout in can_run if layout in missing]

    def _place(self, block: int, box: str, layout: Layout) -> Place:
        return Place(block, self._order.of(block).index(layout), box, self._proposal(layout))

    def _proposal(self, layout: Layout) -> Proposal:
        return Proposal(layout, self._goal.max_window_s, self._windows_per_launch)

    def _is_enough(self, block: int) -> bool:
        """Return whether the blocks before *block*, which have all begun, suffice."""
        if self._n_blocks is not None:
            return block >= self._n_blocks
        if not len(self._fit):  # no block has a result yet
            return len(self._begun) - len(self._open) >= PILOT_BLOCKS
        return self._fit.would_suffice(block)

    # ------------------------------------------------------------------ results

    def _number(self, block: int, box: str) -> int:
        return self._numbers.setdefault((block, box), len(self._numbers))

    def _end_parts(self, block: int, box: str) -> None:
        """Close the parts of *block* on other hosts, and the block that *box* had before."""
        for who in self._parts.get(block, {}):
            if who != box:
                self._fit.end_block(self._number(block, who))
        before = self._latest.get(box, block)
        if before != block and (before, box) in self._numbers:
            self._fit.end_block(self._numbers[before, box])
        self._latest[box] = block


def describe_idle_hosts(n_blocks: int, n_boxes: int) -> str | None:
    """Describe the hosts without work in the last round of blocks; None: all hosts have equally many.

    Assumption: a block takes equally long on each host.
    """
    n_busy = n_blocks % n_boxes
    if not n_busy:
        return None
    text = pluralize(n_busy, "block")
    if n_blocks > n_boxes:
        text = "the last block" if n_busy == 1 else f"the last {text}"
    keep = "keeps" if n_busy == 1 else "keep"
    whole = pluralize(n_blocks + n_boxes - n_busy, "block")
    return f"{text} {keep} {n_busy} of {n_boxes} hosts busy; {whole} take no longer"
