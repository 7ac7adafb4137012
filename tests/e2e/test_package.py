"""What is published: an sdist, wheels built from it, and the main job run from an empty environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from random import Random

import pytest

from tuner.adapters.virtual.simulator import scenario_line

from ..integration.test_simulator import any_scenario
from ..programs import needed

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("crash-stackwalk", "tuner-simulate")
SCENARIO_SEEDS = range(20)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def make(target: str, folder: Path) -> Path:
    """Run `make` in a clone with the tools that are installed here; the folder of what it has built."""
    bin_ = Path(sys.executable).parent
    run(
        ["make", target, f"VENV={bin_.parent}", "-o", f"{bin_.parent}/.dev"],
        cwd=folder,
        env={**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"},
    )
    return folder / "dist"


def cloned(folder: Path) -> Path:
    """A clone of what is committed, in *folder*."""
    if not (ROOT / ".git").exists():
        pytest.skip("an sdist is made of what git tracks, and this tree is not a checkout")
    run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)])
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel made from it."""
    return make("wheel", cloned(tmp_path_factory.mktemp("source") / "tuner"))


def programs_of(wheel: Path, folder: Path) -> dict[str, Path]:
    """The programs in *wheel*, unpacked into *folder*, by their names."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ".data/scripts/" in name and (program := name.rpartition("/")[2]) in PROGRAMS:
                found[program] = folder / program
                found[program].write_bytes(archive.read(name))
                found[program].chmod(0o755)
    assert sorted(found) == sorted(PROGRAMS)
    return found


def test_the_wheel_brings_the_programs_and_no_source_of_theirs(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    packed = zipfile.ZipFile(wheel).namelist()
    names = [re.sub(r"^proctuner-[^/]*\.data/purelib/", "", name) for name in packed]

    for program in PROGRAMS:
        assert any(name.endswith(f".data/scripts/{program}") for name in names)
    assert "tuner_workers/crash_processor/cli.py" in names
    assert "tuner_workers/lab/goroutine_pool.go" in names  # built where it is needed
    assert "tuner/probe/counter.py" in names
    assert "tuner/adapters/sqlite/schema.sql" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"proctuner", "tuner", "tuner_workers"}
    assert not [name for name in names if name.endswith((".c", ".h", ".pyc", "meson.build"))]


def test_the_wheel_is_for_every_python_and_every_linux_of_its_processor(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    machine = os.uname().machine
    if machine not in ("x86_64", "aarch64"):
        pytest.skip(f"no tags are known for {machine}")

    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}.whl")
    shown = run([sys.executable, "-m", "auditwheel", "show", str(wheel)]).stdout
    seen = " ".join(shown.split())
    # static programs name no version of glibc: auditwheel gives the oldest platform that it knows
    assert re.search(rf'the following platform tag: "manylinux_2_(5|17)_{machine}"', seen), shown
    assert "links against" not in seen


def test_the_programs_of_the_wheel_run_where_there_is_no_c_library(built: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may change the root folder (chroot)")
    (wheel,) = built.glob("*.whl")
    for name in programs_of(wheel, tmp_path):
        done = subprocess.run(
            [f"/{name}", "--version"],
            executable=f"/{name}",
            preexec_fn=lambda: (os.chroot(tmp_path), os.chdir("/")),
            env={},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert name in done.stdout


def test_the_wheel_for_arm_has_programs_that_print_what_the_native_ones_do(
    built: Path, tmp_path: Path
) -> None:
    needed("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
    emulator = needed("qemu-aarch64", "qemu-user")
    (native,) = built.glob("*.whl")
    (wheel,) = make("wheel-aarch64", cloned(tmp_path / "tuner")).glob("*.whl")
    for name in ("native", "arm", "spool"):
        (tmp_path / name).mkdir()
    here, there = programs_of(native, tmp_path / "native"), programs_of(wheel, tmp_path / "arm")
    spool = tmp_path / "spool"
    crash_processor = Path(sys.executable).with_name("crash-processor")
    run([str(crash_processor), "fill", "--fs-root", str(spool), "--synthetic", "3"])
    dumps = sorted(spool.rglob("*.dmp")) + sorted(spool.rglob("*.dump"))
    lines = "".join(f"{line}\n" for line in scenarios())

    assert wheel.name.endswith("-py3-none-manylinux_2_17_aarch64.musllinux_1_1_aarch64.whl")
    assert len(dumps) >= 3
    for dump in dumps:
        command = ["--json", str(dump)]
        emulated = run([emulator, str(there["crash-stackwalk"]), *command]).stdout
        assert emulated == run([str(here["crash-stackwalk"]), *command]).stdout
        assert '"crashing_thread"' in emulated
    simulated = run([emulator, str(there["tuner-simulate"])], text=lines).stdout
    assert simulated == run([str(here["tuner-simulate"])], text=lines).stdout
    assert len(simulated.splitlines()) >= len(SCENARIO_SEEDS)


def scenarios() -> list[str]:
    """What `tuner-simulate` reads: a few services, each with a seed of its own."""
    return [scenario_line(any_scenario(Random(seed), 100)) for seed in SCENARIO_SEEDS]


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

    (wheel,) = built.glob("*.whl")
    assert [path.name for path in make("wheel", folder).iterdir()] == [wheel.name]


def test_the_demonstration_runs_from_the_wheel_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    """As `uvx proctuner demo` runs it: no compiler, nothing of the environment on the PATH."""
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
    outside, temporary, programs = (tmp_path / name for name in ("outside", "temporary", "programs"))
    for folder in (outside, temporary, programs):
        folder.mkdir()
    for name in ("sh", "uname", "ls"):  # nothing that could compile
        (programs / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name}"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PATH": str(programs), "TMPDIR": str(temporary)}

    shown = run([str(bin_ / "proctuner"), "demo"], cwd=outside, env=environment)

    assert re.findall(r"^(\d+x\d+) ", shown.stdout, re.MULTILINE)
    assert len(set(re.findall(r"^(\d+x\d+) ", shown.stdout, re.MULTILINE))) == 5
    assert "not evidence" in shown.stderr
    assert "pip install proctuner" in shown.stderr  # the command is not on the PATH
    assert list(outside.iterdir()) == []
    assert list(temporary.iterdir()) == []
    version = run([str(bin_ / "tuner"), "--version"], env=environment).stdout
    assert version == run([str(bin_ / "proctuner"), "--version"], env=environment).stdout
    assert shutil.which("crash-stackwalk", path=str(bin_)) is not None


def run(
    command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, input=text)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done
