"""Programs of the system that some tests need."""

from __future__ import annotations

import os
import shutil

import pytest


def needed(program: str, package: str) -> str:
    """Where *program* is. Without it a test skips at home, with what to install, and fails in CI."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        reason = f"no {program}: apt-get install {package}"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; CI must test with it")
        pytest.skip(reason)
    return found
