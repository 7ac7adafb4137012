"""Table of the hosts of a fleet."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

_HEADERS = ("box", "host", "cores", "tuner", "it", "seen")


def render_boxes_there(boxes: Sequence[tuple[str, str, float, str, bool, float]]) -> str:
    """Return a table with name, host, cores, tuner version, state, and seconds since the last contact."""
    if not boxes:
        return "No host is connected. Run on each host: tuner box ADDRESS\n"
    rows = [
        (name, host, f"{cores:g}", version, "measures" if is_busy else "waits", f"{seen_s:.0f} s ago")
        for name, host, cores, version, is_busy, seen_s in boxes
    ]
    return tabulate(rows, headers=_HEADERS, disable_numparse=True) + "\n"
