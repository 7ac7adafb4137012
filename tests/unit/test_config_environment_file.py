from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.config.environment_file import LARGEST_BYTES, parse_line, read_environment_file
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import wording


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=1", "A", "1"),
        ("A=", "A", ""),
        ("export A=1", "A", "1"),
        ("A = 1", "A", "1"),
        ("A=b=c", "A", "b=c"),
        ("A=b c", "A", "b c"),
        ("A=b # said aside", "A", "b"),
        ("A=b#c", "A", "b#c"),
        ("A=b #c", "A", "b"),
        ("A='b # c'", "A", "b # c"),
        ("A='$HOME \\n'", "A", "$HOME \\n"),
        (r'A="b \"c\"\n\\"', "A", 'b "c"\n\\'),
        ('A="b" # said aside', "A", "b"),
        ("A={threads}", "A", "{threads}"),
    ],
)
def test_a_line_is_a_name_and_a_value(line: str, name: str, value: str) -> None:
    assert parse_line(line) == (name, value)


def test_every_wrong_line_is_reported_with_its_number_and_without_its_value(tmp_path: Path) -> None:
    file = tmp_path / "worker.env"
    file.write_text("# ok\nA=1\nhunter2\n1B=hunter2\n\nC='hunter2\nTUNER_X=hunter2\nD='a' hunter2\n")

    with pytest.raises(ConfigError) as caught:
        read_environment_file(file)

    assert [line.removeprefix(str(file)) for line in caught.value.problem.splitlines()] == [
        ":3: " + wording("config.no-equals-sign"),
        ":4: " + wording("config.no-name-of-variable"),
        wording("config.quote-not-closed", name=":6: C"),
        wording("config.header-of-tuner", name=":7: TUNER_X"),
        wording("config.something-follows-the-quote"),
    ]


def test_nothing_of_a_key_of_several_lines_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "worker.env"
    file.write_text('KEY="-----BEGIN\nhunterAbc+/Q=\nhunterAbc+/QQ==\nhunterAbc\n-----END"\n')

    with pytest.raises(ConfigError) as caught:
        read_environment_file(file)

    assert [line.removeprefix(str(file)) for line in caught.value.problem.splitlines()] == [
        wording("config.quote-not-closed", name=":1: KEY"),
        ":2: " + wording("config.no-name-of-variable"),
        ":3: " + wording("config.no-name-of-variable"),
        ":4: " + wording("config.no-equals-sign"),
        ":5: " + wording("config.no-equals-sign"),
    ]


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, inside: str) -> None:
    file = tmp_path / "worker.env"
    file.write_bytes(f"A=x{inside}y\r\nB='x{inside}'\nC=x{inside}\u3000\n".encode())

    assert read_environment_file(file) == {"A": f"x{inside}y", "B": f"x{inside}", "C": f"x{inside}\u3000"}


def test_the_last_of_a_name_wins_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "worker.env"
    file.write_bytes(b"\xef\xbb\xbfA=1\r\nB='2'\r\nA=3\r\n")

    assert read_environment_file(file) == {"A": "3", "B": "2"}


def test_a_file_that_is_not_there_or_no_text_is_a_config_error(tmp_path: Path) -> None:
    with raises(ConfigError, wording("config.cannot-read-file-of-variables")):
        read_environment_file(tmp_path / "none.env")
    (tmp_path / "bytes.env").write_bytes(b"A=\xff\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_environment_file(tmp_path / "bytes.env")


@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_what_has_no_end_is_not_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name == "pipe":
        os.mkfifo(file)

    with raises(ConfigError, wording("config.no-file-of-variables")):
        read_environment_file(file)


def test_a_file_too_large_for_variables_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "large.env"
    file.write_bytes(b"#" * (LARGEST_BYTES + 1))

    with raises(ConfigError, wording("config.file-of-variables-too-large")):
        read_environment_file(file)
