"""What a study sets for its workers (cores, limits) is theirs alone, and ends with a killed tuner."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..processes import is_running

pytestmark = [pytest.mark.integration]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
#: tells what was set for it, then counts
WORKER = """
import json, os, resource, time
from tuner.probe.counter import open_counter
slot = open_counter().slot()
told = {"pid": os.getpid(), "cpus": sorted(os.sched_getaffinity(0))}
told["files"] = resource.getrlimit(resource.RLIMIT_NOFILE)
with open("told.part", "w") as file:
    json.dump(told, file)
os.rename("told.part", "told.json")
while True:
    time.sleep(0.05)
    slot.done()
"""


def of_process(pid: int) -> tuple[set[int], str, int]:
    """Affinity, limits and priority of a process, as the kernel has them."""
    limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
    return os.sched_getaffinity(pid), limits, os.getpriority(os.PRIO_PROCESS, pid)


def of_box() -> dict[str, str]:
    """The switches of the kernel that are about memory, processes and the clocks of CPUs."""
    names = [
        "kernel/threads-max",
        "kernel/pid_max",
        "kernel/core_pattern",
        "vm/swappiness",
        "vm/overcommit_memory",
    ]
    files = [Path("/proc/sys", name) for name in names]
    files += Path("/sys/devices/system/cpu").glob("cpu*/cpufreq/scaling_governor")
    return {str(file): file.read_text(encoding="utf-8") for file in files if file.is_file()}


def awaited(path: Path, tuner: subprocess.Popen[bytes]) -> dict[str, object]:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert tuner.poll() is None, "tuner ended before its worker ran"
        assert time.monotonic() < deadline, "no worker ran"
        time.sleep(0.05)
    data: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return data


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="workers are held to cores where there are more")
def test_a_killed_study_leaves_affinity_limits_and_kernel_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    (tmp_path / "s.yaml").write_text(
        "service:\n  kind: script\n  name: s\n"
        f"  command: [{sys.executable}, worker.py, '{{threads}}']\n"
        "  limits: {nofile: 123}\n"
        "study: {cores: 1, layouts: [1x1], strategy: all, window: 10m, warmup: 1s}\n",
        encoding="utf-8",
    )
    before = of_process(os.getpid()), of_process(os.getppid()), of_box()
    tuner = subprocess.Popen(
        [sys.executable, "-c", "from tuner.cli import main; main()", "grid", "s.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        worker = awaited(tmp_path / "told.json", tuner)
        during = of_process(tuner.pid)
    finally:
        tuner.kill()
        tuner.wait()

    pid = worker["pid"]
    assert isinstance(pid, int)
    deadline = time.monotonic() + PATIENCE_S
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)
    # it was another one's while it ran ...
    assert worker["cpus"] == sorted(before[0][0])[:1]
    assert worker["files"] == [123, 123] != [*resource.getrlimit(resource.RLIMIT_NOFILE)]
    # ... and of nobody else: tuner has what it was started with, and so have those who started it
    assert during == before[0]
    assert (of_process(os.getpid()), of_process(os.getppid()), of_box()) == before
