"""The curves of `bench/scale.py` as an SVG: CPU of each command against the size, both in powers of ten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT, _LEFT, _TOP = 320, 240, 48, 34  #: of one picture, px
_ENTRY = 90  #: of the legend, px
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  #: Okabe and Ito's
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4")

Curves = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]


def render_curves(curves: Curves, stamp: str) -> str:
    """One picture per axis, side by side; a line per command."""
    names = list(dict.fromkeys(name for lines in curves.values() for name in lines))
    width = _LEFT + len(curves) * (_WIDTH + _LEFT)
    per_row = max(1, (width - _LEFT) // _ENTRY)
    height = _TOP + _HEIGHT + 54 + 16 * -(-len(names) // per_row)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        ' font-family="sans-serif" font-size="11" fill="#333">',
        f"<title>{escape(f'CPU seconds of commands against the size of a study: {stamp}')}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for number, (axis, lines) in enumerate(curves.items()):
        parts += _one(axis, lines, names, _LEFT + number * (_WIDTH + _LEFT))
    for number, name in enumerate(names):
        x, y = _LEFT + _ENTRY * (number % per_row), _TOP + _HEIGHT + 44 + 16 * (number // per_row)
        parts.append(f'<path d="M{x} {y - 4}h24" {_stroke(number)}/>')
        parts.append(f'<text x="{x + 28}" y="{y}">{escape(name)}</text>')
    parts.append(f'<text x="{_LEFT}" y="{height - 8}">CPU seconds; {escape(stamp)}</text></svg>')
    return "\n".join(parts) + "\n"


def _one(
    axis: str, lines: Mapping[str, Sequence[tuple[float, float]]], names: Sequence[str], left: int
) -> list[str]:
    points = [point for line in lines.values() for point in line]
    if not points:
        return []
    (x0, x1), (y0, y1) = (_powers([point[side] for point in points]) for side in (0, 1))

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            left + _WIDTH * (log10(x) - x0) / (x1 - x0),
            _TOP + _HEIGHT * (1 - (log10(y) - y0) / (y1 - y0)),
        )

    parts = [f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">by {escape(axis)}</text>']
    for power in range(x0, x1 + 1):
        x, y = place(10.0**power, 10.0**y0)
        parts.append(f'<path d="M{x:.1f} {_TOP}V{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 15:.1f}" text-anchor="middle">{10**power:,}</text>')
    for power in range(y0, y1 + 1):
        x, y = place(10.0**x0, 10.0**power)
        parts.append(f'<path d="M{x:.1f} {y:.1f}h{_WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 5:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for name, line in lines.items():
        number = names.index(name)
        corners = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line)
        parts.append(f'<polyline points="{corners}" {_stroke(number)}/>')
        for point in line:
            x, y = place(*point)
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_COLOURS[number % 6]}">'
                f"<title>{escape(f'{name}: {point[1]:.2f} s at {point[0]:,}')}</title></circle>"
            )
    return parts


def _powers(values: Sequence[float]) -> tuple[int, int]:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _stroke(number: int) -> str:
    dash = _DASHES[number % 6]
    return f'fill="none" stroke="{_COLOURS[number % 6]}" stroke-width="2" stroke-dasharray="{dash or "none"}"'
