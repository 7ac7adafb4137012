"""Every figure in README, docs and deploy is vouched for: by a command, or by a reason why there is none."""

from __future__ import annotations

import datetime
import re
import shlex
from pathlib import Path

import pytest

from tuner.cli import COMMANDS

from ..figures_on_pages import PRINTED, Stamp, figures_of, read_page, text_of
from ..wording import wording

ROOT = Path(__file__).resolve().parents[2]
#: made from the code, and held against it: test_reference.py, test_locks.py
MADE = {"docs/reference/commands.md", "docs/reference/config.md", "docs/reference/exit-codes.md"}
MADE |= {"docs/reference/public.md", "requirements/licences.md"}
#: made of kept runs, and held against them: test_lab_pages.py
LAB = {f"docs/lab/{path.stem}.md" for path in (ROOT / "docs" / "lab").glob("*.svg")}
PAGES = [
    name
    for path in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "deploy").rglob("*.md")),
        ROOT / "tests" / "fuzz" / "README.md",
    )
    if (name := str(path.relative_to(ROOT))) not in MADE | LAB
]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
#: figures that nothing here repeats: fewer is better, more has to be said in a review
MOST_BY_HAND = 6


def stamps(page: str) -> tuple[Stamp, ...]:
    return read_page(text_of(ROOT / page)).stamps


def is_there(command: str) -> bool:
    """Whether what a stamp names can be typed here."""
    match shlex.split(command):
        case ["python", "-m", module, *_]:
            return module.startswith("tests.") and (ROOT / f"{module.replace('.', '/')}.py").is_file()
        case ["python", script, *_]:
            return script.startswith("bench/") and (ROOT / script).is_file()
        case [script, *_] if script.startswith(("tests/fuzz/", "deploy/trial.sh")):
            return (ROOT / script).is_file()
        case ["pytest", file]:
            return (ROOT / file).is_file()
        case ["tuner", name, *_]:
            return name in {one.name for one in COMMANDS}
        case ["make", target, *_]:
            return target in TARGETS
        case _:
            return False


def days(text: str) -> list[datetime.date]:
    return [datetime.date.fromisoformat(day) for day in text.split(" to ")]


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_of_a_page_is_stamped(page: str) -> None:
    read = read_page(text_of(ROOT / page))

    assert [f"{page}:{line}: {text.strip()}" for line, text in read.misspelt] == []
    bare = [f"{page}:{line}: {text.strip()[:90]}" for line, text in read.bare]
    assert bare == [], "say who measured this: tests/figures_on_pages.py tells how"


@pytest.mark.parametrize("page", [page for page in PAGES if stamps(page)])
def test_every_stamp_of_a_page_says_by_what_where_and_when(page: str) -> None:
    for stamp in stamps(page):
        where = f"{page}:{stamp.line}"
        assert stamp.figures, f"{where}: no figure stands below this stamp"
        if stamp.kind == "not measured":
            assert len(stamp.text) > 5, f"{where}: why?"
            continue
        parts = stamp.parts()
        assert len(parts) == 3, f"{where}: what was done | machine | day"
        done, machine, day = parts
        if stamp.kind == "measured":
            for command in done.split(";"):
                assert is_there(command.strip()), f"{where}: there is no {command.strip()}"
        assert re.match(r"\d+ cores, |vm-2\b", machine), f"{where}: of which machine?"
        assert days(day) == sorted(days(day)), where


def test_what_nothing_repeats_does_not_grow() -> None:
    by_hand = [stamp for page in PAGES for stamp in stamps(page) if stamp.kind == "measured by hand"]

    assert len(by_hand) <= MOST_BY_HAND


def test_every_bench_says_how_long_it_takes_and_what_came_out() -> None:
    page = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| `")]

    assert len(rows) > 40
    assert [row[0] for row in rows if len(row) != 5 or not all(map(str.strip, row))] == []


@pytest.mark.parametrize("page", sorted(LAB))
def test_a_page_of_the_lab_says_itself_where_it_was_measured_and_by_what(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    assert re.search(r"^These results are from .*\b\d+ cores", text, re.MULTILINE)
    assert f"```sh\ntuner lab {Path(page).stem}" in text


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("it takes 1.5 ms a scrape, 90 ns an item", 2),
        ("| strict | 107 | 99.5 % |", 1),
        ("3 to 4 ms, 1.03 times that, 24 MB, 4 µs, 10 000 items/s", 5),
        ("a layout of 4x6, 24 layouts, two cores, Python 3.11, 0.x, 8x-", 0),
        ("95 % intervals of items/10 min", 0),
        ("the option `--within 2%`", 0),
        ("others [found 30 %](https://example.org/paper)", 0),
        ("our page [says 30 %](race.md)", 1),
    ],
)
def test_a_figure_is_a_number_with_a_unit_of_our_own(line: str, figures: int) -> None:
    assert len(figures_of(line)) == figures


PAGE = """# A page

It takes 5 ms.

## Next

<!-- measured: make grid | 2 cores, a box | 2026-11-22 -->

It takes 6 ms.

```text
rank  items
```

<!-- not measured: an option -->

- within 2 %

```sh
sleep 7 s
```

    printed 8 s

## Last

It takes 9 ms.
<!-- mesured: make grid -->
<!-- Measured: make grid -->
"""


def test_a_stamp_holds_until_the_next_one_or_the_next_heading() -> None:
    read = read_page(PAGE)

    assert [text for _, text in read.bare] == ["It takes 5 ms.", "It takes 9 ms."]
    assert [len(stamp.figures) for stamp in read.stamps] == [2, 1]
    assert read.stamps[0].figures[1] == PRINTED
    assert [text for _, text in read.misspelt] == [wording("docs.measured-by-make-grid")]


def test_a_stamp_of_the_page_holds_where_no_other_does() -> None:
    stamp = "<!-- not measured on this page: examples -->"

    read = read_page(PAGE.replace("# A page", f"# A page\n\n{stamp}"))

    assert read.bare == ()
    assert read.stamps[0].is_of_page
    assert len(read.stamps[0].figures) == 2


@pytest.mark.parametrize(
    ("command", "there"),
    [
        ("python bench/counter.py", True),
        ("python bench/model/mixes.py report", True),
        ("python tests/conftest.py", False),
        ("python bench/nothing.py", False),
        ("tuner lab nornir", True),
        ("tuner nothing", False),
        ("make grid", True),
        ("make nothing", False),
        ("pytest tests/unit/test_race.py", True),
        ("by looking", False),
    ],
)
def test_a_command_of_a_stamp_has_to_exist(command: str, there: bool) -> None:
    assert is_there(command) is there
