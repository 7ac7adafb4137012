"""How a launch ends when all goes well, or nearly."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import Layout

from ...processes import is_running
from ...wording import wording

pytestmark = pytest.mark.integration
LaunchersOf = Callable[..., SupervisordLauncher]
Told = list[tuple[str, str]]
#: writes what stopped it to a file of its own, so that nothing is missed
TELLS = """
import os, signal, sys, time
def tell(number, frame):
    open(os.path.join(sys.argv[1], f"{{signal.Signals(number).name}}.{{os.getpid()}}"), "w").close()
    sys.exit(0)
for name in ("TERM", "INT", "QUIT", "USR1", "HUP"):
    signal.signal(getattr(signal, "SIG" + name), tell)
open(os.path.join(sys.argv[1], f"ready.{{os.getpid()}}"), "w").close()
time.sleep(60)
"""


def await_ready(folder: Path, n_workers: int) -> None:
    deadline = time.monotonic() + 30
    while len(list(folder.glob("ready.*"))) < n_workers:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def signals_seen(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in folder.glob("SIG*"))


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1", "HUP"])
def test_every_worker_gets_the_stop_signal_of_its_service(
    launcher_of: LaunchersOf, warnings_given: Told, tmp_path: Path, name: str
) -> None:
    launcher = launcher_of(
        spec={"command": (sys.executable, "-c", TELLS, str(tmp_path)), "stop_signal": name}
    )

    with launcher.running(Layout(3, 1), {}):
        await_ready(tmp_path, 3)

    assert signals_seen(tmp_path) == [f"SIG{name}"] * 3
    assert warnings_given == []


def test_a_worker_that_does_not_stop_is_killed_and_reported(
    launcher_of: LaunchersOf, warnings_given: Told, tmp_path: Path
) -> None:
    launcher = launcher_of("stubborn", str(tmp_path), spec={"stop_wait_s": 0.5})

    with launcher.running(Layout(2, 1), {}) as launch:
        await_ready(tmp_path, 2)
        pids = launch.worker_pids()

    assert not any(map(is_running, pids))
    assert [slug for slug, _ in warnings_given] == ["stopped-by-kill"]
    assert wording("launch.did-not-stop") in warnings_given[0][1]


def test_what_a_worker_leaves_behind_is_ended_and_reported(
    launcher_of: LaunchersOf, warnings_given: Told, tmp_path: Path
) -> None:
    # its child is in a session of its own, deaf, and without the marker
    script = (
        "import os, signal, subprocess, sys, time\\n"
        "if sys.argv[1] == 'child': signal.signal(15, signal.SIG_IGN); open(sys.argv[2], 'w').close()\\n"
        "else: subprocess.Popen([sys.executable, '-c', *sys.argv[2:]], start_new_session=True, env={{}})\\n"
        "time.sleep(60)"
    ).replace("\\n", "\n")
    ready = tmp_path / "ready"
    command = (sys.executable, "-c", script, "parent", script, "child", str(ready))

    with launcher_of(spec={"command": command}).running(Layout(1, 1), {}):
        deadline = time.monotonic() + 30
        while not ready.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    assert [slug for slug, _ in warnings_given] == ["leftover-processes"]
    assert wording("launch.had-to-be-ended-after-a-launch") in warnings_given[0][1]


def test_what_a_worker_leaves_behind_gets_the_stop_signal_of_the_service_too(
    launcher_of: LaunchersOf, tmp_path: Path
) -> None:
    # out of reach of supervisord, and of the signal that the kernel sends when a parent dies
    script = (
        "import subprocess, sys, time; "
        "subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], start_new_session=True); time.sleep(60)"
    )

    command = (sys.executable, "-c", script, TELLS, str(tmp_path))

    with launcher_of(spec={"command": command, "stop_signal": "USR1"}).running(Layout(2, 1), {}):
        await_ready(tmp_path, 2)

    assert signals_seen(tmp_path) == ["SIGUSR1"] * 2


def test_a_chain_of_orphans_is_caught(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    # a shell that lives on, and a chain of processes of which each is the orphan of the one before
    worker = Path(__file__).with_name("worker.py")
    command = ("sh", "-c", f"{sys.executable} {worker} forks {tmp_path} & sleep 60")

    with launcher_of(spec={"command": command}).running(Layout(1, 1), {}):
        deadline = time.monotonic() + 30
        while not list(tmp_path.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    # the check that nothing is left behind is every test's


def test_the_next_launch_finds_the_box_clean(launcher_of: LaunchersOf, warnings_given: Told) -> None:
    launcher = launcher_of("wait")
    pids: set[int] = set()
    for layout in (Layout(1, 1), Layout(4, 1), Layout(2, 1)):
        with launcher.running(layout, {}) as launch:
            assert len(launch.worker_pids()) == layout.processes
            assert not pids & launch.worker_pids()
            pids |= launch.worker_pids()

    assert warnings_given == []
    assert list(Path(os.environ["TMPDIR"]).glob("tuner-*")) == []


def test_a_second_ctrl_c_ends_workers_at_once(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    launcher = launcher_of("stubborn", str(tmp_path), spec={"stop_wait_s": 300.0})

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), launcher.running(Layout(2, 1), {}) as launch:  # noqa: PT012
            pids = launch.worker_pids()
            await_ready(tmp_path, 2)
            signal.setitimer(signal.ITIMER_REAL, 1.0)  # comes while the workers do not stop
            raise KeyboardInterrupt
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

    assert not any(map(is_running, pids))


def test_workers_that_all_died_are_no_trouble_to_stop(
    launcher_of: LaunchersOf, warnings_given: Told, tmp_path: Path
) -> None:
    with launcher_of("ends", str(tmp_path / "go"), "0").running(Layout(2, 1), {}) as launch:
        (tmp_path / "go").touch()
        while launch.worker_pids():
            time.sleep(0.01)

    assert warnings_given == []


def test_a_frozen_supervisord_does_not_keep_the_workers_alive(
    launcher_of: LaunchersOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = launcher_of("wait")

    with launcher.running(Layout(2, 1), {}) as launch:
        launch.rpc.timeout_s = 0.5
        (supervisord,) = launch.overhead_pids() - {launcher.guardian_pid}
        pids = launch.worker_pids()
        os.kill(supervisord, signal.SIGSTOP)

    assert not any(map(is_running, pids))
