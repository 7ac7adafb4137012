"""The time of a study: seconds since its first launch began, over all its sessions."""

from __future__ import annotations

from dataclasses import dataclass


class Timeline:
    """Turns the wall clocks of boxes into times that never go back on any of them.

    Breaks between sessions are part of it: the box's drift goes on meanwhile. When a clock was set back,
    time goes on from the latest moment that was seen on its box. All boxes have the beginning in common, each
    goes on by its own clock. It follows from the moments alone, in the order in which they were seen on each
    box, so that whoever reads the file finds the same times as whoever wrote it.
    """

    def __init__(self) -> None:
        self._first_wall_s: float | None = None
        self._boxes: dict[str, _Clock] = {}

    def at(self, wall_s: float, lasted_s: float = 0.0, *, box: str = "") -> float:
        """The time of what began at *wall_s* on *box*; nothing seen there later is earlier than its end."""
        if self._first_wall_s is None:
            self._first_wall_s = wall_s
        clock = self._boxes.get(box)
        if clock is None:
            clock = self._boxes[box] = _Clock()
        began_s = wall_s - self._first_wall_s + clock.set_back_s
        if began_s < clock.latest_s:
            clock.set_back_s += clock.latest_s - began_s
            began_s = clock.latest_s
        clock.latest_s = began_s + lasted_s
        return began_s


@dataclass(slots=True)
class _Clock:
    set_back_s: float = 0.0
    latest_s: float = 0.0
