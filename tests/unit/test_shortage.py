"""What the box ran out of is told in words; anything else is a bug and stays one."""

from __future__ import annotations

import errno
import os

import pytest

from tuner.cli import run
from tuner.core.errors import shortage

from ..wording import key_of, wording


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, "x", "/tmp/a"), wording("launch.too-many-open-files-of", file="/tmp/a")),
        (BlockingIOError(errno.EAGAIN, "x"), wording("launch.no-further-process")),
        (OSError(errno.ENOSPC, "x", "/tmp/a"), wording("launch.no-space-left")),
        (OSError(errno.EROFS, "x", "/tmp/a"), wording("launch.read-only-file-system")),
        (RuntimeError("can't start new thread"), wording("launch.no-further-thread")),
        (MemoryError(), wording("launch.out-of-memory")),
    ],
    ids=lambda value: key_of(value) or str(value),
)
def test_what_lacks_is_reported_with_its_place(error: BaseException, said: str) -> None:
    found = shortage(error)

    assert found is not None
    assert found[0] == said


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "x"),
        BlockingIOError(errno.EAGAIN, "a pipe that is full", 0),
        RuntimeError("other"),
        ValueError("x"),
    ],
    ids=str,
)
def test_a_bug_stays_a_bug(error: BaseException) -> None:
    assert shortage(error) is None


def test_a_command_that_lacks_something_says_it_in_two_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_more(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/proc/self/stat")

    monkeypatch.setattr("tuner.cli._run", no_more)

    assert run(["grid"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "Error: " + wording("launch.too-many-open-files-of", file="/proc/self/stat"),
        wording("launch.raise-the-limit-of-files"),
    ]
