"""Services behind a queue, as users would write them: each notes in a file when an item is finished."""

from __future__ import annotations

from dataclasses import dataclass

_WORK = """\
import os, time

TOLD = os.open(os.environ["TRUTH"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def work(seconds):
    time.sleep(seconds)
    os.write(TOLD, b"%.6f\\n" % time.monotonic())
"""
_CELERY = (
    _WORK
    + """
from celery import Celery

app = Celery("app", broker=os.environ["BROKER"].replace("unix://", "redis+socket://"))
app.conf.task_ignore_result = True
item = app.task(name="item")(work)
send = item.delay
"""
)
_DRAMATIQ = (
    _WORK
    + """
import dramatiq
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=os.environ["BROKER"]))
item = dramatiq.actor(work)
send = item.send
"""
)
_LIST = (
    _WORK
    + """
import json, redis, signal, threading

client = redis.Redis.from_url(os.environ["BROKER"])


def send(seconds):
    told = {"task_id": os.urandom(16).hex(), "task_name": "item", "labels": {}, "args": [seconds]}
    client.lpush("taskiq", json.dumps(told))


def serve():
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())

    def thread():
        while not ended.is_set():
            found = client.brpop("taskiq", timeout=1)
            if found:
                work(*json.loads(found[1])["args"])

    threads = [threading.Thread(target=thread) for _ in range(int(os.environ["TUNER_THREADS"]))]
    for one in threads:
        one.start()
    while not ended.wait(0.1):
        pass
    for one in threads:
        one.join()


if __name__ == "__main__":
    serve()
"""
)


@dataclass(frozen=True)
class Service:
    """A kind of service, its source (``app.py``), and how a config names it."""

    form: str
    queue: str
    source: str
    command: str
    layouts: str
    more: str = ""  #: of its config
    needs_venv: bool = True


SERVICES = {
    "list": Service("taskiq", "taskiq", _LIST, "{bin}/python app.py", "1x2, 2x2", needs_venv=False),
    "celery": Service(
        "celery",
        "celery",
        _CELERY,
        "{bin}/celery -A app worker -P prefork -c {{processes}} -l WARNING --without-gossip",
        "1x-, 2x-",
        "  programs: one\n  threads: no\n",
    ),
    "dramatiq": Service(
        "dramatiq",
        "default",
        _DRAMATIQ,
        "{bin}/dramatiq -p {{processes}} -t {{threads}} app",
        "1x2, 2x2",
        "  programs: one\n",
    ),
}
