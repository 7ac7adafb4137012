"""A queue made of files: ``new/ -> cur/<worker>/ -> done/`` or ``dead/``, each step one rename(2).

rename has one winner, so taking an item needs no lock. An item is an empty file named by its crash id,
followed by ``~N`` once N attempts have failed; in ``dead/`` it holds the reason.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError, SourceLostError
from ..options import Options
from ..presence import Presence, abandoned
from ..stop_event import StopEvent

NEW, CUR, DONE, DEAD = "new", "cur", "done", "dead"
_BATCH = 256  # names read at a time; many more would be stale before they are tried
_LOOK_FOR_DEAD_EVERY_S = 5.0
_LOOK_FOR_DEAD_IDLE_S = 1.0


def crash_id_of(entry: str) -> str:
    """The crash id in a file name of the queue."""
    return entry.partition("~")[0]


def read_entries(folder: Path) -> Iterator[str]:
    """The items in one folder of the queue."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                yield entry.name


class FileSystemCrashSource:
    """The queue in *root*; its items go to ``done/``, or back to ``new/`` when *endless*."""

    def __init__(self, root: Path, *, endless: bool = False, max_attempts: int = 3, seed: int = 0) -> None:
        self._new, self._done, self._dead = root / NEW, root / DONE, root / DEAD
        self._root = root
        self._finished = self._new if endless else self._done
        self._max_attempts = max_attempts
        # Processes that try the names in the same order would all but one lose each time.
        self._random = random.Random(f"{seed}:{os.getpid()}")
        self._batch: list[str] = []
        self._lock = threading.Lock()  # around the batch; taking and finishing need none
        if not self._new.is_dir():
            raise InputError(
                f"{root} is not a spool: it has no folder {NEW}/", hint="Fill one: crash-processor fill."
            )
        try:
            self._done.mkdir(exist_ok=True)
            self._dead.mkdir(exist_ok=True)
            self._presence = Presence(root / CUR)
        except OSError as error:
            raise InputError(f"cannot write to the spool {root}: {error.strerror}") from error
        self._hold = self._presence.folder
        self._look_for_dead_at_s = 0.0  # monotonic
        self.return_abandoned()

    @classmethod
    def from_options(cls, options: Options, _stop: StopEvent) -> FileSystemCrashSource:
        """The source that the options ask for."""
        return cls(
            options.fs_root, endless=options.endless, max_attempts=options.max_attempts, seed=options.seed
        )

    def new_crashes(self) -> tuple[str, str] | None:
        """Take any item; the order is random."""
        if time.monotonic() >= self._look_for_dead_at_s:
            self.return_abandoned()
        with self._lock, self._failing("take an item"):
            while True:
                while self._batch:
                    entry = self._batch.pop()
                    try:
                        os.rename(self._new / entry, self._hold / entry)
                    except FileNotFoundError:  # another one won, unless it is our folder that is not there
                        if not self._hold.is_dir():
                            self._hold_anew()
                    else:
                        return crash_id_of(entry), entry
                self._batch = list(itertools.islice(read_entries(self._new), _BATCH))
                if not self._batch:
                    idle_look_s = time.monotonic() + _LOOK_FOR_DEAD_IDLE_S
                    self._look_for_dead_at_s = min(self._look_for_dead_at_s, idle_look_s)
                    return None
                self._random.shuffle(self._batch)

    def ack(self, receipt: str) -> bool:
        """False when another process took us for dead and put the item back."""
        return self._move(receipt, self._finished / crash_id_of(receipt))

    def release(self, receipt: str) -> None:
        """Put it back as it was."""
        self._move(receipt, self._new / receipt)

    def retry(self, receipt: str, reason: str) -> bool:
        """The number of attempts is kept in the name."""
        crash_id, _, attempts = receipt.partition("~")
        n_failed = (int(attempts) if attempts.isdecimal() else 0) + 1  # others may put files there, too
        if n_failed >= self._max_attempts:
            self.reject(receipt, f"{reason} ({n_failed} attempts)")
            return True
        self._move(receipt, self._new / f"{crash_id}~{n_failed}")
        return False

    def reject(self, receipt: str, reason: str) -> None:
        """The reason is written first: should we be killed then, it goes round once more."""
        with self._failing("reject an item"):
            if (self._hold / receipt).exists():
                (self._hold / receipt).write_text(reason + "\n", encoding="utf-8")
        self._move(receipt, self._dead / crash_id_of(receipt))

    def depth(self) -> int:
        """Counted, not remembered."""
        return sum(1 for _ in read_entries(self._new))

    def close(self) -> None:
        """Put back what is ours and remove our folder."""
        for entry in read_entries(self._hold):
            self.release(entry)
        self._presence.close()

    def return_abandoned(self) -> int:
        """Put back what dead processes held, and say how many items that were.

        It is not counted as an attempt: the end of a processor says nothing about the up to (threads + queue)
        items it held. One that can hurt Python itself does not exist: a dump is only ever read by the
        stackwalker.
        """
        self._look_for_dead_at_s = time.monotonic() + _LOOK_FOR_DEAD_EVERY_S
        n_returned = 0
        with self._failing("look for abandoned items"):
            for folder in abandoned(self._root / CUR):
                for entry in read_entries(folder):
                    os.rename(folder / entry, self._new / entry)
                    n_returned += 1
        return n_returned

    def _hold_anew(self) -> None:
        """Somebody removed our folder, and what we held with it: go on with another one."""
        self._presence.make_again()
        self._hold = self._presence.folder

    def _move(self, receipt: str, target: Path) -> bool:
        with self._failing(f"move an item to {target.parent}"):
            try:
                os.rename(self._hold / receipt, target)
            except FileNotFoundError:
                if not target.parent.is_dir():
                    raise
                return False
        return True

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SourceLostError(f"cannot {what} in the spool {self._root}: {error.strerror}") from error
