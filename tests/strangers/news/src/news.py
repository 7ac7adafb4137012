from celery import Celery

app = Celery("news")
