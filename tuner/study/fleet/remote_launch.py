"""One launch that a coordinator ordered, made on a host of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from tuner.core.domain.fleet import (
    Began,
    Ended,
    News,
    Order,
    Refused,
    Sampled,
    TimeLeft,
    Took,
    WarmedUp,
    Warned,
)
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord
from tuner.core.domain.strategy import Observed
from tuner.core.domain.window import Sample, Window
from tuner.core.errors import ConfigError
from tuner.core.windows.summary import record_of
from tuner.ports import Box, Stop
from tuner.study.history import History, new_launch
from tuner.study.launch.launching import Workbench
from tuner.study.launch.outcome import lost_source_reason
from tuner.study.launch.plan_cells import NO_END, Cell, Deadline

TOLD_EVERY_S = 5.0  #: time between two progress reports of a launch
_TOLD_PER_S = 20.0  #: most reports per second of all hosts; each takes the coordinator almost 1 ms
Tell = Callable[[News], None]


def report_interval_s(n_boxes: int) -> float:
    """Return the seconds between two progress reports of a host, for a fleet of *n_boxes* hosts."""
    return max(TOLD_EVERY_S, n_boxes / _TOLD_PER_S)


def make_order(
    order: Order,
    study: StudyRecord,
    box: Box,
    tell: Tell,
    stop: Stop,
    *,
    report_every_s: float | None = TOLD_EVERY_S,
) -> None:
    """Make the launch that *order* requests, with the windows that its place still lacks.

    Args:
        order: an order of *study* for *box*.
        study: the coordinator's record of the study.
        box: the host to measure on.
        tell: called with each event; with the end once all processes of the launch have ended.
        stop: after a request the present window is finished and no further one begins.
        report_every_s: seconds between progress reports; None: no reports, for simulated time.

    Raises:
        KeyboardInterrupt: after the second Ctrl-C; all processes are stopped before it is raised.
    """
    stops_s = [0.0]
    try:
        ended = _make_launch(order, study, box, _Reporter(order, tell, report_every_s), stop, stops_s.append)
    except ConfigError as error:
        tell(Refused(order.id, error.problem, error.hint))
    else:
        tell(Ended(order.id, ended, max(stops_s)))


def _make_launch(
    order: Order,
    study: StudyRecord,
    box: Box,
    reporter: _Reporter,
    stop: Stop,
    stopped: Callable[[float], None],
) -> LaunchRecord:
    asked, deadline = order.place.asked, _deadline(order.time_left, box.clock.monotonic_s())
    block = WARMING_BLOCK if order.discards else order.place.block
    launch = new_launch(asked, (block, order.place.position, order.attempt), box.name, box.clock.wall_s())
    bench = Workbench(study, box, reporter, reporter, stop, stopped=stopped)
    if order.discards:
        return _as_attempt(bench.make(launch, deadline=deadline))
    history = History(study, [], [], lambda _: ())
    cell, launched = _cell(order, study.max_attempts), history.begin(launch)

    def take_note(window: Window, launch_id: int) -> None:
        record = record_of(window, launch_id=launch_id, block=cell.block, box=box.name)
        history.add_window(cell, launched, record)

    return _as_attempt(bench.make(launch, cell, take_note, deadline))


def _deadline(left: TimeLeft | None, now_s: float) -> Deadline:
    """Return the deadline, on the host's clock, of a launch ordered now."""
    if left is None:
        return NO_END
    return Deadline(now_s + left.budget_s, now_s + left.share_s, left.stop_s)


def _as_attempt(launch: LaunchRecord) -> LaunchRecord:
    """Return *launch* as an attempt even if it lost its source, because no coordinator waits for sources."""
    lost = lost_source_reason(launch)
    return launch if lost is None else replace(launch, error=lost)


def _cell(order: Order, max_attempts: int) -> Cell:
    """Return the cell of the order with its earlier attempts; of stored windows only the index is known."""
    place, asked = order.place, order.place.asked
    kept = Observed(asked.layout, 1.0, launch=0, launch_began_s=0.0, began_s=0.0, length_s=asked.window_s)
    return Cell(
        place.block,
        place.position,
        asked.layout,
        asked.window_s,
        asked.n_windows,
        max_attempts,
        n_spoilt=order.attempt - 1,
        tries=Counter(order.tries),
        kept=dict.fromkeys(order.kept, kept),
    )


class _Reporter:
    """The LaunchLog and Progress of one order: they send each event to the coordinator."""

    def __init__(self, order: Order, tell: Tell, every_s: float | None) -> None:
        self._order, self._box, self._tell = order.id, order.place.box, tell
        self._every_s = inf if every_s is None else every_s
        self._reported_at_s, self._warms_up = -inf, True  #: time and phase of the last report

    def add_launch(self, launch: LaunchRecord) -> int:
        self._tell(Began(self._order, launch))
        return 1

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:
        """Do nothing: `make_order` sends the end, once all processes have ended."""

    def add_warmup(self, launch_id: int, samples: Sequence[Sample]) -> None:  # noqa: ARG002
        self._tell(WarmedUp(self._order, tuple(samples)))

    def add_window(self, launch_id: int, window: Window) -> None:  # noqa: ARG002
        self._tell(Took(self._order, window))

    def launch_started(self, layout: Layout, block: int, position: int, remaining_s: float | None) -> None:
        """Do nothing: `add_launch` reports the launch."""

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:
        """Do nothing: on a fleet each host runs one launch at a time."""

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: ARG002
        self._report_sample(elapsed_s, items_per_s, None)

    def sampled(
        self,
        layout: Layout,  # noqa: ARG002
        elapsed_s: float,
        window_s: float,  # noqa: ARG002
        sample: Sample,
        items_per_s: float,
    ) -> None:
        self._report_sample(elapsed_s, items_per_s, sample)

    def window_taken(
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """Do nothing: `add_window` reports the window."""

    def turn_to(self, box: str) -> None:
        """Do nothing: the order has only one host."""

    def box_left(self, box: str) -> None:
        """Do nothing: the coordinator detects that."""

    def warning(self, slug: str, text: str) -> None:
        self._tell(Warned(self._box, slug, text))

    def _report_sample(self, elapsed_s: float, items_per_s: float | None, sample: Sample | None) -> None:
        warms_up = sample is None
        is_anew = warms_up != self._warms_up or elapsed_s < self._reported_at_s  # the first of its phase
        if self._every_s < inf and (is_anew or elapsed_s - self._reported_at_s >= self._every_s):
            self._reported_at_s, self._warms_up = elapsed_s, warms_up
            self._tell(Sampled(self._order, elapsed_s, items_per_s, sample))
