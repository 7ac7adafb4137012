"""Boxes behind a real scheduler: what comes of an order, whatever happens to anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tuner.adapters.fleet import dask_fleet
from tuner.adapters.fleet.ledger import Looking, Seen
from tuner.app.plan_builder import plan_record
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.fleet import connected_hosts, fleet_of
from tuner.core.domain.fleet import Began, BoxCame, BoxWent, Ended, Lost, Refused, Sampled, Took, Warned
from tuner.core.errors import ConfigError

from ..e2e.sleeping_worker import sleeping_worker
from ..e2e.typed import Typed
from ..fleet_processes import (
    LAYOUT,
    MADE,
    PATIENCE_S,
    Machines,
    machines_in,
    made,
    of_order,
    order,
    pids_with,
    told,
    until_in_a_window,
    wait_until,
)
from ..wording import key_of, start_of, wording

pytestmark = pytest.mark.integration
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schema" / "fleet.schema.json"
STUDY = (
    "study: {strategy: all, layouts: [2x2], window: 2s, warmup: 1s, repeats: 1, warm_cache: no,"
    " foreign_limit: 1000, memory_pressure_limit: 1}\n"
)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with machines_in(tmp_path) as started:
        yield started


@dataclass
class Asked:
    """A study of a service that only sleeps."""

    worker: Path
    config: Path

    def fleet(self, machines: Machines, certs: Path | None = None) -> Any:
        settings = settings_of(self.config, {})
        return fleet_of(
            machines.address,
            certs,
            plan_record(settings),
            settings,
            str(self.config.parent / "elsewhere" / "s.tuner.db"),
        )

    def running(self) -> list[int]:
        return pids_with(str(self.worker))


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    worker, config = tmp_path / "worker.py", tmp_path / "s.yaml"
    worker.write_text(sleeping_worker("0.01"))
    config.write_text(
        f"service:\n  kind: script\n  name: sleeper\n  command: [{sys.executable}, {worker}]\n{STUDY}"
    )
    return Asked(worker, config)


def test_a_launch_is_made_as_it_was_ordered_or_refused_and_reported_to_its_end(
    machines: Machines, asked: Asked
) -> None:
    """And on the loopback nobody else can reach the box."""
    machines.scheduler()
    box = machines.box("box-1")
    with asked.fleet(machines) as fleet:
        (came,) = told(fleet, BoxCame)
        at = listening(box.process.pid)
        news, again = (made(fleet, order("box-1", name)) for name in ("one", "two"))

    missing = settings_of(asked.config, {})
    service = missing.service.model_copy(update={"command": ("/no/such/program",)})
    with fleet_of(
        machines.address,
        None,
        plan_record(missing),
        missing.model_copy(update={"service": service}),
        "m.tuner.db",
    ) as fleet:
        told(fleet, BoxCame)
        (*_, refused) = made(fleet, order("box-1"))

    assert isinstance(refused, Refused)
    assert "/no/such/program" in refused.problem
    assert at == {"0100007F"}
    assert isinstance(came, BoxCame)
    assert came.facts.name == "box-1"
    assert came.facts.cores > 0
    assert came.facts.provenance.host
    assert abs(came.facts.ahead_s) < 60.0
    assert of_order(news) == of_order(again) == MADE
    # only the coordinator has the folder of the study's file
    assert [one for one in news if isinstance(one, Warned) and one.slug == "unfit"] == []
    (window,) = [one.window for one in news if isinstance(one, Took)]
    assert (window.void, window.layout) == ((), LAYOUT)
    assert window.n_done > 0
    (began,) = [one.launch for one in news if isinstance(one, Began)]
    assert (began.box, began.layout) == ("box-1", LAYOUT)
    assert asked.running() == []
    assert (machines.folder / "box-1.lock").read_bytes() == b""


def test_a_box_whose_worker_is_killed_is_gone_with_its_launch(machines: Machines, asked: Asked) -> None:
    machines.scheduler()
    box = machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        until_in_a_window(fleet, order("box-1", window_s=600.0))
        box.end(signal.SIGKILL)
        news = told(fleet, Lost)
        wait_until(lambda: not asked.running(), "the launch of a killed box ends")
        machines.box("box-1")
        told(fleet, BoxCame)
        after = made(fleet, order("box-1", "two"))

    assert [type(one) for one in news if not isinstance(one, Sampled)] == [BoxWent, Lost]
    assert of_order(after) == MADE


def test_a_launch_whose_process_is_killed_is_lost_and_its_box_continues(
    machines: Machines, asked: Asked
) -> None:
    machines.scheduler()
    box = machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        until_in_a_window(fleet, order("box-1", window_s=600.0))
        (launch,) = pids_with("tuner.bootstrap.fleet_order")
        os.kill(launch, signal.SIGKILL)
        news = told(fleet, Lost, BoxWent)
        after = made(fleet, order("box-1", "two"))

    assert isinstance(news[-1], Lost)
    assert wording("launch.killed-by-signal-9") in news[-1].why
    assert of_order(after) == MADE
    assert box.process.poll() is None


def test_an_order_that_is_given_up_ends_at_once_and_its_box_is_free_again(
    machines: Machines, asked: Asked
) -> None:
    """As soon as it was sent, and in a window."""
    machines.scheduler()
    machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        for n in range(5):
            fleet.send(order("box-1", f"early-{n}", window_s=600.0))
            fleet.give_up(f"early-{n}")
            assert of_order(told(fleet, BoxCame)) == []
        until_in_a_window(fleet, order("box-1", window_s=600.0))
        fleet.give_up("one")
        news = told(fleet, BoxCame)
        assert asked.running() == []
        after = made(fleet, order("box-1", "two"))

    assert of_order(news) == []
    assert of_order(after) == MADE


def test_boxes_end_after_the_window_in_hand_when_the_study_does(machines: Machines, asked: Asked) -> None:
    machines.scheduler()
    machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        until_in_a_window(fleet, order("box-1", window_s=8.0, n_windows=5))
        fleet.finish()
        news = told(fleet, Ended, Lost, Refused)

    windows = [one.window for one in news if isinstance(one, Took)]
    assert [one.index for one in windows] == [0]
    assert windows[0].length_s > 7
    assert isinstance(news[-1], Ended)
    assert news[-1].launch.error is None


@pytest.mark.full
def test_a_box_that_is_reported_to_end_finishes_its_window_and_leaves(
    machines: Machines, asked: Asked
) -> None:
    machines.scheduler()
    box = machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        until_in_a_window(fleet, order("box-1", window_s=8.0, n_windows=5))
        box.process.terminate()
        news = told(fleet, BoxWent)

    assert [one.window.index for one in news if isinstance(one, Took)] == [0]
    assert of_order(news)[-1] is Ended
    assert box.process.wait(PATIENCE_S) == 0


@pytest.mark.full
def test_nothing_continues_for_a_coordinator_that_is_gone(machines: Machines, asked: Asked) -> None:
    machines.scheduler()
    box = machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        until_in_a_window(fleet, order("box-1", window_s=600.0))

    wait_until(lambda: not asked.running(), "the launch of a study that ended is ended")
    assert box.process.poll() is None


COORDINATOR = """
import sys
from pathlib import Path
from tuner.adapters.fleet import dask_fleet
from tuner.adapters.fleet.ledger import Seen
from tuner.adapters.fleet.ledger import Looking
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.fleet import fleet_of
from tuner.app.plan_builder import plan_record
from tuner.core.domain.fleet import *
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Proposal
settings = settings_of(Path(sys.argv[2]), {})
with fleet_of(sys.argv[1], None, plan_record(settings), settings, "s.tuner.db") as fleet:
    while True:
        match fleet.news(fleet.clock.monotonic_s() + 1.0):
            case BoxCame(facts):
                fleet.send(Order("one", Place(0, 0, facts.name, Proposal(Layout(2, 2), 600.0)), 1))
            case Sampled(_, _, _, sample) if sample is not None:
                print("measuring", flush=True)
"""


def test_nothing_continues_for_a_coordinator_that_was_killed(machines: Machines, asked: Asked) -> None:
    machines.scheduler()
    machines.box("box-1")
    command = [sys.executable, "-c", COORDINATOR, machines.address, str(asked.config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "measuring\n"
        killed.kill()

    wait_until(lambda: not asked.running(), "the launch of a killed study is ended")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        after = made(fleet, order("box-1", "two"))
    assert of_order(after) == MADE


@pytest.mark.full
def test_boxes_and_study_find_a_scheduler_again_that_was_killed(machines: Machines, asked: Asked) -> None:
    scheduler = machines.scheduler()
    box = machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        until_in_a_window(fleet, order("box-1", window_s=600.0))
        scheduler.end(signal.SIGKILL)
        wait_until(lambda: not asked.running(), "a launch ends when the scheduler is gone")
        machines.scheduler(port=int(machines.address.rpartition(":")[2]))
        news = told(fleet, BoxCame)
        after = made(fleet, order("box-1", "two"))

    assert [type(one) for one in news if not isinstance(one, Sampled)] == [BoxWent, Lost, BoxCame]
    assert of_order(after) == MADE
    assert box.process.poll() is None


@pytest.mark.full
def test_nothing_that_boxes_tell_is_lost_when_a_scheduler_is_another_one_after_a_look(
    machines: Machines, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, is_away, looks, is_back = Looking.boxes, threading.Event(), threading.Event(), threading.Event()

    def late(self: Looking) -> list[Seen]:
        if is_away.is_set():
            looks.set()
            assert is_back.wait(PATIENCE_S)
        return look(self)

    monkeypatch.setattr(Looking, "boxes", late)
    monkeypatch.setattr(dask_fleet, "LOOK_S", 8.0)  # the launch has begun before the next one
    scheduler = machines.scheduler()
    box = machines.box("box-1")
    box.until_it_says(wording("fleet.in-the-fleet"))
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        is_away.set()
        assert looks.wait(PATIENCE_S)
        scheduler.end(signal.SIGKILL)
        machines.scheduler(port=int(machines.address.rpartition(":")[2]))
        box.until_it_says(wording("fleet.in-the-fleet"))
        is_back.set()
        news = told(fleet, BoxCame)
        after = made(fleet, order("box-1"))

    assert [type(one) for one in news] == [BoxWent, BoxCame]
    assert of_order(after) == MADE


@pytest.mark.full
def test_a_box_that_hangs_is_gone_and_comes_back_when_it_continues(machines: Machines, asked: Asked) -> None:
    machines.scheduler()
    box = machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        until_in_a_window(fleet, order("box-1", window_s=600.0))
        box.process.send_signal(signal.SIGSTOP)
        news = told(fleet, Lost)
        wait_until(lambda: not asked.running(), "a launch ends when its worker hangs")
        box.process.send_signal(signal.SIGCONT)
        back = told(fleet, BoxCame)
        after = made(fleet, order("box-1", "two"))

    assert [type(one) for one in news if not isinstance(one, Sampled)] == [BoxWent, Lost]
    assert of_order(back) == []
    assert of_order(after) == MADE


@pytest.mark.full
def test_a_launch_that_was_suspended_ends_without_telling_of_its_window(
    machines: Machines, asked: Asked
) -> None:
    machines.scheduler()
    machines.box("box-1")
    with asked.fleet(machines) as fleet:
        told(fleet, BoxCame)
        until_in_a_window(fleet, order("box-1", window_s=600.0))
        (launch,) = pids_with("tuner.bootstrap.fleet_order")
        os.kill(launch, signal.SIGSTOP)
        time.sleep(12.0)  # longer than a thread is believed to have overslept
        os.kill(launch, signal.SIGCONT)
        news = told(fleet, Lost, Ended, BoxWent)

    assert [type(one) for one in news if not isinstance(one, Sampled)] == [Lost]
    wait_until(lambda: not asked.running(), "a launch that was suspended ends")


def test_a_box_serves_one_fleet_and_a_name_is_of_one_box(machines: Machines, tmp_path: Path) -> None:
    machines.scheduler()
    machines.box("box-1").until_it_says(wording("fleet.in-the-fleet"))

    again = machines.box("box-1")
    assert again.process.wait(PATIENCE_S) == 2
    assert any(wording("fleet.box-in-a-fleet-already") in line for line in again.said)

    machines.folder = tmp_path / "other"
    machines.folder.mkdir()
    other = machines.box("box-1")
    other.until_it_says(wording("fleet.box-of-this-name"))


def test_with_keys_only_those_who_have_them_get_in(machines: Machines, asked: Asked, tmp_path: Path) -> None:
    certs, others = tmp_path / "certs", tmp_path / "others"
    for folder in (certs, others):
        assert tuner("fleet", "certs", folder, "--host", "staging-1", "--host", "10.0.0.7").returncode == 0
    assert {path.name: path.stat().st_mode & 0o777 for path in certs.iterdir()} == {
        "ca.pem": 0o600,
        "fleet.pem": 0o600,
        "fleet.key": 0o600,
    }
    assert tuner("fleet", "certs", certs).stderr.startswith(f"Error: {certs / 'ca.pem'} exists already")

    machines.scheduler("--certs", str(certs))
    assert machines.address.startswith("tls://")
    machines.box("box-1", "--certs", str(certs)).until_it_says(wording("fleet.in-the-fleet"))
    seen = tuner("fleet", "boxes", machines.address, "--certs", certs, "--json")
    facts = json.loads(seen.stdout)
    assert list(Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(facts)) == []
    (box,) = facts["boxes"]
    assert (box["name"], box["busy"]) == ("box-1", False)
    assert "box-1" in tuner("fleet", "boxes", machines.address, "--certs", certs).stdout
    with asked.fleet(machines, certs) as fleet:
        told(fleet, BoxCame)
        assert isinstance(made(fleet, order("box-1"))[-1], Ended)

    plain = tuner("fleet", "boxes", machines.address.replace("tls", "tcp"))
    wrong = tuner("fleet", "boxes", machines.address, "--certs", others)
    assert (plain.returncode, wrong.returncode) == (2, 2)
    assert machines.address.partition("://")[2] in plain.stderr.splitlines()[0]
    assert machines.address in wrong.stderr.splitlines()[0]
    with pytest.raises(ConfigError):
        connected_hosts(machines.address, others, is_forced=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["fleet", "scheduler", "--host", "0.0.0.0"],
            wording("fleet.open-to-others", address="tcp://0.0.0.0:8786"),
        ),
        (
            ["fleet", "scheduler", "--certs", "nowhere"],
            wording("fleet.cannot-read", file="nowhere/ca.pem"),
        ),
        (
            ["fleet", "boxes", "tcp://127.0.0.1:1"],
            wording("fleet.no-scheduler-answers", address="tcp://127.0.0.1:1"),
        ),
        (["fleet", "boxes"], wording("fleet.not-said-where")),
        (["fleet", "list"], wording("fleet.knows-no-such")),
        (["box", "tcp://staging-1:8786"], wording("fleet.open-to-others", address="tcp://staging-1:8786")),
        (
            ["box", "tls://staging-1:8786"],
            wording("fleet.needs-certificates", address="tls://staging-1:8786"),
        ),
    ],
    ids=key_of,
)
def test_what_cannot_be_done_is_reported_in_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    done = Typed(tmp_path)(*words)

    assert done.returncode == 2
    assert said in start_of(done.stderr.removeprefix("Error: "))
    assert len(done.stderr.splitlines()) == 2


def tuner(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tuner.cli import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_second_machine_of_that_identity_is_not_asked(machines: Machines, asked: Asked) -> None:
    """Two names for one machine: the same host, boot and lock; only the fleet's own lock was got around."""
    machines.scheduler()
    machines.box("box-1").until_it_says(wording("fleet.in-the-fleet"))
    (machines.folder / "box-1.lock.fleet").unlink()
    twin = machines._start(
        ["box", machines.address, "--name", "box-2"],
        {"TUNER_LOCK": str(machines.folder / "box-1.lock")},
    )
    twin.until_it_says(wording("fleet.in-the-fleet"))
    with asked.fleet(machines) as fleet:
        news = told(fleet, Warned)
        assert isinstance(news[-1], Warned)
        fleet.send(replace(order("box-2"), id="two"))
        lost = told(fleet, Lost)

    assert news[-1].slug == "box-twice"
    assert [type(one) for one in lost] == [Lost]


def listening(pid: int) -> set[str]:
    """The addresses, as /proc has them, at which a process listens."""
    sockets = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                found.add(words[1].partition(":")[0])
    return found
