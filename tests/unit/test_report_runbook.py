from __future__ import annotations

from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.errors import ConfigError
from tuner.reports.runbook.runbook import (
    COMMENTS,
    MadeWith,
    format_of,
    marks,
    parse_made_with,
    update_runbook,
)

from ..raising import raises
from ..wording import start_of, wording

BEGIN, END = marks("web", "markdown")


def update(text: str, section: str = "NEW\n", fmt: str = "markdown") -> str:
    return update_runbook(text, section, service="web", fmt=fmt, name="RUNBOOK.md")


def test_a_runbook_without_the_section_gets_it_at_its_end_under_a_heading() -> None:
    assert update("# Ops\n\nRead me.\n") == (wording("export.page-with-section", begin=BEGIN, end=END))


def test_an_empty_runbook_begins_with_the_section() -> None:
    assert wording("export.processes-threads-web") in start_of(update(""))


@given(before=st.text(), after=st.text(), old=st.text(st.characters(blacklist_characters="\r\n")))
def test_nothing_but_what_lies_between_the_marks_changes(before: str, after: str, old: str) -> None:
    before, after = (
        before.replace("`", "").replace("~", "").replace("\r", ""),
        after.replace("`", "").replace("~", ""),
    )
    before, after = before.replace("tuner:", ""), after.replace("tuner:", "").replace("\r", "")
    text = f"{before}\n{BEGIN}\n{old}\n{END}\n{after}"

    assert update(text) == f"{before}\n{BEGIN}\n\nNEW\n\n{END}\n{after}"


@pytest.mark.parametrize("fmt", sorted(COMMENTS))
@pytest.mark.parametrize("text", ["", "Intro\n", "Intro without an end of line"])
def test_updating_twice_gives_the_same_bytes(fmt: str, text: str) -> None:
    once = update(text, fmt=fmt)

    assert update(once, fmt=fmt) == once


def test_windows_line_ends_stay() -> None:
    text = f"# Ops\r\n{BEGIN}\r\nold\r\n{END}\r\nrest\r\n"

    assert update(text) == f"# Ops\r\n{BEGIN}\r\n\r\nNEW\r\n\r\n{END}\r\nrest\r\n"


def test_marks_inside_a_code_block_are_text() -> None:
    text = f"```text\n{BEGIN}\nexample\n{END}\n```\n"

    assert update(text).startswith(text)
    assert update(update(text)) == update(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"a\n{BEGIN}\nb\n", "RUNBOOK.md:2: the mark"),
        (f"{END}\n", "RUNBOOK.md:1: the mark"),
        (f"{END}\n{BEGIN}\n", "RUNBOOK.md:1: the mark"),
        (f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n", "RUNBOOK.md:3: the mark"),
    ],
)
def test_marks_that_are_no_pair_are_refused_with_their_line(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=place):
        update(text)


def test_two_services_share_a_runbook() -> None:
    first = update_runbook("", "A\n", service="web", fmt="markdown", name="R.md")
    both = update_runbook(first, "B\n", service="mail", fmt="markdown", name="R.md")

    assert update_runbook(both, "A2\n", service="web", fmt="markdown", name="R.md") == both.replace(
        "\nA\n", "\nA2\n"
    )


def test_a_hostile_service_name_cannot_end_the_comment() -> None:
    begin, _end = marks("x--><script>", "markdown")

    assert begin.count("-->") == 1
    assert "<script>" not in update_runbook("", "A", service="x--><script>", fmt="markdown", name="R.md")


def test_the_format_follows_the_ending() -> None:
    assert format_of(PurePath("a/RUNBOOK.MD")) == "markdown"
    with raises(ConfigError, wording("export.cannot-tell")):
        format_of(PurePath("runbook.docx"))


@pytest.mark.parametrize("fmt", sorted(COMMENTS))
@pytest.mark.parametrize(
    "options",
    [
        MadeWith("1x24"),
        MadeWith(None, 0.9),
        MadeWith("4x6@gevent+a-b", 0.999),
        MadeWith(objective="throughput-per-cpu", max_load="20", max_memory="8G", max_p95="2s"),
        MadeWith(None, 0.9, within="2%", costs="load,memory"),
        MadeWith(repeat_after="30d", pictures=True),
        MadeWith("1x24", pictures=True),
    ],
    ids=str,
)
def test_a_section_remembers_the_options_that_made_it(fmt: str, options: MadeWith) -> None:
    for before in ("", "Intro\r\n"):
        text = update_runbook(before, "NEW\n", service="web", fmt=fmt, name="R", options=options)

        assert parse_made_with(text, service="web", fmt=fmt) == options
        assert parse_made_with(text, service="mail", fmt=fmt) == MadeWith()


def test_a_section_made_without_options_says_nothing_about_them() -> None:
    assert update_runbook("", "NEW\n", service="web", fmt="markdown", name="R", options=MadeWith()) == update(
        ""
    )
    assert parse_made_with(update(""), service="web", fmt="markdown") == MadeWith()


@pytest.mark.parametrize(
    "line",
    ["made with --current", "made with --confidence 0.9.9", "made with --confidence 7", "made by hand"],
)
def test_a_comment_that_somebody_changed_is_no_options(line: str) -> None:
    text = f"{BEGIN}\n\n<!-- {line} -->\n\nNEW\n\n{END}\n"

    assert parse_made_with(text, service="web", fmt="markdown") == MadeWith()
