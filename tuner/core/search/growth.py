"""The growth of a grid: from its largest layout until twice as many give no more.

The size of a grid follows from the cores. A service that waits can use many more threads, so scouts measure
the edge before the first block: one short window of the layout with the most threads in all, then of twice
the threads, and so on while throughput rises. Then twice the processes, and threads again if that was faster.
The grid is extended around the last layout: half, once and twice as many threads in all.

The walk continues as long as the last layout's bottleneck is neither the cores nor the GIL nor memory, and as
the next one fits. Its rules:

- A gain is measured: `NO_GAIN_RATIO` or more of the throughput of half as many. A gain below `SURE_GAIN` may
  be chance, so both layouts are measured once more, and the second windows alone must confirm it. The
  bottleneck only ends the walk. If it is unknown (no CPU clocks, requests at a rate), the gain alone decides:
  a wrong step costs a few launches, but a grid that is too small costs the answer.
- Scouts only choose the layouts. Their windows are neither passed to a strategy nor counted in a ranking:
  given their results, the layouts are fixed before the first block, and each claim over them holds as if the
  user had chosen them (sample splitting; Cox, A note on data-splitting, 1975). So every block is whole, and
  limits for all pairs are for the final number of layouts. docs/method/growth.md has the argument and its
  check by simulation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tuner.core.defaults import NO_GAIN_RATIO
from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.service import connections_of, shape_of
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.messages import Message
from tuner.core.messages.study import grid_grows
from tuner.core.text.figures import list_names, render_size

if TYPE_CHECKING:
    from tuner.core.domain.records import StudyRecord
    from tuner.core.model.diagnosis.diagnose import What

SURE_GAIN = 1.25  #: a gain that windows with a scatter of 5 % show by chance once in 1000 times
#: threads in all processes; a service that needs more should use an event loop, not a larger grid
MOST_THREADS = 4096
#: bottlenecks that more threads may relieve, unlike the cores, the GIL and memory
MAY_HELP: tuple[What, ...] = ("waiting", "backend")

#: reason for the end of a walk: a resource is full, doubling gained nothing, the next layout is not possible,
#: or a scout gave no valid window
Ended = Literal["full", "no-gain", "refused", "unseen"]
#: function that returns the reason why a layout cannot be measured, as part of a sentence; None: it can
Refuses = Callable[[Layout], str | None]


@dataclass(frozen=True, slots=True)
class Scout:
    """The result of one scout window, which only chooses layouts."""

    layout: Layout
    per_s: float | None  #: items per second; None: no window of it is valid
    what: tuple[What, ...] = ()  #: bottlenecks, most important first; empty: unknown
    memory_bytes: float | None = None
    passes: str | None = None  #: limit of the user that it exceeded, as part of a sentence


@dataclass(frozen=True, slots=True)
class Way:
    """The walk of one variant so far."""

    began: Layout
    reached: Layout
    ended: Ended | None = None  #: None: the walk continues
    why: str = ""  #: reason why the next layout is not possible; empty: there is none
    next: Layout | None = None  #: next layout to scout; None: the walk has ended


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a grid by scouts."""

    n_asked: int  #: number of layouts of the study before it grew
    ways: tuple[Way, ...] = ()

    def way_of(self, variant: str) -> Way | None:
        """Return the walk of one variant; None: there was none."""
        return next((way for way in self.ways if way.began.variant == variant), None)


def walk(
    layouts: Sequence[Layout],
    scouts: Sequence[Scout],
    refuses: Refuses,
    *,
    most_bytes: float | None = None,
    one_process: Collection[str] = (),
) -> tuple[Way, ...]:
    """Compute the walk of each variant from the edge of *layouts*, up to the first unfinished one.

    The same arguments give the same walks, so an interrupted study continues where it stopped.

    Args:
        layouts: of the grid.
        scouts: results so far, one or two of each layout.
        refuses: called with a layout before it is scouted.
        most_bytes: memory that a layout may use; None: any.
        one_process: the variants that have one process only.
    """
    seen: dict[Layout, list[Scout]] = {}
    for one in scouts:
        seen.setdefault(one.layout, []).append(one)
    ways: list[Way] = []
    for variant in dict.fromkeys(layout.variant for layout in layouts):
        corner = corner_of([layout for layout in layouts if layout.variant == variant])
        may_fork = variant not in one_process
        ways.append(_way(corner, seen, _with_memory(refuses, seen, most_bytes), may_fork=may_fork))
        if ways[-1].next is not None:
            break
    return tuple(ways)


def corner_of(layouts: Sequence[Layout]) -> Layout:
    """Return the layout with the most threads in all, and of these with the most processes."""
    return max(layouts, key=lambda layout: (layout.total_threads, layout.processes))


def double(layout: Layout, *, may_fork: bool = True) -> list[Layout]:
    """Return the layout with twice the threads, then with twice the processes if it *may_fork*."""
    processes, threads = layout.processes, layout.threads
    more = [Layout(2 * processes, threads, layout.variant, layout.has_threads)] if may_fork else []
    if layout.has_threads:
        more.insert(0, Layout(processes, 2 * threads, layout.variant))
    return more


def added_layouts(layouts: Sequence[Layout], ways: Sequence[Way], refuses: Refuses) -> tuple[Layout, ...]:
    """Return the new layouts of a grid: half, once and twice the total threads that each walk reached.

    Their processes are those of the grid's layouts with the most threads, and those that were reached.
    Layouts that do not fit are left out. Empty if no walk left its start.
    """
    found: list[Layout] = []
    for way in ways:
        if way.reached == way.began:
            continue
        own = [layout for layout in layouts if layout.variant == way.began.variant]
        total = way.reached.total_threads
        counts = {layout.processes for layout in own if layout.total_threads == way.began.total_threads}
        if way.reached.processes > way.began.processes:
            counts |= {way.reached.processes, 2 * way.reached.processes}
        for of_all in (total // 2, total, 2 * total):
            sizes = sorted(counts) if way.began.has_threads else [of_all]
            found += [
                layout
                for count in sizes
                if of_all % count == 0
                for layout in [Layout(count, of_all // count, way.began.variant, way.began.has_threads)]
                if layout not in own and (layout == way.reached or refuses(layout) is None)
            ]
    return tuple(dict.fromkeys(found))


def growth_of(study: StudyRecord) -> Growth | None:
    """Read the growth of *study*'s grid; None: it has no finished walk."""
    if (kept := study.provenance.grid_grew) is None:
        return None
    data = json.loads(kept)
    ways = [
        Way(parse_layout(one["from"]), parse_layout(one["to"]), one["ended"], one["why"])
        for one in data["ways"]
    ]
    return Growth(data["asked"], tuple(ways))


def growth_to_json(growth: Growth) -> str:
    """Convert *growth* to the JSON that a study stores."""
    ways = [
        {"from": str(way.began), "to": str(way.reached), "ended": way.ended, "why": way.why}
        for way in growth.ways
    ]
    return json.dumps({"asked": growth.n_asked, "ways": ways}, sort_keys=True)


def growth_warning(growth: Growth, more: Sequence[Layout]) -> Message:
    """Return the warning that the grid grew by the layouts *more*."""
    ways = [way for way in growth.ways if way.reached != way.began]
    came = list_names([f"{way.reached}" for way in ways])
    began = list_names([f"{way.began}" for way in ways])
    return grid_grows(began, came, growth.n_asked, growth.n_asked + len(more))


def initial_layouts(study: StudyRecord) -> tuple[Layout, ...]:
    """Return the layouts of *study* before its grid grew."""
    growth = growth_of(study)
    return study.layouts if growth is None else study.layouts[: growth.n_asked]


def opens_too_many(config: StoredConfig, layout: Layout) -> str | None:
    """Return the reason why *layout* opens too many connections, as part of a sentence.

    None: it does not.
    """
    most = config.study.get("max_connections")
    if most is None:
        return None
    per_process = "threads" if config.service.connections is None else config.service.connections
    opened = connections_of(shape_of(layout, config.service.pooled_variants), per_process)
    if opened <= most:
        return None
    return f"{layout} opens {opened} connections, and {most} is the most (--max-connections)"


def _way(corner: Layout, seen: Mapping[Layout, Sequence[Scout]], refuses: Refuses, *, may_fork: bool) -> Way:
    at = corner
    while True:
        here = seen.get(at)
        if here is None:  # only the corner: others are reached after a measurement
            whys = [refuses(layout) for layout in double(at, may_fork=may_fork)]
            if all(why is not None for why in whys):  # a scout would be useless
                return Way(corner, at, "refused", whys[0] or "")
            return Way(corner, at, next=at)
        if here[0].per_s is None:
            return Way(corner, at, "unseen")
        if passed := _passed_limit(here):
            return Way(corner, at, "refused", passed)
        if any(what not in MAY_HELP for one in here for what in one.what):
            return Way(corner, at, "full")
        refused, is_unseen = "", False
        for more in double(at, may_fork=may_fork):
            there = seen.get(more)
            if there is None:
                if (why := refuses(more)) is None:
                    return Way(corner, at, next=more)
                refused = refused or why
                continue
            gains = _gains(here, there)
            if gains is True:
                at = more
                break
            if isinstance(gains, Layout):
                return Way(corner, at, next=gains)
            refused = refused or _passed_limit(there)
            is_unseen |= any(one.per_s is None for one in there)
        else:
            ended: Ended = "refused" if refused else "unseen" if is_unseen else "no-gain"
            return Way(corner, at, ended, refused)


def _gains(fewer: Sequence[Scout], more: Sequence[Scout]) -> bool | Layout:
    """Return whether twice as many give more; a layout: one more window of it is needed to decide."""
    if _passed_limit(more) or (first := _ratio(fewer[0], more[0])) < NO_GAIN_RATIO:
        return False
    if first >= SURE_GAIN:
        return True
    for looked_at in (more, fewer):
        if len(looked_at) < 2:
            return looked_at[0].layout
    return _ratio(fewer[1], more[1]) >= NO_GAIN_RATIO


def _ratio(fewer: Scout, more: Scout) -> float:
    """Divide the throughput of *more* by that of *fewer*; 0 if one of them has no valid window."""
    return (more.per_s or 0.0) / fewer.per_s if fewer.per_s else 0.0


def _passed_limit(looks: Sequence[Scout]) -> str:
    """Return a limit of the user's that one of *looks* passed, as part of a sentence; empty: none."""
    return next((one.passes for one in looks if one.passes is not None), "")


def _with_memory(
    refuses: Refuses, seen: Mapping[Layout, Sequence[Scout]], most_bytes: float | None
) -> Refuses:
    """Extend *refuses* by layouts with a predicted memory above *most_bytes*."""

    def refuses_also(layout: Layout) -> str | None:
        if (why := refuses(layout)) is not None:
            return why
        needs = None if most_bytes is None else foreseen_bytes(layout, seen)
        if needs is None or most_bytes is None or needs <= most_bytes:
            return None
        used, most = render_size(needs), render_size(most_bytes)
        return f"{layout} would use about {used} of memory, and {most} may be used"

    return refuses_also


def foreseen_bytes(layout: Layout, seen: Mapping[Layout, Sequence[Scout]]) -> float | None:
    """Predict the memory of *layout* in bytes from the scouts; None: unknown.

    Twice the processes use twice as much. Each further thread uses as much as the last ones did. If only
    one number of threads was measured, the memory of a thread is unknown, and the result is the memory of
    the layout with half the threads.
    """
    has_threads = layout.has_threads and layout.threads % 2 == 0
    half = Layout(layout.processes, layout.threads // 2, layout.variant) if has_threads else None
    if half is not None and half in seen:
        used = seen[half][0].memory_bytes
        quarter = Layout(half.processes, half.threads // 2, half.variant) if half.threads % 2 == 0 else None
        before = None if quarter is None or quarter not in seen else seen[quarter][0].memory_bytes
        if used is None or before is None:
            return used
        return used + 2 * max(0.0, used - before)
    if layout.processes % 2:
        return None
    fewer = Layout(layout.processes // 2, layout.threads, layout.variant, layout.has_threads)
    used = seen[fewer][0].memory_bytes if fewer in seen else None
    return None if used is None else 2 * used
