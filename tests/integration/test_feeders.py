from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.adapters.feeders.command import CommandFeeder
from tuner.adapters.feeders.none import NoFeeder
from tuner.adapters.feeders.spool import SpoolFeeder
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError, MeasurementError

from ..processes import is_running
from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.integration
FOR_EVER = "import time; time.sleep(300)"


def wait_for(condition) -> None:
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline, "waited 30 s in vain"
        time.sleep(0.02)


def test_no_feeder_supplies_nothing_and_is_never_dry() -> None:
    feeder = NoFeeder()

    with feeder.feeding(Layout(1, 1)):
        assert not feeder.is_dry()
        assert feeder.pids() == frozenset()


def test_a_feeder_command_runs_as_long_as_the_launch_and_knows_its_layout(tmp_path: Path) -> None:
    text = tmp_path / "told"
    script = (
        "import os, pathlib, time;"
        "told = os.environ['TUNER_LAYOUT'] + ' ' + os.environ['TUNER_THREADS'];"
        f"pathlib.Path({str(text)!r}).write_text(told);"
        "time.sleep(300)"
    )
    feeder = CommandFeeder([sys.executable, "-c", script], tmp_path)

    with feeder.feeding(Layout(4, 6, "pool")):
        wait_for(lambda: text.exists() and text.read_text() == "4x6@pool 6")
        (pid,) = feeder.pids()
        assert not feeder.is_dry()

    assert feeder.is_dry()
    assert feeder.pids() == frozenset()
    assert not is_running(pid)


def test_the_number_of_a_feeder_that_ended_is_nobody_elses_before_the_launch_ends(tmp_path: Path) -> None:
    """The group of that number is killed at the end: it must not be a stranger's by then."""
    ends = tmp_path / "ends"
    feeder = CommandFeeder(["/bin/sh", "-c", f"until [ -e {ends} ]; do sleep 0.01; done"])

    with feeder.feeding(Layout(1, 1)):
        (pid,) = feeder.pids()
        ends.touch()
        wait_for(feeder.is_dry)
        held = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    assert held is not None
    assert held.si_pid == pid


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # nobody waited for it: it goes on
def test_a_feeder_that_became_another_user_is_reported_as_what_cannot_be_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*_: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    feeder = CommandFeeder(["/bin/sleep", "1000"])
    feeding = feeder.feeding(Layout(1, 1))
    feeding.__enter__()
    (pid,) = feeder.pids()
    try:
        monkeypatch.setattr(signal, "pidfd_send_signal", refuses)
        monkeypatch.setattr(os, "killpg", refuses)
        monkeypatch.setattr(os, "kill", refuses)
        with raises(MeasurementError, wording("feeders.could-not-be-ended", pid=pid)):
            feeding.__exit__(None, None, None)
    finally:
        monkeypatch.undo()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        gc.collect()  # its Popen warns when it goes: here, where that is ignored, and not in another test


def test_a_feeder_that_fails_spoils_the_launch_and_says_why(tmp_path: Path) -> None:
    feeder = CommandFeeder([sys.executable, "-c", "print('queue is closed'); raise SystemExit(3)"], tmp_path)

    with (
        raises(MeasurementError, wording("feeders.failed-with-exit-code") + "queue is closed"),
        feeder.feeding(Layout(1, 1)),
    ):
        wait_for(feeder.is_dry)
        assert feeder.problem() == wording("feeders.failed-with-exit-code") + "queue is closed"


def test_a_feeder_that_somebody_kills_is_reported_with_the_signal(tmp_path: Path) -> None:
    feeder = CommandFeeder(["sh", "-c", "kill -9 $$"], tmp_path)

    with (
        raises(MeasurementError, wording("feeders.killed-by-signal")),
        feeder.feeding(Layout(1, 1)),
    ):
        wait_for(feeder.is_dry)


def test_a_feeder_that_fails_says_why_without_the_secrets_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter21")
    says = 'echo "no login with $DB_PASSWORD or $2"; exit 3'
    feeder = CommandFeeder(["sh", "-c", says, "sh", "--password", "hunter22"], tmp_path)

    with (
        pytest.raises(MeasurementError, match=r"exit code 3: no login with <hidden> or <hidden>$"),
        feeder.feeding(Layout(1, 1)),
    ):
        wait_for(feeder.is_dry)


def spoilt_by(feeder: CommandFeeder) -> None:
    """A launch that fails once its feeder has ended."""
    with feeder.feeding(Layout(1, 1)):
        while not feeder.is_dry():
            time.sleep(0.01)
        raise MeasurementError("1x1 in window 1: ran dry")


def test_a_feeder_that_failed_is_reported_beside_what_that_spoilt(tmp_path: Path) -> None:
    feeder = CommandFeeder(("sh", "-c", "echo disk gone >&2; exit 5"), tmp_path)

    with raises(MeasurementError, wording("feeders.ran-dry-as-feeder-failed")):
        spoilt_by(feeder)


@pytest.mark.parametrize("own_session", [False, True])
def test_a_feeder_that_ignores_term_and_its_children_are_gone_with_the_launch(
    tmp_path: Path, own_session: bool
) -> None:
    script = (
        "import signal, subprocess, sys, time, pathlib;"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"how = {{'start_new_session': {own_session}}};"
        f"child = subprocess.Popen([sys.executable, '-c', {FOR_EVER!r}], **how);"
        f"pathlib.Path({str(tmp_path / 'child')!r}).write_text(str(child.pid)); time.sleep(300)"
    )
    feeder = CommandFeeder([sys.executable, "-c", script], tmp_path)

    with feeder.feeding(Layout(1, 1)):
        wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())

    assert feeder.is_dry()
    assert not is_running(int((tmp_path / "child").read_text()))


def test_a_feeder_dies_with_a_tuner_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tuner.adapters.feeders.command import CommandFeeder;"
        "from tuner.core.domain.layout import Layout; import time\n"
        f"feeder = CommandFeeder([sys.executable, '-c', {FOR_EVER!r}], Path({str(tmp_path)!r}))\n"
        "with feeder.feeding(Layout(1, 1)):\n"
        "    print(*feeder.pids(), flush=True); time.sleep(300)\n"
    )
    tuner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert tuner.stdout is not None
    with tuner.stdout:
        pid = int(tuner.stdout.readline())
        wait_for(lambda: FOR_EVER.encode() in Path(f"/proc/{pid}/cmdline").read_bytes())

        tuner.send_signal(signal.SIGKILL)
        tuner.wait(30)

    wait_for(lambda: not is_running(pid))


def test_a_feeder_that_is_stopped_before_it_has_begun_is_gone(tmp_path: Path) -> None:
    feeder = CommandFeeder([sys.executable, "-c", FOR_EVER], tmp_path)

    with feeder.feeding(Layout(1, 1)):
        (pid,) = feeder.pids()

    assert not is_running(pid)


def test_a_missing_feeder_command_is_the_config_s_fault(tmp_path: Path) -> None:
    with (
        raises(ConfigError, wording("feeders.command-missing")),
        CommandFeeder(["/no/such/program"], tmp_path).feeding(Layout(1, 1)),
    ):
        pytest.fail("it ran")


def test_a_spool_is_filled_once_and_dry_only_when_nothing_waits(tmp_path: Path) -> None:
    fill = [sys.executable, "-c", f"import os; os.makedirs({str(tmp_path / 'new')!r}); print('x')"]
    fill[2] += f"; open({str(tmp_path / 'new' / 'item')!r}, 'w').close()"
    feeder = SpoolFeeder(tmp_path, fill)
    assert feeder.is_dry()

    with feeder.feeding(Layout(1, 1)):
        assert not feeder.is_dry()
    with feeder.feeding(Layout(2, 1)):  # a second fill would fail: the folder is there
        assert not feeder.is_dry()
    (tmp_path / "new" / "item").unlink()

    assert feeder.is_dry()


def test_a_spool_that_cannot_be_filled_says_what_the_fill_command_said(tmp_path: Path) -> None:
    failing = [sys.executable, "-c", "raise SystemExit('Error: 12 is not a dump.')"]

    with (
        raises(ConfigError, wording("feeders.cannot-be-filled")),
        SpoolFeeder(tmp_path, failing).feeding(Layout(1, 1)),
    ):
        pytest.fail("it fed")


def test_a_fill_command_that_somebody_kills_is_reported_with_the_signal(tmp_path: Path) -> None:
    with (
        raises(ConfigError, wording("feeders.fill-command-killed")),
        SpoolFeeder(tmp_path, ["sh", "-c", "kill -9 $$"]).feeding(Layout(1, 1)),
    ):
        pytest.fail("it fed")


def test_a_spool_still_empty_after_filling_is_an_error(tmp_path: Path) -> None:
    with (
        raises(ConfigError, wording("feeders.still-empty")),
        SpoolFeeder(tmp_path, [sys.executable, "-c", ""]).feeding(Layout(1, 1)),
    ):
        pytest.fail("it fed")


def test_a_spool_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with (
        raises(ConfigError, wording("feeders.does-not-exist")),
        SpoolFeeder(tmp_path / "none", ["true"]).feeding(Layout(1, 1)),
    ):
        pytest.fail("it fed")
