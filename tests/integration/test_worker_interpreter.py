"""Whether the worker's Python has a GIL, as the interpreter of its command line says itself."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.adapters.provenance import interpreter_facts, provenance, worker_facts

pytestmark = [pytest.mark.pythons, pytest.mark.integration]

HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
THIS = {
    "worker_python": f"{platform.python_implementation()} {platform.python_version()}",
    "worker_gil": "on" if HAS_GIL else "off",
}


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def free_threaded(tmp_path: Path) -> Path:
    """A Python that says it has no GIL, unless PYTHON_GIL or -X gil switch it on."""
    return program(
        tmp_path / "python3.13t",
        f"""#!{sys.executable}
import os, sys
sys._is_gil_enabled = lambda: "gil=1" in sys.argv or os.environ.get("PYTHON_GIL") == "1"
exec(sys.argv[sys.argv.index("-c") + 1])
""",
    )


def test_an_interpreter_in_the_command_is_asked() -> None:
    assert interpreter_facts([sys.executable, "-u", "worker.py"], {}) == THIS


def test_a_script_is_asked_by_its_first_line(tmp_path: Path) -> None:
    script = program(tmp_path / "worker", f"#!{sys.executable} -E\nraise SystemExit(1)\n")

    assert interpreter_facts([str(script), "--threads", "4"], {}) == THIS


def test_a_script_is_found_where_the_worker_runs(tmp_path: Path) -> None:
    program(tmp_path / "worker", f"#!{sys.executable}\n")

    assert interpreter_facts(["./worker"], {}, str(tmp_path)) == THIS
    assert interpreter_facts(["./worker"], {}) == {}


@pytest.mark.parametrize(
    "line",
    [
        "#! {python}",
        "#!{python}\t-u",
        "#!/usr/bin/env {python}",
        "#!/usr/bin/env -S {python} -u",
        "#!/usr/bin/env -S{python} -u",
        "#!/usr/bin/env -vS {python}",
        "#!/usr/bin/env --split-string={python} -u",
        "#!/usr/bin/env -S -i A=1 {python} -u",
        "#!/usr/bin/env -S -u A B=2 {python}",
    ],
)
def test_a_first_line_is_read_as_the_kernel_and_env_read_it(tmp_path: Path, line: str) -> None:
    script = program(tmp_path / "worker", f"{line.format(python=sys.executable)}\nprint('by Python')\n")

    done = subprocess.run([script], capture_output=True, text=True, timeout=60)

    assert done.stdout == "by Python\n", "so the system reads it"
    assert interpreter_facts([str(script)], {}) == THIS


def test_env_may_stand_before_the_interpreter(free_threaded: Path) -> None:
    assert interpreter_facts(["/usr/bin/env", "A=1", str(free_threaded)], {})["worker_gil"] == "off"
    assert interpreter_facts(["env", "PYTHON_GIL=1", str(free_threaded)], {})["worker_gil"] == "on"


def test_a_python_without_gil_is_reported_as_the_worker_will_run_it(free_threaded: Path) -> None:
    python = str(free_threaded)

    assert interpreter_facts([python, "worker.py"], {})["worker_gil"] == "off"
    assert interpreter_facts([python, "worker.py"], {"PYTHON_GIL": "1"})["worker_gil"] == "on"
    assert interpreter_facts([python, "-u", "-X", "gil=1", "worker.py"], {})["worker_gil"] == "on"
    assert interpreter_facts([python, "worker.py", "-X", "gil=1"], {})["worker_gil"] == "off"


@pytest.mark.parametrize(
    "command", [["sleep", "60"], ["no-such-program"], [], ["env"], [sys.executable + "-none"]]
)
def test_what_is_no_python_tells_nothing(command: list[str]) -> None:
    assert interpreter_facts(command, {}) == {}


def test_a_python_that_cannot_answer_tells_nothing(tmp_path: Path) -> None:
    broken = program(tmp_path / "python3", "#!/bin/sh\nexit 3\n")

    assert interpreter_facts([str(broken)], {}) == {}


def test_a_studys_record_says_whether_the_workers_have_a_gil() -> None:
    facts = worker_facts(None, [sys.executable, "worker.py"], {})

    assert facts == THIS
    assert "worker_gil" not in provenance()
