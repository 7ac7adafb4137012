"""Where Celery's settings are, as its command line says."""

from __future__ import annotations

import pytest

from tuner.adapters.probes.celery import celery_options


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("celery -A proj worker -c 4", {"app": "proj"}),
        ("celery -Aproj worker -B", {"app": "proj"}),
        ("python -m celery --app=proj.main:app worker", {"app": "proj.main:app"}),
        (
            "celery --app proj -b redis://h/1 --workdir /srv worker",
            {"app": "proj", "broker": "redis://h/1", "workdir": "/srv"},
        ),
        ("celery --broker=amqp://h --config=settings worker", {"broker": "amqp://h", "config": "settings"}),
        ("celery worker -P threads", {}),
        ("celery worker -A", {"app": ""}),
    ],
)
def test_options_are_read_as_celery_reads_them(line: str, options: dict[str, str]) -> None:
    assert celery_options(line.split()) == options
