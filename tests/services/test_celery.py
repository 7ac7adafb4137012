"""Celery, run for real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..redis_server import RedisServer
from . import queue
from .measured import COUNTED, WINDOW_S, check_counts, moments, tell, tuner, windows_of

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import os

from celery import Celery
from item import item

app = Celery("app", broker=os.environ["REDIS_URL"].replace("unix://", "redis+socket://"))
app.conf.task_ignore_result = True
app.conf.worker_pool = "threads"  # where prefork is asked for it has to be prefork all the same
send = app.task(name="item")(item).delay
"""
FORMS = ["3x-@prefork", "2x2@nodes"]  #: a pool, processes of their own
OTHERS = ["2x2@threads", "1x4@gevent"]


def command(server: RedisServer, *more: str) -> str:
    broker = server.url.replace("unix://", "redis+socket://")
    return " ".join(["celery", "-A", "app", "-b", broker, "worker", *more])


@pytest.mark.parametrize(
    "probe", ["finished", *(pytest.param(probe, marks=pytest.mark.full) for probe in ("inspect", "queue"))]
)
def test_counts_are_the_truth_in_every_pool(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, probe: str
) -> None:
    layouts = "1x-@prefork,4x-@prefork,1x4@threads,2x4@threads,1x8@gevent"
    said = queue.counts_are_the_truth(
        tmp_path,
        services_venv,
        redis_server,
        APP,
        command(redis_server, "-l", "INFO", "-P", "solo", "-c9", "--hostname=its-own@%h"),
        layouts,
        f"probe={probe}",
    )

    assert "nothing-feeds" not in said
    assert ("failures-counted" in said) == (probe != "finished")


def test_layouts_that_take_turns_share_no_task(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer
) -> None:
    """Acknowledged late, tasks are in hand until they end."""
    app = APP.replace("app.conf.task_ignore", "app.conf.task_acks_late = app.conf.task_ignore")
    asked = command(redis_server, "-l", "INFO", "-P", "threads")
    queue.layouts_take_turns(tmp_path, services_venv, redis_server, app, asked, "1x2,2x2")


OUTCOMES = """\
import os, time

import item as items
from celery import Celery
from celery.exceptions import Ignore, Reject

app = Celery("app", broker=os.environ["REDIS_URL"].replace("unix://", "redis+socket://"))
app.conf.task_ignore_result = True


@app.task(bind=True, name="item", max_retries=1, acks_late=True)
def item(self, outcome):
    time.sleep(0.02)
    if outcome == "fails":
        raise ValueError(outcome)
    if outcome == "is retried once" and self.request.retries == 0:
        raise self.retry(countdown=0)
    if outcome == "is rejected":
        raise Reject(outcome, requeue=False)
    if outcome == "runs another within itself":
        inner.apply()
    items.finish()
    if outcome == "is ignored":
        raise Ignore


@app.task
def inner():
    pass


def send():
    for outcome in ("ends well", "fails", "is retried once", "is rejected", "is ignored"):
        item.delay(outcome)
    item.delay("runs another within itself")
"""


@pytest.mark.parametrize(
    ("form", "layout"), [("prefork", "2x-"), pytest.param("threads", "1x2", marks=pytest.mark.full)]
)
def test_what_failed_or_is_retried_is_no_finished_task(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, form: str, layout: str
) -> None:
    """Of each 6 first attempts 3 end well; what is retried comes again at the end of the queue only."""
    path = os.environ.get("PYTHONPATH", "")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "more.py").write_text("with open('imported', 'a') as file:\n    file.write('x')\n")
    queue.send(tmp_path, services_venv, redis_server, OUTCOMES, 400)

    said = tuner(
        tmp_path,
        services_venv,
        *("grid", *COUNTED, "--window", f"{WINDOW_S}s", "--warmup", "1s", "--layouts", layout),
        *("--study", "s.tuner.db", "--"),
        *command(redis_server, "-l", "INFO", "-P", form, "-I", "more").split(),
        environment={**queue.environment(redis_server), "PYTHONPATH": f"{tmp_path / 'own'}:{path}"},
    )

    tell(said)
    check_counts(tmp_path, tmp_path / "s.tuner.db", [layout], some_fail=True)
    last = windows_of(tmp_path / "s.tuner.db")[-1].readings[1]
    assert 0 < last.n_done_total <= len(moments(tmp_path, "finished"))
    assert abs(last.n_done_total - last.n_failed_total) <= 6
    assert "are not in the throughput: " in said
    assert (tmp_path / "imported").exists()  # what the command itself has included


@pytest.mark.full
def test_counts_of_nodes_with_pools_are_the_truth(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer
) -> None:
    asked = command(redis_server, "-l", "INFO", "-c9")
    layouts = "1x3@nodes,2x3@nodes,3x2@nodes"
    queue.counts_are_the_truth(tmp_path, services_venv, redis_server, APP, asked, layouts)


@pytest.mark.full
@pytest.mark.parametrize("probe", ["events", "log"])
def test_counts_of_what_celery_tells_of_each_task_are_the_truth_and_their_cost_is_reported(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, probe: str
) -> None:
    said = queue.counts_are_the_truth(
        tmp_path,
        services_venv,
        redis_server,
        APP,
        command(redis_server),  # nobody says when nodes are ready
        "2x-@prefork,2x2@nodes,1x4@threads",
        f"probe={probe}",
        warmup_s=12,  # as tuner asks for then: on a busy box two nodes came later than 2 s, nine times
    )

    assert "probe-costs" in said


@pytest.mark.parametrize("layout", [*FORMS, *(pytest.param(form, marks=pytest.mark.full) for form in OTHERS)])
def test_a_stop_loses_nothing(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, layout: str
) -> None:
    left = [("llen", "celery"), ("hlen", "unacked")]
    asked = command(redis_server, "-l", "INFO")
    queue.a_stop_loses_nothing(tmp_path, services_venv, redis_server, APP, asked, layout, left)


@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
@pytest.mark.parametrize(
    "layout",
    [
        "2x-@prefork",
        "2x2@nodes",
        *(pytest.param(form, marks=pytest.mark.full) for form in ("2x2@threads", "2x4@gevent")),
    ],
)
def test_nobody_survives_a_kill(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, layout: str, victim: str
) -> None:
    asked = command(redis_server, "-l", "INFO")
    queue.nobody_survives(tmp_path, services_venv, redis_server, APP, asked, layout, victim)
    tell(f"{layout}: nobody is left of {victim}")
