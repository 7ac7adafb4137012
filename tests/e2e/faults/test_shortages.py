"""Processes and open files run out: of a user of its own, so that the limit is this user's alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ...permitted import root_needed
from ...wording import wording

pytestmark = [pytest.mark.integration]
USER_ID = 60_000 + os.getpid() % 4_000  #: nobody else's: what it may start is counted over all it runs
STUDY = (
    "study: {strategy: all, layouts: [1x1], window: 1s, warmup: 1s, repeats: 1, max_attempts: 1,"
    " warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1}\n"
)
#: each of its processes starts another, again and again; says once that it cannot
FORKS_WITHOUT_END = """
import os, time
said = False
while True:
    try:
        os.fork()
    except OSError:
        if not said:
            os.write(1, b"full\\n")
            said = True
        time.sleep(0.05)
"""
ONCE_FULL = ", ready: {kind: log, pattern: full, count: 1}"  #: tuner looks for room when there is none
#: opens files until it cannot, and says why
OPENS_WITHOUT_END = """
files = []
while True:
    files.append(open("/dev/null"))
"""
Limited = Callable[..., object]


@pytest.fixture
def limited(ordinary) -> Limited:
    """tuner as a user of its own, with a limit as prlimit(1) has it."""

    def make(*limits: str):
        root_needed("tuner as a user of its own")
        os.chown(ordinary.folder, USER_ID, USER_ID)
        become = ("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups")
        # else it starts as many threads as there are cores
        environment = {**ordinary.environment, "OPENBLAS_NUM_THREADS": "1"}
        return replace(
            ordinary,
            environment=environment,
            program=("prlimit", *limits, *become, *ordinary.program),
            user=None,
        )

    return make


def script(tuner, source: str, more: str = "") -> Path:
    (tuner.folder / "worker.py").write_text(source)
    python = next(word for word in tuner.program if "python" in Path(word).name) if tuner else sys.executable
    path = tuner.folder / "s.yaml"
    command = f"command: [{python}, worker.py]"
    path.write_text(f"service: {{kind: script, name: worker, {command}, stop: {{wait: 2s}}{more}}}\n{STUDY}")
    return path


def running(user_id: int) -> Sequence[str]:
    """The processes of *user_id*."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == user_id:
                    found.append((entry / "cmdline").read_text())
            except OSError:
                continue  # ended meanwhile
    return found


def test_a_worker_that_forks_without_end_is_stopped_with_all_its_children(limited: Limited) -> None:
    tuner = limited("--nproc=24")

    done = tuner("grid", script(tuner, FORKS_WITHOUT_END, ONCE_FULL))

    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert wording("launch.had-to-be-ended") in done.stderr
    assert wording("launch.layout-no-further-thread") in done.stderr
    assert running(USER_ID) == []


@pytest.mark.parametrize(
    ("n_processes", "code", "said"),
    [
        (1, 2, "Error: no further thread can be started"),  # of the progress
        (2, 2, "Error: no further process can be started"),  # its guardian
        (3, 3, "the guardian process cannot start a launch: [Errno 11] Resource temporarily unavailable"),
        (4, 3, "Too many processes in process table to spawn 'worker_0'"),  # as supervisord has it
    ],
)
def test_a_tuner_that_may_start_too_few_processes_says_so(
    limited: Limited, n_processes: int, code: int, said: str
) -> None:
    tuner = limited(f"--nproc={n_processes}")

    done = tuner("grid", script(tuner, FORKS_WITHOUT_END))

    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert running(USER_ID) == []


def test_a_tuner_that_may_open_too_few_files_says_how_many_it_needs(limited: Limited) -> None:
    tuner = limited("--nofile=24")

    done = tuner("grid", script(tuner, OPENS_WITHOUT_END))

    assert done.returncode == 2, done.stderr
    assert wording("launch.one-process-needs-open-files") in done.stderr
    assert running(USER_ID) == []


def test_a_tuner_that_can_hardly_open_a_file_says_it_in_a_line(limited: Limited) -> None:
    tuner = limited("--nofile=10")

    done = tuner("grid", script(tuner, OPENS_WITHOUT_END))

    assert done.returncode in (2, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert wording("launch.too-many-open-files") in done.stderr.lower()
    assert running(USER_ID) == []


def test_a_worker_that_may_open_too_few_files_says_it_in_its_log_which_is_reported(limited: Limited) -> None:
    tuner = limited()

    done = tuner("grid", script(tuner, OPENS_WITHOUT_END, ", limits: {nofile: 16}"))

    assert done.returncode == 3, done.stderr
    assert wording("launch.exit-status-and-log") in done.stderr
    assert wording("launch.oserror-too-many-open-files") in done.stderr
