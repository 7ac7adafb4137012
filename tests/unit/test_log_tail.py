"""The last words of a log are told without secrets, wherever the log is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.adapters.processes.log_tail import last_lines

from ..wording import wording

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_no_line_of_a_secret_of_several_lines_is_reported(tmp_path: Path, line_end: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(f"read {KEY}and died\n".replace("\n", line_end).encode())

    text = " | ".join(last_lines(log, 9, environment={"PRIVATE_KEY": KEY}))

    assert not [line for line in KEY.splitlines() if line in text]
    assert text.startswith("read <hidden>")
    assert text.endswith("and died")


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("told_before", [65532, 65528])
def test_half_of_a_secret_is_not_told_where_a_long_line_is_cut(
    tmp_path: Path, end: str, told_before: int
) -> None:
    log = tmp_path / "log"
    secret = "hunter22hunter22"
    log.write_text("begins " + secret + "y" * (told_before - len(end)) + end)

    (result,) = last_lines(log, environment={"DB_PASSWORD": secret})

    assert result.startswith("begins <hidden>yyy")


def test_of_a_line_without_an_end_nothing_is_reported_but_its_length(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"y" * (3 << 20))

    assert last_lines(log) == [wording("watch.line-too-long")]


def traceback_of(error: str) -> list[str]:
    return [
        "Traceback (most recent call last):",
        '  File "app.py", line 1, in <module>',
        "    import nope",
        error,
    ]


NOT_FOUND = "ModuleNotFoundError: No module named 'nope'"


def test_an_exception_comes_before_the_lines_of_a_shutdown(tmp_path: Path) -> None:
    shutdown = [f"[2026-11-26 12:00:00 +0000] [{n}] [INFO] Worker exiting (pid: {n})" for n in range(6)]
    halt = traceback_of("gunicorn.errors.HaltServer: <HaltServer 'Worker failed to boot.' 3>")
    log = tmp_path / "log"
    log.write_text(
        "\n".join(["[1] [ERROR] Exception in worker process", *traceback_of(NOT_FOUND), *shutdown, *halt])
    )

    assert last_lines(log, 3) == [NOT_FOUND, "...", halt[-1]]


def test_an_exception_is_found_among_the_lines_of_other_processes(tmp_path: Path) -> None:
    log, (begin, where, what, error) = tmp_path / "log", traceback_of("app.Wrong: at port 80")
    log.write_text(
        "\n".join(
            [begin, where, begin, "[2] [INFO] Booting", what, error, "INFO:     a", "b", "c", "ERROR: d"]
        )
    )

    assert last_lines(log, 2) == ["app.Wrong: at port 80", "...", "ERROR: d"]


def test_of_an_exception_among_the_last_lines_the_traceback_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(["starting", *traceback_of(NOT_FOUND), "shutting down", "bye"]))

    assert last_lines(log) == [NOT_FOUND, "shutting down", "bye"]


def test_a_log_that_ends_with_its_exception_is_reported_as_it_stands(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(["starting", *traceback_of(NOT_FOUND)]))

    assert last_lines(log, 2) == ["import nope", NOT_FOUND]


def test_an_exception_that_came_before_is_reported_without_its_secret(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join([*traceback_of("ValueError: no user of hunter22hunter22"), "a", "b"]))

    result = last_lines(log, 1, environment={"DB_PASSWORD": "hunter22hunter22"})

    assert result == ["ValueError: no user of <hidden>", "...", "b"]
