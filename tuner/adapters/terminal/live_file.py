"""The file ``STUDY.tuner.db-live`` (JSON), which shows what a running study measures now.

It has only the present state, so it is not synced to the disk. It is valid while the study file is locked
(`study_file.is_held`), because the lock ends with its process; a file that remains after a kill is replaced
by the next tuner that measures.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.live import BoxLive, Live, Phase
from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.errors import ConfigError
from tuner.core.messages.host import no_live_file

if TYPE_CHECKING:
    from tuner.core.domain.window import Sample, Window

# The present state of a study, collected from its progress calls, for the live view and the live file.

_MOST_WARNINGS = 5  #: number of warnings that are kept; a log has all of them
_LONGEST_WARNING = 400  #: length in characters


class Follower:
    """A Progress that stores the present state; a subclass shows it in `_show_change`."""

    def __init__(self) -> None:
        began_s = time.monotonic()
        self._now = _Now(reported_at_s=began_s, since_s=began_s)
        self._warnings: list[tuple[str, str]] = []
        self._box: str | None = None  #: host of the present events; None: a single host
        self._boxes: dict[str, _Now] = {}  #: hosts of a fleet, in the order of their first events
        self._started: tuple[Layout, ...] = ()  #: layouts that take turns
        self._idle: dict[Layout, _Now] = {}  #: their state at the end of their last turn

    def live(self) -> Live:
        """Return the present state."""
        now, at_s = self._now, time.monotonic()
        remaining_s = now.remaining_s
        if remaining_s is not None:
            remaining_s = max(0.0, remaining_s - (at_s - now.reported_at_s))
        return Live(
            at_wall_s=time.time(),
            phase=now.phase,
            layout=now.layout,
            block=now.block,
            elapsed_s=_elapsed_s(now, at_s),
            window_s=now.window_s,
            items_per_s=now.items_per_s,
            load1=now.load1,
            n_active=now.n_active,
            n_taken=now.n_taken,
            n_planned=now.n_planned,
            n_void=now.n_void,
            remaining_s=remaining_s,
            warnings=tuple(self._warnings),
            started=self._started,
            boxes=tuple(_on_box(box, one, at_s) for box, one in self._boxes.items()),
        )

    def launch_started(  # noqa: D102  (documented in ports.Progress, as the others)
        self,
        layout: Layout,
        block: int,
        position: int,  # noqa: ARG002
        remaining_s: float | None,
    ) -> None:
        now = self._enter("starting")
        now.layout, now.block = layout, block
        now.remaining_s, now.reported_at_s = remaining_s, now.since_s
        self._show_change(at_once=True)

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:  # noqa: D102
        now = self._now
        if now.layout is not None and now.layout in self._started:
            self._idle[now.layout] = now
        self._started = tuple(started)
        self._idle = {layout: idle for layout, idle in self._idle.items() if layout in started}
        if works is not None and works != now.layout:
            if works in self._idle:
                self._now = self._idle[works].with_counts_of(now)
            else:
                self._enter("starting").layout = works
        self._show_change(at_once=False)

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: D102
        now = self._now if self._now.phase == "warming-up" else self._enter("warming-up")
        now.layout, now.elapsed_s, now.items_per_s = layout, elapsed_s, items_per_s
        self._show_change(at_once=False)

    def sampled(  # noqa: D102
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        now = self._now if self._now.phase == "window" else self._enter("window")
        now.layout, now.elapsed_s, now.window_s, now.items_per_s = layout, elapsed_s, window_s, items_per_s
        now.load1, now.n_active = sample.load1, sample.n_active
        self._show_change(at_once=False)

    def window_taken(  # noqa: D102
        self,
        window: Window,
        n_taken: int,
        n_planned: int | None,
        remaining_s: float | None,
    ) -> None:
        now = self._enter("between")
        now.n_taken, now.n_planned = n_taken, n_planned
        now.n_void += bool(window.void) and now.block != WARMING_BLOCK
        now.remaining_s, now.reported_at_s = remaining_s, now.since_s
        self._show_change(at_once=False)

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        self._warnings = [*self._warnings[1 - _MOST_WARNINGS :], (slug, text[:_LONGEST_WARNING])]
        self._show_change(at_once=False)

    def turn_to(self, box: str) -> None:  # noqa: D102
        if box == self._box:
            return
        before = self._now
        self._box = box
        if box in self._boxes:
            self._now = self._boxes[box].with_counts_of(before)
        else:
            now = self._enter("between")
            now.layout, now.block = None, 0

    def box_left(self, box: str) -> None:  # noqa: D102
        self._boxes.pop(box, None)
        if box == self._box:
            self._box = None
        self._show_change(at_once=False)

    def _begins(self, n_taken: int, n_void: int) -> None:
        """Set the numbers of valid and invalid windows of earlier sessions."""
        self._now.n_taken, self._now.n_void = n_taken, n_void

    def _show_change(self, *, at_once: bool) -> None:
        """Show the new state; *at_once*: another layout runs now."""
        raise NotImplementedError

    def _enter(self, phase: Phase) -> _Now:
        before = self._now
        self._now = _Now(
            phase=phase,
            since_s=time.monotonic(),
            layout=before.layout,
            block=before.block,
            n_taken=before.n_taken,
            n_planned=before.n_planned,
            n_void=before.n_void,
            remaining_s=before.remaining_s,
            reported_at_s=before.reported_at_s,
        )
        if self._box is not None:
            self._boxes[self._box] = self._now
        return self._now


@dataclass(slots=True)
class _Now:
    """State of one launch; times are monotonic seconds."""

    reported_at_s: float  #: time at which *remaining_s* was reported
    phase: Phase = "between"
    since_s: float = 0.0  #: start of the phase
    layout: Layout | None = None
    block: int = 0
    elapsed_s: float | None = None  #: time in the phase, as reported; None: not reported
    window_s: float | None = None
    items_per_s: float | None = None
    load1: float | None = None
    n_active: int | None = None
    n_taken: int = 0
    n_planned: int | None = None
    n_void: int = 0
    remaining_s: float | None = None

    def with_counts_of(self, other: _Now) -> _Now:
        """Copy the counts of the whole study from *other*; return self."""
        self.n_taken, self.n_planned, self.n_void = other.n_taken, other.n_planned, other.n_void
        self.remaining_s, self.reported_at_s = other.remaining_s, other.reported_at_s
        return self


def _elapsed_s(now: _Now, at_s: float) -> float:
    """Return the duration of the phase so far; it is not reported while a layout starts or stops."""
    return at_s - now.since_s if now.elapsed_s is None else now.elapsed_s


def _on_box(box: str, now: _Now, at_s: float) -> BoxLive:
    return BoxLive(
        box=box,
        phase=now.phase,
        layout=now.layout,
        block=now.block,
        elapsed_s=_elapsed_s(now, at_s),
        window_s=now.window_s,
        items_per_s=now.items_per_s,
        load1=now.load1,
        n_active=now.n_active,
    )


EVERY_S = 2.0  #: interval of writes to the file; the start of a layout is written at once
_LONGEST_BYTES = 1 << 20  #: a thousand hosts take 250 kB
_FORMAT = 1


def live_path(study: Path) -> Path:
    """Return the path of the live file of *study*."""
    return Path(f"{study.resolve()}-live")  # in the folder of a link's target, like SQLite's files


class LiveFile(Follower):
    """A Progress that keeps the live file up to date within the block of `written`."""

    def __init__(self, study: Path, warn: Callable[[str, str], None]) -> None:
        super().__init__()
        self._path = live_path(study)
        self._new = Path(f"{self._path}.new")
        self._warn = warn
        self._is_kept = False
        self._written_at_s = -math.inf

    @contextmanager
    def written(self, n_taken: int, n_void: int = 0) -> Iterator[None]:
        """Keep the file within the block, while this process has the lock on the study.

        The study has *n_taken* valid and *n_void* invalid windows at the start.
        """
        self._begins(n_taken, n_void)
        self._is_kept = True
        try:
            self._show_change(at_once=True)
            yield
        finally:
            self._is_kept = False
            for path in (self._path, self._new):
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def _show_change(self, *, at_once: bool) -> None:
        now_s = time.monotonic()
        if not self._is_kept or not (at_once or now_s - self._written_at_s >= EVERY_S):
            return
        self._written_at_s = now_s
        try:
            self._write(render_live(self.live()).encode())
        except OSError as error:
            self._is_kept = False
            with suppress(OSError):
                self._path.unlink(missing_ok=True)  # it would be out of date
            self._warn(*no_live_file(self._path, error.strerror))

    def _write(self, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._new, flags, 0o666)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)
        os.replace(self._new, self._path)


def render_live(live: Live) -> str:
    """Return *live* as JSON for the file."""
    layout = None if live.layout is None else str(live.layout)
    started = [str(one) for one in live.started]
    facts = {"format": _FORMAT, "pid": os.getpid(), **asdict(live), "layout": layout, "started": started}
    boxes = [{**asdict(box), "layout": None if box.layout is None else str(box.layout)} for box in live.boxes]
    del facts["boxes"]
    return json.dumps({**facts, "boxes": boxes} if boxes else facts)


def read_live(study: Path) -> Live | None:
    """Return the state from the live file of *study*; None if there is none, or it is not valid.

    The tuner that wrote it may have been killed: call `study_file.is_held`, too.
    """
    try:
        descriptor = os.open(live_path(study), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _parse(json.loads(os.read(descriptor, _LONGEST_BYTES)))
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        ConfigError,
    ):
        return None
    finally:
        os.close(descriptor)


def _parse(found: Any) -> Live:
    if found["format"] != _FORMAT:
        raise ValueError("of another tuner")
    return Live(
        at_wall_s=_finite(found["at_wall_s"]),
        **_running(found),
        n_taken=int(_finite(found["n_taken"])),
        n_planned=_count(found["n_planned"]),
        n_void=int(_finite(found.get("n_void", 0))),  # missing in files of older versions
        remaining_s=_number(found["remaining_s"]),
        warnings=tuple((str(slug), str(text)) for slug, text in found["warnings"]),
        started=tuple(parse_layout(one) for one in found.get("started", ())),
        boxes=tuple(BoxLive(box=str(box["box"]), **_running(box)) for box in found.get("boxes", ())),
    )


def _running(found: Any) -> dict[str, Any]:
    """Parse the state of a launch: of the study, or of one of several hosts."""
    if found["phase"] not in get_args(Phase):
        raise ValueError("no such phase")
    layout: Layout | None = None if found["layout"] is None else parse_layout(found["layout"])
    return {
        "phase": found["phase"],
        "layout": layout,
        "block": int(found["block"]),
        "elapsed_s": _finite(found["elapsed_s"]),
        "window_s": _number(found["window_s"]),
        "items_per_s": _number(found["items_per_s"]),
        "load1": _number(found["load1"]),
        "n_active": _count(found["n_active"]),
    }


_MOST = 1e11  #: limit for all numbers; no study has more, and the sum of two is still a valid date


def _number(value: Any) -> float | None:
    return None if value is None else _finite(value)


def _finite(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= _MOST:
        raise ValueError("no figure of a study")
    return number


def _count(value: Any) -> int | None:
    return None if value is None else int(_finite(value))
