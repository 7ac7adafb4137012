"""Queue of files: ``new/ -> cur/<worker>/ -> done/`` or ``dead/``, each step one rename(2).

Only one rename of a file succeeds, so taking an item needs no lock. An item is an empty file named by its
crash id, followed by ``~N`` after N failed attempts; in ``dead/`` it contains the reason.
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
from ..presence import Presence, abandoned_folders
from ..stop_event import StopEvent

NEW, CUR, DONE, DEAD = "new", "cur", "done", "dead"
_BATCH = 256  # names read at a time; many more would be out of date before they are tried
_LOOK_FOR_DEAD_EVERY_S = 5.0
_LOOK_FOR_DEAD_IDLE_S = 1.0


def crash_id_of(entry: str) -> str:
    """Return the crash id in a file name of the queue."""
    return entry.partition("~")[0]


def read_entries(folder: Path) -> Iterator[str]:
    """Yield the items in one folder of the queue."""
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
        # Random: if all processes tried names in the same order, all but one would fail each time.
        self._random = random.Random(f"{seed}:{os.getpid()}")
        self._batch: list[str] = []
        self._lock = threading.Lock()  # for the batch; taking and finishing need none
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
        """Make the source for these options."""
        return cls(
            options.fs_root, endless=options.endless, max_attempts=options.max_attempts, seed=options.seed
        )

    def new_crashes(self) -> tuple[str, str] | None:
        """Take a random item."""
        if time.monotonic() >= self._look_for_dead_at_s:
            self.return_abandoned()
        with self._lock, self._failing("take an item"):
            while True:
                while self._batch:
                    entry = self._batch.pop()
                    try:
                        os.rename(self._new / entry, self._hold / entry)
                    except FileNotFoundError:  # another process took it, unless our folder is missing
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
        """Mark the item as done; return False if another process put it back, considering this one dead."""
        return self._move(receipt, self._finished / crash_id_of(receipt))

    def release(self, receipt: str) -> None:
        """Put the item back unchanged."""
        self._move(receipt, self._new / receipt)

    def retry(self, receipt: str, reason: str) -> bool:
        """Put the item back with the number of failed attempts in its name, or reject it (True)."""
        crash_id, _, attempts = receipt.partition("~")
        n_failed = (int(attempts) if attempts.isdecimal() else 0) + 1  # users may add files, too
        if n_failed >= self._max_attempts:
            self.reject(receipt, f"{reason} ({n_failed} attempts)")
            return True
        self._move(receipt, self._new / f"{crash_id}~{n_failed}")
        return False

    def reject(self, receipt: str, reason: str) -> None:
        """Write the reason, then move the item; after a kill in between, it is processed once more."""
        with self._failing("reject an item"):
            if (self._hold / receipt).exists():
                (self._hold / receipt).write_text(reason + "\n", encoding="utf-8")
        self._move(receipt, self._dead / crash_id_of(receipt))

    def depth(self) -> int:
        """Count the new items."""
        return sum(1 for _ in read_entries(self._new))

    def close(self) -> None:
        """Put back the items of this process and remove its folder."""
        for entry in read_entries(self._hold):
            self.release(entry)
        self._presence.close()

    def return_abandoned(self) -> int:
        """Put back the items of dead processes; return their number.

        This does not count as an attempt: the end of a processor is no evidence against the up to (threads +
        queue) items that it had. No item can crash Python itself, because only the stackwalker reads dumps.
        """
        self._look_for_dead_at_s = time.monotonic() + _LOOK_FOR_DEAD_EVERY_S
        n_returned = 0
        with self._failing("look for abandoned items"):
            for folder in abandoned_folders(self._root / CUR):
                for entry in read_entries(folder):
                    os.rename(folder / entry, self._new / entry)
                    n_returned += 1
        return n_returned

    def _hold_anew(self) -> None:
        """Make another folder after ours was removed with its items."""
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
