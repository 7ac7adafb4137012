"""Build steps that mkdocs lacks: README.md as the first page, files outside docs/, Markdown and llms.txt.

Pages are written to be read in a checkout; here their links are turned to where the site has the same. The
decisions in docs/adr are listed as they are found. Each page is also written as Markdown next to its HTML,
and llms.txt (https://llmstxt.org) lists these files for programs.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = "repository"  #: the site's folder for what lies outside docs/
_LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")
_STAMP = re.compile(
    r"^<!-- (measured(?: by hand)?)(?: on this page)?: (.+?) \| (.+?) \| (.+?) -->$", re.MULTILINE
)
_DECISIONS = "Decisions"
_README = re.compile(r"(\]\((?![^)]*://)(?:[^)\s#]*/)?)README\.md(?=[)#\s])")
_CODE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
_NO_PROSE = re.compile(r"#|<|!|\||>|- |\d+\. |```| {4}")  #: the beginning of a block without a sentence
_markdown: dict[str, str] = {}  #: page of the site -> its Markdown
_groups: list[tuple[str, list[Page]]] = []  #: title of each group of the navigation, and its pages


def on_config(config: Any) -> Any:
    """Fill in the group of decisions."""
    for group in config.nav:
        if _DECISIONS in group:
            group[_DECISIONS] = [f"adr/{path.name}" for path in sorted((ROOT / "docs" / "adr").glob("2*.md"))]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add README.md, and what pages link to."""
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text("utf-8")))
    for path in sorted(_outside()):
        files.append(File.generated(config, f"{OUTSIDE}/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn each link to where the site has its target, and keep the page as Markdown."""
    here = page.file.src_uri

    def turned(match: re.Match[str]) -> str:
        path = _linked(_in_repository(here), match[2])
        return match[0] if path is None else f"{match[1]}{_relative(_in_site(path), here)}{match[3]}"

    linked = _outside_code(markdown, lambda part: _LINK.sub(turned, part))
    # mkdocs writes README.md as index.html
    _markdown[_beside(page)] = _outside_code(linked, lambda part: _README.sub(r"\1index.md", part))
    return _outside_code(linked, lambda part: _STAMP.sub(_shown, part))


def on_nav(nav: Navigation, **_: Any) -> Navigation:
    """Keep the groups of the navigation for llms.txt."""
    _groups[:] = [(str(item.title), list(_pages(item))) for item in nav.items]
    return nav


def on_post_build(config: Any) -> None:
    """Write each page as Markdown next to its HTML, and llms.txt, which lists them."""
    site = Path(config.site_dir)
    for uri, text in _markdown.items():
        (site / uri).write_text(text, encoding="utf-8")
    parts = [f"# {config.site_name}\n\n> {_paragraph(_markdown['index.md'])}\n"]
    for title, pages in _groups:
        lines = [f"- [{page.title}]({_beside(page)}){_described(page)}\n" for page in pages]
        parts.append(f"## {title}\n\n{''.join(lines)}")
    (site / "llms.txt").write_text("\n".join(parts), encoding="utf-8")


def _pages(item: Any) -> Iterator[Page]:
    """Yield the pages of *item* and of all groups in it."""
    if isinstance(item, Page):
        yield item
    for child in item.children or ():
        yield from _pages(child)


def _beside(page: Page) -> str:
    """Return the address of the page as Markdown."""
    return page.file.dest_uri.removesuffix(".html") + ".md"


def _described(page: Page) -> str:
    """Return the first sentence of the page, after a colon; nothing if it has none."""
    text = re.sub(r"^\w+\. (?=\S)", "", _paragraph(_markdown[_beside(page)]))  # "Context. ..."
    sentence = re.split(r"(?<=[.?!:])\s", text, maxsplit=1)[0].rstrip(":.")
    return f": {sentence}." if sentence else ""


def _paragraph(markdown: str) -> str:
    """Return the first paragraph as one line without links and emphasis."""
    text = re.sub(r"<!--.*?-->", "", _CODE.sub("", markdown), flags=re.DOTALL)
    blocks = (block for block in re.split(r"\n\s*\n", text) if block.strip())
    first = next((block for block in blocks if not _NO_PROSE.match(block.lstrip("\n"))), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    return " ".join(re.sub(r"\*\*|\*(?=\w)|(?<=[\w.])\*", "", plain).split())


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Return *markdown* with its text changed, and its code blocks as they are."""
    return "".join(part if n % 2 else change(part) for n, part in enumerate(_CODE.split(markdown)))


def _shown(stamp: re.Match[str]) -> str:
    """By what, where and when the figures below were measured, for readers (tests/figures_on_pages.py)."""
    kind, done, machine, day = stamp.groups()
    return f'<p class="stamp">{kind.capitalize()}: {html.escape(done)}. {html.escape(machine)}, {day}.</p>'


def _in_repository(uri: str) -> str:
    """Where a page of the site lies in the repository."""
    if uri == "index.md":
        return "README.md"
    return uri.removeprefix(f"{OUTSIDE}/") if uri.startswith(f"{OUTSIDE}/") else f"docs/{uri}"


def _in_site(path: str) -> str:
    """Where the site has a file of the repository."""
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{OUTSIDE}/{path}"


def _linked(page: str, target: str) -> str | None:
    """The file of the repository that *page* links to; of a folder what is read first; None: it is none."""
    if "://" in target or target.startswith(("mailto:", "/")):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if (ROOT / path).is_dir():
        inside = ROOT / path
        readme = inside / "README.md"
        first = readme if readme.exists() else min(inside.glob("*.md"), default=None)
        return None if first is None else first.relative_to(ROOT).as_posix()
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def _relative(uri: str, page: str) -> str:
    return posixpath.relpath(uri, posixpath.dirname(page) or ".")


def _outside() -> set[str]:
    """The files outside docs/ that are linked to, from docs/, from README.md or from one another."""
    found: set[str] = set()
    waiting = ["README.md", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
    while waiting:
        for path in _links(waiting.pop()):
            if not path.startswith("docs/") and path != "README.md" and path not in found:
                found.add(path)
                if path.endswith(".md"):
                    waiting.append(path)
    return found


def _links(page: str) -> Iterator[str]:
    for match in _LINK.finditer((ROOT / page).read_text(encoding="utf-8")):
        if (path := _linked(page, match[2])) is not None:
            yield path
