"""The layout that a calibrated race on several boxes measures on each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout

#: What a launch of any other layout costs, where one of the leader costs 1: that is measured again anyway
OTHERS_COST = 2
#: launches for each box; one that made none of the latest so many is taken to be gone
GONE_AFTER = 4


class References:
    """Who measured what, and hence which layout is measured on all boxes with the least that is lost.

    That is the leader of the moment, as a rule: it has to be measured more often than any other, wherever
    that is. A layout that most boxes have keeps its part when another one leads: then fewer launches lack.
    What is chosen follows from what was learnt and from what is under way alone, so a study that is resumed
    goes on with the same.
    """

    def __init__(self) -> None:
        self._boxes_of: dict[Layout, set[str]] = {}  #: that tried it to the end
        self._order: list[str] = []  #: the box of each place that is over
        self._gone: set[str] = set()  #: boxes that lost what they were at, and were not heard of since

    def learn(self, done: Done) -> None:
        """Take note of a place that is over."""
        box = done.place.box
        self._order.append(box)
        if done.is_whole:
            self._gone.discard(box)
            self._boxes_of.setdefault(done.place.asked.layout, set()).add(box)
        else:
            self._gone.add(box)

    def is_on_all(self) -> bool:
        """Whether a layout was measured on every box that is still there."""
        boxes = self._at_work()
        return any(boxes <= have for have in self._boxes_of.values())

    def chosen_for(
        self, box: str, leader: Layout, under_way: Sequence[Place], failed: Collection[Layout]
    ) -> Layout | None:
        """The layout that *box* and all others are to have measured; None: each that was tried failed."""
        boxes = self._at_work() | {box}
        choice = [
            layout for layout in {leader: None, **dict.fromkeys(self._boxes_of)} if layout not in failed
        ]

        def cost(layout: Layout) -> int:
            at_it = {place.box for place in under_way if place.asked.layout == layout}
            lack = boxes - self._boxes_of.get(layout, set()) - at_it
            return len(lack) * (1 if layout == leader else OTHERS_COST)

        return min(choice, key=cost, default=None)  # of equals the leader, which is the first

    def _at_work(self) -> set[str]:
        """The boxes that are there, as far as can be told from what they did."""
        n = GONE_AFTER * len(set(self._order))
        return set(self._order[-n:]) - self._gone
