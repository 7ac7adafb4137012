import os

from celery import Celery

app = Celery("tasks", broker=os.environ.get("CELERY_BROKER_URL", "redis://127.0.0.1:6379/0"))
app.conf.task_ignore_result = True


@app.task
def add(a, b):
    return a + b
