"""Chart of predicted against measured values, predicted for each layout without its own data."""

from __future__ import annotations

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.model.calibration.calibrated import LeftOutErrors
from tuner.reports.charts.frame import at, dot, labels, legend, scale_for, x_axis, y_axis, y_labels_width
from tuner.reports.charts.picture import WIDE, DrawnPicture, element, line, with_tooltip
from tuner.reports.model.model import format_signed, items, left_out_sentence

_BAND = 0.1


def prediction_picture(errors: LeftOutErrors, *, width: float = WIDE, name: str = "foretold") -> DrawnPicture:
    """Return the chart with a mark for each layout, on the diagonal if the prediction is exact."""
    points = [
        (TEN_MINUTES_S * row.predicted_per_s, TEN_MINUTES_S * row.measured_per_s, row) for row in errors.rows
    ]
    side = min(420.0, width)
    ends = [value for one in points for value in one[:2]]
    up = scale_for(ends, side - 44, 30)
    left = y_labels_width(up)
    along = scale_for(ends, left + 6, side - 12)
    low, high = up.low, up.high
    band = (
        f"M{along(low):.1f} {up(low * (1 - _BAND)):.1f}L{along(high):.1f} {up(high * (1 - _BAND)):.1f}"
        f"L{along(high):.1f} {up(high):.1f}L{along(high / (1 + _BAND)):.1f} {up(high):.1f}"
        f"L{along(low):.1f} {up(low * (1 + _BAND)):.1f}Z"
    )
    parts = [
        element("path", d=band, class_="band"),
        y_axis(up, left, side - 8, "measured, items per 10 min"),
        x_axis(along, 30, side - 44, "predicted without its own data"),
        line(along(low), up(low), along(high), up(high), "guide"),
    ]
    named = []
    for predicted, measured, row in sorted(points, key=lambda one: -abs(one[2].error_ratio)):
        x, y = along(predicted), up(measured)
        text = (
            f"{row.layout}: measured {items(measured)}, predicted {items(predicted)}"
            f" ({format_signed(row.error_ratio)})"
        )
        parts.append(
            with_tooltip(text, at(x, y, element("circle", r=10, fill="transparent") + dot(), "best"))
        )
        named.append((x, y, str(row.layout), False))
    parts.append(labels(named, side))
    entries = [
        (line(-7, 0, 7, 0, "guide"), "measured as predicted"),
        (element("rect", x=-7, y=-5, width=14, height=10, class_="band"), "within 10 %"),
    ]
    signs, end = legend(entries, left, side + 8, side)
    summary = left_out_sentence(errors)
    title = "Prediction against measurement"
    return DrawnPicture(name, title, summary, side, end + 8, "".join([*parts, signs]))
