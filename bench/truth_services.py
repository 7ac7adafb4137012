"""The services of `truth.py`: typical applications with an item of a given demand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from truth_ideal import Demand

#: for the applications: an item by the demand in the environment
ITEM = """\
import os, subprocess, time

PYTHON_S, CHILD_S, WAIT_S = (float(os.environ[name]) for name in ("PYTHON_S", "CHILD_S", "WAIT_S"))
CHILD = os.environ["CHILD"]


def compute():
    ends_s = time.thread_time() + PYTHON_S
    while time.thread_time() < ends_s:
        for _ in range(300):
            pass


def item():
    if PYTHON_S:
        compute()
    if CHILD_S:
        subprocess.run([CHILD, str(CHILD_S)], check=True)
    if WAIT_S:
        time.sleep(WAIT_S)
"""

#: the child: computes until its CPU clock has advanced by so many seconds
CHILD = """\
#include <stdlib.h>
#include <time.h>

static double used_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    double ends_s = argc > 1 ? atof(argv[1]) : 0.0;
    volatile unsigned spins = 0;
    while (used_s() < ends_s)
        for (int i = 0; i < 10000; i++)
            spins++;
    return 0;
}
"""
_WSGI = """\
from item import item


def app(environ, start_response):
    item()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\\n"]
"""
#: an event loop has no threads that bound it: as with a pool of connections, so many items wait at once
AT_ONCE = 8
_ASGI = f"""\
import asyncio
from item import PYTHON_S, WAIT_S, compute

pool = asyncio.Semaphore({AT_ONCE})


async def app(scope, receive, send):
    if scope["type"] != "http":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({{"type": "lifespan.startup.complete"}})
        await send({{"type": "lifespan.shutdown.complete"}})
        return
    async with pool:
        if PYTHON_S:
            compute()
        if WAIT_S:
            await asyncio.sleep(WAIT_S)
    await send({{"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]}})
    await send({{"type": "http.response.body", "body": b"ok\\n"}})
"""
_CELERY = """\
import os

from celery import Celery
from item import item

app = Celery("app", broker=os.environ["BROKER"])
app.conf.task_ignore_result = True
send = app.task(item, name="item").delay
"""
_DRAMATIQ = """\
import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from item import item

dramatiq.set_broker(RedisBroker(url=os.environ["BROKER"]))
send = dramatiq.actor(item).send
"""
_RQ = """\
import os

from item import item
from redis import Redis
from rq import Queue


def send():
    Queue("default", connection=Redis.from_url(os.environ["BROKER"])).enqueue(item)
"""
_HUEY = """\
import os

from huey import RedisHuey
from item import item

huey = RedisHuey("huey", url=os.environ["BROKER"], results=False)
send = huey.task()(item)
"""
_TASKIQ = """\
import asyncio, os

from item import item
from taskiq_redis import ListQueueBroker

broker = ListQueueBroker(os.environ["BROKER"])
job = broker.task("item")(item)


def send():
    async def put():
        own = ListQueueBroker(os.environ["BROKER"])
        await own.startup()
        await job.kicker().with_broker(own).kiq()
        await own.shutdown()

    asyncio.run(put())
"""
_ARQ = """\
import asyncio, os

from arq import create_pool
from arq.connections import RedisSettings
from item import PYTHON_S, WAIT_S, compute


async def job(ctx):
    if PYTHON_S:
        compute()
    if WAIT_S:
        await asyncio.sleep(WAIT_S)


class WorkerSettings:
    functions = [job]
    redis_settings = RedisSettings.from_dsn(os.environ["BROKER"])
    keep_result = 0


def send():
    async def put():
        await (await create_pool(WorkerSettings.redis_settings)).enqueue_job("job")

    asyncio.run(put())
"""
_SAQ = """\
import asyncio, os

from item import PYTHON_S, WAIT_S, compute
from redis import asyncio as aioredis
from saq.queue.redis import RedisQueue

queue = RedisQueue(aioredis.from_url(os.environ["BROKER"]))


async def job(ctx):
    if PYTHON_S:
        compute()
    if WAIT_S:
        await asyncio.sleep(WAIT_S)


settings = {"queue": queue, "functions": [job], "concurrency": 50}


def send():
    async def put():
        await RedisQueue(aioredis.from_url(os.environ["BROKER"])).enqueue("job")

    asyncio.run(put())
"""
_SCRIPT = """\
import signal, sys, threading

from item import item
from tuner.probe.counter import open_counter

stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())


def work():
    mine = open_counter().slot()
    while not stopped.is_set():
        item()
        mine.done()


threads = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
stopped.wait()
"""

THREADS = "1x1,1x4,1x16,2x2,2x8,8x2"
LOOPS = "1x-,2x-,3x-,4x-,6x-"
PROCESSES = "1x-,2x-,3x-,4x-,8x-"
#: throughput of a wait is what the service can have under way; 200 ms are long beside what a framework adds
WAIT = Demand(wait_s=0.2)
#: 100 ms of CPU are long beside the 3 ms at most that a framework takes for an item
CPU = Demand(python_s=0.1)
CHILDREN = Demand(child_s=0.1)
#: alone it takes 400 ms; two cores are full from ten items at once on, a GIL from twenty
MIXED = Demand(python_s=0.02, child_s=0.06, wait_s=0.32)
DEMANDS = {"wait": WAIT, "cpu": CPU, "child": CHILDREN, "mixed": MIXED}
KINDS = tuple(DEMANDS)


@dataclass(frozen=True, slots=True)
class Service:
    """A service in one form; ``{port}``, ``{broker}``, ``{python}`` are filled in."""

    app: str
    section: str  #: the keys of the config's service section
    layouts: str
    form: Literal["threads", "processes", "loop"] = "threads"  #: what bounds the items that wait at once
    messages: str = ""  #: the form of its messages, where it has a broker
    kinds: tuple[str, ...] = KINDS
    demands: dict[str, Demand] = field(default_factory=dict)  #: its own, in place of those of all
    forks: bool = False  #: each item runs in a child of its worker, with a GIL of its own
    in_one_loop: bool = False  #: a layout's threads are jobs of one loop: they wait for it, not for the GIL

    def demand(self, kind: str) -> Demand:
        """Return the demand of an item of that kind."""
        return self.demands.get(kind, DEMANDS[kind])

    def at_once(self, n_processes: int, n_threads: int) -> int:
        """How many items a layout has under way."""
        return n_processes * {"threads": n_threads, "processes": 1, "loop": AT_ONCE}[self.form]


def _variant(layouts: str, name: str) -> str:
    return ",".join(f"{layout}@{name}" for layout in layouts.split(","))


_GUNICORN = "kind: gunicorn, command: 'gunicorn app:app --bind 127.0.0.1:{port}'"
_IN_LOOP = ("wait", "cpu")
#: RQ forks for each job and asks Redis some times before and after it: 30 ms
_LONG = {"wait": Demand(wait_s=1.0), "cpu": Demand(python_s=1.0), "child": Demand(child_s=1.0)}

SERVICES = {
    "gunicorn sync": Service(_WSGI, _GUNICORN, _variant(PROCESSES, "sync"), "processes"),
    "gunicorn gthread": Service(_WSGI, _GUNICORN, _variant(THREADS, "gthread")),
    "gunicorn asgi": Service(_ASGI, _GUNICORN, _variant(LOOPS, "asgi"), "loop", kinds=_IN_LOOP),
    "gunicorn uvicorn": Service(_ASGI, _GUNICORN, _variant(LOOPS, "uvicorn"), "loop", kinds=_IN_LOOP),
    "uvicorn": Service(
        _ASGI,
        "kind: uvicorn, command: 'uvicorn app:app --port {port} --no-access-log'",
        LOOPS,
        "loop",
        kinds=_IN_LOOP,
    ),
    "hypercorn": Service(
        _ASGI,
        "kind: hypercorn, command: 'hypercorn app:app --bind 127.0.0.1:{port}'",
        _variant(LOOPS, "asyncio"),
        "loop",
        kinds=_IN_LOOP,
    ),
    "waitress": Service(
        _WSGI, "kind: waitress, command: 'waitress-serve --listen=127.0.0.1:{port} app:app'", THREADS
    ),
    "granian wsgi": Service(
        _WSGI, "kind: granian, command: 'granian --interface wsgi --port {port} app:app'", THREADS
    ),
    "granian asgi": Service(
        _ASGI,
        "kind: granian, command: 'granian --interface asgi --port {port} app:app'",
        "1x1,2x1,3x1,4x1,6x1",
        "loop",
        kinds=_IN_LOOP,
    ),
    "uwsgi": Service(
        _WSGI,
        "kind: uwsgi, command: 'uwsgi --http11-socket 127.0.0.1:{port} --module app:app --disable-logging'",
        THREADS,
    ),
    "celery prefork": Service(
        _CELERY,
        "kind: celery, command: 'celery -A app worker -l INFO', broker: '{broker}'",
        _variant(PROCESSES, "prefork"),
        "processes",
        "celery",
    ),
    "celery replaced": Service(  # each worker process ends after 20 items, and another one is started
        _CELERY,
        "kind: celery, command: 'celery -A app worker -l INFO --max-tasks-per-child 20', broker: '{broker}'",
        _variant(PROCESSES, "prefork"),
        "processes",
        "celery",
        ("wait",),
    ),
    "celery threads": Service(
        _CELERY,
        "kind: celery, command: 'celery -A app worker -l INFO', broker: '{broker}'",
        _variant(THREADS, "threads"),
        messages="celery",
    ),
    "dramatiq": Service(
        _DRAMATIQ,
        "kind: dramatiq, command: 'dramatiq app', url: '{broker}'",
        _variant(THREADS, "threads"),
        messages="dramatiq",
    ),
    "rq fork": Service(
        _RQ,
        "kind: rq, command: 'rq worker-pool default', url: '{broker}'",
        _variant(PROCESSES, "fork"),
        "processes",
        "rq",
        ("wait", "cpu", "child"),
        _LONG,
        forks=True,
    ),
    "huey thread": Service(
        _HUEY,
        "kind: huey, command: 'huey_consumer app.huey', url: '{broker}'",
        _variant(THREADS, "thread"),
        messages="huey",
    ),
    "huey process": Service(
        _HUEY,
        "kind: huey, command: 'huey_consumer app.huey', url: '{broker}'",
        _variant(PROCESSES, "process"),
        "processes",
        "huey",
    ),
    "taskiq": Service(
        _TASKIQ,
        "kind: taskiq, command: 'taskiq worker app:broker', url: '{broker}'",
        _variant(THREADS, "threads"),
        messages="taskiq",
    ),
    "arq": Service(
        _ARQ,
        "kind: arq, command: 'arq app.WorkerSettings', url: '{broker}'",
        THREADS,
        messages="arq",
        in_one_loop=True,
        kinds=_IN_LOOP,
    ),
    "saq": Service(
        _SAQ,
        "kind: saq, command: 'saq app.settings', url: '{broker}'",
        THREADS,
        messages="saq",
        in_one_loop=True,
        kinds=_IN_LOOP,
    ),
    "script": Service(
        _SCRIPT, "kind: script, name: items, command: ['{python}', app.py, '{{threads}}']", THREADS
    ),
}
