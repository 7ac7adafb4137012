"""The queue of a further launch of a queue worker on the same host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.app.layouts_in_turns import with_turns
from tuner.app.plan_builder import build_plan
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.parts.gates import gate_of, poll_interval_s, shared_by_layouts
from tuner.bootstrap.parts.own_sources import why_no_separate_queue, with_separate_queue
from tuner.config.load import Given
from tuner.config.settings import Settings
from tuner.services import dramatiq

MODULE = Path(dramatiq.__file__).parent / "dramatiq_queue" / "tuner_dramatiq.py"


def typed(folder: Path, command: str, **more: str) -> Settings:
    """The settings of *command*, whose queue tuner fills from a sample."""
    sample = folder / "sample.json"
    sample.write_text("{}")
    given = {"sample": str(sample), **more}
    options = {("service", "command"): Given("--", command)}
    options |= {("service", name): Given(f"--set {name}", value) for name, value in given.items()}
    return settings_of(None, options)


CELERY = "celery -A app -b redis://127.0.0.1 worker"


@pytest.mark.parametrize(
    ("command", "queue", "words"),
    [
        (CELERY, "celery", CELERY),
        (f"{CELERY} -Q jobs -l INFO", "jobs", f"{CELERY} -l INFO"),
        ("rq worker", "default", "rq worker default.turn2"),
        ("rq worker high --with-scheduler", "high", "rq worker --with-scheduler high.turn2"),
        ("python -m rq.cli worker -u redis://q -v", "default", None),
        (
            "dramatiq app",
            "default",
            "dramatiq app tuner_dramatiq --processes={processes} --threads={threads} --queues=default.turn2",
        ),
        (
            "dramatiq -v app:broker more -Q mail sms --log-file=/tmp/log",
            "mail",
            "dramatiq -v app:broker tuner_dramatiq more --log-file=/tmp/log"
            " --processes={processes} --threads={threads} --queues=mail.turn2",
        ),
        (
            "python -m dramatiq --path . src -- app",
            "default",
            "python -m dramatiq --path . src --processes={processes} --threads={threads}"
            " --queues=default.turn2 -- app tuner_dramatiq",
        ),
    ],
)
def test_a_worker_reads_a_queue_of_its_own_and_tuner_fills_that_one(
    tmp_path: Path, command: str, queue: str, words: str | None
) -> None:
    before = typed(tmp_path, command)
    service = with_separate_queue(before, 2).service

    assert why_no_separate_queue(before) == ""
    assert (gate_of(before)[0], shared_by_layouts(before)) == ("feed", "")
    assert service.kind == "script"
    assert (before.service.feeder.queue, service.feeder.queue) == (queue, f"{queue}.turn2")
    if words is not None:
        assert " ".join(service.command) == words


def test_nodes_of_celery_at_two_places_have_different_names(tmp_path: Path) -> None:
    first = typed(tmp_path, CELERY)
    second = with_separate_queue(first, 2).service

    assert second.environment["CELERY_WORKER_QUEUES"] == "celery.turn2"
    assert second.environment["CELERY_WORKER_HOSTNAME"] == "tuner{process}.celery.turn2@%h"
    apart = {
        name for name, value in second.environment.items() if first.service.environment.get(name) != value
    }
    assert apart == {"CELERY_WORKER_QUEUES", "CELERY_WORKER_HOSTNAME"}


def test_the_application_of_dramatiq_is_imported_before_the_queue_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/srv/{lib}")
    environment = with_separate_queue(typed(tmp_path, "dramatiq shop.app:broker"), 3).service.environment

    assert environment["PYTHONPATH"] == f"{MODULE.parent}{os.pathsep}/srv/{{{{lib}}}}"
    assert environment["TUNER_DRAMATIQ_BROKER"] == "shop.app:broker"
    assert environment["TUNER_DRAMATIQ_QUEUE"] == "default.turn3"
    assert MODULE.is_file()


def test_each_variant_reads_the_queue(tmp_path: Path) -> None:
    options = {
        ("service", "command"): Given("--", f"{CELERY} -Q jobs"),
        ("study", "layouts"): Given("--layouts", "2x-@prefork,1x2@threads"),
    }
    (tmp_path / "sample.json").write_text("{}")
    options |= {("service", "sample"): Given("--set sample", str(tmp_path / "sample.json"))}
    service = with_separate_queue(settings_of(None, options), 2).service

    for name in ("prefork", "threads"):
        assert service.of(name).environment["CELERY_WORKER_QUEUES"] == "jobs.turn2"
        assert "-Q" not in service.of(name).command
    assert service.of("threads").environment["CELERY_WORKER_POOL"] == "threads"


@pytest.mark.parametrize(
    ("command", "more", "why"),
    [
        ("huey_consumer app.huey", {}, "The application names the queue"),
        ("arq app.WorkerSettings", {}, "The application names the queue"),
        ("taskiq worker app:broker", {}, "The application names the queue"),
        ("saq app.settings", {}, "The application names the queue"),
        ("sudo -u www rq worker", {}, None),
        ("sudo -u www celery -A app -b redis://q worker", {}, "cannot change this command"),
        ("dramatiq -P src lib app", {}, "cannot change this command"),
        (CELERY.replace("redis", "amqp"), {}, "no queues in RabbitMQ"),
        (CELERY, {"gate": "none"}, "The config sets gate: none"),
    ],
)
def test_else_layouts_run_one_after_the_other_and_the_reason_is_printed(
    tmp_path: Path, command: str, more: dict[str, str], why: str | None
) -> None:
    settings, said = typed(tmp_path, command, **more), list[str]()
    settings = settings.model_copy(update={"study": settings.study.model_copy(update={"slices": "auto"})})
    plan = build_plan(settings, None, None, said.append)
    record = with_turns(plan, settings, said.append, is_simulated=False, on_fleet=False)

    assert record.n_resident == 1
    assert "one after the other" in said[-1]
    if why is not None:
        assert why in said[-1]


def test_a_queue_that_the_user_fills_has_no_gate() -> None:
    settings = settings_of(None, {("service", "command"): Given("--", "dramatiq app")})

    assert gate_of(settings)[0] == "none"
    with pytest.raises(ValueError, match="fills no queue"):
        with_separate_queue(settings, 2)


@pytest.mark.parametrize(("command", "every_s"), [("dramatiq app", 1.0), (CELERY, 0.0), ("rq worker", 0.0)])
def test_the_skipped_part_of_a_slice_is_long_enough_for_workers_that_look_now_and_then(
    tmp_path: Path, command: str, every_s: float
) -> None:
    assert poll_interval_s(typed(tmp_path, command)) == every_s


def test_workers_of_rq_are_counted_at_the_queue_that_they_read(tmp_path: Path) -> None:
    before = typed(tmp_path, "rq worker high default")
    probe = with_separate_queue(before, 2).service.probe

    assert [term.asked for term in before.service.probe.count] == [
        ("smembers_hget", "rq:workers:high", "successful_job_count"),
        ("smembers_hget", "rq:workers:default", "successful_job_count"),
    ]
    assert [term.asked for term in probe.count] == [
        ("smembers_hget", "rq:workers:high.turn2", "successful_job_count")
    ]
    assert [term.asked for term in probe.failed] == [
        ("smembers_hget", "rq:workers:high.turn2", "failed_job_count")
    ]
