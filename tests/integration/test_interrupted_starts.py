"""A signal that comes in the very moment in which a program is started: nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.feeders.command import CommandFeeder
from tuner.adapters.feeders.spool import SpoolFeeder
from tuner.adapters.probes import command
from tuner.adapters.probes.helper import Helper, HelperStart
from tuner.adapters.processes.repeated_command import CommandHooks, RepeatedCommand
from tuner.adapters.processes.signals import delay_signals, stopping_by_signal
from tuner.adapters.ready.command import CommandSucceeds
from tuner.core.domain.layout import Layout
from tuner.lab.experiments.experiment import LabJob
from tuner.lab.program import run_job

pytestmark = pytest.mark.integration
SLEEPS = ("/bin/sleep", "1000")
started: list[int] = []


class Interrupted(subprocess.Popen[bytes]):
    """The child runs; whoever starts it does not know it yet."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        started.append(self.pid)
        signal.raise_signal(signal.SIGTERM)


def job_of_the_lab(folder: Path) -> None:
    (folder / "it.py").write_text("import time; time.sleep(1000)", encoding="utf-8")
    run_job(LabJob("it.py", (), {}, 300.0), ["python3", "-I", "-S"], folder)


def hook(_folder: Path) -> None:
    CommandHooks({"before_window": [SLEEPS]}, 300.0, lambda *_: None).run("before_window", {})


def ready_check(_folder: Path) -> None:
    CommandSucceeds(SLEEPS, os.environ).lacks([])


def probes_command(_folder: Path) -> None:
    command.run(SLEEPS, SLEEPS[0], None, os.environ, 300.0, 100)


def probes_helper(folder: Path) -> None:
    program = folder / "helper.py"
    program.write_text("import time; time.sleep(1000)", encoding="utf-8")
    helper = Helper(HelperStart(program, ["python3", "-I", "-S"], os.environ, str(folder)), {}, 300.0)
    try:
        helper.start()
    finally:
        helper.close()


def brakes_command(_folder: Path) -> None:
    with RepeatedCommand(SystemClock(), SLEEPS, 1.0, 300.0).asking({}) as asked:
        asked.answer()


def feeder(folder: Path) -> None:
    with CommandFeeder(SLEEPS, folder).feeding(Layout(1, 1)):
        pytest.fail("it went on")


def filling_of_the_spool(folder: Path) -> None:
    SpoolFeeder(folder, SLEEPS).prepare()


@pytest.mark.parametrize(
    "start",
    [
        *(job_of_the_lab, hook, ready_check, probes_command, probes_helper, brakes_command, feeder),
        filling_of_the_spool,
    ],
)
def test_whoever_is_started_meanwhile_is_ended_and_the_interrupt_is_heard(
    start: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    started.clear()

    with stopping_by_signal(), pytest.raises(KeyboardInterrupt):
        start(tmp_path)

    assert len(started) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(started[0], 0)  # ended and reaped


def held(*numbers: signal.Signals, error: OSError | None = None) -> None:
    with delay_signals():
        for number in numbers:
            signal.raise_signal(number)
        if error is not None:
            raise error


def test_each_signal_that_was_held_does_what_it_does_after_the_block(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with stopping_by_signal() as stop:
        with delay_signals():
            signal.raise_signal(signal.SIGINT)
            assert not stop.requested()
        assert stop.requested()
        with pytest.raises(KeyboardInterrupt):
            held(signal.SIGINT, signal.SIGTERM)  # the first of them ends it

    assert capfd.readouterr().err.count("Finishing this window") == 1


def test_what_goes_wrong_in_the_block_does_not_swallow_the_signal() -> None:
    with stopping_by_signal(at_once=True), pytest.raises(KeyboardInterrupt):
        held(signal.SIGINT, error=OSError("no such program"))
