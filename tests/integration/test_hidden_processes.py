"""A /proc that hides the processes of other users (hidepid), seen by one who is not root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.host_lock import hold_host

from ..permitted import not_permitted, root_needed
from ..wording import wording

pytestmark = pytest.mark.integration
NOBODY = 65534
STRANGER = """
import json, os, sys
from pathlib import Path
from unittest.mock import patch
from tuner.adapters.host_lock import hold_host, holder_of
from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.cpu_accounts import BackendAccount
from tuner.doctor.limits import read_limits
from tuner.doctor.box import measure_neighbours
from tuner.adapters.proc.listeners import listener_at
from tuner.adapters.proc.process_tree import ProcessTable
from tuner.adapters.supervisord.launch import n_threads_of
from tuner.core.text.address import BackendAddress
from tuner.core.errors import ConfigError

user, lock, holder = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def said_of_the_box():
    try:
        with patch("time.sleep", side_effect=SystemExit("it is waited for")), hold_host("mine", lock):
            return "free"
    except ConfigError as error:
        return error.problem

def look():
    proc, clock = Path("/proc"), SystemClock()
    table, backends = ProcessTable(proc), BackendAccount(proc, ["redis-server"], clock)
    measure_neighbours(clock, 0.02, 0.15, backends=["redis-server"])
    read_limits({"nproc": 100}, user)
    listener_at(BackendAddress("localhost", 1))
    backends.cpu_s_total(())
    return {
        "shown": [table.stat(holder) is not None, n_threads_of(holder), table.thread_ids(holder)],
        "missing": sorted(backends.missing()),
        "held": holder_of(lock),
        "box": said_of_the_box(),
    }

look()  # as root: what Python loads late may be closed to others
os.setgroups([])
os.setgid(user)
os.setuid(user)
print(json.dumps(look()))
"""


@pytest.fixture
def lock() -> Iterator[Path]:
    """In a folder that every user sees."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name:
        Path(name).chmod(0o1777)
        yield Path(name) / "lock"


def told_to_a_stranger(hidepid: int, lock: Path) -> dict[str, Any]:
    mounts = f"mount -t proc -o hidepid={hidepid} proc /proc"
    tried = subprocess.run(["unshare", "-m", "sh", "-c", mounts], check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        not_permitted("to mount another /proc", tried.stderr.partition("\n")[0])
    words = [sys.executable, "-c", STRANGER, str(NOBODY), str(lock), str(os.getpid())]
    seen = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh", *words],
        check=False,
        capture_output=True,
        text=True,
    )
    assert seen.returncode == 0, seen.stderr
    data: dict[str, Any] = json.loads(seen.stdout)
    return data


@pytest.mark.parametrize("hidepid", [1, 2])
def test_who_is_hidden_is_not_named_and_his_box_is_in_use_all_the_same(hidepid: int, lock: Path) -> None:
    """1 lists others and shows nothing of them, 2 does not list them."""
    root_needed("to mount another /proc")
    with hold_host("root's", lock):
        result = told_to_a_stranger(hidepid, lock)

    assert wording("launch.in-use-by-another-tuner", getpid=os.getpid()) in result["box"]
    assert f"pid {os.getpid()} of user root" in result["held"]
    assert result["shown"] == [False, None, []]
    assert result["missing"] == ["redis-server"]
