"""A PostgreSQL of the tests' own: a cluster in a temporary folder, nothing kept."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
import pytest

from .ports import free_port

LONG_S = 120.0
PASSWORD = "s3cret"
_ORDINARY = "nobody"  #: initdb refuses root
_OPTIONS = ("fsync=off", "shared_buffers=4MB", "max_connections=20", "listen_addresses=127.0.0.1")


class PostgresServer:
    """A server that may be stopped and started again at the same addresses: a unix socket, and 127.0.0.1."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        _give_away(folder)
        _run("cp", "-a", str(_new_cluster(programs)), "data", folder=folder)
        self.port = self._start_on_a_free_port()

    @property
    def url(self) -> str:
        """By the socket, where everybody is believed."""
        return f"postgresql://tuner@/postgres?host={self._folder}&port={self.port}"

    @property
    def tcp_url(self) -> str:
        """By TCP, with a password."""
        return f"postgresql://tuner:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def connect(self) -> psycopg.Connection:
        """As whoever may do all."""
        return psycopg.connect(self.url, autocommit=True)

    def start(self) -> None:
        """Start it where it was; once this returns it answers."""
        assert self._has_started(self.port)

    def stop(self) -> None:
        """End it, whoever is connected."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(LONG_S)

    def _start_on_a_free_port(self) -> int:
        for _ in range(10):  # another one may take it meanwhile
            port = free_port()
            if self._has_started(port):
                return port
        pytest.fail(f"postgres did not start: {(self._folder / 'log').read_text()[-500:]}")

    def _has_started(self, port: int) -> bool:
        options = [word for option in _OPTIONS for word in ("-c", option)]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._programs / "postgres", "-D", "data", "-k", self._folder, "-p", str(port), *options],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                user=_user(),
                extra_groups=None if _user() is None else [],
            )
        deadline_s = time.monotonic() + LONG_S
        while time.monotonic() < deadline_s and self.process.poll() is None:
            try:
                psycopg.connect(f"postgresql://tuner@/postgres?host={self._folder}&port={port}").close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return True
        assert self.process.poll() is not None, "postgres did not answer"
        return False


@cache
def _new_cluster(programs: Path) -> Path:
    """A cluster to copy, made once for all tests: that takes seconds."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder)
    secret = folder / "secret"
    secret.write_text(PASSWORD)
    for path in (folder, secret):
        _give_away(path)
    trust = ("--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile=secret")
    encoding = ("--no-sync", "-E", "UTF8", "--locale=C")
    _run(str(programs / "initdb"), "-D", "data", "-U", "tuner", *trust, *encoding, folder=folder)
    return folder / "data"


def _user() -> str | None:
    """Whom programs run as; None: whoever runs the tests."""
    return _ORDINARY if os.geteuid() == 0 else None


def _give_away(path: Path) -> None:
    if (user := _user()) is not None:
        os.chown(path, pwd.getpwnam(user).pw_uid, -1)


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
        user=_user(),
        extra_groups=None if _user() is None else [],
    )
    assert done.returncode == 0, done.stderr


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server for one test; skips at home where none is installed, fails in CI."""
    programs = _programs()
    if programs is None:
        if os.environ.get("CI"):
            pytest.fail("postgresql is not installed, and CI must test with it")
        pytest.skip("postgresql is not installed")
    # directly in /tmp: another user must get there, and a socket's path has 107 bytes
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as folder:
        server = PostgresServer(programs, Path(folder))
        try:
            yield server
        finally:
            server.stop()
