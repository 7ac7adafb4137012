"""docs/ as a site: built strictly, and complete in itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
#: what makes a browser fetch something, and the attribute that names it
_FETCHING = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "object": "data",
}


class _Fetched(HTMLParser):
    """Collects the addresses that a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        data = dict(attrs)
        if tag == "link" and data.get("rel") in ("canonical", "next", "prev"):
            return  # names a page, fetches nothing
        if address := data.get(_FETCHING.get(tag, "")):
            self.found.append(address)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


def test_the_site_has_every_page_and_all_that_they_fetch_and_link_to(site: Path) -> None:
    """One test: pytest-xdist would have each of its processes build the site."""
    every_page_is_there_and_fetches_nothing_from_elsewhere(site)
    what_a_page_fetches_and_links_to_is_in_the_site(site)
    styles_fetch_nothing_from_elsewhere(site)
    each_page_is_there_as_markdown_too(site)
    llms_txt_lists_every_page_with_its_first_sentence(site)


def every_page_is_there_and_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    sources = list((ROOT / "docs").rglob("*.md"))

    assert len(pages) >= len(sources)
    for page in pages:
        fetched = _Fetched()
        fetched.feed(page.read_text(encoding="utf-8"))
        assert [address for address in fetched.found if re.match(r"(\w+:)?//", address)] == []


def what_a_page_fetches_and_links_to_is_in_the_site(site: Path) -> None:
    missing = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue  # is served from anywhere: its addresses begin at the root
        fetched = _Fetched()
        text = page.read_text(encoding="utf-8")
        fetched.feed(text)
        linked = re.findall(r'<a [^>]*href="([^"#]+)', text)
        inside = {address for address in (*fetched.found, *linked) if not re.match(r"\w+:", address)}
        gone = (address for address in inside if not (page.parent / address.partition("?")[0]).exists())
        missing += [(page.name, address) for address in gone]

    assert missing == []


def styles_fetch_nothing_from_elsewhere(site: Path) -> None:
    for style in site.rglob("*.css"):
        assert re.findall(r"url\(\s*[\"']?(?:\w+:)?//|@import", style.read_text(encoding="utf-8")) == []


def pages_as_markdown(site: Path) -> set[str]:
    """Return where each page should be as Markdown: next to its HTML."""
    pages = (page for page in site.rglob("*.html") if page.name != "404.html")
    return {page.with_suffix(".md").relative_to(site).as_posix() for page in pages}


def each_page_is_there_as_markdown_too(site: Path) -> None:
    expected = pages_as_markdown(site)
    found = {page.relative_to(site).as_posix() for page in site.rglob("*.md")}
    gone = []
    for name in found:
        text = re.sub(r"^```.*?^```", "", (site / name).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        links = re.findall(r"\]\(([^)\s#]+)", re.sub(r"`[^`]*`", "", text))
        inside = (link for link in links if not re.match(r"\w+:", link))
        gone += [(name, link) for link in inside if not ((site / name).parent / link).exists()]

    assert found == expected
    assert "How it works" in (site / "architecture.md").read_text("utf-8")
    assert gone == []


def llms_txt_lists_every_page_with_its_first_sentence(site: Path) -> None:
    text = (site / "llms.txt").read_text("utf-8")
    listed = re.findall(r"^- \[(.+)\]\((\S+\.md)\): (.+\.)$", text, re.MULTILINE)
    described = {page: sentence for _, page, sentence in listed}
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    groups = re.findall(r"^  - (\w[^:]*):", nav, re.MULTILINE)

    assert text.startswith("# tuner\n\n> tuner finds how many processes and threads")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == groups
    assert text.count("\n- [") == len(listed)  # each with a sentence
    assert sorted(page for _, page, _ in listed) == sorted(pages_as_markdown(site))
    assert described["install.md"] == "tuner runs on Linux with Python 3.11 to 3.15."
