"""The file beside a study that says what runs now: ``STUDY.tuner.db-live``, JSON, while somebody measures.

It is a word of the moment: nothing is lost with it, so it is not synced to the disk. Whether it holds is told
by the lock on the study file (`study_file.is_held`), which dies with its process; a file that a kill left
behind is replaced by the next tuner that measures.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from tuner.adapters.terminal.follower import Follower
from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.errors import ConfigError
from tuner.core.messages.host import no_live_file
from tuner.core.ranking.overview import BoxLive, Live, Phase

EVERY_S = 2.0  #: between two states of the file, but for a layout that is started: that is told at once
_LONGEST_BYTES = 1 << 20  #: a thousand boxes take 250 kB
_FORMAT = 1


def live_path(study: Path) -> Path:
    """Where what runs now is told of *study*."""
    return Path(f"{study.resolve()}-live")  # as SQLite does with what it keeps beside a link's file


class LiveFile(Follower):
    """A Progress that keeps the file up to date between `written` and its end."""

    def __init__(self, study: Path, warn: Callable[[str, str], None]) -> None:
        super().__init__()
        self._path = live_path(study)
        self._new = Path(f"{self._path}.new")
        self._warn = warn
        self._is_kept = False
        self._written_at_s = -math.inf

    @contextmanager
    def written(self, n_taken: int, n_void: int = 0) -> Iterator[None]:
        """Keep the file within the block, with the lock on the study held; so many windows there are by now.

        *n_taken* of them count, *n_void* do not.
        """
        self._begins(n_taken, n_void)
        self._is_kept = True
        try:
            self._changed(at_once=True)
            yield
        finally:
            self._is_kept = False
            for path in (self._path, self._new):
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def _changed(self, *, at_once: bool) -> None:
        now_s = time.monotonic()
        if not self._is_kept or not (at_once or now_s - self._written_at_s >= EVERY_S):
            return
        self._written_at_s = now_s
        try:
            self._write(render_live(self.live()).encode())
        except OSError as error:
            self._is_kept = False
            with suppress(OSError):
                self._path.unlink(missing_ok=True)  # it would say what was
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
    """*live* as the file has it."""
    layout = None if live.layout is None else str(live.layout)
    started = [str(one) for one in live.started]
    facts = {"format": _FORMAT, "pid": os.getpid(), **asdict(live), "layout": layout, "started": started}
    boxes = [{**asdict(box), "layout": None if box.layout is None else str(box.layout)} for box in live.boxes]
    del facts["boxes"]
    return json.dumps({**facts, "boxes": boxes} if boxes else facts)


def read_live(study: Path) -> Live | None:
    """What runs now by the file beside *study*; None: there is none, or it is none of ours.

    It may be of a tuner that was killed: ask `study_file.is_held`, too.
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
        n_void=int(_finite(found.get("n_void", 0))),  # a tuner before this one says none
        remaining_s=_number(found["remaining_s"]),
        warnings=tuple((str(slug), str(text)) for slug, text in found["warnings"]),
        started=tuple(parse_layout(one) for one in found.get("started", ())),
        boxes=tuple(BoxLive(box=str(box["box"]), **_running(box)) for box in found.get("boxes", ())),
    )


def _running(found: Any) -> dict[str, Any]:
    """What a launch is doing: of the study, or of one box of several."""
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


_MOST = 1e11  #: of any figure: no study has more, and dates can be made of two of them


def _number(value: Any) -> float | None:
    return None if value is None else _finite(value)


def _finite(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= _MOST:
        raise ValueError("no figure of a study")
    return number


def _count(value: Any) -> int | None:
    return None if value is None else int(_finite(value))
