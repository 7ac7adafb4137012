from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.adapters.processes.signals import stopping_by_signal

pytestmark = [pytest.mark.pythons, pytest.mark.integration]


def test_the_first_ctrl_c_asks_and_the_second_one_stops(capfd: pytest.CaptureFixture[str]) -> None:
    with stopping_by_signal() as stop:
        assert not stop.requested()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    assert "Finishing this window" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stronger_signal_stops_at_once_and_only_once(number: signal.Signals) -> None:
    with stopping_by_signal() as stop:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # not heard: things are being stopped
        os.kill(os.getpid(), signal.SIGINT)

        assert stop.requested()


def test_handlers_are_as_before_afterwards_and_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with stopping_by_signal():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGINT) is not interrupt

        assert signal.getsignal(signal.SIGINT) is interrupt
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_long_sleep_continues_after_one_ctrl_c_and_ends_with_the_second() -> None:
    script = (
        "import sys; from tuner.adapters.processes.signals import stopping_by_signal\n"
        "from tuner.adapters.clock import SystemClock\n"
        "clock = SystemClock()\n"
        "with stopping_by_signal():\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        clock.sleep_until(clock.monotonic_s() + 300)\n"
        "    except KeyboardInterrupt: print('awake', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as out, process.stderr as err:
        assert out.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert err.readline() == "\n"
        assert err.readline().startswith("Finishing this window")
        assert process.poll() is None
        began_s = time.monotonic()
        process.send_signal(signal.SIGINT)

        assert out.readline() == "awake\n"
        assert process.wait(30) == 0
        assert time.monotonic() - began_s < 60


def test_a_log_whose_reader_had_the_ctrl_c_too_costs_neither_the_window_nor_the_exit_code() -> None:
    """`tuner grid ... 2>&1 | tee log`: the terminal interrupts both, and tee is gone first."""
    script = (
        "import sys, time\n"
        "from tuner.adapters.processes.signals import stopping_by_signal\n"
        "with stopping_by_signal() as stop:\n"
        "    print('ready', flush=True)\n"
        "    while not stop.requested(): time.sleep(0.01)\n"
        "print('the ranking', flush=True)\n"
        "print('where it is kept', file=sys.stderr, flush=True)\n"
        "sys.exit(5)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdout.close()
        process.send_signal(signal.SIGINT)

        assert process.wait(60) == 5


def test_nothing_is_written_into_a_file_that_took_the_place_of_a_closed_stderr(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from tuner.adapters.processes.signals import stopping_by_signal\n"
        "with stopping_by_signal():\n"
        "    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n"
        "    os.kill(os.getpid(), 2)\n"
        "    sys.stderr.write('said')\n"
        "    sys.exit(file < 3)\n"
    )
    shell = f'exec {sys.executable} -c "$1" "$2" 0<&- 1>&- 2>&-'

    ended = subprocess.run(["sh", "-c", shell, "sh", script, str(tmp_path / "study")], check=False)

    assert ended.returncode == 0
    assert (tmp_path / "study").read_text() == ""


def test_a_terminal_that_was_closed_is_no_error_for_what_is_said_afterwards(tmp_path: Path) -> None:
    script = (
        "import fcntl, os, sys, termios, time\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "from tuner.adapters.processes.signals import stopping_by_signal\n"
        "try:\n"
        "    with stopping_by_signal():\n"
        "        os.write(1, b'ready')\n"
        "        while True:\n"  # a signal just before a sleep is handled after it
        "            time.sleep(0.1)\n"
        "except KeyboardInterrupt:\n"
        "    print('out', flush=True)\n"
        "    print('err', file=sys.stderr, flush=True)\n"
        "    open(sys.argv[1], 'w').close()\n"
    )
    master, slave = os.openpty()
    command = [sys.executable, "-c", script, str(tmp_path / "said")]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    heard = os.read(master, 100)
    os.close(master)

    assert heard == b"ready"
    assert process.wait(60) == 0
    assert (tmp_path / "said").exists()
