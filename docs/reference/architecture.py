"""Draws the rooms of tuner/ and their imports, as an SVG, from the import graph."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import grimp

from tuner.reports.charts.picture import element, line, rectangle, words

ROOT = Path(__file__).resolve().parents[2]
#: contracts in pyproject.toml
LAYERS, CORE_ROOMS = "imports go down only", "rooms of the core import down only"
WIDTH, MARGIN, GAP, ROW_GAP, HEAD, LINE = 1000.0, 20.0, 20.0, 44.0, 30.0, 16.0  #: px
STYLE = """
text { font: 12px sans-serif; fill: #1d2733 }
.room { font-weight: bold; font-size: 14px }
rect { fill: #eef3f9; stroke: #5b7ea6 }
line { stroke: #5b7ea6; stroke-width: 1.3 }
marker path { fill: #5b7ea6 }
"""


def render_architecture() -> str:
    """The picture: one box per room, above all that it imports; one arrow per import that no others imply."""
    arrows = _without_implied(_imports([room for layer in _layers(LAYERS) for room in layer]))
    rows = _rows(arrows)
    n_columns = max(map(len, rows))
    notes = {room: _folders(room) for room in arrows}
    places: dict[str, tuple[float, float, float, float]] = {}
    shapes, top = [], MARGIN
    for row in rows:
        n_here = n_columns if len(row) > 1 else 1
        width = (WIDTH - 2 * MARGIN - GAP * (n_here - 1)) / n_here
        texts = {room: textwrap.wrap(", ".join(notes[room]), int(width / 6.4)) for room in row}
        height = HEAD + LINE * max(len(text) for text in texts.values())
        for column, room in enumerate(row):
            left = MARGIN + column * (width + GAP)
            places[room] = (left, top, width, height)
            shapes.append(rectangle(left, top, width, height, rx=6))
            shapes.append(words(_path(room), left + 10, top + 20, class_="room"))
            for index, text in enumerate(texts[room]):
                shapes.append(element("text", text, x=left + 10, y=top + HEAD + 8 + LINE * index))
        top += height + ROW_GAP
    lines = _lines(places, arrows)
    picture = element(
        "svg",
        element("style", STYLE),
        element("defs", _arrow_head()),
        *lines,
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:g} {top - ROW_GAP + MARGIN:g}",
    )
    return picture + "\n"


def _layers(contract: str) -> list[list[str]]:
    """The layers of a contract, the highest first, each with its rooms."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {one["name"]: one for one in settings["tool"]["importlinter"]["contracts"]}
    return [[room.strip() for room in layer.split("|")] for layer in contracts[contract]["layers"]]


def _imports(rooms: Sequence[str]) -> dict[str, set[str]]:
    """The rooms that each room imports."""
    graph = grimp.build_graph("tuner", include_external_packages=False, cache_dir=None)
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            importer, target = _room_of(module, rooms), _room_of(imported, rooms)
            if importer and target and importer != target:
                found[importer].add(target)
    return found


def _room_of(module: str, rooms: Sequence[str]) -> str | None:
    return next((room for room in rooms if module == room or module.startswith(f"{room}.")), None)


def _without_implied(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Leave out each import that a longer way implies."""

    def reached(room: str) -> set[str]:
        return imports[room].union(*(reached(one) for one in imports[room]))

    return {
        room: {one for one in targets if not any(one in reached(other) for other in targets - {one})}
        for room, targets in imports.items()
    }


def _rows(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """The rooms, each one row below the lowest that imports it, and near those that import it."""

    def depth(room: str) -> int:
        return 1 + max((depth(one) for one, targets in arrows.items() if room in targets), default=-1)

    depths = {room: depth(room) for room in arrows}
    rows: list[list[str]] = []
    for row in range(max(depths.values()) + 1):
        column = {room: index for index, room in enumerate(rows[-1] if rows else [])}

        def place(room: str, column: Mapping[str, int] = column, row: int = row) -> tuple[float, int]:
            above = [column[one] for one in column if room in arrows[one]]
            n_below = sum(depths[target] == row + 1 for target in arrows[room])
            return sum(above) / max(1, len(above)), -n_below

        rows.append(sorted((room for room in arrows if depths[room] == row), key=place))
    return rows


def _folders(room: str) -> list[str]:
    """The folders of a room; those of the core in the order of their layers."""
    if room == "tuner.core":
        return [one.rpartition(".")[2] for layer in _layers(CORE_ROOMS) for one in layer]
    folder = ROOT / room.replace(".", "/")
    return sorted(one.parent.name for one in folder.glob("*/__init__.py"))


def _path(room: str) -> str:
    path = room.replace(".", "/")
    return f"{path}.py" if (ROOT / f"{path}.py").exists() else f"{path}/"


def _lines(
    places: Mapping[str, tuple[float, float, float, float]], arrows: Mapping[str, set[str]]
) -> list[str]:
    """Arrows from the lower edge of a room to the upper edge of the one that it imports."""
    found = []
    for room, targets in arrows.items():
        left, top, width, height = places[room]
        for target in sorted(targets):
            target_left, target_top, target_width, _ = places[target]
            start_x, end_x = left + width / 2, target_left + target_width / 2
            if target_width > width:
                end_x = min(max(start_x, target_left + 20), target_left + target_width - 20)
            elif width > target_width:
                start_x = min(max(end_x, left + 20), left + width - 20)
            found.append(
                line(start_x, top + height, end_x, target_top - 2, "import", marker_end="url(#head)")
            )
    return found


def _arrow_head() -> str:
    path = element("path", d="M0,0 L8,4 L0,8 z")
    return element("marker", path, id="head", markerWidth=8, markerHeight=8, refX=8, refY=4, orient="auto")
