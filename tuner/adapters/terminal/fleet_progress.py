"""How a study on several boxes goes, told to whoever follows a study: a live view, the file beside it."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Sample, Window
from tuner.core.messages.fleet import box_gone
from tuner.ports import BoxwiseProgress, FleetProgress


class FleetTee:
    """A FleetProgress that names the box to each of several, and then tells it as if there were no other."""

    def __init__(self, reported: Sequence[BoxwiseProgress], beside: Sequence[FleetProgress] = ()) -> None:
        """*beside* are told too, as they are."""
        self._observers, self._beside = tuple(reported), tuple(beside)

    def box_came(self, facts: BoxFacts) -> None:  # noqa: D102  (ports.FleetProgress says it; so for the others)
        self._on(facts.name)
        for one in self._beside:
            one.box_came(facts)

    def box_went(self, box: str, why: str) -> None:  # noqa: D102
        for reported in self._observers:
            reported.box_left(box)
            reported.warning(*box_gone(box, why))
        for one in self._beside:
            one.box_went(box, why)

    def launch_started(  # noqa: D102
        self, box: str, layout: Layout, block: int, remaining_s: float | None
    ) -> None:
        for observer in self._on(box):
            observer.launch_started(layout, block, 0, remaining_s)
        for one in self._beside:
            one.launch_started(box, layout, block, remaining_s)

    def sampled(  # noqa: D102
        self,
        box: str,
        layout: Layout,
        elapsed_s: float,
        window_s: float | None,
        items_per_s: float | None,
        sample: Sample | None,
    ) -> None:
        for observer in self._on(box):
            if window_s is None or sample is None or items_per_s is None:
                observer.warming_up(layout, elapsed_s, items_per_s)
            else:
                observer.sampled(layout, elapsed_s, window_s, sample, items_per_s)
        for one in self._beside:
            one.sampled(box, layout, elapsed_s, window_s, items_per_s, sample)

    def window_taken(  # noqa: D102
        self, box: str, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        for observer in self._on(box):
            observer.window_taken(window, n_taken, n_planned, remaining_s)
        for one in self._beside:
            one.window_taken(box, window, n_taken, n_planned, remaining_s)

    def launch_ended(self, box: str) -> None:  # noqa: D102
        for one in self._beside:
            one.launch_ended(box)

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        for observer in self._observers:
            observer.warning(slug, text)
        for one in self._beside:
            one.warning(slug, text)

    def _on(self, box: str) -> Sequence[BoxwiseProgress]:
        for observer in self._observers:
            observer.turn_to(box)
        return self._observers
