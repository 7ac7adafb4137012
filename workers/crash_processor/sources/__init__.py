"""Where the work comes from: a promise, and the sources that keep it."""

from __future__ import annotations

from typing import Any, Protocol


class CrashSource(Protocol):
    """A queue of crash ids that loses none, whatever happens to the processes that take from it.

    Items in = done + dead + still queued (new, or in somebody's hands). An item may be worked on twice; it is
    done once. All methods may be called from several threads. Any may raise SourceLostError, StorageError
    never.
    """

    def new_crashes(self) -> tuple[str, Any] | None:
        """Take an item: its crash id, and a receipt for the methods below. None: nothing to do now."""

    def ack(self, receipt: Any) -> bool:
        """The item is done, or back in the queue where the source is endless.

        False: it had been taken from us meanwhile (we were thought dead), somebody else will finish it.
        """

    def release(self, receipt: Any) -> None:
        """Put the item back, for anybody to take now."""

    def retry(self, receipt: Any, reason: str) -> bool:
        """Put the item back after a failed attempt; once it failed ``max_attempts`` times reject it: True."""

    def reject(self, receipt: Any, reason: str) -> None:
        """Make the item a dead letter, with the reason for people to read."""

    def depth(self) -> int:
        """Items that nobody has taken."""

    def close(self) -> None:
        """Put everything back that is still ours, and leave."""
