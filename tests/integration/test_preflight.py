"""deploy/preflight.sh: which Python it takes, and what it says is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ..wording import wording

pytestmark = pytest.mark.integration
PREFLIGHT = Path(__file__).resolve().parents[2] / "deploy" / "preflight.sh"


def python(folder: Path, name: str, version: tuple[int, int], *, has_venv: bool = True) -> None:
    """A Python in name: answers what preflight asks, as one of that version does."""
    major, minor = version
    program = folder / name
    program.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        f"    *ensurepip*) exit {0 if has_venv else 1};;\n"
        f"    *'(3, 11)'*) [ {100 * major + minor} -ge 311 ];;\n"
        f"    *'(3, 16)'*) [ {100 * major + minor} -ge 316 ];;\n"
        "    *) exit 1;;\n"
        "esac\n"
    )
    program.chmod(0o755)


def preflight(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run with the programs of *folder*, and a compiler that works."""
    compiler = folder / "cc"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(PREFLIGHT)],
        env={"PATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_newest_python_that_is_tested_is_taken(tmp_path: Path) -> None:
    python(tmp_path, "python3", (3, 11))
    python(tmp_path, "python3.13", (3, 13))
    python(tmp_path, "python3.14", (3, 14))

    done = preflight(tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path}/python3.14\n", "")


def test_a_python_without_venv_is_passed_over(tmp_path: Path) -> None:
    python(tmp_path, "python3.15", (3, 15), has_venv=False)
    python(tmp_path, "python3.12", (3, 12))

    assert preflight(tmp_path).stdout == f"{tmp_path}/python3.12\n"


def test_a_python_newer_than_the_tested_ones_is_taken_with_a_warning(tmp_path: Path) -> None:
    python(tmp_path, "python3", (3, 17))

    done = preflight(tmp_path)

    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/python3\n")
    assert done.stderr == wording("packages.python-newer-than-tested", tmp_path=tmp_path) + "\n"


def test_the_python_that_was_named_is_the_only_one_asked(tmp_path: Path) -> None:
    python(tmp_path, "python3.14", (3, 14))
    python(tmp_path, "python3.12", (3, 12))

    assert preflight(tmp_path, PYTHON="python3.12").stdout == f"{tmp_path}/python3.12\n"


@pytest.mark.parametrize(("version", "has_venv"), [((3, 10), True), ((3, 14), False)])
def test_what_is_missing_is_named(tmp_path: Path, version: tuple[int, int], has_venv: bool) -> None:
    python(tmp_path, "python3", version, has_venv=has_venv)

    done = preflight(tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    lacks_venv = wording("packages.preflight-lacks-venv", tmp_path=tmp_path)
    assert (lacks_venv if version >= (3, 11) else wording("packages.preflight-lacks-python")) in done.stderr
