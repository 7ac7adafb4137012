"""What is published is the same wherever it is built: other folder, time, umask, zone, language."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(600)]


def build(folder: Path, *, umask: int, **environment: str) -> dict[str, str]:
    """Clone and `make wheel` there; the SHA-256 of each file of dist/, and of each member of the wheel."""
    folder.parent.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True)
    bin_ = Path(sys.executable).parent
    done = subprocess.run(
        ["make", "wheel", f"VENV={bin_.parent}", "-o", f"{bin_.parent}/.dev"],  # what is installed will do
        cwd=folder,
        env={**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", **environment},
        umask=umask,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "dist").iterdir()}
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():  # say what differs, not only that something does
            content = hashlib.sha256(archive.read(member)).hexdigest()
            files[member.filename] = f"{content} {member.date_time} {member.external_attr:o}"
    return files


def test_sdist_and_wheel_are_the_same_bytes_wherever_and_whenever_they_are_built(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("an sdist is made of what git tracks, and this tree is not a checkout")

    one = build(tmp_path / "a" / "tuner", umask=0o022, CFLAGS="-g", TZ="UTC")
    other = build(
        tmp_path / "somewhere" / "with a longer name", umask=0o077, CFLAGS="-g", TZ="Asia/Tokyo", LC_ALL="C"
    )

    assert len([name for name in one if name.endswith((".whl", ".tar.gz"))]) == 2
    assert {name: (one[name], other.get(name)) for name in one if one[name] != other.get(name)} == {}
    assert one.keys() == other.keys()
