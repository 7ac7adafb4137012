"""supervisord with sections that a test wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONG_S = 60.0


@contextmanager
def supervisord(folder: Path, sections: str) -> Iterator[None]:
    """Runs *sections* until the block ends, and waits until all that it started is gone."""
    (folder / "s.conf").write_text(
        f"[supervisord]\nnodaemon=true\nsilent=true\nlogfile={folder}/s.log\npidfile={folder}/s.pid\n"
        f"childlogdir={folder}\n{'user=root' if os.geteuid() == 0 else ''}\n\n{sections}",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor.supervisord", "-c", str(folder / "s.conf")],
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LONG_S)
        process.kill()
        process.wait()
