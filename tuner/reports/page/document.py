"""Frame of every HTML page: template, escaping of all texts, style, script and security policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from tuner import __version__
from tuner.reports.page.blocks import Section

GENERATOR = "tuner report"  #: generator in the head of every page, by which tuner recognizes its own files
HEAD_BYTES = 2000  #: the generator is within this many bytes of a page
LONGEST_NAME = 120  #: characters of the name of a service or file in headings


def document(
    *,
    title: str,
    service: str,
    headline: str,
    sections: Sequence[Section],
    file: str,
    scripted: bool = True,
    live: bool = False,
    for_phones: bool = True,
) -> str:
    """Return an HTML page; the same arguments give the same bytes.

    Args:
        title: of the window. Like *service*, *headline* and *file*, it is plain text, which is escaped here.
        service: the heading.
        headline: the text below the heading.
        sections: in their order.
        file: the source of the page.
        scripted: False: it has no script, for mail.
        live: it reloads itself from its server.
        for_phones: pictures have a version for narrow screens, too.
    """
    from markupsafe import Markup

    return render_template(
        "page.html.jinja",
        script=_part("page.js") if scripted else "",
        live=live,
        title=title,
        service=service,
        headline=headline,
        sections=sections,
        file=file,
        for_phones=for_phones,
        generator=f"{GENERATOR} {__version__}",
        svg=lambda picture: Markup(picture.svg()),  # escaped when it is drawn
    )


def render_template(template: str, *, script: str = "", live: bool = False, **shown: object) -> str:
    """Return *template* of this package, filled with *shown*: escaped texts, style and policy."""
    import jinja2
    from markupsafe import Markup

    from tuner.core.text.safe_text import visible

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
    style = _style()
    page: str = environment.get_template(template).render(
        **shown,
        live=live,
        policy=_policy(style, script, live=live),
        style=Markup(style),  # like the script, a file of this package
        script=Markup(script),
        version=__version__,
    )
    return page


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
    """Return a policy that allows no external content, and only tuner's style and script, by hash."""
    rules = ["default-src 'none'", f"style-src {_hash(style)}", "base-uri 'none'", "form-action 'none'"]
    if script:
        rules.append(f"script-src {_hash(script)}")
    if live:
        rules.append("connect-src 'self'")
    return "; ".join(rules)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
