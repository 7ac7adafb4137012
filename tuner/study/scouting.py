"""Scouts: short windows at the edge of a grid before the first block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import limits_from, usage_of
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.safety_limits import WORDS, render_amount
from tuner.core.domain.settled_load import is_load_of_host
from tuner.core.domain.strategy import Proposal
from tuner.core.search.growth import (
    MOST_THREADS,
    Growth,
    Scout,
    Way,
    added_layouts,
    corner_of,
    opens_too_many,
    walk,
)
from tuner.ports import Box
from tuner.study.history import History
from tuner.study.launch.plan_cells import Cell
from tuner.study.timetable import Timetable

if TYPE_CHECKING:
    from tuner.core.model.diagnosis.diagnose import What

WINDOW_S = 60.0  #: longest window of a scout, which must show a factor of two and not two percent


def is_due(study: StudyRecord, launches: Sequence[tuple[int, LaunchRecord]]) -> bool:
    """Return whether scouts are due: the grid of *study* may grow, and its first block has not begun."""
    facts = study.provenance
    if not facts.may_grow or facts.grid_grew is not None or facts.made_by is not None:
        return False
    return all(launch.block == WARMING_BLOCK for _, launch in launches)


@dataclass(frozen=True, slots=True)
class Scouting:
    """The scouts of a study so far; a new object is made after each scout."""

    study: StudyRecord
    box: Box
    history: History
    timetable: Timetable
    scouts: tuple[Scout, ...]  #: scouts tried to their end, in order

    @classmethod
    def of(
        cls,
        study: StudyRecord,
        box: Box,
        history: History,
        timetable: Timetable,
        windows: Sequence[WindowRecord],
    ) -> Scouting:
        """Return the scouts recorded in *history* and in *windows* of the store."""
        done = [cell for cell in history.scouts if cell.is_done]
        return cls(study, box, history, timetable, scouts_of(study, done, windows))

    @property
    def ways(self) -> tuple[Way, ...]:
        """The progress of the scouts so far, one way per variant."""
        known = (self.study.limits.get("memory_bytes"), self.box.free_bytes())
        most_bytes = min((one for one in known if one is not None), default=None)
        one_process = self.study.config.service.one_process_variants
        return walk(
            self.study.layouts, self.scouts, self._refuses, most_bytes=most_bytes, one_process=one_process
        )

    def next_cell(self) -> Cell | None:
        """Return the cell of the next scout, with its earlier attempts; None: no scout is left."""
        unfinished = next((cell for cell in self.history.scouts if not cell.is_done), None)
        if unfinished is not None:
            return unfinished
        layout = self.ways[-1].next
        return None if layout is None else self.history.scout(layout, _window_s(self.study))

    def grown(self) -> tuple[Growth, tuple[Layout, ...]]:
        """Return the growth of the grid, and the layouts to add."""
        ways, asked = self.ways, self.study.layouts
        return Growth(len(asked), ways), added_layouts(asked, ways, self._does_not_fit)

    def _refuses(self, layout: Layout) -> str | None:
        return self._does_not_fit(layout) or self._takes_too_long(layout)

    def _does_not_fit(self, layout: Layout) -> str | None:
        """Return, as part of a sentence, the limit of study or host that *layout* passes; None: it fits."""
        if layout.total_threads > MOST_THREADS:
            return f"{layout} has more than {MOST_THREADS} threads in all, and grids grow no further"
        return opens_too_many(self.study.config, layout) or self.box.refuses(layout)

    def _takes_too_long(self, layout: Layout) -> str | None:
        """Return why the budget is too short for a scout of *layout* and the larger grid; None: it is not."""
        study = self.study
        own = [one for one in study.layouts if one.variant == layout.variant]
        more = added_layouts(study.layouts, [Way(corner_of(own), layout)], self._does_not_fit)
        of_study = study.window_s if study.strategy == "all" else study.shortest_window_s
        block = [Proposal(one, of_study) for one in (*study.layouts, *more)]
        if self.timetable.fits([Proposal(layout, _window_s(study)), *block]):
            return None
        return f"the budget has no room for {layout} and the grid around it (--budget)"


def scouts_of(
    study: StudyRecord, cells: Sequence[Cell], windows: Sequence[WindowRecord]
) -> tuple[Scout, ...]:
    """Evaluate the windows of *cells*, which are all done, as scouts."""
    # numpy, which a study without scouts need not load
    from tuner.core.model.diagnosis.evidence import evidence_of
    from tuner.core.model.diagnosis.explanation import explain, gils_of, machine_of

    if not cells:
        return ()
    valid = [replace(one, block=0) for one in windows if one.block == WARMING_BLOCK and not one.void]
    seen = evidence_of(study, valid, {})
    what: dict[Layout, tuple[What, ...]] = {}
    if seen:
        what = explain(seen, machine_of(study), gils=gils_of(study)).bound_by
    of_launch = {window.launch_id: window for window in valid}
    found = []
    for cell in cells:
        window = None if not cell.kept else of_launch[cell.kept[0].launch]
        if window is None:
            found.append(Scout(cell.layout, None))
            continue
        found.append(
            Scout(
                cell.layout,
                window.n_done / window.length_s,
                what.get(cell.layout, ()),
                window.pss_bytes,
                _passes(study, window),
            )
        )
    return tuple(found)


def _passes(study: StudyRecord, window: WindowRecord) -> str | None:
    """Return, as part of a sentence, a limit of the user that *window* passed; None: it passed none."""
    usage = usage_of(window, is_load_of_host=is_load_of_host(study))
    for limit in limits_from(study.limits):
        used = usage.get(limit.name)
        if used is not None and used > limit.at_most:
            seen, most = (render_amount(limit.name, value) for value in (used, limit.at_most))
            return f"{window.layout} had {WORDS[limit.name]} {seen}, above the limit of {most}"
    return None


def _window_s(study: StudyRecord) -> float:
    return min(WINDOW_S, study.window_s) if study.strategy == "all" else study.shortest_window_s
