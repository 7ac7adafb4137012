"""A command that counts: what it finds, and what becomes of one that does not print a number."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.command import CommandProbe
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError, MeasurementError
from tuner.ports import Counting

from ..processes import is_running
from ..raising import raises
from ..wording import end_of, key_of, wording

pytestmark = pytest.mark.integration


def no_warning(slug: str, text: str) -> None:
    pytest.fail(f"{slug}: {text}")


def probe_of(*command: str, timeout_s: float = 30.0, directory: Path | None = None) -> CommandProbe:
    return CommandProbe(SystemClock(), command, timeout_s, directory, no_warning)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


def read_for_ever(counting: Counting) -> None:
    while True:
        counting.read()


def error_of(probe: CommandProbe) -> str:
    with probe.counting(Layout(1, 1)) as counting, pytest.raises(MeasurementError) as caught:
        read_for_ever(counting)
    return caught.value.problem


def test_the_command_finds_the_layout_and_its_folder_and_no_shell_reads_it(tmp_path: Path) -> None:
    code = "import os, sys; open('seen', 'w').write(os.environ['TUNER_LAYOUT'] + sys.argv[1]); print(1)"
    began_s = SystemClock().monotonic_s()
    with probe_of(*python(code), "$HOME", directory=tmp_path).counting(Layout(4, 6)) as counting:
        while counting.read().at_s <= began_s or not (tmp_path / "seen").exists():
            pass

    assert (tmp_path / "seen").read_text() == "4x6$HOME"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('12 items')", wording("probes.should-print-one-number") + " '12 items'"),
        ("print(-1)", wording("probes.should-print-one-number") + " '-1'"),
        ("pass", wording("probes.should-print-one-number") + " ''"),
        (
            "print('1' * 4000)",
            wording("probes.should-print-one-number") + " '1111",
        ),
        ("print('1' * 5000)", wording("probes.printed-too-much")),
        ("while True: print('1' * 4000)", wording("probes.printed-too-much")),
        ("import sys; print('1\\n' * 100); sys.exit(2)", wording("probes.failed-silently", code=2)),
        (
            "import os; os.write(2, b'no' * 99_999 + b' idea'); os._exit(1)",
            wording("probes.failed", code=1, what="idea"),
        ),
        ("import os; os.write(2, b'no' * 99_999); os._exit(1)", "1: " + wording("probes.word-too-long")),
        (
            "import sys; sys.stderr.write('no such table'); sys.exit(7)",
            wording("probes.failed", code=7, what="no such table"),
        ),
        ("import os; os.kill(os.getpid(), 9)", wording("probes.killed-by-signal", number=9)),
    ],
    ids=key_of,
)
def test_what_is_not_a_number_is_said_with_what_it_was(
    code: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)

    assert said in error_of(probe_of(*python(code)))


@pytest.mark.parametrize("code", ["print(said)", "sys.exit(said)", "sys.exit('x' * 4060 + said)"])
def test_what_it_says_is_reported_without_the_secrets_it_was_given(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)
    monkeypatch.setenv("PRIVATE_KEY", "hunter20\nhunter21")
    says = f"import os, sys; said = os.environ['PRIVATE_KEY'] + ' ' + sys.argv[2] + ' password: x1'; {code}"

    said = error_of(probe_of(*python(says), "--password", "hunter22"))

    assert not [secret for secret in ("hunter", "nter2", "x1") if secret in said]
    assert "<hidden> <hidden> password: <hidden>" in said.replace("\\n", " ")


def test_a_child_that_continues_printing_behind_the_command_s_back_is_not_waited_for(tmp_path: Path) -> None:
    child = tmp_path / "child"
    behind = f"(echo $BASHPID > {child}.new; mv {child}.new {child}; exec yes >&2)"
    command = f"{behind} & while [ ! -e {child} ]; do :; done; echo 5"
    try:
        with probe_of("bash", "-c", command).counting(Layout(1, 1)) as counting:
            asked_s = counting.read().at_s
            while (reading := counting.read()).at_s <= asked_s:
                pass

        assert reading.n_done_total == 0
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(child.read_text()), signal.SIGKILL)


def test_a_command_that_hangs_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)
    child = tmp_path / "child"

    command = f"sleep 1000 & echo $! > {child}.new; mv {child}.new {child}; wait"
    for timeout_s in (1.0, 5.0, 25.0):  # a busy box may need longer until the child is there
        said = error_of(probe_of("sh", "-c", command, timeout_s=timeout_s))

        assert wording("probes.took-too-long", timeout_s=f"{timeout_s:g}") in end_of(said)
        if child.exists():
            break
    pid = int(child.read_text())
    deadline_s = time.monotonic() + 60.0
    while is_running(pid):
        assert time.monotonic() < deadline_s, "the child is still there"
        time.sleep(0.01)


def test_a_command_that_is_not_there_is_refused_before_anything_starts() -> None:
    with raises(ConfigError, wording("probes.command-missing")):
        probe_of("no-such-counter")
