"""``tuner init --from``: the lines by which ten strangers' projects start their services, as they stand."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.on_this_host import Adapted, listen_without_root
from tuner.cli import run
from tuner.config.settings import ScriptSettings
from tuner.services.catalogue import recognise
from tuner.services.celery import node_of_multi
from tuner.services.derived.numbers import remove_refused, without_numbers

from ..printed import printed
from ..wording import wording

STRANGERS = Path(__file__).parents[1] / "strangers"
#: of each line: the file, the service, its folder, and the command without the numbers that a study tries out
LINES = {
    "shop/Procfile": ("gunicorn", "shop", "gunicorn shop.wsgi --log-file - --timeout 120"),
    "tag-engine/Dockerfile": ("gunicorn", "tag-engine", "gunicorn --bind :8000 --timeout 0 main:app"),
    "recipes/Dockerfile": ("uvicorn", "recipes", "uvicorn recipes:app --host 0.0.0.0 --port 8000"),
    "cms/docker-compose.yml": ("gunicorn", "cms/code", "gunicorn cms.wsgi:application --bind 0.0.0.0:8000"),
    "media/compose.yaml": (
        "dramatiq",
        "media/backend",
        "dramatiq media_tasks --queues default --path HERE/media/backend",
    ),
    "board/deploy/board.service": (
        "gunicorn",
        "board",
        "gunicorn --bind 127.0.0.1:8000 board.wsgi:application",
    ),
    "tasks-unit/deploy/celery.service": (
        "celery",
        "tasks-unit",
        "celery -A tasks worker --loglevel=INFO --time-limit=300",
    ),
    "snippets/snippets@7.service": (
        "rq",
        "snippets",
        "rq worker -u redis://localhost:6379 snippets 'low priority'",
    ),
    "news/supervisord.conf:celery": (
        "celery",
        "news/src",
        "celery -A news worker -l info -Q celery,mail -n celery0@%h",
    ),
    "jobs/Procfile.dev": ("huey", "jobs/jobs", "huey_consumer tasks.huey -k thread"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the strangers' projects, their programs on the PATH, and no variables of ours."""
    folder = tmp_path / "strangers"
    shutil.copytree(STRANGERS, folder)
    (tmp_path / "bin").mkdir()
    for name in ("gunicorn", "uvicorn", "celery", "rq", "dramatiq", "huey_consumer"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("PORT", "REDIS_URL", "WEB_CONCURRENCY", "DB_PASSWORD", "REDIS_PORT", "TAG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("file", LINES)
def test_the_line_of_a_stranger_is_read_as_it_stands(
    here: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    kind, directory, command = LINES[file]

    assert run(["init", "--from", file, "-o", "s.yaml"]) == 0

    result = capsys.readouterr().err.replace(str(here), "HERE")
    section = yaml.safe_load(Path("s.yaml").read_text())["service"]
    written = json.dumps(section.get("environment", {})).replace(str(here), "HERE")
    words = shlex.join(word.replace(str(here), "HERE") for word in section["command"])
    assert (section["kind"], section["directory"], words) == (kind, directory, command)
    assert f"{result}{written}\n" == printed("init_from", re.sub(r"[^\w.]", "-", file))
    service = settings_of(Path("s.yaml"), {}).service
    assert isinstance(service, ScriptSettings)
    assert service.record == kind
    assert service.directory == here / directory


def procfile(text: str) -> None:
    Path("Procfile").write_text(text)


THREE = "web: gunicorn a:b --token hunter22\nworker: celery -A a worker\nclock: celery -A a beat\n"


def test_of_several_processes_one_has_to_be_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    procfile(THREE)

    assert run(["init", "--from", "Procfile"]) == 2
    result = capsys.readouterr().err
    assert wording("start-files.which-process") in result
    assert re.findall(r"^  (\w+) +(\w+)", result, re.MULTILINE) == [
        ("web", "gunicorn"),
        ("worker", "celery"),
        ("clock", "unknown"),
    ]
    assert "hunter22" not in result
    assert result.endswith("tuner init --from Procfile:web\n")
    assert run(["init", "--from", "Procfile:worker"]) == 0
    assert "command: [celery, -A, a, worker]" in capsys.readouterr().out
    assert run(["init", "--from", "Procfile:nobody"]) == 2
    assert wording("start-files.no-such-process") in capsys.readouterr().err


def test_a_process_that_cannot_be_read_stops_nobody_who_wants_another(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    procfile("log: tail -f x | grep y\nweb: gunicorn a:b\n")

    assert run(["init", "--from", "Procfile"]) == 0
    assert run(["init", "--from", "Procfile:log"]) == 2
    assert "Procfile:1:16: '|' needs a shell" in capsys.readouterr().err


def test_what_a_shell_would_compute_matters_where_it_stays(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    procfile("web: gunicorn a:b -w $(nproc) --bind :8000\n")
    assert run(["init", "--from", "Procfile"]) == 0
    assert "command: [gunicorn, 'a:b', --bind, ':8000']" in capsys.readouterr().out

    procfile("web: gunicorn a:b --timeout $(nproc)\n")
    assert run(["init", "--from", "Procfile"]) == 2
    assert wording("start-files.needs-computing") in capsys.readouterr().err


def test_an_unknown_program_is_written_as_a_script(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    procfile("job: env A=1 python work.py '{}' $B\n")
    Path(".env").write_text("B='{threads}'\n")

    assert run(["init", "--from", "Procfile", "-o", "s.yaml"]) == 0
    assert wording("start-files.written-as-a-script") in capsys.readouterr().err
    section = yaml.safe_load(Path("s.yaml").read_text())["service"]
    assert (section["kind"], section["name"]) == ("script", "work")
    assert section["command"] == ["env", "A=1", "python", "work.py", "{{}}", "{{threads}}"]
    assert section["environment"] == {"B": "{{threads}}"}
    assert settings_of(Path("s.yaml"), {}).service.directory == here


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "Procfile", "--", "gunicorn", "a:b"], wording("start-files.two-commands")),
        (["--from", "none"], wording("start-files.no-such-file")),
        (["--from", "c.yml"], wording("start-files.no-command-named")),
    ],
)
def test_what_does_not_go_with_a_file_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    procfile(THREE)
    Path("c.yml").write_text("services: {db: {image: postgres}}\n")

    assert run(["init", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_secret_of_the_file_is_for_its_owner_only(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    procfile("web: gunicorn a:b --keyfile $HSM_TOKEN\n")
    for variables, mode in (
        ("A=1\n", 0o600 ^ 0o044),
        ("SECRET_KEY=hunter22\n", 0o600),
        ("HSM_TOKEN=hunter22", 0o600),
    ):
        Path(".env").write_text(variables)
        assert run(["init", "--from", "Procfile", "-o", "s.yaml"]) == 0
        assert Path("s.yaml").stat().st_mode & 0o077 == mode & 0o077
        Path("s.yaml").unlink()
    assert "hunter22" not in capsys.readouterr().err


def test_settings_that_are_typed_go_before_those_of_the_file(here: Path) -> None:
    procfile("web: gunicorn a:b\n")
    (here / "src").mkdir()

    typed = ["--set", "directory=src", "--set", "url=http://127.0.0.1:9/"]
    assert run(["init", "--from", "Procfile", *typed, "-o", "s.yaml"]) == 0
    section = yaml.safe_load(Path("s.yaml").read_text())["service"]
    assert (section["directory"], section["url"]) == ("src", "http://127.0.0.1:9/")


@pytest.mark.parametrize(
    ("command", "left", "layout"),
    [
        ("gunicorn -w 4 --threads=2 a:b", "gunicorn a:b", "4x2"),
        ("gunicorn -k sync --threads 2 a:b", "gunicorn -k sync --threads 2 a:b", "1x2"),
        ("env WEB_CONCURRENCY=4 gunicorn a:b", "env WEB_CONCURRENCY=4 gunicorn a:b", "1x1"),
        ("uvicorn --workers 3 a:b", "uvicorn a:b", "3x-"),
        ("celery -A a worker -c 4", "celery -A a worker", "4x-"),
        ("celery -A a worker -P threads --concurrency=4", "celery -A a worker -P threads", "1x4"),
        ("celery -A a worker", "celery -A a worker", None),
        ("dramatiq a -p 2", "dramatiq a", "2x8"),
        ("huey_consumer a.b -k process -w 4", "huey_consumer a.b -k process", "4x-"),
        ("rq worker-pool -n 4 q", "rq worker-pool q", "4x-"),
        ("python -m celery -A a worker -c auto", "python -m celery -A a worker", None),
        ("waitress-serve --threads=8 a:b", "waitress-serve a:b", "1x8"),
    ],
)
def test_the_numbers_of_a_command_are_its_layout(command: str, left: str, layout: str | None) -> None:
    words = shlex.split(command)
    service = recognise(words)
    assert service is not None

    found = without_numbers(service, words, {})
    assert shlex.join(found.words) == left
    assert found.layout == layout if layout is None else str(found.layout) == layout


def test_variables_and_copies_say_numbers_too() -> None:
    words = ["gunicorn", "a:b"]
    service = recognise(words)
    assert service is not None

    found = without_numbers(service, words, {"WEB_CONCURRENCY": "4", "A": "1"}, 3)
    assert (str(found.layout), found.environment) == ("12x1", {"A": "1"})


def test_options_that_cannot_be_measured_are_left_out() -> None:
    words = shlex.split("celery -A a worker -B --autoscale 10,3 -E")
    service = recognise(words)
    assert service is not None

    left, removed = remove_refused(service, words)
    assert left == ("celery", "-A", "a", "worker", "-E")
    assert sorted(one.partition(":")[0] for one in removed) == ["--autoscale", "-B"]


@pytest.mark.parametrize(
    ("command", "node", "n_nodes"),
    [
        ("celery -A a multi start w1 w2 --pidfile=p -c 4 -c:w1 3", "celery -A a worker -c 4", 2),
        ("python -m celery multi start 3 -A a -l INFO", "python -m celery worker -A a -l INFO", 3),
        ("celery multi stop w1", None, 0),
        ("celery -A a worker", None, 0),
    ],
)
def test_daemons_of_celery_multi_are_nodes(command: str, node: str | None, n_nodes: int) -> None:
    found = node_of_multi(shlex.split(command))

    assert found is None if node is None else found is not None
    if found is not None:
        assert (shlex.join(found.words), found.n_nodes) == (node, n_nodes)


def test_a_port_of_root_is_another_one_for_others() -> None:
    for words, left in (
        ("uvicorn --port 80 a:b", "uvicorn --port 8080 a:b"),
        ("gunicorn -b :80 a:b", "gunicorn -b :8080 a:b"),
        ("gunicorn --bind=0.0.0.0:8000 a:b", "gunicorn --bind=0.0.0.0:8000 a:b"),
    ):
        one = Adapted(tuple(shlex.split(words)), {}, Path())
        listen_without_root(one, 1024)

        assert shlex.join(one.words) == left
        assert one.notes == ([] if words == left else [wording("start-files.only-root")])


def test_values_of_variables_stay_as_they_are(here: Path) -> None:
    procfile("web: gunicorn a:b\n")
    values = {
        "A": "a: b # c",
        "B": 'x\n\n  y: {z}\n"',
        "C": "0x4",
        "D": "",
        "E": "é - ",
        "F": "x" * 200 + " y" * 50,
    }
    Path(".env").write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))

    assert run(["init", "--from", "Procfile", "-o", "s.yaml"]) == 0
    service = settings_of(Path("s.yaml"), {}).service
    found = {name: service.environment[name].replace("{{", "{").replace("}}", "}") for name in values}
    assert found == values
