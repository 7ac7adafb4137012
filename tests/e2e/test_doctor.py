"""`tuner doctor` as it is typed: what it says of this box, what blocks, and that it changes nothing."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from jsonschema import Draft202012Validator

from ..postgres_server import PASSWORD, PostgresServer
from ..rabbitmq_server import running_rabbitmq
from ..redis_server import RedisServer
from ..wording import wording
from .typed import Done, Typed

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "doctor.schema.json").read_text(encoding="utf-8"))
pytestmark = pytest.mark.integration

#: prints every event of Python's own audit that changes a file, a limit or a process, or talks to somebody
AUDITED = """
import json, os, sys
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate",
           "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.kill", "os.killpg", "resource.setrlimit",
           "resource.prlimit", "fcntl.flock", "fcntl.lockf", "socket.bind", "socket.connect", "socket.sendto")
seen = []
def hook(event, arguments):
    if event == "open":
        if isinstance(arguments[2], int) and arguments[2] & WRITES and arguments[0] != os.devnull:
            seen.append([event, str(arguments[0])])
    elif event in CHANGES and not (event == "resource.prlimit" and arguments[2] is None):
        seen.append([event, repr(arguments)])
    elif event == "subprocess.Popen":
        seen.append([event, [os.fsdecode(word) for word in arguments[1]][-1][:40]])
sys.addaudithook(hook)
from tuner.cli import run
before = sorted(os.sched_getaffinity(0)), os.umask(0o77), os.getpriority(os.PRIO_PROCESS, 0)
os.umask(before[1])
code = run(sys.argv[1:])
assert before == (sorted(os.sched_getaffinity(0)), before[1], os.getpriority(os.PRIO_PROCESS, 0))
print(json.dumps(seen), file=sys.stderr)
sys.exit(code)
"""


def audited(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", AUDITED, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def findings(done: Done | subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    data: dict[str, Any] = json.loads(done.stdout)
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(data)] == []
    found: list[dict[str, str]] = data["findings"]
    return found


def of(check: str, done: Done | subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    return [finding for finding in findings(done) if finding["check"] == check]


def config(folder: Path, service: str) -> str:
    (folder / "s.yaml").write_text(f"service:\n  kind: script\n  name: s\n{service}study: {{cores: 1}}\n")
    return "s.yaml"


@contextmanager
def listener() -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def bound_to(address: str) -> str:
    words = f"[{sys.executable}, -c, raise SystemExit(1), '{{threads}}', --bind, '{address}']"
    return f"  command: {words}\n  ready: {{kind: tcp, address: '{address}'}}\n"


def files_below(*folders: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for folder in folders
        for path in folder.rglob("*")
    }


def switches() -> dict[str, str]:
    """What an administrator could have set: memory, scheduling, clocks of CPUs; and of this process."""
    found = {}
    folders = [
        Path("/proc/sys/vm"),
        Path("/proc/sys/kernel"),
        *Path("/sys/devices/system/cpu").glob("cpu*/cpufreq"),
    ]
    for path in (path for folder in folders if folder.is_dir() for path in folder.iterdir()):
        if path.is_file() and path.stat().st_mode & 0o222 and path.name != "ns_last_pid":
            try:
                found[str(path)] = path.read_text(errors="replace")
            except OSError:
                continue  # written to only
    limits = {
        name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT_" in name
    }
    return found | {"limits": str(limits), "affinity": str(sorted(os.sched_getaffinity(0)))}


def test_a_box_is_looked_at_and_nothing_on_it_is_changed(tmp_path: Path) -> None:
    scratch = Path(os.environ["TMPDIR"])
    before = files_below(tmp_path, scratch), switches()

    done = audited(tmp_path, "doctor", "--seconds", "1", "--json")

    assert (files_below(tmp_path, scratch), switches()) == before
    *_, result = done.stderr.splitlines()
    events = json.loads(result)
    assert [event for event in events if event[0] != "subprocess.Popen"] == []
    # the worker's Python is asked what it is, and the built-in worker how it starts its children
    started = [what for event, what in events if event == "subprocess.Popen"]
    assert [what[:6] for what in started] == ["import", "--json"]
    levels = {finding["check"]: finding["level"] for finding in findings(done)}
    assert done.returncode == (2 if "blocker" in levels.values() else 0)
    assert levels["supervisord"] == levels["stackwalker"] == levels["command"] == "ok"
    assert {"cores", "smt", "governor", "turbo", "steal", "neighbours", "clock", "interpreter"} <= set(levels)


def test_dumps_that_are_not_there_block(tmp_path: Path) -> None:
    path = tmp_path / "crashes.yaml"
    path.write_text("service:\n  kind: crash-processor\n  dumps: real\n", encoding="utf-8")

    def dumps_found() -> tuple[int, str, str]:
        done = Typed(tmp_path)("doctor", path.name, "--seconds", "0", "--json")
        (finding,) = [one for one in findings(done) if one["check"] == "dumps"]
        return done.returncode, finding["level"], finding["found"]

    assert dumps_found() == (2, "blocker", f"no folder {tmp_path / 'real'}")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "notes.txt").touch()
    assert dumps_found() == (2, "blocker", f"no dump below {tmp_path / 'real'}")
    (tmp_path / "real" / "one.dmp").touch()
    _, *result = dumps_found()
    assert result == ["ok", f"1 dump below {tmp_path / 'real'}"]


def test_the_table_begins_with_what_blocks_and_the_exit_code_says_it(tmp_path: Path) -> None:
    name = config(tmp_path, "  command: [./worker, --threads, '{threads}']\n")

    done = Typed(tmp_path)("doctor", name, "--seconds", "0")

    lines = done.stdout.splitlines()
    assert done.returncode == 2, done.stdout + done.stderr
    assert lines[0].startswith(wording("doctor.blocker"))
    assert lines[2].startswith("BLOCKER  command")
    assert wording("doctor.worker-not-there") in " ".join(done.stdout.split())
    assert "neighbours" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--study", "old.tuner.db"), "Error: old.tuner.db exists already, and a study is never overwritten"),
        (
            ("--cores", "2", "--budget", "10s"),
            "Error: one block of the 5 layouts needs at least 7m3s, starts",
        ),
    ],
)
def test_what_no_study_can_begin_with_is_reported_as_the_study_would(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "old.tuner.db").touch()

    done = Typed(tmp_path)("doctor", "--seconds", "0", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)


def test_a_study_says_when_it_begins_what_it_will_not_fit(tmp_path: Path) -> None:
    with listener() as address:
        name = config(tmp_path, bound_to(address))

        began = Typed(tmp_path)(
            *("grid", name, "--layouts", "1x1", "--strategy", "all", "--repeats", "1"),
            *("--window", "2s", "--warmup", "1s", "--max-attempts", "1"),
        )

    assert began.stderr.count("[unfit]") == 1
    assert wording("doctor.address-of-another", address=address) in " ".join(began.stderr.split())
    assert began.returncode == 3  # it is told, not refused: the service was started, and failed by itself


def test_a_port_that_somebody_has_blocks(tmp_path: Path) -> None:
    with listener() as address:
        name = config(tmp_path, bound_to(address))
        done = Typed(tmp_path)("doctor", name, "--seconds", "0", "--json")
    free = Typed(tmp_path)("doctor", name, "--seconds", "0", "--json")

    (port,) = of("ports", done)
    assert (done.returncode, port["level"]) == (2, "blocker")
    assert f"(process {os.getpid()}) listens at {address} (service.ready.address)" in port["found"]
    assert [(one["level"], one["found"]) for one in of("ports", free)] == [
        ("ok", f"{address} (service.ready.address) is free")
    ]
    assert free.returncode == 0


def test_servers_that_do_not_answer_are_reported_without_their_passwords(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        service = (
            f"  command: [{sys.executable}, -c, pass, '{{threads}}', 'amqp://u:hunter2@127.0.0.1:{port}//']\n"
            f"  probe: {{kind: redis, url: 'redis://:hunter2@127.0.0.1:{port}/0', count: [{{get: done}}]}}\n"
        )
        name = config(tmp_path, service)
        done = Typed(tmp_path)("doctor", name, "--seconds", "0", "--json")
        by_hook = (tmp_path / name).read_text() + "hooks: {before_study: [[start-redis]]}\n"
        (tmp_path / name).write_text(by_hook)
        later = Typed(tmp_path)("doctor", name, "--seconds", "0", "--json")

    (asked,) = of("servers", done)  # one server, named twice, asked once
    assert (done.returncode, asked["level"]) == (2, "blocker")
    assert asked["found"].startswith(f"redis://127.0.0.1:{port}/0 (service.probe.url): ")
    assert "hunter2" not in done.stdout + done.stderr
    assert [one["level"] for one in of("servers", later)] == ["warn"]
    assert later.returncode == 0


def test_a_redis_that_answers_is_in_order_and_nothing_is_left_in_it(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    sample = ROOT / "tests" / "golden" / "messages" / "celery.json"
    fed = f"{{kind: queue, form: celery, url: '{redis_server.url}', queue: celery, sample: {sample}}}"
    service = (
        f"  command: [{sys.executable}, -c, pass, '{{threads}}']\n  feeder: {fed}\n  probe: {{kind: queue}}\n"
    )

    done = Typed(tmp_path)("doctor", config(tmp_path, service), "--seconds", "0", "--json")

    (result,) = of("servers", done)
    assert (result["level"], result["found"].endswith("(service.feeder.url) answers")) == ("ok", True)
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.keys("*") == []


def test_a_postgresql_and_a_rabbitmq_that_answer_are_in_order(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with running_rabbitmq() as rabbitmq:
        at = f"amqp://guest:guest@127.0.0.1:{rabbitmq.port}//"
        sample = ROOT / "tests" / "golden" / "messages_rabbitmq" / "celery.json"
        fed = f"{{kind: queue, form: celery, url: '{at}', queue: celery, sample: {sample}}}"
        asked = f"{{kind: sql, url: '{postgres_server.tcp_url}', query: 'select 1'}}"
        service = (
            f"  command: [{sys.executable}, -c, pass, '{{threads}}']\n  feeder: {fed}\n  probe: {asked}\n"
        )
        done = Typed(tmp_path)("doctor", config(tmp_path, service), "--seconds", "0", "--json")

    data = {finding["found"]: finding["level"] for finding in of("servers", done)}
    assert sorted(data.values()) == ["ok", "ok"]
    assert f"amqp://127.0.0.1:{rabbitmq.port}// (service.feeder.url) answers" in data
    assert any(found.endswith("(service.probe.url) answers") for found in data)
    assert PASSWORD not in done.stdout


def test_pages_of_probes_are_reported_and_nobody_has_to_show_them_yet(tmp_path: Path) -> None:
    with listener() as address:
        service = (
            f"  command: [{sys.executable}, -c, pass, '{{threads}}']\n"
            f"  probe: {{kind: uwsgi, stats: '{address}'}}\n"
        )
        name = config(tmp_path, service)
        there = Typed(tmp_path)("doctor", name, "--seconds", "0", "--json")
    later = Typed(tmp_path)("doctor", name, "--seconds", "0", "--json")

    reported = [(one["level"], one["found"]) for done in (there, later) for one in of("servers", done)]
    assert reported == [
        ("ok", f"{address} (service.probe.stats) answers"),
        ("ok", wording("doctor.stats-do-not-answer-yet", address=address)),
    ]


def test_a_box_that_another_tuner_has_is_reported_without_taking_its_lock(tmp_path: Path) -> None:
    lock = Path(os.environ["TUNER_LOCK"])
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(json.dumps({"pid": os.getpid(), "user": "ann", "study": "night.tuner.db"}))
        held.flush()
        taken = Typed(tmp_path)("doctor", "--seconds", "0", "--json")
    free = Typed(tmp_path)("doctor", "--seconds", "0", "--json")

    (other,) = of("other-tuner", taken)
    assert (taken.returncode, other["level"]) == (2, "blocker")
    assert wording("launch.held-by-user", getpid=os.getpid()) in other["found"]
    assert of("other-tuner", free)[0]["level"] == "ok"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--seconds", "-1"), "--seconds"),
        (("--seconds", "nan"), "--seconds"),
        (("--seconds", "0.5"), "--seconds"),
        (("--cores", "0"), "--cores"),
        (("missing.yaml",), "missing.yaml"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_printed(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    done = Typed(tmp_path)("doctor", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0].startswith("Error: ")
    assert problem in done.stderr.splitlines()[0]
