"""The time of a study: seconds since its first launch began, over all its sessions."""

from __future__ import annotations


class Timeline:
    """Turns the wall clock into a time that never goes back.

    Breaks between sessions are part of it: the box's drift goes on meanwhile. When the clock was set back,
    time goes on from the latest moment that was seen. It follows from the moments alone, in the order in
    which they were seen, so that whoever reads the file finds the same times as whoever wrote it.
    """

    def __init__(self) -> None:
        self._first_wall_s: float | None = None
        self._set_back_s = 0.0
        self._latest_s = 0.0

    def at(self, wall_s: float, lasted_s: float = 0.0) -> float:
        """The time of something that began at *wall_s*; nothing seen later is earlier than its end."""
        if self._first_wall_s is None:
            self._first_wall_s = wall_s
        began_s = wall_s - self._first_wall_s + self._set_back_s
        if began_s < self._latest_s:
            self._set_back_s += self._latest_s - began_s
            began_s = self._latest_s
        self._latest_s = began_s + lasted_s
        return began_s
