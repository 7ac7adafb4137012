"""Memory of real processes: what they share counts once, and what we may not see is None."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.process_tree import ProcessTable
from tuner.adapters.proc.procfs import ProcSampler
from tuner.adapters.proc.pss import PssReader

pytestmark = [pytest.mark.integration, pytest.mark.alone]

MIB = 1 << 20
NOBODY = 65534
ASK_AS_NOBODY = f"""
import os, sys
from pathlib import Path
from tuner.adapters.proc.process_tree import ProcessTable
from tuner.adapters.proc.pss import PssReader
proc = Path("/proc")
members = list(ProcessTable(proc).trees([int(sys.argv[1])]).members.values())
assert members
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
print(PssReader(proc, "x86_64").read(lambda: members))
"""


def test_memory_shared_with_a_forked_child_counts_once(
    start: Callable[..., Any], wait_until: Callable[[Callable[[], bool], str], None]
) -> None:
    """80 MiB, filled before the fork; the child shares them from its first moment on."""
    workers = start("prefork 80")
    workers.processes[0].stdout.readline()
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        young = watch.usage(closing=True).pss_bytes
        born = [int(pid) for pid in children_of(workers.processes[0].pid)]
        wait_until(lambda: all(age_s(pid) > 2.1 for pid in born), "a child of two seconds")
        later = watch.usage(closing=True).pss_bytes

    assert len(born) == 1
    for pss_bytes in (young, later):
        assert 80 * MIB <= pss_bytes <= 120 * MIB
    assert young == pytest.approx(later, rel=0.05)


READS_A_FILE = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
sum(pages[::4096])
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("folder", [None, "/dev/shm"])
def test_beside_other_layouts_a_file_counts_once_for_each_layout(tmp_path: Path, folder: str | None) -> None:
    """Five processes read 64 MiB; two of them are the layout. A fifth of the file is PSS for each."""
    with ExitStack() as stack:
        library = Path(stack.enter_context(TemporaryDirectory(dir=folder or tmp_path))) / "library"
        library.write_bytes(bytes(64 * MIB))
        started = []
        for _ in range(5):
            words = [sys.executable, "-c", READS_A_FILE, str(library)]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(process)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        pids = [process.pid for process in started[:2]]
        members = list(ProcessTable(Path("/proc")).trees(pids).members.values())
        shared, once = (
            PssReader(Path("/proc"), "x86_64", counts_files_once=once).read(lambda: members)
            for once in (False, True)
        )

    assert len(members) == 2
    assert shared is not None
    assert once is not None
    # the interpreter's own files are shared with other Pythons, too
    assert 128 / 5 * MIB <= shared.pss_bytes <= 60 * MIB
    assert (64 - 128 / 5) * MIB <= once.pss_bytes - shared.pss_bytes <= 60 * MIB


def test_another_users_memory_is_none() -> None:
    """As root a helper becomes nobody; an ordinary user asks for init's."""
    pid = os.getpid() if os.getuid() == 0 else 1
    answer = subprocess.run(
        [sys.executable, "-c", ASK_AS_NOBODY, str(pid)], capture_output=True, text=True, check=True
    )

    assert answer.stdout.strip() == "None"


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def age_s(pid: int) -> float:
    started_ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    return uptime_s - started_ticks / os.sysconf("SC_CLK_TCK")
