"""The report in a real browser: nothing is asked for, nothing complains, everybody can read and use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import axe_core_python
import pytest

from tuner.app import exporting, model
from tuner.core.domain.provenance import Provenance
from tuner.core.planning.differences import Difference
from tuner.core.ranking.overview import Overview
from tuner.reports.charts import ranking_svg
from tuner.reports.charts.picture import WIDE
from tuner.reports.page import render_page
from tuner.reports.page.comparison import render_comparison_page

from ..chromium import Chromium, running_chromium
from ..overviews import HOSTILE, hostile, overview_of, recorded

pytestmark = pytest.mark.integration

NAME = "gunicorn-2-cores-busy.tuner.db"
WINDOWS = [(1280, False), (1280, True), (360, False), (360, True)]


@pytest.fixture(scope="module")
def one_browser() -> Iterator[Chromium]:
    with running_chromium() as found:
        yield found


@pytest.fixture
def browser(one_browser: Chromium) -> Iterator[Chromium]:
    """A page that is a test's own; a browser takes seconds to start."""
    with one_browser.new_page() as found:
        yield found


@pytest.fixture
def overview(tmp_path: Path) -> Overview:
    return overview_of(recorded(NAME, tmp_path))


def opened(browser: Chromium, folder: Path, text: str) -> Path:
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    browser.open(file.as_uri())
    return file


def serious_faults(browser: Chromium) -> list[str]:
    """What axe finds that keeps people from reading or using the page."""
    browser.run((Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8") + ";0")
    found = json.loads(browser.run("axe.run(document).then((one) => JSON.stringify(one.violations))"))
    return [
        f"{fault['id']}: {node['html'][:200]} {node['failureSummary']}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"][:3]
    ]


@pytest.mark.parametrize("kind", ["usual", "small", "hostile"])
def test_the_page_asks_for_nothing_complains_of_nothing_and_can_be_read_by_all(
    browser: Chromium, overview: Overview, tmp_path: Path, kind: str
) -> None:
    prediction = model.calibrate_file(tmp_path / NAME, variant="gthread")
    shown = hostile(overview) if kind == "hostile" else overview
    file = opened(browser, tmp_path, render_page(shown, prediction, small=kind == "small"))

    assert serious_faults(browser) == []
    for width, dark in WINDOWS:
        browser.window(width, dark=dark)
        assert serious_faults(browser) == [], (width, dark)
        assert browser.run("document.documentElement.scrollWidth") <= width
        browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.pdf().startswith(b"%PDF")
    assert browser.requests == [file.as_uri()]
    assert browser.complaints == []
    assert browser.run("document.title").endswith("processes and threads") or kind == "hostile"
    assert browser.run("document.title") != "owned"


def test_paper_has_what_a_reader_would_have_to_open_but_no_table_twice(
    browser: Chromium, overview: Overview, tmp_path: Path
) -> None:
    opened(browser, tmp_path, render_page(overview))
    heights = "Array.from(document.querySelectorAll('details{}'), (one) => one.offsetHeight)"
    first = "Array.from(document.querySelectorAll('th button'), (one) => getComputedStyle(one).display)"

    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        tables, others = browser.run(heights.format(":has(table)")), browser.run(heights.format(":has(pre)"))
        buttons = browser.run(first)
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")

    assert tables
    assert set(tables) == {0}  # each has a picture above it
    assert others
    assert min(others) > 100  # the config, though it is folded
    assert set(buttons) == {"contents"}  # else the head of a table is empty on its second page


def test_pointing_at_a_mark_shows_its_figures(browser: Chromium, overview: Overview, tmp_path: Path) -> None:
    opened(browser, tmp_path, render_page(overview))
    browser.window(1280)
    best = overview.ranking.rows[0].layout

    browser.run("document.querySelector('#ranking').scrollIntoView({behavior: 'instant'})")
    browser.draw()  # scrolling hides the tip, by an event that comes with the next frame
    x, y = browser.run(
        "(() => { const box = document.querySelector('#ranking .wide .best .dot').getBoundingClientRect();"
        " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    browser.point(x, y)

    browser.until("document.querySelector('#tip').hidden", False)
    assert browser.run("document.querySelector('#tip').textContent").startswith(f"{best}: ")
    browser.point(2, 2)
    browser.until("document.querySelector('#tip').hidden", True)


def test_a_table_is_sorted_by_click_and_by_keyboard(
    browser: Chromium, overview: Overview, tmp_path: Path
) -> None:
    opened(browser, tmp_path, render_page(overview))
    browser.window(1280)
    first = "document.querySelector('#ranking-table tbody tr').cells[1].textContent"
    header = "document.querySelector('#ranking-table th:nth-child({})')"
    rows = overview.ranking.rows
    by_items = sorted(rows, key=lambda row: row.throughput_per_10min.mean or 0.0)

    browser.run(f"{header.format(3)}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y = browser.run(
        f"(() => {{ const box = {header.format(3)}.querySelector('button').getBoundingClientRect();"
        " return [box.x + 5, box.y + 5]; })()"
    )
    browser.point(x, y, click=True)
    assert browser.run(f"{header.format(3)}.getAttribute('aria-sort')") == "descending"
    assert browser.run(first) == str(by_items[-1].layout)

    browser.run(f"{header.format(3)}.querySelector('button').focus()")
    browser.press("Enter")
    assert browser.run(f"{header.format(3)}.getAttribute('aria-sort')") == "ascending"
    assert browser.run(first) == str(by_items[0].layout)


def test_a_table_can_be_copied_and_the_theme_be_chosen(
    browser: Chromium, overview: Overview, tmp_path: Path
) -> None:
    opened(browser, tmp_path, render_page(overview))
    browser.window(1280)
    button = "document.querySelector('#ranking .tool')"

    browser.run(f"{button}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y = browser.run(
        f"(() => {{ const box = {button}.getBoundingClientRect(); return [box.x + 5, box.y + 5]; }})()"
    )
    browser.point(x, y, click=True)
    result = browser.run(
        "new Promise((done) => { const look = () => "
        f"{button}.textContent === 'Copied' ? done(true) : setTimeout(look, 20); look(); }})"
    )
    assert result is True

    colours = []
    for _ in range(2):
        browser.run("document.querySelector('.theme').click()")
        colours.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(17, 22, 28)"]
    assert browser.complaints == []


def test_pictures_beside_a_runbook_are_drawn_in_a_browser(
    browser: Chromium, overview: Overview, tmp_path: Path
) -> None:
    file = tmp_path / "ranking.svg"
    file.write_text(ranking_svg(replace(overview, name="x"), standalone=True), encoding="utf-8")

    browser.open(file.as_uri())

    assert browser.run("document.documentElement.getBoundingClientRect().width") == WIDE
    assert browser.requests == [file.as_uri()]
    assert browser.complaints == []


@pytest.mark.parametrize("is_hostile", [False, True])
def test_two_studies_compared_can_be_read_by_all(browser: Chromium, tmp_path: Path, is_hostile: bool) -> None:
    found = exporting.compare_studies(
        recorded(NAME, tmp_path), recorded("gunicorn-2-cores.tuner.db", tmp_path)
    )
    if is_hostile:
        bad = " ".join(HOSTILE)
        study = replace(found.after.study, service=bad, provenance=Provenance(host=bad, others={bad: bad}))
        after = replace(found.after, name=bad, study=study)
        differing = (*found.differences, Difference(bad, bad, None))
        found = replace(found, after=after, differences=differing)
    file = opened(browser, tmp_path, render_comparison_page(found))

    for width, dark in WINDOWS:
        browser.window(width, dark=dark)
        assert serious_faults(browser) == [], (width, dark)
        assert browser.run("document.documentElement.scrollWidth") <= width
        shown = "#layouts .wide .tip" if width > 400 else "#layouts .narrow .tip"
        assert browser.run(f"document.querySelectorAll('{shown}').length") == 9  # all together, and each of 8
        assert browser.run(f"document.querySelector('{shown}').getBoundingClientRect().width") > 0
    assert browser.pdf().startswith(b"%PDF")
    assert browser.requests == [file.as_uri()]
    assert browser.complaints == []
    assert browser.run("document.title") != "owned"
