"""The launcher's parts where they meet the system."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from tuner.adapters.processes.log_tail import last_lines
from tuner.adapters.supervisord import sweep
from tuner.adapters.supervisord.config import SupervisordRpc
from tuner.adapters.supervisord.guardian import new_run_folder
from tuner.core.errors import ConfigError

pytestmark = pytest.mark.integration


def test_the_end_of_a_huge_log_is_read_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(5 << 30)  # sparse
        file.seek(0, os.SEEK_END)
        file.write(b"\none\ntwo\n\n   \nthree\n")

    assert last_lines(log, 2) == ["two", "three"]


def test_a_binary_log_becomes_printable(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\xff\x00\x1b[31mred\x07\n" + b"x" * 5000 + b"\n")

    escaped, long = last_lines(tmp_path / "log")

    assert escaped.endswith("[31mred")
    assert escaped.isprintable()
    assert long == "x" * 200


def test_a_log_without_a_newline_and_a_log_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"y" * 100_000)

    assert last_lines(tmp_path / "log") == ["y" * 200]
    assert last_lines(tmp_path / "none") == []


def test_a_run_folder_is_as_long_as_sockets_allow(tmp_path: Path) -> None:
    room = 107 - 8 - len("/tuner-01234567/s")
    for length, fits in ((room, True), (room + 1, False)):
        root = Path("/" + "x" * (length - 1))
        with pytest.raises(ConfigError, match="cannot be written" if fits else "too long a path"):
            new_run_folder(root, "s")


def test_a_silent_supervisord_is_given_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        with pytest.raises(OSError, match="timed out"):
            SupervisordRpc(tmp_path / "s", timeout_s=0.1).states()
    with pytest.raises(OSError, match="Connection refused"):
        SupervisordRpc(tmp_path / "s").states()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense",
        b"HTTP/1.0 500 No\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n<not xml",
        b"HTTP/1.0 200 OK\r\n\r\n<a/>",
    ],
)
def test_a_bad_answer_is_an_os_error(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()

        def serve() -> None:
            with listening.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(OSError):  # noqa: PT011 - any; callers care for nothing else
            SupervisordRpc(tmp_path / "s", timeout_s=10).states()
        server.join()


def sleeper(marker: str, *options: str) -> subprocess.Popen[bytes]:
    deaf = "if sys.argv[1:]: signal.signal(15, signal.SIG_IGN)"
    script = f"import signal, sys, time\n{deaf}\nprint(flush=True)\ntime.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *options],
        env={**os.environ, "TUNER_RUN_ID": marker},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def test_a_sweep_ends_who_carries_the_marker_and_nobody_else() -> None:
    marker = uuid.uuid4().hex
    ours, deaf, other = sleeper(marker), sleeper(marker, "deaf"), sleeper(marker + "x")
    try:
        swept = sweep.sweep(marker, None, grace_s=1.0)

        assert swept.left == ()
        assert len(swept.met) == 2
        assert [text.split()[0] for text in swept.killed] == [str(deaf.pid)]
        assert (ours.wait(), deaf.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_sweep_never_ends_itself_or_who_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    marker = uuid.uuid4().hex
    script = (
        "import os, sys; from tuner.adapters.supervisord.sweep import sweep; "
        "print(sweep(os.environ['TUNER_RUN_ID'], None, grace_s=0.1).met)"
    )
    shell = ["sh", "-c", f'{sys.executable} -c "$1"; echo alive', "sh", script]

    ended = subprocess.run(
        shell, env={**os.environ, "TUNER_RUN_ID": marker}, capture_output=True, text=True, check=True
    )

    assert ended.stdout == "()\nalive\n"


def test_what_is_older_than_the_study_is_not_looked_into() -> None:
    marker = uuid.uuid4().hex
    old = sleeper(marker)
    try:
        assert set(sweep.find(marker, None, sweep.started_ticks(old.pid))) == {old.pid}
        assert sweep.find(marker, None, sweep.started_ticks(old.pid) + 1) == {}
    finally:
        old.kill()
        old.wait()


def test_a_stopped_process_is_ended_too() -> None:
    marker = uuid.uuid4().hex
    frozen = sleeper(marker, "deaf")
    os.kill(frozen.pid, signal.SIGSTOP)

    swept = sweep.sweep(marker, None, grace_s=0.2)

    assert (len(swept.killed), swept.left) == (1, ())
    assert frozen.wait() == -signal.SIGKILL
