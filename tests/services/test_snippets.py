"""Snippets, checked and run by the tools they are for."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.core.domain.rollout import PROCESS
from tuner.core.errors import ConfigError
from tuner.reports.snippets import snippet
from tuner.services.catalogue import known_services

from ..ports import free_port
from ..redis_server import RedisServer
from ..rollouts import HOSTILE, rolled_out
from ..supervised import supervisord
from .measured import LONG_S, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import os, pathlib
if "A" in os.environ:  # gunicorn's raw_env is not there yet when it checks
    pathlib.Path(f"environment-{os.getpid()}").write_text(os.environ["A"])

def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
"""
ODD = '100% it\'s "odd" # ; \\ {x}'
WORKER = """\
import os, pathlib, sys, time
name = os.environ["TUNER_PROCESS"]
pathlib.Path(f"new-{name}").write_text(" ".join(sys.argv[1:]))
os.rename(f"new-{name}", f"started-{name}")
time.sleep(1000)
"""
#: as a Deployment has it whose container is called like the service
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "work"},
    "spec": {
        "selector": {"matchLabels": {"app": "work"}},
        "template": {
            "metadata": {"labels": {"app": "work"}},
            "spec": {
                "containers": [{"name": "work", "image": "work:1", "env": [{"name": "B", "value": "b"}]}]
            },
        },
    },
}


def test_gunicorn_takes_its_file_and_starts_the_layout(tmp_path: Path, services_venv: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    rollout = rolled_out(
        "gunicorn app:app", "3x2", environment={"A": ODD.replace("{", "{{").replace("}", "}}")}
    )
    (tmp_path / "gunicorn.conf.py").write_text(snippet("gunicorn", rollout), encoding="utf-8")
    gunicorn = [str(services_venv / "bin" / "gunicorn"), "app:app"]

    checked = run([*gunicorn, "--check-config", "--print-config"], tmp_path)
    with running(
        [*gunicorn, "--bind", f"127.0.0.1:{free_port()}", "--no-control-socket"], tmp_path
    ) as master:
        wait_for(lambda: len(children(master)) == 3, "three workers")
        wait_for(lambda: environments(tmp_path) == [ODD] * 3, "their applications")

    assert re.search(r"^threads += 2$", checked, re.MULTILINE)
    assert re.search(r"^worker_class +=.*gthread", checked, re.MULTILINE)


def test_uwsgi_takes_its_file_and_starts_the_layout(tmp_path: Path, services_venv: Path) -> None:
    (tmp_path / "application.py").write_text(APP)
    command = f"{services_venv}/bin/uwsgi --http11-socket 127.0.0.1:{free_port()} --module application:app"
    rollout = rolled_out(command, "2x3", environment={"A": ODD.replace("{", "{{").replace("}", "}}")})
    (tmp_path / "uwsgi.ini").write_text(snippet("uwsgi", rollout), encoding="utf-8")

    with running([*rollout.own_command, "--ini", "uwsgi.ini"], tmp_path) as master:
        wait_for(lambda: len(children(master)) == 2, "two workers")
        wait_for(
            lambda: all(len(os.listdir(f"/proc/{pid}/task")) >= 3 for pid in children(master)),
            "three threads",
        )
        said = (tmp_path / "said").read_text()

    assert "threads support enabled" in said
    assert "unknown" not in said.lower()
    assert environments(tmp_path) == [ODD]


def test_supervisord_starts_two_nodes_of_celery_that_are_kept_apart(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer
) -> None:
    (tmp_path / "app.py").write_text("from celery import Celery\napp = Celery('app')\n")
    broker = redis_server.url.replace("unix://", "redis+socket://")
    command = f"{services_venv}/bin/celery -A app -b {broker} worker -l INFO -P threads"
    rollout = replace(rolled_out(command, "2x3"), directory=str(tmp_path))

    with supervisord(tmp_path, snippet("supervisor", rollout)):
        wait_for(lambda: set(nodes(tmp_path)) >= {"celery0", "celery1"}, "two nodes that are ready")
        said = logs(tmp_path)

    assert said.count("concurrency: 3 (thread)") == 2
    assert "Duplicate" not in said


def logs(folder: Path) -> str:
    """What programs of supervisord said."""
    return "".join(path.read_text() for path in sorted(folder.glob("celery*.log")))


def nodes(folder: Path) -> list[str]:
    """The names of the nodes that are ready."""
    return re.findall(r"(\w+)@\S+ ready\.", logs(folder))


def test_honcho_takes_a_procfile_and_starts_the_layout(tmp_path: Path, services_venv: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    rollout = rolled_out([sys.executable, "worker.py", "w{process}", "it's $HOME # 100%"], "3x2")
    (tmp_path / "Procfile").write_text(snippet("procfile", rollout))
    honcho = str(services_venv / "bin" / "honcho")

    checked = run([honcho, "check"], tmp_path)
    with running([honcho, "start"], tmp_path):
        wait_for(lambda: len(list(tmp_path.glob("started-*"))) == 3, "three workers")
        wait_for(lambda: knows_of(tmp_path) == 3, "honcho knows of them")

    assert "worker_0, worker_1, worker_2" in checked
    assert (tmp_path / "started-2").read_text() == "w2 it's $HOME # 100%"


def test_honcho_starts_as_many_of_one_line_as_the_comment_says(tmp_path: Path, services_venv: Path) -> None:
    (tmp_path / "worker.py").write_text(
        "import os, time\nopen(f'started-{os.getpid()}', 'w')\ntime.sleep(1000)\n"
    )
    rollout = replace(rolled_out([sys.executable, "worker.py"], "3x2"), environment={"A": "b c"})
    text = snippet("procfile", rollout)
    (tmp_path / "Procfile").write_text(text)
    (how,) = [line for line in text.splitlines() if "honcho start" in line]

    words = how.partition("honcho ")[2].split()
    with running([str(services_venv / "bin" / "honcho"), *words], tmp_path):
        wait_for(lambda: len(list(tmp_path.glob("started-*"))) == 3, "three workers")
        wait_for(lambda: knows_of(tmp_path) == 3, "honcho knows of them")


def knows_of(folder: Path) -> int:
    """Of how many workers honcho said that they have started: told to end before, it hangs."""
    return (folder / "said").read_text().count(" started (pid=")


def test_python_dotenv_reads_what_sh_reads(tmp_path: Path, services_venv: Path) -> None:
    written = {}
    for n, text in enumerate(HOSTILE):
        try:
            one = snippet("env", replace(rolled_out("work", "1x1"), environment={f"V{n}": text}))
        except ConfigError:
            continue
        written[f"V{n}"] = text
        with (tmp_path / ".env").open("a", encoding="utf-8") as file:
            file.write(one)

    asked = "import dotenv, json; print(json.dumps(dict(dotenv.dotenv_values('.env'))))"
    found = json.loads(run([str(services_venv / "bin" / "python"), "-c", asked], tmp_path))

    assert found == written
    assert len(written) >= 15


def test_ansible_reads_the_variables_as_they_are(tmp_path: Path, services_venv: Path) -> None:
    texts = ("work", *HOSTILE)
    rollout = replace(rolled_out("work", "1x1"), command=texts, environment={"A": HOSTILE[11]})
    numbered = replace(
        rolled_out("work", "2x1"),
        service="other",
        command=("work", f"{{{{ x }}}}-{PROCESS} it's"),
        environment={},
    )
    (tmp_path / "one.yml").write_text(snippet("ansible", rollout), encoding="utf-8")
    (tmp_path / "two.yml").write_text(snippet("ansible", numbered), encoding="utf-8")
    (tmp_path / "play.yml").write_text(PLAY)
    ansible = [str(services_venv / "bin" / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml"]
    environment = {"ANSIBLE_LOCAL_TEMP": str(tmp_path), "ANSIBLE_HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}

    ansible += ["-e", f"ansible_python_interpreter={services_venv}/bin/python"]
    run([*ansible, "--syntax-check"], tmp_path, environment)
    run(ansible, tmp_path, environment)

    assert json.loads((tmp_path / "command.json").read_text("utf-8")) == list(texts)
    assert json.loads((tmp_path / "environment.json").read_text("utf-8")) == {"A": HOSTILE[11]}
    assert json.loads((tmp_path / "other.json").read_text("utf-8")) == ["work", "{{ x }}-1 it's"]


PLAY = """\
- hosts: all
  gather_facts: false
  vars_files: [one.yml, two.yml]
  tasks:
    - copy: {content: "{{ work_command | to_json }}", dest: "{{ playbook_dir }}/command.json"}
    - copy: {content: "{{ work_environment | to_json }}", dest: "{{ playbook_dir }}/environment.json"}
    - copy: {content: "{{ other_command | to_json }}", dest: "{{ playbook_dir }}/other.json"}
      vars: {process: 1}
"""


def test_a_deployment_with_the_patch_is_one_that_kubernetes_takes(
    tmp_path: Path, services_venv: Path
) -> None:
    rollouts = [
        replace(rolled_out("work", "1x1"), command=("w", text), environment={"A": text}) for text in HOSTILE
    ]
    for service in known_services().values():
        form = service.forms[0]
        layout = f"3x{'2' if form.threads else '-'}"
        rollouts.append(replace(rolled_out(service.example, layout), service="work"))
    for n, rollout in enumerate(rollouts):
        patched = merged(DEPLOYMENT, yaml.safe_load(snippet("kubernetes", rollout)))
        (tmp_path / f"{n}.yaml").write_text(yaml.safe_dump(patched), encoding="utf-8")

    names = [f"{n}.yaml" for n in range(len(rollouts))]
    said = run([str(services_venv / "bin" / "kubernetes-validate"), "--strict", *names], tmp_path)

    assert said.count("passed") == len(rollouts), said


def merged(base: Any, patch: Any) -> Any:
    """A strategic merge, as far as a Deployment needs one: lists of named things by their names."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}
    if isinstance(base, list) and isinstance(patch, list) and all(isinstance(one, dict) for one in patch):
        named = {one["name"]: one for one in base}
        return list({**named, **{one["name"]: merged(named.get(one["name"]), one) for one in patch}}.values())
    return patch


def run(words: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a command says that is to end well."""
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def running(words: Sequence[str], folder: Path) -> Iterator[int]:
    """The process id of what runs in *folder*; it is told to end, and gone, when the block ends."""
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(LONG_S)
        finally:
            process.kill()
            process.wait()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def environments(folder: Path) -> list[str]:
    """What applications found in their environment."""
    return [path.read_text() for path in folder.glob("environment-*")]
