"""A study in a container, as far as the kernel makes one without an engine: a pid namespace of its own."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ..e2e.sleeping_worker import sleeping_worker
from ..permitted import not_permitted
from ..programs import needed
from ..wording import wording

pytestmark = [pytest.mark.integration]
TUNER = Path(sys.executable).parent / "tuner"
QUICK = "--layouts 1x2 --window 3s --warmup 1s --repeats 1 --strategy all --foreign-limit 1000"
BUSY = (
    "import threading\nthreading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()\n"
)


def in_a_pid_namespace(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as an ordinary process in a pid namespace, which ends with it."""
    unshare = [
        needed("unshare", "util-linux"),
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
    ]
    inner = [*unshare, "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"]
    tried = subprocess.run([*inner, "true"], capture_output=True, text=True)
    if tried.returncode:
        not_permitted("namespaces of one's own", tried.stderr.strip())
    return subprocess.run([*inner, *words], capture_output=True, text=True, cwd=cwd)


def test_the_load_in_a_container_is_the_services_and_that_is_said(tmp_path: Path) -> None:
    """One worker's main thread waits, another of its threads is busy all the time: one task is active."""
    (tmp_path / "worker.py").write_text(sleeping_worker("0.1").replace("stop = ", BUSY + "stop = ", 1))
    study = tmp_path / "s.tuner.db"
    words = [TUNER, "grid", *QUICK.split(), "--study", study, "--", sys.executable, tmp_path / "worker.py"]

    done = in_a_pid_namespace(*words, cwd=tmp_path)
    said = " ".join(done.stderr.split())
    with closing(sqlite3.connect(study)) as file:
        seen = [n for (n,) in file.execute("SELECT n_active FROM sample WHERE n_active NOT NULL")]
        kept = dict(file.execute("SELECT * FROM provenance"))

    assert done.returncode == 0, done.stderr
    assert "container-load" in said
    assert wording("doctor.load-of-the-service-alone") in said
    assert set(seen) <= {0, 1, 2, 3}  # never the host's: of its tasks there may be any number
    assert 1 in seen
    assert "the service's tasks" in kept["load_of"]
