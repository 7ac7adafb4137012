"""A free-threaded Python whose GIL a C module switches on again: seen in every launch, and told."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration
MODULE = """\
#include <Python.h>

/* as most extension modules are: nothing says that it runs without a GIL */
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_old", NULL, 0, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__old(void) { return PyModuleDef_Init(&module); }
"""


@pytest.fixture
def free_threaded() -> str:
    """A free-threaded Python."""
    names = ["python3.15t", "python3.14t", "python3.13t"]
    for program in filter(None, map(shutil.which, names)):
        asked = [program, "-c", "import sys; print(sys._is_gil_enabled())"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == "False":
            return program
    pytest.skip(f"none of {', '.join(names)} is on the PATH")


def build(python: str, folder: Path) -> None:
    """The module, compiled in *folder*."""
    asked = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'))"
    result = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    include, suffix = result
    if not (Path(include) / "Python.h").exists():
        pytest.skip(f"{python} has no headers in {include}")
    (folder / "old.c").write_text(MODULE)
    target = folder / f"_old{suffix}"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{include}", "-o", target, folder / "old.c"], check=True)


def config(typed: Typed, python: str, first_line: str) -> None:
    worker = sleeping_worker("0.02")
    joins = "for thread in threads:\n    thread.join()"
    assert worker.count(joins) == 1
    worker = worker.replace(joins, f"print('threads run', flush=True)\n{joins}")
    (typed.folder / "worker.py").write_text(f"{first_line}\n{worker}")
    (typed.folder / "s.yaml").write_text(
        f"service: {{kind: script, name: jobs, command: ['{python}', worker.py],"
        " ready: {kind: log, pattern: threads run}}\n"
        "study: {strategy: all, layouts: [1x1, 1x2], window: 2s, warmup: 1s, repeats: 2, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )


def launches(file: Path) -> list[tuple[int | None, str | None]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT has_gil, gil_module FROM launch").fetchall()


def test_a_gil_that_came_back_is_seen_in_every_launch_and_reported(typed: Typed, free_threaded: str) -> None:
    build(free_threaded, typed.folder)
    config(typed, free_threaded, f"import sys; sys.path.insert(0, {str(typed.folder)!r}); import _old")

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    assert wording("launch.gil-came-back-old") in done.stderr
    facts = json.loads(done.stdout)
    assert facts["study"]["provenance"]["worker_gil"] == "off"
    assert facts["evidence"]["worker_gil"] == {"": "on"}
    assert facts["evidence"]["gil_came_back"] == [""]
    assert launches(typed.folder / "jobs.tuner.db") == [(1, "_old")] * 4
    for command in ("rank", "explain"):
        assert wording("launch.gil-came-back-old-told") in " ".join(
            typed(command, "jobs.tuner.db").stdout.split()
        )


def test_a_worker_without_a_gil_is_seen_as_one(typed: Typed, free_threaded: str) -> None:
    config(typed, free_threaded, "")

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["evidence"]["worker_gil"], facts["evidence"]["gil_came_back"]) == ({"": "off"}, [])
    assert launches(typed.folder / "jobs.tuner.db") == [(0, None)] * 4
