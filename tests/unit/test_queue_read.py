"""Whether a command reads the queue that is fed, as far as its words say which queues it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.config.load import Given
from tuner.config.settings import Settings
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.services.catalogue import known_services
from tuner.services.derived.rollouts import rollout_of

from ..raising import raises
from ..wording import wording


@pytest.fixture(autouse=True)
def _nothing_is_said_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CELERY_BROKER_URL", "CELERY_WORKER_QUEUES", "RQ_CONFIG", "RQ_REDIS_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)


def typed(command: str, sample: Path, **more: str) -> Settings:
    sample.write_text("{}")
    options = {("service", "command"): Given("--", command)}
    options |= {
        ("service", name): Given(f"--set {name}", value)
        for name, value in {"sample": str(sample), **more}.items()
    }
    return settings_of(None, options)


@pytest.mark.parametrize(
    ("command", "reads", "first"),
    [
        ("celery -A p -b redis://h/0 worker -Q emails", "emails", "emails"),
        ("celery -A p -b redis://h/0 worker --queues=emails,slow", "emails, slow", "emails"),
        ("rq worker-pool", "default", "default"),
        ("rq worker -u redis://h high low", "high, low", "high"),
        ("dramatiq app -Q a b --processes 2", "a, b", "a"),
        ("dramatiq app --queue=a", "a", "a"),
    ],
)
def test_a_queue_that_the_command_does_not_read_is_refused(
    command: str, reads: str, first: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        typed(command, tmp_path / "s.json", queue="study")

    wanted = wording("services.queue-not-read", queue="study", reads=reads, first=first)
    assert wanted in caught.value.problem
    assert caught.value.problem.startswith("--set queue: ")


@pytest.mark.parametrize(
    "command",
    [
        "celery -A p -b redis://h/0 worker -Q study",
        "celery -A p -b redis://h/0 worker -Q emails,study",
        "rq worker-pool emails study -u redis://h",
        "rq worker -c settings",  # a file that may name queues
        "dramatiq app -p 2 -Q a study",
        "dramatiq app",  # reads those of all its actors
        "huey_consumer app.huey",  # the application says which
        "taskiq worker app:broker",
        "arq app.WorkerSettings",
        "saq app.settings",
    ],
)
def test_a_queue_that_the_command_reads_or_its_application_names_is_fed(command: str, tmp_path: Path) -> None:
    service = typed(command, tmp_path / "s.json", queue="study").service

    assert service.kind == "script"
    assert service.feeder.kind == "queue"
    assert service.feeder.queue == "study"
    assert "queue-told" not in service.cautions


def test_celery_that_names_no_queue_is_reported_to_read_the_one_that_is_fed(tmp_path: Path) -> None:
    command = "celery -A p -b redis://h/0 worker -l INFO"
    settings = typed(command, tmp_path / "s.json", queue="study")

    assert settings.service.environment["CELERY_WORKER_QUEUES"] == "study"
    assert wording("services.queue-told", queue="study") in settings.service.cautions["queue-told"]
    plain = typed(command, tmp_path / "s.json").service  # reads what the application says
    assert "CELERY_WORKER_QUEUES" not in plain.environment


def test_a_script_that_starts_a_known_service_has_to_read_its_queue_too(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{}")
    config = tmp_path / "s.yaml"
    text = (
        "service:\n  kind: script\n  name: mails\n  programs: one\n  threads: no\n"
        "  command: celery -A p worker -c {processes} -Q QUEUES\n  probe: {kind: queue}\n"
        "  feeder: {kind: queue, form: celery, url: 'redis://h/0', queue: study, sample: s.json}\n"
    )
    config.write_text(text.replace("QUEUES", "emails,slow"))
    wanted = wording("services.queue-not-read", queue="study", reads="emails, slow", first="emails")
    with raises(ConfigError, wanted):
        settings_of(config, {})
    config.write_text(text.replace("QUEUES", "emails,study"))
    assert settings_of(config, {}).service.name == "mails"


def test_production_reads_its_own_queues(tmp_path: Path) -> None:
    command = "celery -A p -b redis://h/0 worker -l INFO"
    section = typed(command, tmp_path / "s.json", queue="study").service.model_dump(mode="json")
    rollout = rollout_of(section, Layout(4, 1, has_threads=False), 4, known_services())

    assert "CELERY_WORKER_QUEUES" not in rollout.environment
    assert "study" not in " ".join(rollout.command)


def test_a_queue_of_the_user_s_own_variable_stays_in_production(tmp_path: Path) -> None:
    command = "env CELERY_WORKER_QUEUES=emails celery -A p -b redis://h/0 worker -l INFO"
    section = typed(command, tmp_path / "s.json", queue="emails").service.model_dump(mode="json")
    rollout = rollout_of(section, Layout(4, 1, has_threads=False), 4, known_services())

    assert rollout.environment["CELERY_WORKER_QUEUES"] == "emails"
