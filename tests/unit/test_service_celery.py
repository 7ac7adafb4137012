"""What tuner makes of Celery's command; tests/services/test_celery.py runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.config.load import Given, canonical_json
from tuner.config.settings import Settings
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import ConfigError

from ..wording import key_of, wording

NAMES = {
    "CELERY_WORKER_HOSTNAME": "tuner{process}@%h",
    "CELERY_WORKER_INCLUDE": "tuner_celery",  # counts
    "PYTHONPATH": "{TUNER_COUNTER_DIR}",
}


@pytest.fixture(autouse=True)
def _nobody_names_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CELERY_BROKER_URL", "BROKER_URL", "CELERY_WORKER_POOL", "CELERY_WORKER_LOGLEVEL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PYTHONPATH", "CELERY_WORKER_INCLUDE"):  # to which tuner adds
        monkeypatch.delenv(name, raising=False)


def typed(command: str, **more: str) -> Settings:
    """The settings of ``tuner grid -- COMMAND``; *more* is of the service's section."""
    options = {("service", "command"): Given("--", command)}
    options |= {("service", name): Given(f"--set {name}", value) for name, value in more.items()}
    return settings_of(None, options)


@pytest.mark.parametrize(
    "options",
    ["", "-P prefork -c 4", "-Pprocesses -c4 -nw1@%h", "--pool=prefork --concurrency=4 --hostname w"],
)
def test_prefork_is_one_node_whatever_the_command_says_of_its_size(options: str) -> None:
    service = typed(f"celery -A proj worker {options} -l info").service

    by_variables = {"CELERY_WORKER_POOL": "processes", "CELERY_WORKER_CONCURRENCY": "{processes}"}
    by_flags = ("--pool=processes", "--concurrency={processes}")
    assert service.command == ("celery", "-A", "proj", "worker", "-l", "info", *(by_flags if options else ()))
    assert service.environment == ({} if options else by_variables) | NAMES
    assert (service.programs, service.threads, service.ready.count) == ("one", False, 1)
    assert (service.stop.signal, service.stop.wait, service.stop.as_group) == ("TERM", 120, False)
    assert (service.probe.kind, service.probe.module) == ("mmap-counter", "celery")
    assert "tuner sample" in service.cautions["nothing-feeds"]


def test_threads_and_greenlets_are_nodes_each_with_a_name_of_its_own() -> None:
    asked = {("service", "command"): Given("--", "celery -A proj worker -l INFO")}
    variants = {("study", "variants"): Given("--variants", "threads")}
    threads = settings_of(None, asked | variants).service_in("threads")
    by_flags = typed("celery -A proj worker --pool threads -l INFO").service
    gevent = typed("celery -A proj worker -P gevent").service

    assert threads.environment == {
        "CELERY_WORKER_POOL": "threads",
        "CELERY_WORKER_CONCURRENCY": "{threads}",
        **NAMES,
    }
    assert (threads.programs, threads.ready.count) == ("each", "processes")
    assert " ".join(by_flags.command[4:]) == "-l INFO --pool=threads --concurrency={threads}"
    assert by_flags.environment == NAMES
    # its variable alone brings gevent without its patches, and the first of two -P would decide on these
    assert gevent.command == ("celery", "-A", "proj", "worker", "--pool=gevent", "--concurrency={threads}")
    assert gevent.environment == NAMES


def test_nodes_have_pools_of_as_many_processes_as_a_layout_has_threads() -> None:
    options = {
        ("service", "command"): Given("--", "celery -A proj worker -P threads -c 9 -l INFO"),
        ("study", "layouts"): Given("--layouts", "2x4@nodes,8x-@prefork"),
        ("study", "variants"): Given("--variants", "nodes,prefork"),
    }
    settings = settings_of(None, options)
    nodes = settings.service_in("nodes")

    assert " ".join(nodes.command) == (
        "celery -A proj worker -l INFO --pool=processes --concurrency={threads}"
    )
    assert nodes.environment == NAMES
    assert (nodes.programs, nodes.workers, nodes.ready.count) == ("each", "pools", "processes")
    assert StoredConfig(canonical_json(settings)).service.pooled_variants == {"nodes"}
    assert [str(layout) for layout in settings.layouts_for(2)] == ["2x4@nodes", "8x-@prefork"]


def test_each_process_of_a_pool_opens_connections() -> None:
    options = {
        ("service", "command"): Given("--", "celery -A proj worker"),
        ("service", "connections"): Given("--set connections", "3"),
        ("study", "variants"): Given("--variants", "nodes,threads"),
        ("study", "max_connections"): Given("--max-connections", "6"),
    }

    layouts = settings_of(None, options).layouts_for(2)

    assert " ".join(str(one) for one in layouts if one.variant == "nodes") == "1x1@nodes 1x2@nodes 2x1@nodes"
    assert max(one.total_threads for one in layouts if one.variant == "threads") == 4


@pytest.mark.parametrize("options", ["", "-l WARNING", "-l INFO -f worker.log"])
def test_a_node_that_does_not_say_that_it_is_ready_is_not_waited_for(options: str) -> None:
    assert typed(f"celery -A proj worker {options}").service.ready is None


@pytest.mark.parametrize(
    ("broker", "url"),
    [
        ("redis://127.0.0.1:6379/2", "redis://127.0.0.1:6379/2"),
        ("redis://", "redis://127.0.0.1:6379/0"),
        ("redis+socket:///run/redis.sock", "unix:///run/redis.sock?db=0"),
        ("pyamqp://u:p@h/v", "amqp://u:p@h/v"),
        ("amqp://u:p@h:5673//", "amqp://u:p@h:5673//"),
        ("redis+socket:///run/redis.sock?virtual_host=3", "unix:///run/redis.sock?db=3"),
    ],
)
def test_a_sample_is_fed_to_the_broker_and_the_queue_of_the_command(
    broker: str, url: str, tmp_path: Path
) -> None:
    sample = tmp_path / "sample.json"
    sample.touch()

    service = typed(f"celery -A proj -b {broker} worker -Q mails", sample=str(sample), probe="queue").service

    assert (service.feeder.kind, service.feeder.form, service.feeder.queue) == ("queue", "celery", "mails")
    assert (service.feeder.url, service.probe.kind) == (url, "queue")
    assert "nothing-feeds" not in service.cautions


def test_a_queue_that_the_user_filled_is_counted_as_it_falls() -> None:
    probe = typed("celery -A proj -b redis://h:1/0 worker", probe="queue").service.probe

    assert (probe.kind, probe.url, probe.falls) == ("redis", "redis://h:1/0", True)


@pytest.mark.parametrize(
    ("command", "more", "said"),
    [
        (
            "celery -A proj worker -P solo",
            {},
            "--: " + wording("services.no-such-form", form="solo", known="prefork, nodes, threads, gevent"),
        ),
        ("celery -A proj worker --autoscale=9,1", {}, "--: " + wording("services.celery-autoscale")),
        ("celery -A proj worker -D", {}, "--: " + wording("services.daemon-not-stopped", option="-D")),
        ("celery -A proj worker -B", {}, "--: " + wording("services.celery-beat")),
        ("celery multi start w1 -A proj", {}, "--: " + wording("services.cannot-be-started-as-prefork")),
        ("celery -A proj worker", {"sample": "s"}, "--set sample: " + wording("services.broker-unknown")),
        ("celery -A proj worker", {"probe": "queue"}, "--set probe: " + wording("services.broker-unknown")),
        (
            "celery -A proj -b sqs://u:p@h worker",
            {"sample": "s"},
            "sample: " + wording("services.broker-of-no-known-place", broker="sqs"),
        ),
        (
            "celery -A proj -b amqp:// worker",
            {"sample": "s"},
            wording("services.broker-of-no-known-place", broker="amqp"),
        ),
        ("celery -A proj -b redis://[oops worker", {"sample": "s"}, wording("services.broker-no-url")),
        ("celery multi start worker -A proj", {}, "--: " + wording("services.cannot-be-started-as-prefork")),
        (
            "celery -A proj -b amqp://u:p@h worker",
            {"probe": "queue"},
            "--set probe: " + wording("services.rabbitmq-counts-what-is-fed"),
        ),
        (
            "celery -A proj -b redis:// worker -Q a,b",
            {"sample": "s"},
            "sample: " + wording("services.feeds-one-queue"),
        ),
        (
            "celery -A proj worker -f x.log",
            {"probe": "log"},
            "--set probe: " + wording("services.log-reads-what-nodes-print"),
        ),
    ],
    ids=key_of,
)
def test_what_cannot_be_measured_is_reported(command: str, more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as result:
        typed(command, **more)

    assert said in result.value.problem
    assert "u:p" not in result.value.problem


@pytest.mark.parametrize(
    ("broker", "url"),
    [
        ("rediss://h/0?ssl_cert_reqs=CERT_NONE", "rediss://h/0?ssl_cert_reqs=none"),
        ("redis+socket://:pw@/run/redis.sock?virtual_host=3", "unix://:pw@/run/redis.sock?db=3"),
    ],
)
def test_tuner_feeds_the_broker_by_the_names_of_its_own_client(tmp_path: Path, broker: str, url: str) -> None:
    (tmp_path / "sample.json").write_text("{}")

    service = typed(f"celery -A proj -b {broker} worker", sample=str(tmp_path / "sample.json")).service

    assert service.feeder.url == url
