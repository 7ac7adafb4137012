"""Options of a command, found as the parsers of programs find them; tests/services asks these parsers."""

from __future__ import annotations

import pytest

from tuner.config.load import Given
from tuner.config.settings import Settings
from tuner.core.errors import ConfigError
from tuner.services.catalogue import known_services
from tuner.services.record import Command, Grammar

from ..raising import raises
from ..wording import key_of, wording

ARGPARSE = Grammar(abbreviations=True, whole=("--log-config",), switches="DR", words_in="MORE")
CLICK = Grammar(switches="E", prefix="APP_")


def typed(command: str, **more: str) -> Settings:
    from tuner.bootstrap.configs import settings_of

    options = {("service", "command"): Given("--", command)}
    options |= {("service", name): Given(f"--set {name}", value) for name, value in more.items()}
    return settings_of(None, options)


@pytest.mark.parametrize(
    ("grammar", "words", "value"),
    [
        (ARGPARSE, "run --thread 3", "3"),
        (ARGPARSE, "run --th=3", "3"),
        (ARGPARSE, "run --threads 3 --thr 4", "4"),
        (ARGPARSE, "run -t3", "3"),
        (ARGPARSE, "run -t=3", "3"),
        (ARGPARSE, "run -DRt3", "3"),
        (ARGPARSE, "run -Dt 3", "3"),
        (ARGPARSE, "run -bt3", None),  # of -b it is the value
        (ARGPARSE, "run --threads-more 3", None),
        (ARGPARSE, "run -- --threads 3", None),
        (CLICK, "run --thread 3", None),
        (CLICK, "run -Et3", "3"),
    ],
)
def test_an_option_is_found_as_its_parser_finds_it(grammar: Grammar, words: str, value: str | None) -> None:
    assert Command(tuple(words.split()), grammar=grammar).option("-t", "--threads") == value


def test_an_option_that_begins_another_one_stands_for_itself() -> None:
    command = Command(("run", "--log-config", "a", "--log-c"), grammar=ARGPARSE)

    assert command.option("--log-config") == ""
    assert command.option("--log-config-json") == ""
    assert Command(("run", "--log-config", "a"), grammar=ARGPARSE).option("--log-config-json") is None


def test_what_variables_say_comes_after_the_words() -> None:
    data = {"MORE": "--thread 5 'a b'", "APP_THREADS": "6"}

    assert Command(("run",), data, grammar=ARGPARSE).value("--threads") == "5"
    assert Command(("run", "-t", "4"), data, grammar=ARGPARSE).value("-t", "--threads") == "4"
    assert Command(("run",), data, grammar=CLICK).value("-t", "--threads") == "6"
    assert not Command(("run",), data, grammar=CLICK).has("--threads")
    assert Command(("run",), {"MORE": "'"}, grammar=ARGPARSE).value("--threads") is None


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("run -t 3 app", "run app"),
        ("run --thread=3 -t3 app", "run app"),
        ("run -Dt 3 app", "run -D app"),
        ("run -DRt3 app --th 4", "run -DR app"),
        ("run -b t -x", "run -b t -x"),
        ("run -- -t 3", "run -- -t 3"),
    ],
)
def test_options_are_taken_out_with_their_values(words: str, kept: str) -> None:
    assert " ".join(Command(tuple(words.split()), grammar=ARGPARSE).without("-t", "--threads")) == kept


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("gunicorn app:app --thread 3", "--workers={processes} --threads={threads} --worker-class=gthread"),
        ("gunicorn app:app -Rw4", "--workers={processes} --threads={threads} --worker-class=gthread"),
        ("celery -A app worker -Ec4", "--pool=processes --concurrency={processes}"),
        ("procrastinate worker -vc 4", "--concurrency={threads}"),
    ],
)
def test_a_number_that_the_command_says_in_whatever_way_is_answered_by_flags(
    command: str, flags: str
) -> None:
    service = typed(command).service

    assert flags in " ".join(service.command)
    assert "{processes}" not in " ".join(service.environment.values()).replace("tuner{process}", "")


@pytest.mark.parametrize(
    ("command", "environment", "said"),
    [
        ("gunicorn app:app --daemo", {}, wording("services.daemon-abbreviated")),
        ("gunicorn app:app -RD", {}, wording("services.daemon-in-a-cluster")),
        ("gunicorn app:app", {"GUNICORN_CMD_ARGS": "--rel"}, wording("services.reload-in-a-variable")),
        ("dramatiq app --wat .", {}, wording("services.watch-abbreviated")),
        ("uvicorn app:app", {"UVICORN_RELOAD": "true"}, wording("services.reload-by-a-variable")),
        ("celery -A app worker", {"CELERY_WORKER_BEAT": "1"}, wording("services.beat-by-a-variable")),
        ("procrastinate worker -vw", {}, wording("services.one-shot-in-a-cluster")),
    ],
    ids=key_of,
)
def test_an_option_that_cannot_be_measured_is_refused_however_it_is_written(
    monkeypatch: pytest.MonkeyPatch, command: str, environment: dict[str, str], said: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    with raises(ConfigError, said):
        typed(command)


def test_a_variable_that_switches_nothing_on_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UVICORN_RELOAD", "false")
    monkeypatch.setenv("PROCRASTINATE_WORKER_DELETE_JOBS", "always")  # tuner's goes before it

    assert typed("uvicorn app:app").service.name == "uvicorn"
    assert typed("procrastinate worker").service.name == "procrastinate"


def test_the_queue_of_rq_is_no_value_of_an_option() -> None:
    service = typed("rq worker-pool -vn 4 -qw rq.Worker mine", probe="queue").service

    assert "rq:queue:mine" in str(service.probe)


def test_every_record_says_how_its_options_are_read() -> None:
    silent = [one.name for one in known_services().values() if one.grammar == Grammar()]

    assert silent == []
