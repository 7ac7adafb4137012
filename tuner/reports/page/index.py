"""HTML page that lists studies with links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_LONGEST = 120  #: largest length of a name, in characters


def render_index(studies: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML page, which has no script and reloads itself every ten seconds.

    *studies* have ``name`` and ``page``, and either the facts of the study or a ``problem``.
    """
    from tuner.reports.page.document import render_template

    return render_template("index.html.jinja", rows=[_row(study) for study in studies])


def _row(study: Mapping[str, Any]) -> dict[str, Any]:
    from tuner.core.text.safe_text import visible

    row = {"name": visible(study["name"], _LONGEST), "page": study["page"], "problem": ""}
    if "problem" in study:
        return {**row, "problem": visible(study["problem"], 4 * _LONGEST)}
    state = "simulated" if study["simulated"] else "running" if study["is_measured"] else "not running"
    return {
        **row,
        "service": visible(study["service"], _LONGEST),
        "state": state,
        "begun": datetime.fromtimestamp(study["created_wall_s"], UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **{name: study[name] for name in ("n_layouts", "n_windows", "n_void")},
    }
