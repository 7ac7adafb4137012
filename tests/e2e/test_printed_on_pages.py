"""What a page shows of a kept or a simulated study is what tuner prints of it today, line by line.

These are the blocks below stamps (tests/figures_on_pages.py) whose first command names a study of bench/ or a
profile of configs/. Lines may be left out, not changed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from .typed import Typed

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
_STAMP = re.compile(r"^<!-- measured: (?P<commands>tuner [^|]*(?:bench/studies|configs/profiles)/[^|]+?) \|")
_FENCE = re.compile(r"^(```|~~~~)")
_LEFT_OUT = {"", "..."}


def shown() -> Iterator[tuple[str, str, list[str]]]:
    """Page, commands of a stamp, and the lines of what was printed below it."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(page):
            if (found := _STAMP.match(line)) and (printed := list(_printed(page[number + 1 :]))):
                yield str(path.relative_to(ROOT)), found["commands"], printed


def _printed(lines: list[str]) -> Iterator[str]:
    """Lines of blocks of what was printed, fenced or indented, until the next stamp or heading."""
    fence = ""
    for line in lines:
        if fence:
            if line.startswith(fence):
                fence = ""
            else:
                yield line.rstrip()
        elif line.startswith(("#", "<!--")):
            return
        elif found := _FENCE.match(line):
            fence = found[1]
        elif line.startswith("    ") and not line.lstrip().startswith(("$ ", "tuner ")):
            yield line[4:].rstrip()


def _long(commands: str) -> pytest.MarkDecorator | tuple[()]:
    """A simulated study takes seconds of CPU."""
    return pytest.mark.full if "--simulate" in commands else ()


PRINTED = list(shown())


def typed(commands: str, folder: Path) -> str:
    """What the commands print in a folder that has the checkout's studies and profiles."""
    for name in ("bench", "configs"):
        (folder / name).symlink_to(ROOT / name)
    said = ""
    for command in commands.split(";"):
        _, *words = shlex.split(command)
        done = Typed(folder)(*words)
        assert done.returncode in (0, 5), f"{command}: {done.stderr}"
        said += done.stdout + done.stderr
    return said


def test_some_pages_show_what_can_be_printed_again() -> None:
    assert {page for page, _, _ in PRINTED} >= {"docs/runbook.md", "docs/explain.md", "docs/simulate.md"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("page", "commands", "printed"),
    [pytest.param(*one, marks=_long(one[1]), id=one[0]) for one in PRINTED],
)
def test_a_page_shows_what_tuner_prints(page: str, commands: str, printed: list[str], tmp_path: Path) -> None:
    said = {line.rstrip() for line in typed(commands, tmp_path).splitlines()}

    odd = [line for line in printed if line not in said and line.strip() not in _LEFT_OUT]
    assert odd == [], f"{page}: today's tuner prints something else by {commands}"
