"""What a line for a shell starts, beside what a real shell makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.config.start_files.shell_line import read_shell_line, shell_text
from tuner.config.start_files.started import Variables
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import key_of, wording

VARIABLES = {"PORT": "8000", "TWO": "a b", "EMPTY": "", "QUOTE": "it's", "BLANKS": " x y "}
SHOW = """#!/bin/sh
for word in "$@" -- "$A" "$B"; do printf '%s\\0' "$word"; done
"""


def words_of(line: str) -> list[str]:
    command = read_shell_line(line, Variables({}, VARIABLES), lambda at: f"line:1:{at + 1}")
    return [*command.words[1:], "--", *(command.environment.get(name, "") for name in "AB")]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program called show, which prints its words and the variables A and B."""
    (tmp_path / "show").write_text(SHOW)
    (tmp_path / "show").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        r"show -b :$PORT \"x $TWO\" $TWO '$TWO' a\ b".replace('\\"', '"'),
        'A=1 show $A ${A:-none} "${PORT}0"',
        'A=1 B="$PORT $A" show x',
        "A=5; export A; show $A",
        'export A=7 B="x y" && exec show "$A" $B',
        'show ${NONE:-a b} "${NONE:-a b}" ${NONE-"c d"} ${EMPTY:-e} ${EMPTY-e} ${PORT:+yes} ${NONE:+no}',
        'show $EMPTY "$EMPTY" \'\' ""x',
        'show pre$TWO.post ${BLANKS}x y$BLANKS"z"',
        r"""show "a\"b\$PORT\\c" a'b'"c" \$PORT""",
        "show a # not this",
        "show a#b '#c'",
        'show "$QUOTE" $QUOTE',
        "show ${NONE:=set} $NONE",
        """show --x='{"a": 1}' "[::]:$PORT" """,
        "cd / && show a;",
        "show 2>/dev/null a >/dev/stdout b",
        "show ${NONE:-${PORT}} ${NONE:-'s s'} $PORT$PORT ${PORT}x$",
        "true && set -e; A=3 show ok",
        "show one \\\n  two 'three\nfour'",
        "while false; do sleep 1; done; show after",
    ],
)
def test_a_line_starts_what_a_shell_starts(program: Path, line: str) -> None:
    real = subprocess.run(
        ["/bin/sh", "-c", line],
        env={**VARIABLES, "PATH": f"{program}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )

    assert real.stdout.split("\0")[:-1] == words_of(line), real.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("show a | tee log", wording("start-files.needs-a-shell", at="line:1:8", what="|")),
        ("show a || exit 1", wording("start-files.needs-a-shell", at="line:1:8", what="||")),
        ("(show a)", wording("start-files.needs-a-shell", at="line:1:1", what="(")),
        ('exec "$@"', wording("start-files.needs-a-shell", at="line:1:7", what="$@")),
        ("if true; then show; fi", wording("start-files.needs-a-shell", at="line:1:21", what="fi")),
        ("show <<E", wording("start-files.needs-a-shell", at="line:1:6", what="<<")),
        ("show ${TWO%b}", wording("start-files.cannot-expand", at="line:1:6", what="${TWO%...}")),
        ('show "a', wording("start-files.not-closed", at="line:1:6", what='"')),
        ("show $(date", wording("start-files.not-closed", at="line:1:6", what="$(")),
        ("show ${NONE:?say it}", wording("start-files.is-required", at="line:1:6")),
        (" # nothing", wording("start-files.no-program", at="line:1:1")),
    ],
    ids=key_of,
)
def test_what_needs_a_shell_is_refused_with_its_place(line: str, said: str) -> None:
    with raises(ConfigError, said):
        words_of(line)


def test_what_runs_before_the_last_command_is_reported() -> None:
    command = read_shell_line("python m.py migrate && cd src && exec show 2>&1", Variables({}, {}), str)

    assert (command.words, command.directory) == (("show",), "src")
    assert command.notes == ("not run before a launch: python m.py migrate", "left out: 2>&1")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["sh", "-c", "a b"], "a b"),
        (["/bin/bash", "-e", "-lc", "a"], "a"),
        (["sh", "-c", 'exec "$@"', "--", "a"], None),
        (["sh", "run.sh"], None),
        (["python", "-c", "a"], None),
    ],
)
def test_the_line_of_a_shell_is_found(words: list[str], line: str | None) -> None:
    assert shell_text(words) == line
