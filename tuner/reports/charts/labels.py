"""Names beside marks, where there is room for them."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.reports.charts.svg import SMALL, width_of, words

_MARK = 7.0  #: px from the middle of a mark to its edge
_LINE = 11.0
_CLEAR = 1.0  #: px between a name and a line

Box = tuple[float, float, float, float]  #: left, top, width, height


def labels(
    points: Sequence[tuple[float, float, str, bool]],
    width: float,
    *,
    most: int = 24,
    lines: Sequence[Box] = (),
) -> str:
    """The names of *points* (x, y, name, whether it is bold), the first ones first.

    A name stands where it meets no mark, no other name and none of *lines* (which have no width or no
    height), within *width*; where there is no such place it is left out: the mark tells it.
    """
    taken: list[Box] = [(x - _MARK, y - _MARK, 2 * _MARK, 2 * _MARK) for x, y, _, _ in points]
    taken += [(x - _CLEAR, y - _CLEAR, w + 2 * _CLEAR, h + 2 * _CLEAR) for x, y, w, h in lines]
    found = []
    for x, y, name, is_bold in points[:most]:
        long = width_of(name, SMALL) * (1.15 if is_bold else 1.05)
        for left, base in (
            *((x + 10, y + 4), (x - 10 - long, y + 4), (x - long / 2, y - 10), (x - long / 2, y + 18)),
            *((x + 8, y - 7), (x + 8, y + 15), (x - 8 - long, y - 7), (x - 8 - long, y + 15)),
            *((x + 4, y - 10), (x - 4 - long, y - 10), (x + 4, y + 18), (x - 4 - long, y + 18)),
        ):
            box = (left, base - 9, long, _LINE)
            if left >= 0 and left + long <= width and not any(_meet(box, other) for other in taken):
                taken.append(box)
                found.append(words(name, left, base, class_="s h b" if is_bold else "s h"))
                break
    return "".join(found)


def _meet(one: Box, other: Box) -> bool:
    return (
        one[0] < other[0] + other[2]
        and other[0] < one[0] + one[2]
        and one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
    )
