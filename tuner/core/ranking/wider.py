"""Whether the answer lies at the edge of the layouts that were measured, while nothing of it is full.

Then larger layouts will give more, and the answer is only the best of layouts that are all too small. What is
not known is not said: without CPU clocks, or at a rate, nobody knows the bottleneck, and the ranking says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING

from tuner.core.defaults import NO_GAIN_RATIO
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.ranking.race_result import leader
from tuner.core.search.growth import MAY_HELP, MOST_THREADS, double, growth_of, opens_too_many
from tuner.core.text.figures import percent

if TYPE_CHECKING:
    from tuner.core.model.diagnosis.diagnose import Diagnosis
    from tuner.core.ranking.ranked import Ranking

_MOST_DOUBLINGS = 6  #: that are proposed at once
_NAMES_ONE = ("race", "all")  #: strategies that name a layout


@dataclass(frozen=True, slots=True)
class Wider:
    """That more threads, or processes, than those of the answer give more."""

    leader: Layout
    is_sure: bool  #: threads wait for nothing that items share: more of them will give more; else they may
    cpu_ratio: float | None  #: of the cores, what the service uses
    larger: tuple[Layout, ...]  #: to measure next, smallest first; empty: *refused* says why there is none
    refused: str = ""  #: what keeps larger ones out, as part of a sentence; empty: nothing does

    @property
    def sentence(self) -> str:
        """That more give more, and why."""
        what = "threads" if self.leader.has_threads else "processes"
        used = None if self.cpu_ratio is None else percent(round(self.cpu_ratio, 2))
        return (
            f"More {what} {'will' if self.is_sure else 'may'} give more: {self.leader} has the most {what} of"
            " these layouts, and they wait most of the time"
            f"{'' if used is None else f' (the service uses {used} of the cores)'}."
        )


def wider_than(study: StudyRecord, ranking: Ranking, diagnoses: Sequence[Diagnosis]) -> Wider | None:
    """What to measure beyond the layouts of *study*; None: nothing shows that more would give more.

    Nothing does where scouts looked at twice as many, and these gave no more.
    """
    from tuner.core.model.diagnosis.diagnose import BUSY

    first = leader(ranking)
    if first is None or study.strategy not in _NAMES_ONE or ranking.objective != "throughput":
        return None
    found = next((one for one in diagnoses if one.layout == first.layout), None)
    measured = [row.layout for row in ranking.rows if row.n_windows]
    if found is None or not _is_at_edge(first.layout, measured):
        return None
    is_full = any(what not in MAY_HELP for what in found.what)
    # where others keep the cores busy, nobody knows what they would leave to more threads
    if (
        is_full
        or found.utilization["cores"].value >= BUSY
        or (found.gain_ratio is not None and found.gain_ratio < NO_GAIN_RATIO)
    ):
        return None
    growth = growth_of(study)
    way = None if growth is None else growth.way_of(first.layout.variant)
    if way is not None and way.ended == "no-gain":
        return None
    gil = found.utilization.get("gil")
    busiest = max(first.cpu_ratio or 0.0, 0.0 if gil is None else gil.value)
    larger, refused = _larger(study, first.layout, busiest)
    return Wider(
        first.layout,
        found.what[0] == "waiting",
        first.cpu_ratio,
        () if way is not None and way.why else larger,
        refused if way is None else way.why or refused,
    )


def _is_at_edge(layout: Layout, measured: Sequence[Layout]) -> bool:
    """Whether no other layout of its variant has as many processes and as many threads in each, or more."""
    return not any(
        other.variant == layout.variant
        and other != layout
        and other.processes >= layout.processes
        and other.threads >= layout.threads
        for other in measured
    )


def _larger(study: StudyRecord, edge: Layout, busiest: float) -> tuple[tuple[Layout, ...], str]:
    """Doublings of *edge* until its *busiest* station would be full, and what refuses the first of them."""
    n = min(_MOST_DOUBLINGS, max(1, ceil(log2(1 / busiest)))) if busiest > 0 else _MOST_DOUBLINGS
    found: list[Layout] = []
    for _ in range(n):
        layout = double(found[-1] if found else edge)[0]
        if layout.total_threads > MOST_THREADS:
            break
        if why := opens_too_many(study.config, layout):
            return tuple(found), "" if found else why
        found.append(layout)
    return tuple(found), "" if found else f"{edge} has {edge.total_threads} threads in all already"
