"""HTML page of a study in a single file, readable without scripts; it sends no requests.

`docs/report.md` describes the page, and `docs/adr/20261122-pictures-are-svg.md` gives the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.core.model.calibration.calibrated import Calibrated
    from tuner.core.ranking.overview import Overview
    from tuner.reports.page.blocks import Section
    from tuner.reports.ranking.first_screen import Starts

#: a page that would be larger has no separate pictures for phones
FULL_BYTES, SMALL_BYTES = 1_500_000, 300_000


def render_page(
    overview: Overview,
    prediction: Calibrated | str | None = None,
    *,
    starts: Starts | None = None,
    small: bool = False,
    live: bool = False,
) -> str:
    """Return the HTML page; the same study gives the same bytes.

    Args:
        overview: made with costs (`Question.costs`), so that the fronts are drawn.
        prediction: of the same study; or a sentence on why there is none; None: not requested.
        starts: the production start of the best layout; None: the page leaves it out.
        small: no script and shorter tables, for mail.
        live: the current launch, for a page that reloads itself every few seconds.
    """
    from tuner.core.text.safe_text import visible
    from tuner.reports.page.document import LONGEST_NAME, document
    from tuner.reports.ranking.ranking_words import headline

    study = overview.study
    sections = _sections(overview, prediction, starts, small=small, live=live)

    def made(*, for_phones: bool) -> str:
        return document(
            title=visible(f"{study.service}: processes and threads", LONGEST_NAME),
            service=visible(study.service, LONGEST_NAME),
            headline=visible(headline(study, overview.ranking), 4 * LONGEST_NAME),
            sections=sections,
            file=visible(overview.name, LONGEST_NAME),
            scripted=not small,
            live=live,
            for_phones=for_phones,
        )

    page = made(for_phones=True)
    most_bytes = SMALL_BYTES if small else FULL_BYTES
    return page if len(page.encode()) <= most_bytes else made(for_phones=False)


def _sections(
    overview: Overview,
    prediction: Calibrated | str | None,
    starts: Starts | None,
    *,
    small: bool,
    live: bool,
) -> list[Section]:
    from tuner.reports.page.answer import answer_section
    from tuner.reports.page.blocks import FULL, SMALL
    from tuner.reports.page.boxes import boxes_sections
    from tuner.reports.page.compared import heat_map_section, ranking_section, trade_section
    from tuner.reports.page.in_time import slices_sections, time_section
    from tuner.reports.page.method import method_section
    from tuner.reports.page.now import now_section
    from tuner.reports.page.reasons import bound_section, prediction_section

    limits = SMALL if small else FULL
    return [
        *([now_section(overview.live)] if live else []),
        answer_section(overview, starts, live=live),
        ranking_section(overview, limits),
        heat_map_section(overview, limits),
        trade_section(overview, limits),
        *boxes_sections(overview, limits),
        *slices_sections(overview, limits),
        time_section(overview, limits),
        bound_section(overview, limits),
        prediction_section(prediction, limits),
        method_section(overview),
    ]
