"""The services of `probes.py`: small typical ones, each with a probe that requests its count.

Their item waits 5 ms and hashes for about 1 ms of CPU, then records its end: 8 bytes in a file. With BARE in
the environment, it only records its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: for the services to import; `COUNTS` is a byte that the bench sets: how often an item is to be counted
ITEM = """\
import hashlib, mmap, os, struct, time

_finished = os.open("finished", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
with open("counts", "rb") as _file:
    COUNTS = mmap.mmap(_file.fileno(), 1, prot=mmap.PROT_READ)
_HASHES = 0 if os.environ.get("BARE") else 2000


def item():
    if _HASHES:
        time.sleep(0.005)
    digest = b""
    for _ in range(_HASHES):
        digest = hashlib.sha256(digest).digest()
    os.write(_finished, struct.pack("d", time.monotonic()))
"""
_WSGI = """\
from item import item


def app(environ, start_response):
    item()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\\n"]
"""
_DRAMATIQ = """\
import os

import dramatiq
{imports}
from item import item

dramatiq.set_broker({broker})
send = dramatiq.actor(item).send
"""
_ON_REDIS = _DRAMATIQ.format(
    imports="from dramatiq.brokers.redis import RedisBroker", broker='RedisBroker(url=os.environ["BROKER"])'
)
_ON_RABBITMQ = _DRAMATIQ.format(
    imports="from dramatiq.brokers.rabbitmq import RabbitmqBroker",
    broker='RabbitmqBroker(url=os.environ["BROKER"].rstrip("/"))',
)
_RQ = """\
import os

from item import item
from redis import Redis
from rq import Queue


def send():
    Queue("default", connection=Redis.from_url(os.environ["BROKER"])).enqueue(item)
"""
_CELERY = """\
import os

from celery import Celery
from item import item

app = Celery("app", broker=os.environ["BROKER"].replace("unix://", "redis+socket://"))
app.conf.task_ignore_result = True
app.conf.task_default_queue = "default"
send = app.task(item, name="item").delay
"""
_SCRIPT = """\
import signal, sys, threading

from item import COUNTS, item
from tuner.probe.counter import open_counter

stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())


def work():
    mine = open_counter().slot()
    while not stopped.is_set():
        item()
        for _ in range(COUNTS[0]):
            mine.done()


threads = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
stopped.wait()
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A service and the probe that is judged; ``{python}``, ``{port}``, ``{broker}`` are filled in."""

    app: str  #: the text of ``app.py``
    service: str  #: the keys of the config's service section, but for its probe
    probe: str
    layout: str
    without: str = ""  #: a probe for which the service need not be told anything; empty: *probe* is one
    broker: Literal["redis", "rabbitmq", ""] = ""
    form: str = ""  #: of its messages


CASES = {
    "redis-queue": Case(
        _ON_REDIS, "kind: dramatiq, command: dramatiq app", "queue", "2x2", broker="redis", form="dramatiq"
    ),
    "rabbitmq-queue": Case(
        _ON_RABBITMQ,
        "kind: dramatiq, command: dramatiq app",
        "queue",
        "2x2",
        broker="rabbitmq",
        form="dramatiq",
    ),
    "rq-counters": Case(
        _RQ,
        "kind: rq, command: rq worker-pool -w rq.worker.SimpleWorker default",
        "counters",
        "2x-",
        broker="redis",
        form="rq",
    ),
    "celery-inspect": Case(
        _CELERY,
        "kind: celery, command: celery -A app worker -P threads -l INFO, broker: '{broker}'",
        "inspect",
        "1x4",
        broker="redis",
        form="celery",
    ),
    "celery-events": Case(
        _CELERY,
        "kind: celery, command: celery -A app worker -P threads -l INFO, broker: '{broker}'",
        "events",
        "1x4",
        without="inspect",
        broker="redis",
        form="celery",
    ),
    "mmap-counter": Case(
        _SCRIPT,
        "kind: script, name: items, command: ['{python}', app.py, '{{threads}}']",
        "{kind: mmap-counter}",
        "2x2",
    ),
    "uwsgi-stats": Case(
        _WSGI,
        "kind: uwsgi, command: 'uwsgi --http11-socket 127.0.0.1:{port} --module app:app --disable-logging'",
        "stats",
        "2x2",
        without="generator",
    ),
    "granian-metrics": Case(
        _WSGI,
        "kind: granian, command: 'granian --interface wsgi --port {port} app:app'",
        "metrics",
        "2x2",
        without="generator",
    ),
}
