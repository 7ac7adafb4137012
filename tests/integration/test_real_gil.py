"""Whether a running Python has a GIL: read from the memory of real ones, beside what they say themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tuner.adapters.proc.python_runtime import GilSeen, PythonRuntimes, read_gil

pytestmark = pytest.mark.integration
NAMES = ["python3.13", "python3.14", "python3.15", "python3.13t", "python3.14t", "python3.15t"]


@pytest.mark.parametrize("asked", ["as-it-is", "on"])
@pytest.mark.parametrize("name", NAMES)
def test_a_real_python_has_what_it_says_of_itself(name: str, asked: str) -> None:
    program = shutil.which(name)
    script = "import sys; print(sys._is_gil_enabled(), flush=True); sys.stdin.read()"
    options = ["-X", "gil=1"] if asked == "on" and name.endswith("t") else []
    if program is None or subprocess.run([program, "-V"], capture_output=True, check=False).returncode:
        pytest.skip(f"{name} is not on the PATH")
    with subprocess.Popen(
        [program, *options, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        says = process.stdout.readline().strip()
        proc = Path("/proc")
        runtime = PythonRuntimes(proc).of(process.pid)
        assert runtime is not None
        seen = read_gil(proc, process.pid, runtime)
        process.communicate()

    assert seen == GilSeen({"True": True, "False": False}[says])
    assert process.returncode == os.EX_OK
