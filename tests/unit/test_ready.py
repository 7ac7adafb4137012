"""Whether a launch is ready: what each check lacks, and what it lacks no more."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tuner.adapters.ready.command import CommandSucceeds
from tuner.adapters.ready.http import HttpAnswer
from tuner.adapters.ready.log import LogLines, LogReady
from tuner.adapters.ready.tcp import TcpAnswer
from tuner.adapters.supervisord.startup import await_ready
from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.core.errors import ConfigError, MeasurementError
from tuner.ports import ReadyCheck

from ..ports import free_port
from ..wording import end_of, key_of, wording


def test_lines_of_all_logs_are_counted_as_they_come(tmp_path: Path) -> None:
    logs = [tmp_path / "0.log", tmp_path / "1.log"]
    check = LogLines(re.compile(rb"worker \d+ ready"), 3)

    assert check.lacks(logs) == wording("services.lines-logged")
    logs[0].write_text("hello\nworker 1 ready\nworker 2 rea")
    assert check.lacks(logs).startswith("1 of 3")
    assert check.lacks(logs).startswith("1 of 3"), "no line counts twice"
    logs[0].write_text("hello\nworker 1 ready\nworker 2 ready\n")
    assert check.lacks(logs).startswith("2 of 3")
    logs[1].write_text("worker 9 ready\nworker 10 ready\n")
    assert check.lacks(logs) == ""


@pytest.mark.parametrize(
    ("service", "counts"),
    [
        ("programs: one, ready: {kind: log, pattern: up}", [1]),
        ("programs: one, ready: {kind: log, pattern: up, count: processes}", ["processes"]),
        ("programs: each, ready: {kind: log, pattern: up}", ["processes"]),
        (
            "ready: {kind: log, pattern: up}, variants: {a: {programs: one, ready: {kind: log, pattern: b}}}",
            ["processes", 1],
        ),
        ("programs: one, variants: {a: {ready: {kind: log, pattern: b}}}", [1]),
    ],
)
def test_a_master_says_once_that_it_is_ready(tmp_path: Path, service: str, counts: list[object]) -> None:
    text = f"service: {{kind: script, name: w, command: [w, '{{processes}}'], {service}}}"
    (tmp_path / "s.yaml").write_text(text)

    read = load_settings(tmp_path / "s.yaml", {})
    again = settings_of_study(canonical_json(read), "s.db")

    for settings in (read, again):
        of_variants = [settings.service.of(name) for name in settings.service.variants]
        ready = [one.ready for one in (settings.service, *of_variants) if one.ready is not None]
        assert [one.count for one in ready] == counts


def test_a_line_may_end_with_cr_and_lf(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b"ready\r\nnot ready\r\n")

    assert LogLines(re.compile(b"^ready$"), 1).lacks([log]) == ""


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b"x" * (3 << 20) + b" ready\n")
    check = LogLines(re.compile(b"ready"), 1)

    lacking = [check.lacks([log]) for _ in range(5)]

    assert lacking[0].startswith("0 of 1")
    assert lacking[-1] == ""


class _Busy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/early"):
            self.send_response_only(103)
            self.end_headers()
            self.path = self.path.removeprefix("/early")
        self.send_response(int(self.path.strip("/?")) if self.path.startswith("/") else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def server() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), _Busy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "is_ready"), [(200, True), (404, True), (302, True), (503, False)])
def test_a_url_is_ready_that_answers_with_any_status_but_those_that_say_no(
    server: int, status: int, is_ready: bool
) -> None:
    lacking = HttpAnswer(f"http://127.0.0.1:{server}/{status}").lacks([])

    assert (lacking == "") == is_ready
    assert is_ready or lacking.endswith(wording("services.answers-status"))


def test_an_interim_answer_says_nothing_of_being_ready(server: int) -> None:
    assert HttpAnswer(f"http://127.0.0.1:{server}/early/200").lacks([]) == ""
    assert HttpAnswer(f"http://127.0.0.1:{server}/early/503").lacks([]) != ""


def test_a_url_with_a_question_and_no_path_asks_for_the_root(server: int) -> None:
    assert HttpAnswer(f"http://127.0.0.1:{server}?200").lacks([]) == ""


def test_nobody_who_answers_is_reported_with_his_address(server: int) -> None:
    port = free_port()

    assert wording("doctor.server-does-not-answer", port=port) in HttpAnswer(
        f"http://127.0.0.1:{port}/"
    ).lacks([])
    assert wording("services.nobody-listens", port=port) in TcpAnswer("127.0.0.1", port).lacks([])
    assert TcpAnswer("127.0.0.1", server).lacks([]) == ""


@pytest.mark.parametrize(
    ("script", "lacking"),
    [
        ("", ""),
        ("import sys; sys.exit(3)", wording("services.check-ended")),
        ("import os; os.kill(os.getpid(), 9)", wording("launch.killed-by-signal")),
    ],
    ids=key_of,
)
def test_a_command_is_asked_by_its_exit_code(script: str, lacking: str) -> None:
    command = CommandSucceeds((sys.executable, "-S", "-c", script), {})

    assert lacking in end_of(command.lacks([]))
    assert bool(command.lacks([])) == bool(lacking)
    assert wording("launch.cannot-be-run-no-such-file") in CommandSucceeds(("/no/such",), {}).lacks([])


def test_a_command_that_does_not_end_is_killed_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.ready.command._ANSWER_S", 3.0)
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"

    lacking = CommandSucceeds(("/bin/sh", "-c", script), {"PATH": os.defpath}).lacks([])

    assert lacking == wording("services.check-did-not-end")
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    for _ in range(3000):  # 30 s: until whoever inherits it has reaped it
        try:
            if ") Z " in stat.read_text():
                break
        except OSError:  # it is gone
            break
        time.sleep(0.01)
    else:
        pytest.fail("what it started runs on")


class _Later(ReadyCheck):
    def __init__(self, n: int) -> None:
        self.n = n

    def lacks(self, logs: object) -> str:
        self.n -= 1
        return f"{self.n} more" if self.n else ""


def test_a_check_is_asked_until_it_lacks_nothing_or_a_program_has_ended() -> None:
    def died() -> None:
        raise MeasurementError("process 1 of 1 died")

    assert await_ready(_Later(3), [], 60.0, lambda: None) == ""
    assert await_ready(_Later(3), [], 0.0, lambda: None) == "2 more"
    with pytest.raises(MeasurementError, match="died"):
        await_ready(_Later(3), [], 60.0, died)


@pytest.mark.parametrize(
    ("ready", "said"),
    [
        (
            "{kind: log, pattern: '('}",
            "service.ready.pattern: " + wording("config.no-regular-expression", why=""),
        ),
        ("{kind: http, url: 127.0.0.1}", "service.ready.url: " + wording("config.url-of-check")),
        ("{kind: tcp, address: '8000'}", "service.ready.address: " + wording("config.address-of-check")),
        ("{kind: log}", "service.ready.pattern: " + wording("config.missing")),
    ],
    ids=key_of,
)
def test_what_is_wrong_with_a_check_is_reported_with_its_place(tmp_path: Path, ready: str, said: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"service: {{kind: script, name: a, command: a, ready: {ready}}}")
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {})

    assert said in caught.value.problem


def test_the_lines_of_a_log_are_as_many_as_processes_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "service: {kind: script, name: a, command: a, ready: {kind: log, pattern: up, within: 5s}}"
    )

    service = load_settings(path, {}).service

    assert service.kind == "script"
    assert service.ready == LogReady(kind="log", pattern="up", within="5s")
    assert service.ready.count == "processes"
