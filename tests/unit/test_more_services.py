"""What tuner makes of commands of hypercorn, waitress and FastAPI, and of Celery's to count what ends."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.config.load import Given, canonical_json, settings_of_study
from tuner.config.service import ScriptSettings
from tuner.config.settings import Settings
from tuner.core.errors import ConfigError
from tuner.reports.snippets import snippet

from ..raising import raises
from ..rollouts import rolled_out
from ..wording import wording


def typed(command: str, **more: str) -> Settings:
    """The settings of ``tuner grid -- COMMAND``; *more* is of the service's section."""
    options = {("service", "command"): Given("--", command)}
    options |= {("service", name): Given(f"--set {name}", value) for name, value in more.items()}
    return settings_of(None, options)


def service(command: str, **more: str) -> ScriptSettings:
    found = typed(command, **more).service
    assert isinstance(found, ScriptSettings)
    return found


def url(command: str, **more: str) -> str:
    feeder = service(command, **more).feeder
    assert feeder.kind == "http"
    return feeder.url


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("hypercorn app:app", "asyncio"),
        ("hypercorn -w 9 -k uvloop app:app", "uvloop"),
        ("hypercorn app:app --worker-class=trio", "trio"),
    ],
)
def test_hypercorn_is_reported_at_the_end_of_its_command(command: str, form: str) -> None:
    found = service(command)

    assert found.command == (*command.split(), "--workers={processes}", f"--worker-class={form}")
    assert (found.programs, found.workers, found.threads) == ("one", "children", False)


@pytest.mark.parametrize(
    ("command", "sent_to"),
    [
        ("hypercorn app:app", "http://127.0.0.1:8000/"),
        ("hypercorn app:app -b 0.0.0.0:9000", "http://127.0.0.1:9000/"),
        ("hypercorn app:app --bind localhost", "http://localhost:8000/"),
        ("hypercorn app:app --bind [::1]", "http://[::1]:8000/"),
        ("hypercorn app:app --bind unix:/run/a.sock", "http+unix://%2Frun%2Fa.sock/"),
        ("hypercorn app:app --certfile c --keyfile k --insecure-bind :9001", "http://127.0.0.1:9001/"),
        ("hypercorn app:app --certfile c --keyfile k -b :9001", "https://127.0.0.1:9001/"),
        ("hypercorn app:app --certfile c --keyfile k", "https://127.0.0.1:8000/"),
        ("gunicorn app:app -b 127.0.0.1:8474 --certfile c.pem --keyfile k.pem", "https://127.0.0.1:8474/"),
        ("gunicorn app:app --keyf k.pem", "https://127.0.0.1:8000/"),
        ("env GUNICORN_CMD_ARGS=--certfile=c.pem gunicorn app:app", "https://127.0.0.1:8000/"),
        ("env PORT=9000 gunicorn app:app", "http://127.0.0.1:9000/"),
        ("PORT=9000 gunicorn app:app --certfile c", "https://127.0.0.1:9000/"),
        ("uvicorn app:app --ssl-certfile c --ssl-keyfile k --port 9000", "https://127.0.0.1:9000/"),
        ("env UVICORN_SSL_KEYFILE=k UVICORN_PORT=9000 uvicorn app:app", "https://127.0.0.1:9000/"),
        ("granian app:app --ssl-certificate c --ssl-keyfile k", "https://127.0.0.1:8000/"),
        ("waitress-serve app:app", "http://127.0.0.1:610{process}/"),
        ("waitress-serve --port=9000 app:app", "http://127.0.0.1:610{process}/"),
        ("waitress-serve --listen=127.0.0.1:900{process} app:app", "http://127.0.0.1:900{process}/"),
        ("waitress-serve --host ::1 --port 900{process} app:app", "http://[::1]:900{process}/"),
        ("waitress-serve --unix-socket=/run/a-{process} app:app", "http+unix://%2Frun%2Fa-{process}/"),
    ],
)
def test_requests_go_to_where_a_server_listens(command: str, sent_to: str) -> None:
    assert url(command) == sent_to


def test_each_process_of_waitress_has_an_address_and_all_get_the_users_path() -> None:
    found = typed("waitress-serve --port 8080 app:app", url="http://127.0.0.1:8080/search?q=tea")
    feeder = found.service.feeder
    assert feeder.kind == "http"

    assert [(one.port, one.target) for one in feeder.targets(2)] == [
        (6100, "/search?q=tea"),
        (6101, "/search?q=tea"),
    ]
    assert feeder.targets(11)[-1].port == 61010
    assert settings_of_study(canonical_json(found), "s.tuner.db") == found


@pytest.mark.parametrize(
    "command",
    [
        "waitress-serve app:app",
        "waitress-serve --host=0.0.0.0 --port 9000 app:app",
        "waitress-serve --lis 127.0.0.1:80 --unix-socket=a.sock app:app",
    ],
)
def test_waitress_gets_its_options_before_its_application(command: str) -> None:
    words = service(command).command
    kept = [word for word in words if word != "env" and not word.startswith("TUNER_")]

    assert " ".join(kept) == "waitress-serve --listen=127.0.0.1:610{process} --threads={threads} -- app:app"


def test_waitress_keeps_addresses_that_are_numbered() -> None:
    found = service("waitress-serve --threads=9 --listen=:900{process} -- app:app")

    assert " ".join(found.command) == (
        "waitress-serve --threads=9 --listen=:900{process} --threads={threads} -- app:app"
    )


def test_celery_counts_what_ends_well_and_says_where_a_probe_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def cautions(probe: str) -> Mapping[str, str]:
        return service("celery -A a -b redis://127.0.0.1/0 worker -l INFO", probe=probe).cautions

    found = service("celery -A a -b redis://127.0.0.1/0 worker -l INFO")

    assert found.probe.kind == "mmap-counter"
    assert found.environment["CELERY_WORKER_INCLUDE"] == "tuner_celery"
    assert found.environment["PYTHONPATH"] == "{TUNER_COUNTER_DIR}"
    assert [
        probe for probe in ("finished", "inspect", "events", "log") if "failures-counted" in cautions(probe)
    ] == ["inspect"]
    assert "failures-counted" in service("arq app.WorkerSettings").cautions


@pytest.mark.parametrize(
    ("more", "flag", "included"),
    [
        ("-I a,b", "--include=a,b,tuner_celery", None),
        ("--include=a", "--include=a,tuner_celery", None),
        ("", None, "mine,tuner_celery"),
    ],
)
def test_what_celery_includes_anyway_stays(
    more: str, flag: str | None, included: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERY_WORKER_INCLUDE", "mine")
    monkeypatch.setenv("PYTHONPATH", "/srv/lib")

    found = service(f"celery -A a -b redis://127.0.0.1/0 worker {more}")

    assert (flag is None) or found.command[-1] == flag
    assert found.environment.get("CELERY_WORKER_INCLUDE") == included
    assert found.environment["PYTHONPATH"] == "/srv/lib:{TUNER_COUNTER_DIR}"


@pytest.mark.parametrize("more", ["", "-I a,b", "--include=a"])
def test_production_gets_nothing_that_was_only_to_count(more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/srv/lib")
    rollout = rolled_out(f"celery -A a -b redis://127.0.0.1/0 worker {more}".strip(), "2x-")

    assert rollout.command == tuple(f"celery -A a -b redis://127.0.0.1/0 worker {more}".split())
    assert not [value for value in rollout.environment.values() if "TUNER" in value or "tuner" in value]
    assert "tuner_celery" not in snippet("systemd", rollout)


def test_snippets_of_the_servers_start_them_as_they_were_measured() -> None:
    hypercorn = rolled_out("hypercorn app:app", "4x-")
    waitress = rolled_out("waitress-serve --port=8080 app:app", "3x8")
    jobs = rolled_out("saq app.settings --workers 3", "3x8")

    assert hypercorn.command == ("hypercorn", "app:app", "--workers=4", "--worker-class=asyncio")
    assert (hypercorn.n_programs, waitress.n_programs, jobs.n_programs) == (1, 3, 3)
    assert "--listen=127.0.0.1:610%(process_num)d" in snippet("supervisor", waitress)
    assert '"--listen=127.0.0.1:610%i" "--threads=8" "--" "app:app"' in snippet("systemd", waitress)
    assert "KillSignal=SIGINT" in snippet("systemd", waitress)
    # a pod has an address of its own, and one process has the user's
    assert 'args: ["--port=8080", "--threads=8", "--", "app:app"]' in snippet("kubernetes", waitress)
    alone = rolled_out("waitress-serve --port=8080 app:app", "1x8")
    assert alone.command == ("waitress-serve", "--port=8080", "--threads=8", "--", "app:app")
    assert rolled_out("waitress-serve app:app", "1x8").command[1] == "--threads=8"
    assert jobs.command == ("saq", "app.settings")
    assert any("concurrency = 8" in remark for remark in jobs.remarks)


@pytest.mark.parametrize(
    "command",
    ["fastapi run app.py", "fastapi run --workers 3 -v", "python -m fastapi run", "env PORT=9 fastapi run"],
)
def test_fastapi_run_is_a_uvicorn_with_options_of_its_own(command: str) -> None:
    found = service(command)

    assert found.command[-1] == "--workers={processes}"
    assert (found.programs, found.workers, found.threads) == ("one", "children-if-several", False)
    assert found.ready is not None
    assert not any(name.startswith("UVICORN_") for name in found.environment)
    assert url(command) == ("http://127.0.0.1:9/" if "PORT" in command else "http://127.0.0.1:8000/")


@pytest.mark.parametrize("command", ["fastapi dev app.py", "python -m fastapi dev"])
def test_fastapi_dev_is_refused_as_other_reload_modes_are(command: str) -> None:
    with raises(ConfigError, wording("services.fastapi-dev")):
        service(command)
    with raises(ConfigError, wording("services.fastapi-reload")):
        service("fastapi run --reload app.py")
