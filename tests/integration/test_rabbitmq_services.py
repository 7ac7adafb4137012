"""Real Celery and dramatiq on a real RabbitMQ, fed and counted by tuner: the count is what they finished."""

from __future__ import annotations

import bisect
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.feeders.queue import Fed, QueueFeeder
from tuner.adapters.probes.prometheus import Metric, PrometheusProbe
from tuner.adapters.probes.queue import QueueProbe
from tuner.adapters.queues.queue import Claim
from tuner.bootstrap.parts import samples
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.ports import Counting

from ..rabbitmq_server import RabbitServer, running_rabbitmq

pytestmark = [pytest.mark.integration, pytest.mark.services]
PATIENCE_S = 120.0
WINDOW_S = 6.0
OURS = Claim("ours", "ours.tuner.db", "here")
WORK = """\
import os, time

told = os.open(os.environ["TRUTH"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def work(seconds):
    time.sleep(seconds)
    os.write(told, b"%.6f\\n" % time.monotonic())


"""
CELERY = """\
from celery import Celery

app = Celery("app", broker=os.environ["BROKER"])
app.conf.task_ignore_result = True
item = app.task(name="item")(work)
send = item.delay
"""
DRAMATIQ = """\
import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

dramatiq.set_broker(RabbitmqBroker(url=os.environ["BROKER"].rstrip("/")))  # of its own "//" it makes no "/"
item = dramatiq.actor(work)
send = item.send
"""


@dataclass(frozen=True)
class Service:
    form: str
    queue: str
    source: str
    command: tuple[str, ...]
    layout: Layout
    n_in_hand: int  #: messages at most, which count as done


SERVICES = {
    "celery": Service(
        "celery",
        "celery",
        CELERY,
        ("celery", "-A", "app", "worker", "-P", "prefork", "-c", "4", "-l", "WARNING", "--without-gossip"),
        Layout(4, 1, has_threads=False),
        4 * 4,  # its worker_prefetch_multiplier
    ),
    "dramatiq": Service(
        "dramatiq", "default", DRAMATIQ, ("dramatiq", "-p", "2", "-t", "2", "app"), Layout(2, 2), 2 * 4
    ),
}


@dataclass(frozen=True)
class Box:
    """Where a service runs."""

    service: Service
    server: RabbitServer
    folder: Path
    bin: Path

    @property
    def environment(self) -> dict[str, str]:
        truth = str(self.folder / "truth")
        return {**os.environ, "BROKER": self.server.url, "TRUTH": truth, "PYTHONPATH": "."}

    def record(self) -> None:
        """``sample.json`` of messages that the service's own client sent."""
        (self.folder / "app.py").write_text(WORK + self.service.source)
        code = "import app\nfor n in range(6): app.send(0.01 + n / 1000)"
        subprocess.run([self.bin / "python", "-c", code], cwd=self.folder, env=self.environment, check=True)
        samples.record_sample(self.server.url, None, self.service.queue, 6, self.folder / "sample.json")
        with self.running():  # it works off what it was sent
            wait = time.monotonic() + PATIENCE_S
            while len(self.finished_s()) < 6:
                assert time.monotonic() < wait, "the six messages stay"
                time.sleep(0.05)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The service, which is stopped as supervisord would, if it still runs."""
        program, *arguments = self.service.command
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [self.bin / program, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)

    def finished_s(self) -> list[float]:
        """When each item was, in order."""
        try:
            return sorted(map(float, (self.folder / "truth").read_text().split()))
        except FileNotFoundError:
            return []


@pytest.fixture(scope="module")
def server() -> Iterator[RabbitServer]:
    with running_rabbitmq(metrics=True) as server:
        yield server


@pytest.fixture(params=["celery", pytest.param("dramatiq", marks=pytest.mark.full)])
def box(request: pytest.FixtureRequest, server: RabbitServer, services_venv: Path, tmp_path: Path) -> Box:
    box = Box(SERVICES[request.param], server, tmp_path, services_venv / "bin")
    box.record()
    return box


def fed(box: Box) -> tuple[QueueFeeder, QueueProbe]:
    service, url = box.service, box.server.url

    def fail(slug: str, text: str) -> None:
        pytest.fail(f"{slug}: {text}")

    what = Fed(url, service.form, service.queue, box.folder / "sample.json", timeout_s=30.0)
    probe = QueueProbe(SystemClock(), url, service.form, service.queue, OURS, 30.0, fail)
    return QueueFeeder(what, OURS, box.folder / "state", box.folder, fail), probe


def fresh(counting: Counting) -> Reading:
    """An answer to a question that is asked now."""
    counting.read()  # the first one is 0, and of now, where the answer takes its time
    asked_s = time.monotonic()
    while (reading := counting.read()).at_s <= asked_s:
        assert time.monotonic() < asked_s + PATIENCE_S, f"still {reading}"
    return reading


def wait_for_work(box: Box, n: int) -> None:
    """Until *n* more items are finished."""
    ends_s, n_before = time.monotonic() + PATIENCE_S, len(box.finished_s())
    while len(box.finished_s()) < n_before + n:
        assert time.monotonic() < ends_s, "the service does nothing"
        time.sleep(0.05)


def test_windows_count_what_was_finished(box: Box) -> None:
    feeder, probe = fed(box)
    feeder.prepare()
    layout = box.service.layout
    with feeder.feeding(layout), probe.counting(layout) as counting, box.running():
        wait_for_work(box, 100)
        edges = [fresh(counting)]
        for _ in range(3):
            time.sleep(WINDOW_S)
            edges.append(fresh(counting))
        assert not feeder.is_dry()
    finished_s = box.finished_s()
    for begin, end in pairwise(edges):
        n_true = bisect.bisect(finished_s, end.at_s) - bisect.bisect(finished_s, begin.at_s)
        n_counted = end.n_done_total - begin.n_done_total
        logging.getLogger(__name__).info("%s: counted %d, finished %d", box.service.form, n_counted, n_true)
        assert abs(n_counted - n_true) <= max(0.005 * n_true, box.service.n_in_hand)
    feeder.prepare()  # the queue is empty


def test_what_rabbitmq_itself_counts_as_acknowledged_was_finished(box: Box) -> None:
    """Its page for Prometheus; feeding acknowledges nothing. A look takes a while, in which it is counted."""
    assert box.server.metrics_url is not None
    acknowledged = Metric("rabbitmq_global_messages_acknowledged_total")
    probe = PrometheusProbe(
        SystemClock(),
        box.server.metrics_url,
        acknowledged,
        None,
        30.0,
        lambda *result: pytest.fail(str(result)),
    )
    feeder, _ = fed(box)
    layout = box.service.layout
    with feeder.feeding(layout), probe.counting(layout) as counting, box.running():
        wait_for_work(box, 100)
        looks = []
        for _ in range(2):
            before_s = time.monotonic()
            looks.append((before_s, fresh(counting), time.monotonic()))
            wait_for_work(box, 500)
    (began_s, begin, begun_s), (ending_s, end, ended_s) = looks
    finished_s = box.finished_s()
    n_least = bisect.bisect(finished_s, ending_s) - bisect.bisect(finished_s, begun_s)
    n_most = bisect.bisect(finished_s, ended_s) - bisect.bisect(finished_s, began_s)
    n_counted = end.n_done_total - begin.n_done_total

    assert n_least >= 500 - box.service.n_in_hand
    assert n_least - box.service.n_in_hand <= n_counted <= n_most + box.service.n_in_hand


@pytest.mark.full
def test_a_service_that_is_killed_leaves_nothing_to_the_next_launch(box: Box) -> None:
    feeder, probe = fed(box)
    layout = box.service.layout
    with feeder.feeding(layout), probe.counting(layout) as counting, box.running() as killed:
        wait_for_work(box, 20)
        fresh(counting)
        children = subprocess.run(
            ["pgrep", "-P", str(killed.pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        for pid in (killed.pid, *map(int, children)):
            os.kill(pid, signal.SIGKILL)

    feeder.prepare()  # refuses a queue with messages
    with feeder.feeding(layout), box.running():
        wait_for_work(box, 20)
    feeder.prepare()
