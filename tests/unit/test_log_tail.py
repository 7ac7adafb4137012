"""The last words of a log are told without secrets, wherever the log is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.adapters.log_tail import last_lines

from ..wording import wording

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_no_line_of_a_secret_of_several_lines_is_told(tmp_path: Path, line_end: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(f"read {KEY}and died\n".replace("\n", line_end).encode())

    told = " | ".join(last_lines(log, 9, environment={"PRIVATE_KEY": KEY}))

    assert not [line for line in KEY.splitlines() if line in told]
    assert told.startswith("read <hidden>")
    assert told.endswith("and died")


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("told_before", [8188, 8184])
def test_half_of_a_secret_is_not_told_where_a_long_line_is_cut(
    tmp_path: Path, end: str, told_before: int
) -> None:
    log = tmp_path / "log"
    secret = "hunter22hunter22"
    log.write_text("begins " + secret + "y" * (told_before - len(end)) + end)

    (told,) = last_lines(log, environment={"DB_PASSWORD": secret})

    assert told.startswith("begins <hidden>yyy")


def test_of_a_line_without_an_end_nothing_is_told_but_its_length(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"y" * (3 << 20))

    assert last_lines(log) == [wording("watch.line-too-long")]
