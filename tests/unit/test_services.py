"""What tuner makes of a command whose service it knows; the services are tried elsewhere, for real."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tuner.bootstrap.configs import render_config_for, settings_of
from tuner.bootstrap.parts.own_sources import with_separate_queue
from tuner.bootstrap.parts.services import StudyName, service_of
from tuner.cli import run
from tuner.config.load import Given, canonical_json, settings_of_study
from tuner.config.settings import ScriptSettings, Settings
from tuner.core.domain.layout import parse_layout
from tuner.core.domain.load import Share
from tuner.core.domain.stored_config import list_changed_settings
from tuner.core.errors import ConfigError
from tuner.services.catalogue import OWN, known_services, recognise
from tuner.services.expansion import expand_service
from tuner.services.record import Command, Service

from ..raising import raises
from ..wording import key_of, wording

ROOT = Path(__file__).resolve().parents[2]
SERVICES = list(known_services().values())


def typed(command: str, **more: str) -> Settings:
    """The settings of ``tuner grid -- COMMAND``; *more* is of the service's section."""
    options = {("service", "command"): Given("--", command)}
    options |= {("service", name): Given(f"--set {name}", value) for name, value in more.items()}
    return settings_of(None, options)


def environment_of(settings: Settings) -> Mapping[str, str]:
    assert isinstance(settings.service, ScriptSettings)
    return settings.service.environment


def test_a_command_of_several_lines_is_one_command(tmp_path: Path) -> None:
    command = "gunicorn \\\n  --bind 127.0.0.1:9 \\\n  app:app\n"
    (tmp_path / "s.yaml").write_text(json.dumps({"service": {"kind": "gunicorn", "command": command}}))

    assert run(["init", "-o", str(tmp_path / "i.yaml"), "--command", command]) == 0

    written = (settings_of(tmp_path / name, {}) for name in ("s.yaml", "i.yaml"))
    for settings in (typed(command), *written):
        assert isinstance(settings.service, ScriptSettings)
        assert "\n" not in settings.service.command
        assert settings.service.feeder.url == "http://127.0.0.1:9/"


def test_the_load_generator_of_a_known_service_can_be_given_a_rate() -> None:
    asked = {
        ("service", "command"): Given("--", "gunicorn --bind 127.0.0.1:9 app:app"),
        ("service", "feeder", "rate"): Given("--rate", "70%"),
    }

    service = settings_of(None, asked).service

    assert isinstance(service, ScriptSettings)
    assert service.reports_latency
    assert service.feeder.kind == "http"
    assert (service.feeder.url, service.feeder.pace) == ("http://127.0.0.1:9/", Share(0.7))


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("run --workers 3", "3"),
        ("run --workers=3 --workers=4", "4"),
        ("run -w3", "3"),
        ("run -w 3 --workers-more 9", "3"),
        ("run --workers", ""),
        ("run --worker 3", None),
    ],
)
def test_an_option_of_a_command_is_found_however_it_is_written(words: str, value: str | None) -> None:
    assert Command(tuple(words.split())).option("-w", "--workers") == value


def test_gunicorn_is_reported_by_its_environment_and_its_command_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--preload --name={0}")
    settings = typed("gunicorn app:app")
    service = settings.service

    assert (service.name, service.record, service.command) == (
        "gunicorn",
        "gunicorn",
        ("gunicorn", "app:app"),
    )
    assert service.environment["GUNICORN_CMD_ARGS"] == (
        "--preload --name={{0}} --workers={processes} --threads={threads} --worker-class=gthread"
        " --statsd-host={TUNER_STATSD}"
    )
    assert (service.programs, service.probe.kind, service.feeder.kind) == ("one", "statsd", "http")
    assert service.feeder.url == "http://127.0.0.1:8000/"
    assert settings_of_study(canonical_json(settings), "s.tuner.db") == settings


def test_what_the_command_says_itself_is_answered_by_flags_at_its_end() -> None:
    service = typed("gunicorn app:app -w 3 -b 0.0.0.0:9000").service

    assert service.command == (
        *("gunicorn", "app:app", "-w", "3", "-b", "0.0.0.0:9000"),
        *("--workers={processes}", "--threads={threads}", "--worker-class=gthread"),
    )
    assert service.environment["GUNICORN_CMD_ARGS"] == "--statsd-host={TUNER_STATSD}"
    assert service.feeder.url == "http://127.0.0.1:9000/"


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, version: str) -> Path:
    """Return a program of *package*, whose Python finds this *version* of the package."""
    metadata = folder / "packages" / f"{package}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    program = folder / package
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(metadata.parents[1]))
    return program


@pytest.mark.parametrize(
    ("version", "has_option"), [("20.1.0", False), ("25.0.3", False), ("25.1.0", True), ("27.0.1", True)]
)
def test_gunicorn_gets_only_options_that_its_version_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, has_option: bool
) -> None:
    """The version is that of the Python in the first line of the program."""
    program = installed(tmp_path, monkeypatch, "gunicorn", version)

    by_variable, by_flags = typed(f"{program} app:app").service, typed(f"{program} app:app -w 3").service

    assert ("--no-control-socket" in by_variable.environment["GUNICORN_CMD_ARGS"].split()) == has_option
    assert ("--no-control-socket" in by_flags.command) == has_option


@pytest.mark.parametrize(
    ("package", "version", "reads_variables"),
    [
        ("celery", "4.4.7", False),
        ("celery", "5.0.0", True),
        ("uvicorn", "0.15.0", False),
        ("uvicorn", "0.16.0", True),
    ],
)
def test_a_version_that_reads_no_variables_gets_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, version: str, reads_variables: bool
) -> None:
    """Celery 4 and uvicorn 0.15 ignore the variables, so all layouts would run alike."""
    program = installed(tmp_path, monkeypatch, package, version)
    words = {"celery": "-A app -b redis://127.0.0.1 worker", "uvicorn": "app:app"}[package]
    variable = {"celery": "CELERY_WORKER_CONCURRENCY", "uvicorn": "UVICORN_WORKERS"}[package]
    flags = {
        "celery": (
            *("--pool=processes", "--concurrency={processes}", "--hostname=tuner{process}@%h"),
            "--include=tuner_celery",
        ),
        "uvicorn": ("--workers={processes}",),
    }[package]

    service = typed(f"{program} {words}").service

    assert (variable in service.environment) == reads_variables
    assert service.command[1:] == (*words.split(), *(() if reads_variables else flags))


@pytest.mark.parametrize(("version", "workers"), [("0.13.2", "children-if-several"), ("0.14.0", "children")])
def test_a_single_worker_of_hypercorn_before_0_14_is_the_program_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, workers: str
) -> None:
    program = installed(tmp_path, monkeypatch, "hypercorn", version)

    assert typed(f"{program} app:app").service.workers == workers


def test_celery_4_reads_a_separate_queue_by_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = installed(tmp_path, monkeypatch, "celery", "4.4.7")
    sample = tmp_path / "sample.json"
    sample.write_text("{}")
    options = {
        ("service", "command"): Given("--", f"{program} -A app -b redis://127.0.0.1 worker"),
        ("service", "sample"): Given("--set sample", str(sample)),
    }

    service = with_separate_queue(settings_of(None, options), 2).service

    assert service.command[-2:] == ("--queues=celery.turn2", "--hostname=tuner{process}.celery.turn2@%h")
    assert not service.environment.keys() & {"CELERY_WORKER_HOSTNAME", "CELERY_WORKER_QUEUES"}
    assert sum(word.startswith("--hostname") for word in service.command) == 1


@pytest.mark.parametrize(
    ("file", "form"),
    [
        ("worker_class = 'gevent'\n", "gevent"),
        ("worker_class = 'sync'\n", "sync"),
        ("worker_class = 'sync'\nthreads: int = 4\n", "gthread"),
        ("worker_class = 'uvicorn.workers.UvicornWorker'\n", "uvicorn.workers"),
        ("worker_class = 'sync'\nworker_class = 'gevent'\nbind = '0.0.0.0:8000'\n", "gevent"),
        ("def post_fork(server, worker):\n    worker_class = 'gevent'\n", "gthread"),
        ("threads = 4\nworker_class = None\n", "gthread"),
        ("worker_class = (\n", "gthread"),  # gunicorn itself rejects it
        ("import os\nworker_class = 'sync'\nthreads = int(os.environ.get('T', 4))\n", "gthread"),
        ("worker_class = 'gevent'\nlogconfig_dict = {[]: 1}\n", "gevent"),
    ],
)
def test_the_worker_class_of_gunicorn_may_stand_in_its_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gunicorn.conf.py").write_text(file)
    (tmp_path / "other.py").write_text("worker_class = 'asgi'\n")

    assert form_of("gunicorn app:app") == form
    assert form_of("gunicorn app:app -c gunicorn.conf.py") == form
    assert form_of("gunicorn app:app -c other.py") == "asgi"
    assert form_of("gunicorn app:app -c other.py -k sync") == "sync"
    assert "computed-in-file" not in typed("gunicorn app:app").service.cautions


def form_of(command: str) -> str:
    """The worker class that tuner gives to gunicorn."""
    service = typed(command).service
    words = [*service.environment.get("GUNICORN_CMD_ARGS", "").split(), *service.command]
    (name,) = (word.partition("=")[2] for word in words if word.startswith("--worker-class="))
    return {"uvicorn.workers.UvicornWorker": "uvicorn.workers"}.get(
        name, "gthread" if "--threads={threads}" in words else name
    )


def test_a_worker_class_that_code_computes_is_a_warning_unless_the_command_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gunicorn.conf.py").write_text(
        "import os\nworker_class = 'gevent'\nif os.environ.get('X'):\n    worker_class = 'sync'\n"
    )

    found = typed("gunicorn app:app").service

    assert found.cautions["computed-in-file"] == wording("services.computed-in-file")
    assert "computed-in-file" not in typed("gunicorn app:app -k gevent").service.cautions


@pytest.mark.parametrize(
    "file",
    [
        "from base import worker_class\n",
        "from base import *\n",
        "worker_class, timeout = 'gevent', 4\n",
        "class W: ...\nworker_class = W\n",
    ],
)
def test_a_worker_class_of_another_module_is_computed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gunicorn.conf.py").write_text(file)

    assert "computed-in-file" in typed("gunicorn app:app").service.cautions
    assert "computed-in-file" not in typed("env -C /srv gunicorn app:app").service.cautions  # another file


def test_a_config_for_gunicorn_follows_its_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gunicorn.conf.py").write_text("worker_class = 'uvicorn_worker.UvicornWorker'\n")
    text = render_config_for(("gunicorn", "app:app"), None, {})
    (tmp_path / "s.yaml").write_text(text)
    (tmp_path / "v.yaml").write_text(
        "service: {kind: gunicorn, command: gunicorn app:app, variants: {a: {}, b: {environment: {A: b}}}}\n"
    )

    assert re.search("^  probe: generator", text, re.MULTILINE)
    for name in ("s.yaml", "v.yaml"):
        service = settings_of(tmp_path / name, {}).service
        assert isinstance(service, ScriptSettings)
        assert service.probe.kind == "generator"


@pytest.mark.parametrize(
    ("option", "file", "loop"),
    [
        ("-c h.toml", "worker_class = 'trio'\n", "trio"),
        ("-c h.toml", "workers = 3\n", "asyncio"),
        ("-c h.toml", "worker_class = trio\n", "asyncio"),  # no TOML: hypercorn itself rejects it
        ("--config=file:h.toml", "worker_class = 'uvloop'\nerrorlog = '-'\n", "uvloop"),
        ("--config python:h.toml", "worker_class = 'uvloop'\n", "asyncio"),
        ("-c h.toml -k trio", "worker_class = 'uvloop'\n", "trio"),
        ("", "worker_class = 'uvloop'\n", "asyncio"),
    ],
)
def test_the_event_loop_of_hypercorn_may_stand_in_its_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, file: str, loop: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.toml").write_text(file)

    service = typed(f"hypercorn app:app {option}").service

    assert service.command[-1] == f"--worker-class={loop}"
    assert "computed-in-file" not in service.cautions
    assert service.ready is not None


def test_what_else_a_file_of_hypercorn_sets_is_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "h.toml"
    file.write_text("loglevel = 'WARNING'\n")
    assert typed("hypercorn app:app -c h.toml").service.ready is None
    file.write_text("errorlog = 'errors.log'\n")
    assert typed("hypercorn app:app -c h.toml").service.ready is None
    file.write_text("use_reloader = true\n")
    with raises(ConfigError, wording("services.reload-in-a-file")):
        typed("hypercorn app:app -c h.toml")
    (tmp_path / "h.py").write_text("import os\nworker_class = os.environ.get('LOOP', 'asyncio')\n")
    assert "computed-in-file" in typed("hypercorn app:app -c file:h.py").service.cautions


def test_what_else_a_file_of_gunicorn_sets_is_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "gunicorn.conf.py"
    assert typed("gunicorn app:app").service.ready is not None
    file.write_text("loglevel = 'warning'\n")
    assert typed("gunicorn app:app").service.ready is None  # the line that it would wait for is not logged
    file.write_text("logger_class = 'app.JsonLogger'\n")
    assert typed("gunicorn app:app").service.probe.kind == "generator"
    file.write_text("class Own: ...\nlogger_class = Own\n")
    assert typed("gunicorn app:app").service.probe.kind == "generator"
    file.write_text("logger_class = 'simple'\nsyslog = False\nlogconfig_dict = {}\n")
    assert typed("gunicorn app:app").service.probe.kind == "statsd"
    assert typed("gunicorn app:app").service.ready is not None
    file.write_text("daemon = True\n")
    with raises(ConfigError, wording("services.daemon-in-a-file")):
        typed("gunicorn app:app")
    file.write_text("daemon = False\n")
    assert typed("gunicorn app:app").service.record == "gunicorn"


@pytest.mark.parametrize(
    "command", ["docker run --rm image gunicorn app:app", "kubectl exec pod -- run", "systemctl start app"]
)
def test_what_a_daemon_starts_is_refused(command: str) -> None:
    with raises(ConfigError, wording("services.started-elsewhere", program=command.split()[0])):
        typed(command)


def test_a_script_may_start_by_setpriv() -> None:
    assert typed("setpriv --no-new-privs ./worker {threads}").service.kind == "script"


def test_the_form_is_the_one_that_the_command_asks_for_or_those_named_as_variants(tmp_path: Path) -> None:
    assert not typed("gunicorn app:app -k sync").service.threads
    (tmp_path / "s.yaml").write_text(
        "service: {kind: gunicorn, command: gunicorn app:app}\nstudy: {layouts: [2x-@sync, 1x8@gevent]}\n"
    )

    settings = settings_of(tmp_path / "s.yaml", {})

    assert [str(layout) for layout in settings.layouts_for(2)] == ["2x-@sync", "1x8@gevent"]
    assert "--worker-connections={threads}" in settings.service_in("gevent").environment["GUNICORN_CMD_ARGS"]
    assert "--threads=1" in settings.service_in("sync").environment["GUNICORN_CMD_ARGS"]


@pytest.mark.parametrize(
    ("command", "more", "said"),
    [
        (
            "gunicorn app:app -k tornado",
            {},
            "--: "
            + wording("services.no-such-form", form="tornado", known="gthread, sync, gevent, asgi, uvicorn"),
        ),
        (
            "gunicorn app:app -k asgi",
            {"probe": "statsd"},
            "--set probe: " + wording("services.does-not-count", probe="statsd", form="asgi"),
        ),
        (
            "gunicorn app:app -b unix:app.sock",
            {},
            "--: " + wording("services.binds-to-what-cannot-be-sent-to"),
        ),
        (
            "python -m dramatiq app --watch .",
            {},
            "--: " + wording("services.watches-files", option="--watch"),
        ),
        ("rq info", {}, "--: " + wording("services.cannot-be-started-as-fork")),
        (
            "huey_consumer app.huey -k eventlet",
            {},
            wording("services.no-such-form", form="eventlet", known="thread, process, greenlet"),
        ),
        ("huey_consumer app.huey -g TERM", {}, "--: " + wording("services.stops-huey-by-int")),
        ("gunicorn app:app --daemon", {}, "--: " + wording("services.daemon-not-stopped", option="--daemon")),
        ("uwsgi --ini app.ini", {}, "--: " + wording("services.no-option-to-listen")),
        (
            "gunicorn app:app",
            {"probe": "statsdd"},
            "--set probe: " + wording("services.no-such-probe", probe="statsdd"),
        ),
        (
            "gunicorn app:app",
            {"url": "ftp://x"},
            "--set url: " + wording("services.no-http-url", url="ftp://x"),
        ),
        ("gunicorn app:app", {"clients": "few"}, "--set clients: " + wording("config.whole-number")),
        ("gunicorn app:app", {"kind": "gunicron"}, wording("config.did-you-mean", meant="gunicorn")),
        ("gunicorn app:app", {"conections": "4"}, "--set conections: " + wording("config.unknown-key")),
        ("gunicorn 'app", {}, wording("services.words")),
        ("rq worker-pool", {"url": "redis://h:99999/0"}, "--set url: " + wording("services.redis-url")),
        ("rq worker-pool", {"url": "redis://h:abc/0"}, "--set url: " + wording("services.redis-url")),
        (
            "rq worker-pool",
            {"url": "redis://127.0.0.1:6390/0"},
            "--set url: " + wording("services.rq-uses-its-default-server"),
        ),
        (
            "gunicorn app:app",
            {"environment": "A=1"},
            "--set environment: " + wording("config.should-be-mapping"),
        ),
    ],
    ids=key_of,
)
def test_what_does_not_go_with_the_record_is_reported(command: str, more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as result:
        typed(command, **more)

    assert said in result.value.problem


def test_what_is_wrong_in_a_config_is_reported_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "s.yaml"
    config.write_text("service:\n  kind: gunicorn\n  command: gunicorn app:app\n  probe: statd\n")

    with raises(ConfigError, wording("config.did-you-mean", meant="statsd")) as caught:
        settings_of(config, {})
    assert "s.yaml:4:10: service.probe: statd " in str(caught.value)
    config.write_text("service:\n  kind: gunicorn\n")
    with raises(ConfigError, wording("services.command-missing")):
        settings_of(config, {})
    config.write_text("service:\n  kind: gunicorn\n  comand: gunicorn app:app\n")
    with raises(ConfigError, wording("services.command-missing-meant")):
        settings_of(config, {})
    config.write_text("service:\n  kind: [gunicorn]\n  command: gunicorn app:app\n")
    with pytest.raises(ConfigError, match=r"service\.kind"):
        settings_of(config, {})
    config.write_text("service:\n  name: mine\n  command: gunicorn app:app\n")
    assert settings_of(config, {}).service.kind == "script"  # by a config nothing is guessed
    config.write_text("study: {window: 5m}\n")
    assert (
        settings_of(config, {("service", "command"): Given("--", "gunicorn a")}).service.record == "gunicorn"
    )
    config.write_text("service:\n  kind: gunicorn\n  command: gunicorn app:app\n  url: x\n")
    with raises(ConfigError, wording("services.no-http-url", url="s.yaml:4:8: service.url: x")):
        settings_of(config, {})


def test_what_the_user_says_of_a_stop_goes_before_the_record_key_by_key_in_every_form(tmp_path: Path) -> None:
    config = tmp_path / "s.yaml"
    config.write_text(
        "service: {kind: gunicorn, command: gunicorn app:app, stop: {wait: 5m},"
        " ready: {kind: tcp, address: 'h:1'}}\n"
        "study: {variants: [gthread, sync]}\n"
    )
    settings = settings_of(config, {})

    for variant in ("gthread", "sync"):
        service = settings.service_in(variant)
        assert (service.stop.wait, service.stop.signal, service.ready.kind) == (300.0, "TERM", "tcp")
    config.write_text("service: {kind: huey, command: huey_consumer app.huey, stop: {wait: 5m}}\n")
    stop = settings_of(config, {}).service.stop
    assert (stop.signal, stop.wait) == ("INT", 300.0)


def test_variants_of_the_user_s_own_are_reported_the_layout_too(tmp_path: Path) -> None:
    config = tmp_path / "s.yaml"
    config.write_text(
        "service:\n  kind: huey\n  command: huey_consumer app.huey\n  variants:\n    old: {}\n"
        "    new: {command: /py313/bin/huey_consumer app.huey, environment: {A: '1'}}\n"
        "study: {variants: [new, old]}\n"
    )
    settings = settings_of(config, {})

    assert {str(layout) for layout in settings.layouts_for(1)} >= {"1x1@new", "1x1@old", "1x2@old"}
    for variant, program in (("old", "huey_consumer"), ("new", "/py313/bin/huey_consumer")):
        service = settings.service_in(variant)
        assert service.command[:2] == (program, "app.huey")
        assert "--workers={threads}" in service.command
        assert service.stop.signal == "INT"
    assert settings.service_in("new").environment["A"] == "1"


def test_variables_that_env_sets_before_the_command_are_the_user_s() -> None:
    service = typed("env GUNICORN_CMD_ARGS=--preload A=1 gunicorn app:app").service

    assert service.command == ("gunicorn", "app:app")
    assert service.environment["A"] == "1"
    assert service.environment["GUNICORN_CMD_ARGS"].startswith("--preload --workers={processes}")
    with raises(ConfigError, wording("services.variable-of-uvicorn")):
        typed("env UVICORN_WORKERS=4 uvicorn app:app")
    assert typed("env -u A gunicorn app:app").service.command == ("env", "-u", "A", "gunicorn", "app:app")


def test_a_file_of_variables_says_addresses_but_no_layout(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("UVICORN_WORKERS=4\nREDIS_URL=redis://h:7/0\n")
    config = tmp_path / "s.yaml"
    config.write_text("service: {kind: uvicorn, command: uvicorn app:app, environment_file: env}\n")
    asked = settings_of(config, {}).service

    layouts = [parse_layout("2x-")]
    spec, _ = service_of(settings_of(config, {}), layouts, StudyName("id", "file"), tmp_path, print)

    assert spec.environment_of(parse_layout("2x-"), 0, 2)["UVICORN_WORKERS"] == "2"
    assert "4" not in asked.environment.values()
    config.write_text("service: {kind: dramatiq, command: dramatiq app, environment_file: env}\n")
    assert settings_of(config, {}).service.probe.url == "redis://h:7/0"


def test_a_queue_that_is_fed_is_counted_by_its_feeder_whoever_wrote_that(tmp_path: Path) -> None:
    (tmp_path / "s.json").touch()
    config = tmp_path / "s.yaml"
    service = "service:\n  kind: dramatiq\n  command: dramatiq app\n  feeder: "
    config.write_text(
        service + "{kind: queue, form: dramatiq, url: 'redis://h', queue: q, sample: s.json, depth: 500}\n"
    )

    found = settings_of(config, {}).service
    assert (found.probe.kind, found.feeder.depth) == ("queue", 500)
    config.write_text(service + "{kind: command, command: feed}\n")
    with raises(ConfigError, wording("services.feeder-fills-queue")):
        settings_of(config, {})


def test_statsd_is_listened_to_by_the_name_that_gunicorn_is_reported() -> None:
    assert typed("gunicorn app:app --statsd-prefix=web").service.probe.name == "web.gunicorn.requests"


def test_init_writes_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQ_REDIS_URL", "redis://:hunter2@prod:6379/0")

    assert "hunter2" not in render_config_for(["rq", "worker-pool"], None, {})


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/srv/venv/bin/gunicorn app:app", "gunicorn"),
        ("python3.12 -m gunicorn app:app", "gunicorn"),
        ("env A=1 python -X dev -m gunicorn.app.wsgiapp x", "gunicorn"),
        ("uv run --with gevent gunicorn app:app", "gunicorn"),
        ("poetry run python -m celery -A x worker", "celery"),
        ("python worker.py", None),
        ("", None),
    ],
)
def test_a_service_is_recognised_by_its_program_or_module(command: str, name: str | None) -> None:
    found = recognise(tuple(command.split()))

    assert (found.name if found else None) == name


def test_the_catalogue_knows_the_programs_of_each_record_without_importing_it() -> None:
    assert {name: known_services()[name].commands for name in OWN} == dict(OWN)


def test_a_study_continues_with_its_command_and_what_else_was_typed_is_as_it_was() -> None:
    command = {("service", "command"): Given("--", "gunicorn --bind 127.0.0.1:9 app:app")}
    more = {
        ("study", "variants"): Given("--variants", "gthread,sync"),
        ("study", "window"): Given("--window", "1m"),
        ("service", "feeder", "rate"): Given("--rate", "70%"),
    }
    started = canonical_json(settings_of(None, {**command, **more}))
    kept = json.loads(started)

    assert canonical_json(settings_of(None, command, kept=kept)) == started
    assert canonical_json(settings_of(None, {}, kept=kept)) == started
    assert canonical_json(settings_of(None, more, kept=kept)) == started
    longer = settings_of(None, {("study", "window"): Given("--window", "5m")}, kept=kept)
    assert list_changed_settings(kept, json.loads(canonical_json(longer))) == [
        wording("grid.setting-changed", setting="study.window", was='"1m"', given='"5m"')
    ]


@pytest.mark.parametrize(
    ("typed_words", "started"),
    [
        ("uv run -- gunicorn -w 3 app:app", "uv run -- gunicorn -w 3 app:app FLAGS"),
        ("exec python -m gunicorn app:app --threads=2", "python -m gunicorn app:app --threads=2 FLAGS"),
        ("nice -n 5 gunicorn app:app", "nice -n 5 gunicorn app:app"),
        ("uv run --with gevent gunicorn app:app", None),
    ],
)
def test_flags_go_to_the_service_and_not_to_what_runs_it(typed_words: str, started: str | None) -> None:
    service = typed(typed_words).service

    flags = "--workers={processes} --threads={threads} --worker-class=gthread"
    assert " ".join(service.command) == (started or typed_words).replace("FLAGS", flags)


def test_options_of_what_runs_a_service_are_not_the_services() -> None:
    nodes = typed("nice -n 5 celery -A proj worker -n mine@%h -c 3 -P threads").service
    processes = typed("uv run -p 3.12 dramatiq app").service

    assert " ".join(nodes.command) == (
        "nice -n 5 celery -A proj worker --pool=threads --concurrency={threads}"
    )
    assert " ".join(processes.command).startswith("uv run -p 3.12 dramatiq app --processes=")
    assert typed("python -m dramatiq app").service.command[:4] == ("python", "-m", "dramatiq", "app")


def test_what_a_record_puts_before_a_command_stands_before_all_of_it() -> None:
    command = typed("uv run python -m arq app.WorkerSettings").service.command

    assert command[0] == "env"
    assert command[3:] == ("uv", "run", "python", "-m", "arq", "tuner_arq.WorkerSettings")


@pytest.mark.parametrize(
    ("command", "name"),
    [("python3 jobs/run_all.py --n 3", "run_all"), ("./my worker", "my"), ("python3 -c pass", "pass")],
)
def test_a_command_that_is_not_known_is_a_script_named_by_its_program(command: str, name: str) -> None:
    service = typed(command).service

    assert (service.kind, service.name, service.record) == ("script", name, None)


@pytest.mark.parametrize(
    "command",
    [
        "gunicorn app:app --bind 127.0.0.1:9000",
        "gunicorn 'app:make()' -w 3 -k sync",
        "run --n {threads} 'a b: c'",
    ],
)
def test_a_config_that_init_writes_asks_for_what_its_command_would(command: str, tmp_path: Path) -> None:
    text = render_config_for(shlex.split(command), None, {})
    (tmp_path / "s.yaml").write_text(text)

    assert settings_of(tmp_path / "s.yaml", {}).service == typed(command).service
    assert max(map(len, text.splitlines()[:3])) < 100


def test_init_writes_what_it_was_reported_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["init", "--set", "clients=40", "-o", "s.yaml", "--", "gunicorn", "app:app"]

    assert run(asked) == 0
    assert settings_of(tmp_path / "s.yaml", {}).service.feeder.clients == 40
    assert run(asked) == 2
    assert "s.yaml exists already" in capsys.readouterr().err
    assert run(["init", "--set", "port=3", "--", "gunicorn", "app:app"]) == 2
    assert wording("services.unknown-key-port") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "meant"), [("clinets", "clients"), ("urll", "url"), ("Clients", "clients")]
)
def test_a_misspelt_setting_of_a_service_is_reported_with_the_one_that_is_near(
    written: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--set", f"{written}=3", "--", "gunicorn", "app:app"]) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[0]
        .endswith(wording("services.unknown-key-meant", written=written, meant=meant))
    )


def test_init_writes_what_tuner_sets_in_the_environment_as_one_mapping() -> None:
    text = render_config_for(["celery", "-A", "jobs", "worker"], None, {})

    (at,) = [n for n, line in enumerate(text.splitlines()) if line.strip().startswith("#   environment:")]
    comments = [line.removeprefix("  # ") for line in text.splitlines()[at:] if line.startswith("  #   ")]
    service = yaml.safe_load("\n".join(comments))
    assert {"CELERY_WORKER_POOL", "CELERY_WORKER_CONCURRENCY"} < set(service["environment"])


def test_services_are_listed_and_shown_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["services", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["services"]
    for one in listed:
        assert run(["services", "show", one["service"]]) == 0
        page = capsys.readouterr().out
        assert all(form["form"] in page for form in one["forms"])
        assert all(probe["counts"] in page for probe in one["probes"])
    assert run(["services"]) == 0
    assert {one["service"] for one in listed} <= set(capsys.readouterr().out.split())
    assert run(["services", "show", "gunicron"]) == 2
    assert wording("command-line.did-you-mean", meant="gunicorn") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rank", "--", "gunicorn", "app:app"], wording("services.starts-no-service")),
        (["grid", "--"], wording("services.no-command")),
        (["init"], wording("services.which-command")),
        (["grid", "--set", "url", "--", "gunicorn", "app:app"], wording("services.no-key-value")),
    ],
    ids=key_of,
)
def test_a_command_in_the_wrong_place_or_a_setting_without_value_is_reported(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a package that brings a service called shopworker; its module is the text that is given."""
    site = tmp_path / "site"
    (site / "shop-1.dist-info").mkdir(parents=True)
    (site / "shop-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1\n")
    (site / "shop-1.dist-info" / "entry_points.txt").write_text(
        "[tuner.services]\nshopworker = shop_tuning:SERVICE\n"
    )
    monkeypatch.syspath_prepend(str(site))

    def install(module: str) -> None:
        (site / "shop_tuning.py").write_text(module)
        known_services.cache_clear()

    yield install
    sys.modules.pop("shop_tuning", None)
    known_services.cache_clear()


def test_a_package_brings_a_service_as_the_page_shows(package: Callable[[str], None]) -> None:
    page = (ROOT / "docs" / "services" / "README.md").read_text(encoding="utf-8")
    (module,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert '"tuner.services"]\nshopworker = ' in page
    package(module)

    service = typed("shopworker --queue orders").service

    assert (service.record, service.programs, service.probe.kind) == ("shopworker", "each", "prometheus")
    assert service.environment == {"SHOP_THREADS": "{threads}"}
    assert "keep it full" in service.cautions["nothing-feeds"]
    assert typed("shopworker -t 9").service.command == ("shopworker", "-t", "9", "--threads", "{threads}")
    with raises(ConfigError, wording("services.variable-of-shop")):
        expand_service(
            known_services()["shopworker"], {"command": "x", "environment": {"SHOP_THREADS": "3"}}, {}, None
        )


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import nothing_of_that_name", wording("services.package-cannot-be-loaded")),
        ("SERVICE = 3", wording("services.no-service-of-that-name")),
    ],
    ids=key_of,
)
def test_a_package_whose_service_is_none_is_reported(
    package: Callable[[str], None], module: str, said: str
) -> None:
    package(module)

    with raises(ConfigError, said) as caught:
        known_services()
    assert "shopworker" in str(caught.value)


@pytest.mark.parametrize(
    ("command", "variables", "url"),
    [
        ("gunicorn app:app", {}, "http://127.0.0.1:8000/"),
        ("gunicorn app:app", {"PORT": "5000"}, "http://127.0.0.1:5000/"),
        ("gunicorn app:app", {"GUNICORN_CMD_ARGS": "-b 10.0.0.1:81"}, "http://10.0.0.1:81/"),
        ("gunicorn app:app -b :82", {"GUNICORN_CMD_ARGS": "-b 10.0.0.1:81"}, "http://127.0.0.1:82/"),
        ("gunicorn app:app --bind=[::]:83", {}, "http://127.0.0.1:83/"),
        ("gunicorn app:app -b unix:/run/a.sock", {}, "http+unix://%2Frun%2Fa.sock/"),
        ("uvicorn app:app --port 84", {"UVICORN_HOST": "::1"}, "http://[::1]:84/"),
        ("uvicorn app:app --uds /run/a.sock", {}, "http+unix://%2Frun%2Fa.sock/"),
        ("granian app:app --host 0.0.0.0", {"GRANIAN_PORT": "85"}, "http://127.0.0.1:85/"),
        ("uwsgi --http-socket :86 app.ini", {}, "http://127.0.0.1:86/"),
        ("uwsgi --ini app.ini", {"UWSGI_HTTP11_SOCKET": "/run/a.sock"}, "http+unix://%2Frun%2Fa.sock/"),
    ],
)
def test_where_a_server_listens_is_found_in_its_command_and_environment(
    monkeypatch: pytest.MonkeyPatch, command: str, variables: dict[str, str], url: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert typed(command).service.feeder.url == url


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("gunicorn app:app -k sync", "sync"),
        ("gunicorn app:app -k sync --threads 4", "gthread"),
        ("gunicorn app:app -k uvicorn.workers.UvicornWorker", "uvicorn.workers"),
        ("granian app:app", "runtime"),
        ("granian --interface wsgi app:app", "blocking"),
    ],
)
def test_the_form_is_what_the_server_would_take(command: str, form: str) -> None:
    service = recognise(tuple(command.split()))

    assert service is not None
    assert service.form_of(Command(tuple(command.split()))) == form


def test_the_usual_probe_is_the_first_that_counts_the_form() -> None:
    assert typed("gunicorn app:app").service.probe.kind == "statsd"
    assert typed("gunicorn app:app -k asgi").service.probe.kind == "generator"


@pytest.mark.parametrize(
    "command",
    ["gunicorn app:app --log-level warning", "uvicorn app:app --log-level error", "granian app:app --no-log"],
)
def test_a_service_that_logs_nothing_is_not_waited_for(command: str) -> None:
    assert typed(command).service.ready is None
    assert typed(" ".join(command.split()[:2])).service.ready.kind == "log"


def test_a_probe_that_asks_at_a_port_of_the_launch_has_the_service_told(tmp_path: Path) -> None:
    service = typed("granian --interface wsgi app:app", probe="metrics").service

    assert service.environment["GRANIAN_METRICS_PORT"] == "{TUNER_PROBE_PORT}"
    assert service.probe.url == "http://127.0.0.1:{TUNER_PROBE_PORT}/metrics"
    with raises(ConfigError, wording("config.filled-in-with-probes-only")):
        typed("granian --interface wsgi app:app --metrics-port {TUNER_PROBE_PORT}")


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("dramatiq app", "dramatiq app --processes={processes} --threads={threads}"),
        (
            "/v/bin/dramatiq-gevent -Q a b -- app",
            "/v/bin/dramatiq-gevent -Q a b --processes={processes} --threads={threads} -- app",
        ),
        ("rq worker-pool", "rq worker-pool --num-workers={processes} --worker-class=rq.worker.Worker"),
        (
            "rq worker-pool -w rq.SimpleWorker",
            "rq worker-pool -w rq.SimpleWorker --num-workers={processes}"
            " --worker-class=rq.worker.SimpleWorker",
        ),
        ("rq worker-pool -w shop.Worker", "rq worker-pool -w shop.Worker --num-workers={processes}"),
        ("rq worker --name w a", "rq worker --name w a"),
        ("huey_consumer app.huey", "huey_consumer app.huey --workers={threads} --worker-type=thread -n"),
        (
            "huey_consumer app.huey -k process",
            "huey_consumer app.huey -k process --workers={processes} --worker-type=process -n",
        ),
    ],
)
def test_a_service_behind_a_queue_is_reported_by_flags(command: str, started: str) -> None:
    words = started.replace(" -n", " --no-periodic") if "huey" in command else started

    assert typed(command).service.command == tuple(words.split())


@pytest.mark.parametrize(
    ("command", "form", "started"),
    [
        ("/v/dramatiq -p 3 app", "gevent", "/v/dramatiq-gevent -p 3 app"),
        ("dramatiq-gevent app", "threads", "dramatiq app"),
        ("python -m dramatiq app", "threads", "python -m dramatiq app"),
        ("python -m dramatiq app", "gevent", None),
        ("rq worker-pool -n 4 --num-workers=3 -u redis://h a", "programs", "rq worker -u redis://h a"),
        ("rq worker -u redis://h -n fred a", "fork", "rq worker-pool -u redis://h a"),
        ("rq info", "fork", None),
    ],
)
def test_another_form_may_take_another_program(command: str, form: str, started: str | None) -> None:
    service = recognise(tuple(command.split()))
    assert service is not None

    words = service.form(form).words(Command(tuple(command.split())))

    assert words == (started if started is None else tuple(started.split()))


@pytest.mark.parametrize(
    ("command", "queue"),
    [
        ("dramatiq app -Q mails reports", "mails"),
        ("dramatiq app", "default"),
        ("rq worker-pool -u redis://h:1 -v -n3 --path=x high low", "high"),
        ("rq worker-pool -v", "default"),
        ("huey_consumer app.huey", "huey"),
    ],
)
def test_the_queue_is_found_and_counted_with_a_sample_and_without(
    command: str, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sample.json").touch()

    fed = typed(command, sample="sample.json", probe="queue").service
    unfed = typed(command, probe="queue").service

    assert (fed.feeder.kind, fed.feeder.queue, fed.probe.kind) == ("queue", queue, "queue")
    assert (unfed.feeder.kind, unfed.probe.kind, unfed.probe.falls) == ("none", "redis", True)
    assert queue in str(unfed.probe.count)
    assert "tuner sample" in unfed.cautions["nothing-feeds"]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_every_known_service_makes_settings_in_each_of_its_forms_and_with_each_probe(
    service: Service,
) -> None:
    words = service.example.split()
    for form in service.forms:
        for counted in (one for one in service.probes if not one.forms or form.name in one.forms):
            asked = {"kind": service.name, "command": words, "probe": counted.name}
            section = expand_service(service, asked, {}, [form.name])
            settings = Settings.model_validate({"service": section})
            layout = parse_layout(f"2x3@{form.name}" if form.threads else f"2x-@{form.name}")
            assert layout in Settings.model_validate(
                {"service": section, "study": {"layouts": [str(layout)]}}
            ).layouts_for(4)
            assert settings.service_in(form.name).probe.kind == section["probe"]["kind"]
    assert recognise(tuple(words)) is service
    assert not service.summary.endswith(".")


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("rq worker", ["rq:workers:default"]),
        ("rq worker-pool high low", ["rq:workers:high", "rq:workers:low"]),
        ("rq worker -c settings", ["rq:workers"]),  # only the file names the queues
    ],
)
def test_only_workers_of_the_commands_queues_count(command: str, keys: list[str]) -> None:
    probe = typed(command).service.probe

    assert [term.smembers_hget[0] for term in probe.count] == keys
    assert [term.smembers_hget[0] for term in probe.failed] == keys


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ("", ""),
        ("-q mail", " and queue_name in ('mail')"),
        ('--queues "mail,o\'neil"', " and queue_name in ('mail', 'o''neil')"),
        ("-q ''", ""),
    ],
)
def test_only_jobs_of_the_commands_queues_count(options: str, condition: str) -> None:
    command = f"procrastinate --app app.app worker {options}"
    probe = typed(command).service.probe

    assert probe.query == f"select count(*) from procrastinate_jobs where status = 'succeeded'{condition}"
    assert probe.failed.endswith(f" in ('failed', 'aborted'){condition}")


def test_the_queue_of_huey_has_the_name_that_huey_gives_it() -> None:
    (term,) = typed("huey_consumer app.huey", queue="my-app").service.probe.count

    assert term.llen == "huey.redis.myapp"


@pytest.mark.parametrize(
    "line",
    [
        "14:28:26 Worker rq:worker:9d4b: started, version 1.5.2",  # to 1.13
        "14:28:26 Worker 9d4b started with PID 311, version 1.16.2",
    ],
)
def test_the_ready_line_of_rq_is_found_in_old_and_new_versions(line: str) -> None:
    ready = typed("rq worker").service.ready

    assert re.search(ready.pattern, line) is not None
    assert re.search(ready.pattern, "Worker rq:worker:9d4b: found an unhandled exception") is None
