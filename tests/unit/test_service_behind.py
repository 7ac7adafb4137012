"""A service behind what starts it: its options reach it, and what hides it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.bootstrap.configs import render_config_for, settings_of
from tuner.bootstrap.seen_through import known_service_of
from tuner.cli import run
from tuner.config.load import Given
from tuner.config.settings import ScriptSettings
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import key_of, wording

FLAGS = ("--workers={processes}", "--threads={threads}", "--worker-class=gthread")


def typed(command: str, **more: str) -> ScriptSettings:
    """The service of ``tuner grid -- COMMAND``."""
    options = {("service", "command"): Given("--", command)}
    options |= {("service", name): Given(f"--set {name}", value) for name, value in more.items()}
    service = settings_of(None, options).service
    assert isinstance(service, ScriptSettings)
    return service


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PORT", raising=False)


def script(text: str, name: str = "run.sh") -> str:
    Path(name).write_text(text)
    Path(name).chmod(0o755)
    return f"./{name}"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "timeout -k 5 3600",
        "tini -s --",
        "taskset -c 0,1 stdbuf -oL",
        "opentelemetry-instrument --service_name web",
        "conda run -n web --no-capture-output",
    ],
)
def test_options_reach_the_service_behind_what_starts_it(before: str) -> None:
    service = typed(f"{before} gunicorn -w 4 --threads 2 app:app")

    own = ("gunicorn", "-w", "4", "--threads", "2", "app:app")
    assert service.command == (*before.split(), *own, *FLAGS)
    assert service.record == "gunicorn"


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("sh -c 'gunicorn -w 4 app:app'", ("gunicorn", "-w", "4", "app:app")),
        ("bash -lc 'gunicorn -w 4 a:b'", ("bash", "-lc", 'exec "$0" "$@"', "gunicorn", "-w", "4", "a:b")),
        (
            "sh -c 'cd /srv && exec gunicorn -w 4 app:app'",
            ("sh", "-c", 'cd /srv && exec "$0" "$@"', "gunicorn", "-w", "4", "app:app"),
        ),
        (
            "tini -- bash -c '. ./env; nice gunicorn -w 4 app:app'",
            ("tini", "--", "bash", "-c", '. ./env; exec "$0" "$@"', "nice", "gunicorn", "-w", "4", "app:app"),
        ),
    ],
)
def test_options_reach_a_service_in_a_shells_text(command: str, started: tuple[str, ...]) -> None:
    assert typed(command).command == (*started, *FLAGS)


def test_variables_in_a_shells_text_are_those_that_the_service_will_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PORT", "9000")
    service = typed("sh -c 'exec gunicorn -b 127.0.0.1:$PORT ${MORE:---preload} app:app'")

    assert service.command == ("gunicorn", "-b", "127.0.0.1:9000", "--preload", "app:app")
    assert service.feeder.kind == "http"
    assert service.feeder.url == "http://127.0.0.1:9000/"


def test_a_script_is_read_to_its_last_command() -> None:
    run_sh = script(
        '#!/bin/bash -e\nexport A="${B}"\nif true; then\n  C=1\nfi\nexec gunicorn -w 4 app:app "$@"\n'
    )

    for command in (f"{run_sh} --preload", f"bash -e {run_sh} --preload", f"timeout 60 {run_sh} --preload"):
        service = typed(command)

        assert service.record == "gunicorn"
        assert service.command[-8:] == ("gunicorn", "-w", "4", "app:app", "--preload", *FLAGS)
        assert 'export A="${{B}}"' in " ".join(service.command)


def test_a_config_names_a_script_from_its_own_folder(tmp_path: Path) -> None:
    script("#!/bin/sh\nexec gunicorn app:app\n")
    (tmp_path / "s.yaml").write_text("service: {kind: gunicorn, command: ./run.sh}\n")

    assert settings_of(tmp_path / "s.yaml", {}).service.command == ("gunicorn", "app:app")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gunicorn app:app | tee log", wording("services.behind-shell", why=wording("services.shell-pipe"))),
        (
            'case "$1" in web) exec gunicorn app:app;; esac',
            wording("services.behind-shell", why=wording("services.shell-compound")),
        ),
    ],
    ids=key_of,
)
def test_a_service_that_no_option_can_reach_is_refused(text: str, said: str) -> None:
    run_sh = script(f"#!/bin/sh\n{text}\n")

    for command in (run_sh, f"sh -c '{text}'"):
        with raises(ConfigError, said):
            typed(command)


def test_a_script_that_cannot_be_read_through_is_reported_by_variables_if_the_user_names_the_service() -> (
    None
):
    run_sh = script('#!/bin/sh\ncase "$1" in web) exec gunicorn app:app;; esac\n')

    service = typed(f"{run_sh} web", kind="gunicorn")

    assert service.command == (run_sh, "web")
    assert "--workers={processes}" in service.environment["GUNICORN_CMD_ARGS"]
    script('#!/bin/sh\ncase "$1" in web) exec gunicorn -w 4 app:app;; esac\n')
    with raises(ConfigError, wording("services.behind-shell", why=wording("services.shell-compound"))):
        typed(f"{run_sh} web", kind="gunicorn")


def test_a_script_of_the_users_own_is_left_as_it_is() -> None:
    run_sh = script("#!/bin/sh\npython worker.py | tee log\n")

    assert typed(run_sh).command == (run_sh,)
    assert typed("sh -c 'worker | tee log'").command == ("sh", "-c", "worker | tee log")
    assert typed("sh -c 'gunicorn -w {processes} a | tee log'").record is None  # who has fields knows
    assert typed("A=1 worker x").command == ("env", "A=1", "worker", "x")


def test_a_known_service_behind_an_unknown_wrapper_is_hinted_at_and_reached_once_named() -> None:
    command = "mywrapper -w 9 gunicorn -w 4 app:app"

    assert typed(command).cautions["service-behind"] == wording("services.behind-unknown")
    assert typed(command, kind="gunicorn").command == (*command.split(), *FLAGS)
    assert "service-behind" not in typed("python worker.py").cautions


def test_variables_reach_a_service_from_which_its_starter_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    service = typed("env -i PATH=/bin uvicorn app:app")

    assert service.command[:5] == ("env", "-i", "PATH=/bin", "env", "PATH=/bin")
    assert service.command[5:] == (
        "UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN=30",
        *("uvicorn", "app:app", "--workers={processes}"),
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert typed("sudo -u web gunicorn app:app").command == (
        *("sudo", "-u", "web", "gunicorn", "app:app", *FLAGS),
        "--statsd-host={TUNER_STATSD}",
    )


def test_another_user_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with raises(ConfigError, wording("services.as-another-user")):
        typed("sudo -u web gunicorn app:app")


def test_an_address_gives_way_to_the_services_own_sockets_unless_the_user_wrote_it() -> None:
    found = typed("gunicorn app:app").feeder
    written = typed("gunicorn app:app", url="http://127.0.0.1:9/x").feeder
    assert found.kind == written.kind == "http"

    assert (found.find_address, written.find_address) == (True, False)


@pytest.mark.parametrize(
    ("command", "programs", "threads", "url"),
    [
        ("python server.py --port 9000", "each", False, "http://127.0.0.1:9000/"),
        ("server --threads {threads}", "each", True, "http://127.0.0.1:8000/"),
        ("server -b :9000 --workers {processes}", "one", False, "http://127.0.0.1:9000/"),
    ],
)
def test_any_web_server_is_fed_and_counted(command: str, programs: str, threads: bool, url: str) -> None:
    service = typed(command, kind="web")

    assert service.feeder.kind == "http"
    assert (service.programs, service.threads, service.feeder.url) == (programs, threads, url)
    assert (service.probe.kind, service.feeder.find_address) == ("generator", True)
    named = typed(command, kind="web", url="https://127.0.0.1:9/", clients="7").feeder
    assert named.kind == "http"
    assert (named.url, named.find_address, named.clients) == ("https://127.0.0.1:9/", False, 7)


def test_init_writes_a_config_for_a_web_server(tmp_path: Path) -> None:
    for options in (["--service", "web"], []):
        assert run(["init", *options, "-o", f"{len(options)}.yaml", "--", "./serve", "--port", "9000"]) == 0
        service = settings_of(tmp_path / f"{len(options)}.yaml", {}).service
        assert isinstance(service, ScriptSettings)
        assert service.feeder.kind == "http"
        assert (service.feeder.url, service.probe.kind) == ("http://127.0.0.1:9000/", "generator")


def test_init_writes_the_command_that_is_measured() -> None:
    text = render_config_for(["sh", "-c", "cd /srv; exec gunicorn app:app"], None, {})

    assert "kind: gunicorn" in text
    assert 'command: [sh, -c, cd /srv; exec "$0" "$@", gunicorn, \'app:app\']' in text


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/venv/bin/python /venv/bin/gunicorn app:app", "gunicorn"),
        ("/venv/bin/python -m celery -A a worker", "celery"),
        ("/venv/bin/python worker.py", ""),
        ("", ""),
    ],
)
def test_a_running_process_is_known_by_its_command_line(line: str, name: str) -> None:
    assert known_service_of(line.split()) == name


@pytest.mark.parametrize(
    ("title", "name"),
    [("gunicorn: master [app:app]", "gunicorn"), ("[celeryd: celery@h:Main]", "celery"), ("nginx: x", "")],
)
def test_a_running_process_is_known_by_the_title_that_it_gives_itself(title: str, name: str) -> None:
    assert known_service_of([title]) == name
