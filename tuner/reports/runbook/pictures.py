"""Picture files of a runbook, stored next to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.core.ranking.overview import Overview
from tuner.reports.charts.heat_map import heat_map_picture
from tuner.reports.charts.ranking import ranking_picture
from tuner.reports.documents.blocks import Picture


@dataclass(frozen=True, slots=True)
class Pictures:
    """References to the pictures for a page, and the text of each file."""

    blocks: tuple[Picture, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  #: name -> SVG


def runbook_pictures(overview: Overview, stem: str) -> Pictures:
    """Return the ranking and the heat map, in files whose names begin with *stem*."""
    best = next((row.layout.variant for row in overview.ranking.rows), "")
    drawn = {"ranking": ranking_picture(overview), "layouts": heat_map_picture(overview, best)}
    service = re.sub(r"[^A-Za-z0-9._]+", "-", overview.study.service).strip("-")
    blocks, files = [], {}
    for name, picture in drawn.items():
        if picture is not None:
            file = f"{stem}-{service}-{name}.svg"
            blocks.append(Picture(file, f"{picture.title}. {picture.summary}"))
            files[file] = picture.svg(standalone=True) + "\n"
    return Pictures(tuple(blocks), files)
