"""What is published: an sdist, a wheel built from it, and the main job run from an empty environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel made from it."""
    if not (ROOT / ".git").exists():
        pytest.skip("an sdist is made of what git tracks, and this tree is not a checkout")
    source = tmp_path_factory.mktemp("source") / "tuner"
    run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(source)])
    out = tmp_path_factory.mktemp("dist")
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run(
        [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--skip-dependency-check",
            "--outdir",
            str(out),
            str(source),
        ],
        env={**os.environ, "PATH": scripts},
    )
    return out


def test_the_wheel_brings_the_programs_and_no_source_of_theirs(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = [re.sub(r"^tuner-[^/]*\.data/purelib/", "", name) for name in zipfile.ZipFile(wheel).namelist()]

    assert "-py3-none-linux_" in wheel.name  # one wheel for every Python
    for program in ("crash-stackwalk", "tuner-simulate"):
        assert any(name.endswith(f".data/scripts/{program}") for name in names)
    assert "tuner_workers/crash_processor/cli.py" in names
    assert "tuner_workers/lab/goroutine_pool.go" in names  # built where it is needed
    assert "tuner/probe/counter.py" in names
    assert "tuner/adapters/schema.sql" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tuner", "tuner_workers"}
    assert not [name for name in names if name.endswith((".c", ".h", ".pyc", "meson.build"))]


def test_the_sdist_builds_everything_a_newcomer_needs(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}

    assert {"Makefile", "README.md", "requirements/run.txt", "configs/crash_processor.yaml"} <= names


@pytest.mark.full
def test_an_unpacked_sdist_gives_the_wheel(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    bin_ = Path(sys.executable).parent

    run(
        ["make", "wheel", f"VENV={bin_.parent}", "-o", f"{bin_.parent}/.dev"],  # what is installed will do
        cwd=folder,
        env={**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"},
    )

    (wheel,) = built.glob("*.whl")
    assert [path.name for path in (folder / "dist").iterdir()] == [wheel.name]


def test_the_main_job_runs_from_the_wheel_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    bin_ = tmp_path / "venv" / "bin"
    run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")])
    # Our pip installs there: no other one is unpacked first, and nothing is compiled that is never imported.
    pip = [sys.executable, "-m", "pip", "--python", str(bin_ / "python"), "install", "-q", "--no-compile"]
    locked = subprocess.run(
        [*pip, "--require-hashes", "-r", ROOT / "requirements" / "run.txt"],
        capture_output=True,
        text=True,
    )
    if locked.returncode != 0 and "CI" not in os.environ:
        pytest.skip(
            f"the locked requirements cannot be installed here: {locked.stderr.strip().splitlines()[-1]}"
        )
    assert locked.returncode == 0, locked.stderr
    run([*pip, "--no-deps", "--no-index", str(wheel)])
    outside = tmp_path / "outside"
    outside.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = "/usr/bin:/bin"

    asked = "--layouts 1x1,2x1 --strategy all --repeats 1 --window 2s --warmup 1s"
    asked += " --foreign-limit 64 --max-attempts 9"
    measured = run([str(bin_ / "tuner"), "grid", *asked.split()], cwd=outside, env=environment)

    assert "2x1" in measured.stdout
    assert (outside / "crash-processor.tuner.db").is_file()
    assert shutil.which("crash-stackwalk", path=str(bin_)) is not None


def run(
    command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done
