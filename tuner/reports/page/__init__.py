"""A study as one HTML page that needs nothing but itself: no script to be read, no request to anywhere.

`docs/report.md` is for its readers, `docs/adr/20261122-pictures-are-svg.md` has the reasons.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from tuner import __version__

if TYPE_CHECKING:
    from tuner.core.model.calibration.calibrated import Calibrated
    from tuner.core.overview import Overview
    from tuner.reports.page.blocks import Section

GENERATOR = "tuner report"  #: every page names it as its maker, by which a file is known as one of ours
HEAD_BYTES = 2000  #: the generator is named within so many
#: a page that would be larger has no pictures of their own for phones
FULL_BYTES, SMALL_BYTES = 1_500_000, 300_000
_LONGEST_NAME = 120  #: of a service, in headings; the last section has it whole


def render_page(
    overview: Overview, prediction: Calibrated | str | None = None, *, small: bool = False, live: bool = False
) -> str:
    """The whole document; the same study gives the same bytes.

    Args:
        overview: asked for costs (`Question.costs`), so that the fronts are drawn.
        prediction: of the same study; or why there is none, a sentence; None: not asked.
        small: without script, and shorter tables: for mail.
        live: says what runs, and loads itself anew every few seconds from where it was served.
    """
    import jinja2
    from markupsafe import Markup

    from tuner.reports.visible import visible

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tuner.reports.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: (
            visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
    )
    style, script = _style(), "" if small else _part("page.js")
    study = overview.study
    template, most_bytes = environment.get_template("page.html.jinja"), SMALL_BYTES if small else FULL_BYTES
    shown = {
        "title": visible(f"{study.service}: processes and threads", _LONGEST_NAME),
        "service": visible(study.service, _LONGEST_NAME),
        "headline": _headline(overview),
        "sections": _sections(overview, prediction, small=small, live=live),
        "generator": f"{GENERATOR} {__version__}",
        "policy": _policy(style, script, live=live),
        "style": Markup(style),  # as script: files of this package
        "script": Markup(script),
        "svg": lambda picture: Markup(picture.svg()),  # escaped where it is drawn
        "live": live,
        "file": visible(overview.name, _LONGEST_NAME),
        "version": __version__,
    }
    page: str = template.render(**shown, for_phones=True)
    return page if len(page.encode()) <= most_bytes else template.render(**shown, for_phones=False)


def _sections(
    overview: Overview, prediction: Calibrated | str | None, *, small: bool, live: bool
) -> list[Section]:
    from tuner.reports.page.answer import answer_section
    from tuner.reports.page.blocks import FULL, SMALL
    from tuner.reports.page.compared import heat_map_section, ranking_section, trade_section
    from tuner.reports.page.in_time import time_section
    from tuner.reports.page.method import method_section
    from tuner.reports.page.now import now_section
    from tuner.reports.page.reasons import bound_section, foretold_section

    limits = SMALL if small else FULL
    return [
        *([now_section(overview.live)] if live else []),
        answer_section(overview),
        ranking_section(overview, limits),
        heat_map_section(overview, limits),
        trade_section(overview, limits),
        time_section(overview, limits),
        bound_section(overview, limits),
        foretold_section(prediction, limits),
        method_section(overview),
    ]


def _headline(overview: Overview) -> str:
    from tuner.reports.ranking_words import headline
    from tuner.reports.visible import visible

    return visible(headline(overview.study), 4 * _LONGEST_NAME)


def _style() -> str:
    from tuner.reports.charts.picture import chart_style, theme_variables

    light, dark = theme_variables()
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=light]{{color-scheme:light}}:root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        "@media print{:root,:root:not([data-theme=light]),:root[data-theme=dark]"
        f"{{color-scheme:light;{light}}}}}"
        f"{_part('page.css')}{chart_style()}"
    )


def _part(name: str) -> str:
    return files("tuner.reports.page").joinpath("templates", name).read_text(encoding="utf-8")


def _policy(style: str, script: str, *, live: bool) -> str:
    """Nothing from elsewhere, and no style or script but ours, by their hashes."""
    rules = ["default-src 'none'", f"style-src {_hash(style)}", "base-uri 'none'", "form-action 'none'"]
    if script:
        rules.append(f"script-src {_hash(script)}")
    if live:
        rules.append("connect-src 'self'")
    return "; ".join(rules)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
