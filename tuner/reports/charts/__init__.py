"""Charts of a study as SVG: pure functions from values to text, without scripts, fonts or requests.

Each chart is drawn for a given width, so a phone gets a chart of its own instead of a scaled-down large one;
see `docs/adr/20261122-pictures-are-svg.md`.
"""

from tuner.reports.charts.heat_map import heat_map_svg
from tuner.reports.charts.ranking import ranking_svg
from tuner.reports.charts.shares import shares_svg
from tuner.reports.charts.timeline import timeline_svg
from tuner.reports.charts.trade import trade_svg

__all__ = ["heat_map_svg", "ranking_svg", "shares_svg", "timeline_svg", "trade_svg"]
