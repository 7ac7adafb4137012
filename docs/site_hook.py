"""What mkdocs cannot do by itself: README.md as the first page, files outside docs/ that pages link to.

Pages are written to be read where they lie, in a checkout; here their links are turned to where the site has
the same. The decisions in docs/adr are listed as they are found.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = "repository"  #: the site's folder for what lies outside docs/
_LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")
_STAMP = re.compile(
    r"^<!-- (measured(?: by hand)?)(?: on this page)?: (.+?) \| (.+?) \| (.+?) -->$", re.MULTILINE
)
_DECISIONS = "Decisions"


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
    """Turn each link to where the site has what it names."""
    here = page.file.src_uri

    def turned(match: re.Match[str]) -> str:
        path = _linked(_in_repository(here), match[2])
        return match[0] if path is None else f"{match[1]}{_relative(_in_site(path), here)}{match[3]}"

    return "".join(
        part if n % 2 else _STAMP.sub(_shown, _LINK.sub(turned, part))
        for n, part in enumerate(re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE))
    )


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
