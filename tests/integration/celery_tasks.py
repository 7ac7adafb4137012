"""Tasks that say when they are done: one byte each, at the end of the file that TRUTH names."""

import hashlib
import os
import time

from celery import Celery

app = Celery("celery_tasks", broker=os.environ["TASKS_BROKER"])
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)


def tell(byte: bytes) -> None:
    descriptor = os.open(os.environ["TRUTH"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, byte)
    os.close(descriptor)


@app.task
def work() -> None:
    time.sleep(0.005)
    digest = b""
    for _ in range(2000):
        digest = hashlib.sha256(digest).digest()
    tell(b".")


@app.task
def fail() -> None:
    tell(b"x")
    raise ValueError("as it was told")
