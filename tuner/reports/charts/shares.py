"""Bar chart of how the threads of each layout spend their time."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.model.diagnosis.diagnose import Diagnosis, Share
from tuner.core.model.diagnosis.explanation import Explanation
from tuner.core.model.diagnosis.text import percent, short
from tuner.core.ranking.overview import Overview
from tuner.core.text.figures import first_of
from tuner.reports.charts import frame
from tuner.reports.charts.frame import legend
from tuner.reports.charts.picture import (
    SMALL,
    WIDE,
    DrawnPicture,
    element,
    empty_picture,
    fitting,
    line,
    rectangle,
    width_of,
    with_tooltip,
    words,
)
from tuner.reports.model.explain import SHARES

_ROW = 24.0
_MOST = 40
_TOP = 24.0

#: share -> colour and stripes, so that the colour is not the only distinction
_LOOKS: dict[Share, tuple[str, str]] = {
    "python": (frame.BLUE, ""),
    "child": (frame.SKY, ""),
    "master": (frame.SKY, "M3 0L3 6"),
    "core_line": (frame.ORANGE, "M0 6L6 0"),
    "gil_line": (frame.VERMILLION, "M0 0L6 6"),
    "asleep": (frame.GREY, ""),
    "blocked": (frame.GREEN, "M0 3L6 3"),
    "contended": (frame.PURPLE, "M0 3L6 3M3 0L3 6"),
    "elsewhere": (frame.YELLOW, "M3 0L3 6"),
}


def shares_svg(overview: Overview, *, width: float = WIDE, standalone: bool = False) -> str:
    """Return the bottleneck of each layout as SVG."""
    picture = shares_picture(overview, width=width)
    if picture is None:
        why = overview.explanation if isinstance(overview.explanation, str) else "Nothing is known about it."
        picture = empty_picture("shares", "Bottleneck of each layout", why, width)
    return picture.svg(standalone=standalone)


def shares_picture(
    overview: Overview, *, width: float = WIDE, name: str = "shares", most: int = _MOST
) -> DrawnPicture | None:
    """Return a bar for each layout, fastest first; None: there are no data."""
    found = overview.explanation
    if not isinstance(found, Explanation) or not found.diagnoses:
        return None
    shown = first_of(found.diagnoses, most)
    used = [share for share in SHARES if any(_value(one, share) >= 0.005 for one in shown)]
    left = min(width * 0.25, 12 + max(width_of(str(one.layout)) for one in shown))
    right = width - 12 - max(width_of("bottleneck", SMALL), *(width_of(short(one.what)) for one in shown))
    parts = [
        words("share of the threads' time", left, 14, class_="s m"),
        words("bottleneck", width - 4, 14, class_="s m e"),
    ]
    for place, one in enumerate(shown):
        y = _TOP + _ROW * place
        parts.append(words(fitting(one.layout, left - 6), left - 6, y + 15, class_="e"))
        parts += _bar(one, used, left, right, y, name)
        parts.append(words(short(one.what), width - 4, y + 15, class_="e b"))
    bottom = _TOP + _ROW * len(shown)
    parts.append(line(left, _TOP - 4, left, bottom, "axis"))
    entries = [(_sign(share, name), SHARES[share]) for share in used]
    signs, end = legend(entries, left, bottom + 20, width)
    signs += words("~: from the model; all else is measured.", left, end + 18, class_="s m")
    if len(found.diagnoses) > len(shown):
        more = f"{len(found.diagnoses) - len(shown)} more layouts are in the table."
        signs += words(more, left, end + 36, class_="s m")
        end += 18
    defs = element("defs", *(_pattern(share, name) for share in used if _LOOKS[share][1]))
    title = "Time of the threads of each layout"
    return DrawnPicture(name, title, _summary(shown), width, end + 26, "".join([defs or "", *parts, signs]))


def _bar(one: Diagnosis, used: Sequence[Share], left: float, right: float, y: float, name: str) -> list[str]:
    parts, x = [], left
    for share in used:
        value = _value(one, share)
        wide = (right - left) * value
        if wide < 0.5:
            continue
        colour, stripes = _LOOKS[share]
        figure = percent(one.shares[share])
        marks = [rectangle(x, y + 2, wide, _ROW - 4, fill=colour, class_="cell")]
        if stripes:
            marks.append(rectangle(x, y + 2, wide, _ROW - 4, fill=f"url(#{name}-{share})"))
        ink = "k" if frame.ink_on(colour) == "#000" else "l"
        for text in (f"{SHARES[share]} {figure}", figure):
            room = width_of(text, SMALL)
            if room + 8 <= wide:
                if stripes:
                    under = rectangle(x + wide / 2 - room / 2 - 2, y + 5, room + 4, _ROW - 10, fill=colour)
                    marks.append(under)
                marks.append(words(text, x + wide / 2, y + 16, class_=f"s c {ink}"))
                break
        parts.append(with_tooltip(f"{one.layout}: {SHARES[share]} {figure}", *marks))
        x += wide
    return parts


def _value(one: Diagnosis, share: Share) -> float:
    return one.shares[share].value if share in one.shares else 0.0


def _sign(share: Share, name: str) -> str:
    box = {"x": -7, "y": -5, "width": 14, "height": 11}
    colour, stripes = _LOOKS[share]
    sign = element("rect", **box, fill=colour)
    return sign + element("rect", **box, fill=f"url(#{name}-{share})") if stripes else sign


def _pattern(share: Share, name: str) -> str:
    stripe = element("path", d=_LOOKS[share][1], class_="ink")
    return element("pattern", stripe, id=f"{name}-{share}", width=6, height=6, patternUnits="userSpaceOnUse")


def _summary(shown: Sequence[Diagnosis]) -> str:
    text = "; ".join(f"{one.layout}: {short(one.what)}" for one in shown[:8])
    return f"A bar for each layout, the fastest first: the shares of its threads' time. Bottlenecks: {text}."
