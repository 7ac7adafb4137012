"""Crash sources: the interface of a queue of crash ids, and its implementations."""

from __future__ import annotations

from typing import Any, Protocol


class CrashSource(Protocol):
    """A queue of crash ids that loses none, even if the processes that take from it are killed.

    Items in = done + dead + still queued (new, or taken by a process). An item may be processed twice, but is
    done once. All methods may be called from several threads. Any may raise SourceLostError, but never
    StorageError.
    """

    def new_crashes(self) -> tuple[str, Any] | None:
        """Take an item; return its crash id and a receipt for the methods below, or None if there is none."""

    def ack(self, receipt: Any) -> bool:
        """Mark the item as done, or return it to the queue of an endless source.

        Return False if another process has taken it, because this one was considered dead.
        """

    def release(self, receipt: Any) -> None:
        """Return the item to the queue at once."""

    def retry(self, receipt: Any, reason: str) -> bool:
        """Return the item to the queue after a failed attempt; True: rejected after ``max_attempts``."""

    def reject(self, receipt: Any, reason: str) -> None:
        """Make the item a dead letter, with the reason."""

    def depth(self) -> int:
        """Return the number of items that are not taken."""

    def close(self) -> None:
        """Return all items of this process to the queue, and disconnect."""
