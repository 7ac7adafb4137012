"""Memory of real processes: what they share counts once, and what we may not see is None."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler

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
