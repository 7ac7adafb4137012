"""What tuner prints as a whole, one file per command in golden/, with a part for each case and format.

``assert render_ranking(...) == printed("rank", "latency.csv")``. `pytest --reword` writes anew the parts that
differ, so a change of words touches one file per command; review the difference before you commit it.
"""

from __future__ import annotations

import fcntl
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"
_HEAD = re.compile(r"^==== (?P<name>[\w.-]+) ====\n", re.MULTILINE)


class Printed(str):
    """A part of a file of golden/, as a string that remembers where it stands."""

    __slots__ = ("command", "name")
    command: str
    name: str


def printed(command: str, name: str) -> Printed:
    """The part *name* of golden/*command*.txt; empty if there is none yet, so that --reword can write it."""
    part = Printed(parts_of(command).get(name, ""))
    part.command, part.name = command, name
    return part


def parts_of(command: str) -> dict[str, str]:
    """Name -> text, of golden/*command*.txt; each text ends with a line's end."""
    path = FOLDER / f"{command}.txt"
    pieces = _HEAD.split(path.read_text(encoding="utf-8")) if path.exists() else [""]
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def write_part(command: str, name: str, text: str) -> None:
    """Replace one part; workers of pytest-xdist take turns."""
    if not text.endswith("\n"):
        raise ValueError(f"{command}.txt: {name} does not end with a line's end")
    path = FOLDER / f"{command}.txt"
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        parts = {**parts_of(command), name: text}
        file.truncate(0)
        file.write("".join(f"==== {name} ====\n{text}" for name, text in sorted(parts.items())))


def explain_failure(op: str, left: object, right: object, *, reword: bool) -> list[str] | None:
    """Lines for pytest about a text that is not as its part of golden/; None for any other comparison."""
    if isinstance(left, Printed):
        left, right = right, left
    if not isinstance(right, Printed) or not isinstance(left, str) or op != "==":
        return None
    lines = [f"{right.name} of tests/golden/{right.command}.txt == the text"]
    if reword:
        write_part(right.command, right.name, left)
        lines.append("written anew, since --reword was given")
    now, then = left.splitlines(), right.splitlines()
    differing = [n for n in range(max(len(now), len(then))) if now[n : n + 1] != then[n : n + 1]]
    for n in differing[:10]:
        lines += [
            f"line {n + 1}, golden:  {''.join(then[n : n + 1])}",
            f"line {n + 1}, printed: {''.join(now[n : n + 1])}",
        ]
    if len(differing) > 10:
        lines.append(f"and {len(differing) - 10} lines more")
    return lines
