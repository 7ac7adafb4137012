"""The command line as an ordinary user types it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..programs import needed
from .typed import Typed

PATIENCE_S = 120.0
_NOBODY = "nobody"
#: what `tuner grid` and its workers import, beside tuner itself
_PACKAGES = (
    "tuner", "tuner_workers", "typer", "rich", "pydantic", "pydantic_core", "annotated_types",
    "typing_inspection", "typing_extensions.py", "yaml", "psutil", "supervisor", "tabulate", "tabulate.py",
    "annotated_doc", "shellingham", "click", "markdown_it", "mdurl", "pygments", "numpy", "numpy.libs",
    "elftools",
)  # fmt: skip
_NOT_NEEDED = shutil.ignore_patterns(
    "test",
    "tests",
    "idlelib",
    "site-packages",
    "ensurepip",
    "tkinter",
    "config-*",
    "lib2to3",
    "turtle*",
)


@dataclass(frozen=True)
class Tuner:
    """Types `tuner ...` in *folder*, as *user*."""

    program: tuple[str, ...]
    folder: Path
    user: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, *arguments: str | Path, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.program, *map(str, arguments)],
            cwd=folder or self.folder,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            **self._how,
        )

    @contextmanager
    def started(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """The command while it runs, its stderr to be read; ended by SIGTERM if it still does at the end."""
        process = subprocess.Popen(
            [*self.program, *map(str, arguments)],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            **self._how,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)

    @property
    def _how(self) -> dict[str, Any]:
        return {
            "env": {**os.environ, "COLUMNS": "100", **self.environment},
            "stdin": subprocess.DEVNULL,
            "text": True,
            "user": self.user,
            "group": None if self.user is None else pwd.getpwnam(self.user).pw_gid,
            "extra_groups": None if self.user is None else [],
        }


@pytest.fixture
def tuner(tmp_path: Path) -> Tuner:
    """tuner as whoever runs the tests."""
    return Tuner((sys.executable, "-c", "from tuner.cli import main; main()"), tmp_path)


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    """tuner in this process, in the folder of ``tuner``: enough where no process or signal matters."""
    return Typed(tmp_path)


@pytest.fixture(scope="session")
def readable_python() -> Iterator[tuple[str, dict[str, str]]]:
    """A Python that any user can run with all that tuner needs, and its environment: ours, or a copy.

    A root's own Python often lies in a folder that only root may enter. The copy is not below pytest's
    folder: each run of pytest closes that to others again.
    """
    if os.geteuid() != 0 or not _why_not(sys.executable, {}):
        yield sys.executable, {}
        return
    with tempfile.TemporaryDirectory(prefix="tn-python-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield _copied_python(Path(name))


def _linked(source: str, target: str) -> None:
    """Make a hard link if possible, so that 220 MB are not copied. Other users cannot write to it."""
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _copied_python(home: Path) -> tuple[str, dict[str, str]]:
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(
        library, home / "lib" / library.name, ignore=_NOT_NEEDED, symlinks=True, copy_function=_linked
    )
    for shared in Path(sys.base_prefix, "lib").glob("libpython*"):
        shutil.copy2(shared, home / "lib")
    (home / "bin").mkdir()
    shutil.copy2(os.path.realpath(sys.executable), home / "bin" / "python3")
    packages = home / "packages"
    packages.mkdir()
    for name in _PACKAGES:
        source = Path(sysconfig.get_path("purelib")) / name
        if source.is_dir():
            shutil.copytree(source.resolve(), packages / name, copy_function=_linked)
        elif source.is_file():
            shutil.copy2(source, packages / name)
    for program in ("crash-stackwalk", "tuner-simulate"):
        shutil.copy2(Path(sys.executable).with_name(program), home / "bin")
    script = home / "bin" / "crash-processor"
    script.write_text(
        f"#!{home / 'bin' / 'python3'}\nfrom tuner_workers.crash_processor.cli import main\nmain()\n"
    )
    script.chmod(0o755)
    environment = {
        "PYTHONHOME": str(home),
        "PYTHONPATH": str(packages),
        "LD_LIBRARY_PATH": str(home / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{home / 'bin'}:/usr/bin:/bin",
    }
    program = str(home / "bin" / "python3")
    if why := _why_not(program, environment):
        pytest.fail(f"no Python could be made that an ordinary user can run: {why}")
    return program, environment


@pytest.fixture
def ordinary(tmp_path: Path, readable_python: tuple[str, dict[str, str]]) -> Iterator[Tuner]:
    """tuner as a user who is not root, in a folder of this user's."""
    program, environment = readable_python
    if os.geteuid() != 0:
        yield Tuner((program, "-c", "from tuner.cli import main; main()"), tmp_path)
        return
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name:
        folder = Path(name)
        entry = pwd.getpwnam(_NOBODY)
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        environment = {**environment, "TMPDIR": name, "HOME": name, "TUNER_LOCK": str(folder / "lock")}
        yield Tuner((program, "-c", "from tuner.cli import main; main()"), folder, _NOBODY, environment)


def _why_not(program: str, environment: dict[str, str]) -> str:
    """What keeps an ordinary user from running tuner with *program*; empty when nothing does."""
    needed = "import tuner.bootstrap, tuner.config.load, supervisor, rich.progress, tabulate, tuner_workers"
    try:
        done = subprocess.run(
            [program, "-c", needed],
            cwd="/",
            env={**os.environ, **environment},
            user=_NOBODY,
            group=pwd.getpwnam(_NOBODY).pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    except PermissionError as error:
        return str(error)
    return done.stderr if done.returncode else ""


@pytest.fixture
def strace() -> str:
    """A strace that may trace here; without one a test skips at home, and fails in CI."""
    program = needed("strace", "strace")
    if subprocess.run([program, "-o", os.devnull, "true"], check=False).returncode:
        why = "strace may not trace here"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    return program
