"""What of a launch other users of the box can reach: nothing."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tuner.adapters.supervisord import config as config
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import Layout

pytestmark = pytest.mark.integration


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


def test_a_launch_lies_in_a_folder_of_a_random_name_that_only_its_user_enters(
    launcher_of: Callable[..., SupervisordLauncher], tmp_path: Path
) -> None:
    folders, kept = [], {}
    launcher = launcher_of("wait", spec={"environment": {"DB_PASSWORD": "secret"}}, run_root=tmp_path)
    for _ in range(2):
        with launcher.running(Layout(1, 1), {}):
            (folder,) = tmp_path.iterdir()
            folders.append((folder.name, stat.S_IMODE(folder.stat().st_mode)))
            kept = modes(folder)

    assert [mode for _, mode in folders] == [0o700, 0o700]
    assert folders[0][0] != folders[1][0]
    assert kept[config.SOCKET] == kept[config.STATUS] == 0o600
    assert kept["0.json"] == kept[config.OWN_JOB] == 0o600  # they hold the environment
    assert list(tmp_path.iterdir()) == []


def test_a_launch_listens_at_no_port(launcher_of: Callable[..., SupervisordLauncher]) -> None:
    launcher = launcher_of("wait")
    with launcher.running(Layout(2, 1), {}) as launch:
        pids = launch.overhead_pids()
        listening = [
            (psutil.Process(pid).name(), each.laddr)
            for pid in pids
            for each in psutil.Process(pid).net_connections("inet")
        ]

    assert len(pids) == 2
    assert listening == []
