"""What a page shows of a kept or a simulated study is what tuner prints of it today, line by line.

These are the blocks below stamps (tests/figures_on_pages.py) whose first command names a study of bench/ or a
profile of configs/. Lines may be left out, not changed.
"""

from __future__ import annotations

import math
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
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
#: commands that fit the model: where the fit ends depends on how a processor rounds its last digits
FITTED = re.compile(r"\btuner (predict|calibrate|explain)\b")
FIT_RATIO = 0.01  #: 0.14 % was the largest difference between two kinds of processors


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


def parts_of(line: str) -> list[str]:
    """Text and numbers by turns; columns may be wider by a digit."""
    return _NUMBER.split(re.sub(r"\s+", " ", line))


def is_near(one: list[str], other: list[str]) -> bool:
    """Whether two lines have the same text, and numbers that differ by at most ``FIT_RATIO``."""
    return (
        len(one) == len(other)
        and one[::2] == other[::2]
        and all(
            math.isclose(float(mine), float(theirs), rel_tol=FIT_RATIO)
            for mine, theirs in zip(one[1::2], other[1::2], strict=True)
        )
    )


def test_fitted_figures_may_differ_by_little_and_nothing_else_may() -> None:
    line = "prefork  4x-  172567  153746 to 191294  may be as good"

    assert is_near(parts_of(line), parts_of(line.replace("153746", "153965")))
    assert not is_near(parts_of(line), parts_of(line.replace("153746", "156965")))
    assert not is_near(parts_of(line), parts_of(line.replace("good", "bad")))
    assert not is_near(parts_of(line), parts_of(line.replace("4x-", "2x-")))


def test_some_pages_show_what_can_be_printed_again() -> None:
    assert {page for page, _, _ in PRINTED} >= {"docs/runbook.md", "docs/explain.md", "docs/simulate.md"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("page", "commands", "printed"),
    [pytest.param(*one, marks=_long(one[1]), id=one[0]) for one in PRINTED],
)
def test_a_page_shows_what_tuner_prints(page: str, commands: str, printed: list[str], tmp_path: Path) -> None:
    said = {line.rstrip() for line in typed(commands, tmp_path).splitlines()}
    near = [parts_of(line) for line in said] if FITTED.search(commands) else []

    odd = [
        line
        for line in printed
        if line not in said
        and line.strip() not in _LEFT_OUT
        and not any(is_near(parts_of(line), other) for other in near)
    ]
    assert odd == [], f"{page}: today's tuner prints something else by {commands}"
