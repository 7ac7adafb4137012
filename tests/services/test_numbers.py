"""Numbers of the user's own in a command: each service's own parser says what a snippet comes to.

What a snippet leaves as it is (a unit's ExecStart=, a container's command) is there as the user has it.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.core.domain.layout import parse_layout
from tuner.core.domain.rollout import PROCESS, Rollout
from tuner.reports.snippets import fitting_kinds, snippet
from tuner.services.catalogue import known_services, recognise

from ..ports import free_port
from ..processes import is_running
from ..redis_server import RedisServer
from ..rollouts import rolled_out
from .measured import LONG_S, wait_for
from .test_snippets import children

pytestmark = [pytest.mark.integration, pytest.mark.services]
PARSED = Path(__file__).with_name("parsed.py")
APP = """\
from celery import Celery
app = Celery("app", broker="memory://")
"""
JOBS = """\
from procrastinate import App
from procrastinate.testing import InMemoryConnector
app = App(connector=InMemoryConnector())
"""
#: commands with numbers of their own, as their parsers take them, and the layout that a study found best
NUMBERED = [
    ("gunicorn app:app --thread 3", "2x2"),
    ("gunicorn app:app -Rw4 --threads=3", "2x2"),
    ("gunicorn app:app -w 4 -k gthread --threads 3", "3x-@sync"),
    ("celery -A app worker -c 4 -P threads", "2x2"),
    ("celery -A app worker -Ec4 -n mine@%h", "3x-"),
    ("celery -A app worker --concurrency=4", "2x3@nodes"),
    ("celery -A app worker", "2x3@threads"),
    ("dramatiq app -vp 4 --thread=3", "2x2"),
    ("dramatiq app --proc 4 -t3", "3x1"),
    ("huey_consumer app.huey -vw4 --worker-t thread", "2x3"),
    ("huey_consumer app.huey -w 4", "3x-@process"),
    ("taskiq worker app:broker -w4 --max-async-tasks 9 --max-thread=9", "2x3"),
    ("taskiq worker app:broker --work 4", "2x3@processes"),
    ("granian --interface wsgi --workers 4 --blocking-threads 9 app:app", "2x3"),
    ("granian --interface asgi --runtime-threads=4 app:app", "2x3"),
    ("uvicorn --workers 4 app:app", "2x-"),
    ("procrastinate --app jobs.app worker -c9", "2x3"),
    ("rq worker-pool -n4 default", "3x-"),
    ("rq worker-pool -vn 4 default", "3x-@programs"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "jobs.py").write_text(JOBS)
    return tmp_path


def comes_to(
    service: str, words: Sequence[str], environment: Mapping[str, str], folder: Path, venv: Path
) -> dict[str, Any]:
    """What the service's own parser makes of *words*."""
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-P", str(PARSED), service, *words[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_force(kind: str, rollout: Rollout, own: Sequence[str], folder: Path) -> Iterator[Any]:
    """How often what is started, by the snippet of *kind* where *own* is the command in use."""
    text = snippet(kind, rollout)
    lines = [line for line in text.splitlines() if not line.startswith(("#", ";"))]
    words, variables, n = list(own), {}, rollout.n_programs
    if kind == "systemd":
        started = [shlex.split(line.partition("=")[2]) for line in lines if line.startswith("ExecStart=")]
        words = started[-1] if started else words
        reported = [
            shlex.split(line.partition("=")[2])[0] for line in lines if line.startswith("Environment=")
        ]
        variables = dict(one.split("=", 1) for one in reported)
    elif kind == "kubernetes":
        spec = yaml.safe_load(text)["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        n = spec.get("replicas", 1)
        words = container.get("command", words[:1]) + container.get("args", words[1:])
        variables = {one["name"]: one["value"] for one in container.get("env", [])}
    elif kind == "compose":
        (service,) = yaml.safe_load(text)["services"].values()
        n = service.get("deploy", {}).get("replicas", 1)
        words = service.get("entrypoint", words[:1]) + service.get("command", words[1:])
        variables = service.get("environment", {})
    elif kind == "supervisor":
        read = configparser.RawConfigParser()
        read.read_string(text)
        (section,) = (read[name] for name in read.sections())
        words = shlex.split(section["command"])
        variables = dict(re.findall(r'(\w+)="([^"]*)"', section.get("environment", "")))
        n = int(section.get("numprocs", "1"))
    elif kind == "procfile":
        words = shlex.split(lines[0].partition(": exec ")[2])
        if words[0] == "env":
            (first,) = [at for at, word in enumerate(words) if at and "=" not in word][:1]
            variables = dict(word.split("=", 1) for word in words[1:first])
            words = words[first:]
    elif kind == "env":
        words, variables = list(rollout.own_command), dict(line.split("=", 1) for line in lines)
        variables = {name: shlex.split(value)[0] for name, value in variables.items()}
    elif kind == "ansible":
        values = yaml.load(text.replace("!unsafe ", ""), yaml.SafeLoader)
        (words,) = (value for name, value in values.items() if name.endswith("_command"))
        (variables,) = (value for name, value in values.items() if name.endswith("_environment"))
        (n,) = (value for name, value in values.items() if name.endswith("_programs"))
    elif kind == "gunicorn":
        (folder / "gunicorn.conf.py").write_text(text)
        words = list(rollout.own_command)
    else:
        raise AssertionError(f"{kind} is not read here")
    yield n
    yield words
    yield {name: value.replace(PROCESS, "0") for name, value in variables.items()}


@pytest.mark.parametrize(("command", "layout"), NUMBERED, ids=lambda one: str(one))
def test_every_snippet_comes_to_the_layout_whatever_the_command_says(
    folder: Path, services_venv: Path, redis_server: RedisServer, command: str, layout: str
) -> None:
    if command.startswith("rq"):
        command += f" -u {redis_server.url}"
    asked = parse_layout(layout)
    variants = [asked.variant] if asked.variant else None
    rollout = rolled_out(command, layout, variants=variants)
    service = recognise(shlex.split(command))
    assert service is not None

    found, known = {}, {}  # most kinds start the same
    for kind in fitting_kinds(rollout):
        (folder / "gunicorn.conf.py").unlink(missing_ok=True)
        n, words, variables = in_force(kind, rollout, shlex.split(command), folder)
        same = (kind == "gunicorn", *words, *variables.items())
        if same not in known:
            known[same] = comes_to(service.name, words, variables, folder, services_venv)
        one = known[same]
        processes, threads = one["processes"], one["threads"]
        is_nodes = asked.variant == "nodes"
        found[kind] = (n, processes) if is_nodes else (n * processes, threads)

    wanted = (asked.processes, asked.threads)
    assert found == dict.fromkeys(found, wanted), rollout.command
    assert {"systemd", "kubernetes", "compose", "supervisor", "ansible"} <= set(found)


def test_uwsgi_comes_to_the_layout_whatever_its_command_says(folder: Path, services_venv: Path) -> None:
    (folder / "app.py").write_text("def app(environ, start_response):\n    return []\n")
    command = (
        f"{services_venv}/bin/uwsgi --http11-socket 127.0.0.1:{free_port()} --module app:app -Mp4 --threads=5"
    )
    rollout = rolled_out(command, "2x3")
    (folder / "uwsgi.ini").write_text(snippet("uwsgi", rollout))

    for words in (rollout.command, [*rollout.own_command, "--ini", "uwsgi.ini"]):
        with killed_at_end(words, folder) as master:
            wait_for(lambda pid=master: len(children(pid)) == 2, "two workers")  # type: ignore[misc]
            wait_for(
                lambda: len(re.findall(r"spawned uWSGI worker \d .*cores: 3", said(folder))) == 2,
                "which have three threads",
            )


@contextmanager
def killed_at_end(words: Sequence[str], folder: Path) -> Iterator[int]:
    """The process id of what runs in *folder*; killed at the end, and its children with it.

    The next command listens at the same port, which every one of the killed processes has until it is gone.
    """
    with (folder / "said").open("w") as output:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        sys.stdout.write(said(folder))  # pytest prints it for a test that failed
        killed = [process.pid, *children(process.pid)]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_for(lambda: not any(map(is_running, killed)), f"the end of {killed}")


def said(folder: Path) -> str:
    return (folder / "said").read_text()


@pytest.mark.parametrize(
    ("service", "words", "processes", "threads"),
    [
        ("gunicorn", "gunicorn app:app --workers=4 --thread=3", 4, 3),
        ("dramatiq", "dramatiq app --proc 4 --th 3", 4, 3),
        ("huey", "huey_consumer app.huey --workers 4 --worker-ty thread", 1, 4),
        ("taskiq", "taskiq worker app:broker --work 4 --max-async-tasks 7 --max-thr=7", 4, 7),
    ],
)
def test_parsers_that_take_beginnings_of_options_are_known_as_such(
    folder: Path, services_venv: Path, service: str, words: str, processes: int, threads: int
) -> None:
    taken = comes_to(service, words.split(), {}, folder, services_venv)

    assert (taken["processes"], taken["threads"]) == (processes, threads)
    assert known_services()[service].grammar.abbreviations


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("celery", "celery -A app worker --conc 4"),
        ("granian", "granian --work 4 app:app"),
        ("uvicorn", "uvicorn --work 4 app:app"),
        ("rq", "rq worker-pool --num 4"),
        ("procrastinate", "procrastinate --app jobs.app worker --conc 4"),
    ],
)
def test_parsers_that_want_options_whole_refuse_beginnings(
    folder: Path, services_venv: Path, service: str, words: str
) -> None:
    with pytest.raises(AssertionError, match=r"(?i)no such option|unrecognized|unknown option|required"):
        comes_to(service, words.split(), {}, folder, services_venv)

    assert not known_services()[service].grammar.abbreviations
