"""Pictures of a study as SVG: values in, text out; no script, no font, no request.

Each is drawn for a width, so that a phone gets one of its own and not a small copy of the large one; see
`docs/adr/20261122-pictures-are-svg.md`.
"""

from tuner.reports.charts.heat_map import heat_map_svg
from tuner.reports.charts.ranking import ranking_svg
from tuner.reports.charts.shares import shares_svg
from tuner.reports.charts.timeline import timeline_svg
from tuner.reports.charts.trade import trade_svg

__all__ = ["heat_map_svg", "ranking_svg", "shares_svg", "timeline_svg", "trade_svg"]
