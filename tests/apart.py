"""A test file run as a program of its own, to see what memory takes that no other test has a part in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def run_apart(module: str, *arguments: str) -> dict[str, Any]:
    """What the test file *module* prints as a program, by `print_with_growth`."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=Path(__file__).parents[1],
    )

    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def print_with_growth(do: Callable[[], Mapping[str, object]]) -> None:
    """Print what *do* gives, as JSON, with ``grew_mb``: how much more memory was resident than before."""
    before_mb = _most_memory_mb()
    result = do()
    sys.stdout.write(json.dumps({**result, "grew_mb": _most_memory_mb() - before_mb}))


def _most_memory_mb() -> int:
    """The most that was resident; ru_maxrss would tell of the process that started this one, too."""
    found = re.search(r"VmHWM:\s+([0-9]+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) >> 10
