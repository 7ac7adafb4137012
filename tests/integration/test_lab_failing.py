"""tuner lab where programs fail: told, kept, tried again; and where it is ended; as its user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ..e2e.typed import Done, Typed
from ..wording import end_of, start_of, wording

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schema" / "lab.schema.json"
LONG_S = 120.0
ASYNCIO_ONLY = {"PATH": "/nowhere", "GOROOT": "/nowhere"}  # and a Python without nornir: three short runs


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python without packages, whose programs fail or hang while files named so are there."""
    program = tmp_path / "python"
    program.write_text(
        f"""#!/bin/sh
[ -e {tmp_path}/fail-all ] && [ "$2" = --pool ] && {{ echo "all is lost" >&2; exit 1; }}
case "$*" in *"--wait-s 0.1 "*) [ -e {tmp_path}/fail ] && {{ echo "no luck" >&2; exit 1; }};; esac
[ -e {tmp_path}/hang ] && [ "$2" = --pool ] && {{ echo $$ > {tmp_path}/hangs; exec /bin/sleep 1000; }}
exec {sys.executable} -I -S "$@"
""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program


def lab(folder: Path, python: Path | str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TUNER, "lab", "gornir", "--quick", "--python", str(python), *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ASYNCIO_ONLY},
    )


def typed(folder: Path, python: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Done:
    """The same in this process, to its end."""
    with monkeypatch.context() as patched:
        for name, value in ASYNCIO_ONLY.items():
            patched.setenv(name, value)
        return Typed(folder)("lab", "gornir", "--quick", "--python", python, *words)


def read(out: str) -> Any:
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(json.loads(out))
    (found,) = json.loads(out)["experiments"]
    return found


def test_a_run_that_fails_is_reported_and_kept_the_others_are_run_and_it_is_tried_again(
    tmp_path: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fail").touch()
    first = lab(tmp_path, python, "--results", "it.lab.json", "--json")
    out, err = first.communicate(timeout=LONG_S)

    assert first.returncode == 5, err
    assert wording("lab.point-failed") in err
    found = read(out)
    (failed,) = found["failed"]
    assert failed["at"] == {"wait s": 0.1, "pool": "asyncio"}
    assert [row["at"]["wait s"] for row in found["rows"] if row["measured"]] == [0.05, 0.3]
    again = typed(tmp_path, python, monkeypatch, "--results", "it.lab.json")
    assert wording("lab.run-failed") in " ".join(again.stdout.split())

    (tmp_path / "fail").unlink()
    last = typed(tmp_path, python, monkeypatch, "--results", "it.lab.json", "--json")

    assert last.returncode == 0, last.stderr
    assert read(last.stdout)["failed"] == []
    assert wording("lab.point-told") in last.stderr


def test_where_every_run_fails_nothing_was_measured(
    tmp_path: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fail-all").touch()
    done = typed(tmp_path, python, monkeypatch, "--results", "it.lab.json")

    assert (done.returncode, done.stdout) == (3, "")
    assert wording("lab.no-run-gave-anything") in done.stderr
    assert len(json.loads((tmp_path / "it.lab.json").read_text(encoding="utf-8"))["failed"]) == 3


@pytest.mark.full
def test_where_every_run_of_several_pythons_fails_it_is_gone_on_with_by_the_same(
    tmp_path: Path, python: Path
) -> None:
    """Also without naming them, and with no run of either in the file."""
    (tmp_path / "fail-all").touch()
    words = [word for version in ("3.91.1", "3.92.1") for word in ("--python", of_version(python, version))]
    first = lab(tmp_path, *words[1:], "--results", "it.lab.json")
    _, err = first.communicate(timeout=LONG_S)
    assert first.returncode == 3, err
    assert len(json.loads((tmp_path / "it.lab.json").read_text(encoding="utf-8"))["failed"]) == 6

    (tmp_path / "fail-all").unlink()
    again = subprocess.run(
        [*TUNER, "lab", "gornir", "--results", "it.lab.json", "--json"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ASYNCIO_ONLY},
        timeout=LONG_S,
    )

    assert again.returncode == 0, again.stderr
    found = read(again.stdout)
    assert found["failed"] == []
    assert {row["at"]["python"] for row in found["rows"] if row["measured"]} == {"3.91.1", "3.92.1"}


def of_version(python: Path, version: str) -> str:
    """A Python that says that it is of *version*, when it is asked."""
    program = python.with_name(f"python{version}")
    answer = f'["CPython {version}", {{"nornir": ""}}]'
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && {{ echo \'{answer}\'; exit; }}\nexec {python} "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_one_that_is_ended_says_where_it_is_kept_and_how_to_continue(
    tmp_path: Path, python: Path, number: signal.Signals
) -> None:
    """That nobody is left is what the fixture of every integration test looks at."""
    (tmp_path / "hang").touch()
    ended = lab(tmp_path, python, "--results", "it.lab.json")
    deadline_s = time.monotonic() + LONG_S
    while not (tmp_path / "hangs").exists():
        assert ended.poll() is None, ended.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    ended.send_signal(number)
    out, err = ended.communicate(timeout=LONG_S)

    assert (ended.returncode, out) == (130, "")
    assert wording("lab.kept-but-for-the-run-in-hand") in err
    assert wording("lab.go-tuner-lab-gornir", python=python) in end_of(err)


@pytest.mark.full
def test_all_of_them_ended_early_tell_what_was_finished_and_what_gave_nothing(tmp_path: Path) -> None:
    python = tmp_path / "python3.99"  # workers and nornir_pool.py's threads fail, gnocchi's batches hang
    python.write_text(
        f"""#!/bin/sh
case "$*" in
    *gnocchi_batch.py*) echo $$ > {tmp_path}/hangs; exec /bin/sleep 1000;;
    -c*|*nornir_pool.py*) exec {sys.executable} -I -S "$@";;
    *) exit 1;;
esac
""",
        encoding="utf-8",
    )
    python.chmod(0o755)
    every = subprocess.Popen(
        [*TUNER, "lab", "--all", "--quick", "--json", "--python", str(python)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ASYNCIO_ONLY},
    )
    deadline_s = time.monotonic() + LONG_S
    while not (tmp_path / "hangs").exists():
        assert every.poll() is None, every.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    every.send_signal(signal.SIGINT)
    out, err = every.communicate(timeout=LONG_S)

    assert every.returncode == 130, err
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(json.loads(out))
    found, *lost = json.loads(out)["experiments"]
    assert found["name"] == "gornir"
    assert [row["at"]["pool"] for row in found["rows"] if row["measured"]] == ["asyncio"] * 3
    assert [one["name"] for one in lost] == ["socorro", "nornir"]
    assert [sorted(one) for one in lost] == [["left_out", "name", "source", "title"]] * 2
    assert wording("lab.install-nornir", python=python) in start_of(lost[1]["left_out"][0])
