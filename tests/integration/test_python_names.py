"""What interpreters that are typed are called: by their own answer, never by the name of their file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tuner.adapters.provenance import missing_import
from tuner.bootstrap.parts.provenance import parse_pythons
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import wording

pytestmark = [pytest.mark.pythons, pytest.mark.integration]
THIS = "{}.{}".format(*sys.version_info[:2])


def python(path: Path, *answer: str) -> str:
    """A program that answers as such an interpreter does, whatever it is asked."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '[{', '.join(answer)}]'\n")
    path.chmod(0o755)
    return str(path)


def cpython(
    path: Path, version: str, *, is_free: bool = False, is_debug: bool = False, has_gil: bool = True
) -> str:
    flags = (str(flag).lower() for flag in (is_free, is_debug, has_gil))
    return python(path, '"CPython"', f'"{version}"', *flags)


def test_each_is_called_by_its_version_and_build(tmp_path: Path) -> None:
    named = [
        cpython(tmp_path / "a" / "python3", "3.13.5"),
        cpython(tmp_path / "b" / "python3", "3.14.0rc2", is_free=True, has_gil=False),
        cpython(tmp_path / "c" / "python3", "3.14.0", is_free=True),
        cpython(tmp_path / "d" / "python3", "3.15.0a1+", is_debug=True),
        python(tmp_path / "e" / "pypy3", '"PyPy"', '"3.10.14"', "false", "false", "true"),
    ]

    found = parse_pythons(named)

    assert found == {
        "3.13": (named[0],),
        "3.14t": (named[1],),
        "3.14t-gil": (named[2],),
        "3.15d": (named[3],),
        "pypy3.10": (named[4],),
    }


def test_two_of_one_version_are_called_by_their_patch(tmp_path: Path) -> None:
    named = [cpython(tmp_path / patch / "python3", f"3.13.{patch}") for patch in ("5", "6")]
    other = cpython(tmp_path / "python3", "3.12.1")

    assert list(parse_pythons([*named, other])) == ["3.13.5", "3.13.6", "3.12"]
    with raises(ConfigError, wording("pythons.like-another", one=named[0], other=other)):
        python(tmp_path / "python3", '"CPython"', '"3.13.5"', "false", "false", "true")
        parse_pythons([named[0], other])


def test_a_path_is_kept_whole_and_no_link_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment's Python is a link: what it leads to has not the packages."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    for text in ("bin/python3", "python3"):
        assert parse_pythons([f"{text} -X dev"]) == {THIS: (str(tmp_path / "bin" / "python3"), "-X", "dev")}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("import os\nimport there_is_none\n", "there_is_none"),
        ("from there_is_none.cli import main\n", "there_is_none"),
        ("import os, sys\nimport own\nimport there_is_none\n", None),  # own may change where Python looks
        ("import pytest\nimport there_is_none\n", "there_is_none"),  # an installed package does not
        ("import sys\nsys.path.append('lib')\nimport there_is_none\n", None),
        ("try:\n    import there_is_none\nexcept ImportError:\n    pass\n", None),
        ("from . import there_is_none\n", None),
        ("this is no Python\n", None),
    ],
)
def test_what_a_script_imports_first_is_looked_for(tmp_path: Path, text: str, missing: str | None) -> None:
    (tmp_path / "worker.py").write_text(text)
    (tmp_path / "own.py").write_text("")

    assert missing_import([sys.executable, "-u", "worker.py", "--threads", "2"], {}, str(tmp_path)) == missing


def test_a_module_is_looked_for_where_the_worker_runs(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "__init__.py").write_text("raise SystemExit('nobody imports it')")

    assert missing_import([sys.executable, "-m", "jobs.run"], {}, str(tmp_path)) is None
    assert missing_import([sys.executable, "-m", "jobs.run"], {}, None) == "jobs"
    assert missing_import([sys.executable, "-m", "jobs.run"], {"PYTHONPATH": str(tmp_path)}, None) is None


@pytest.mark.parametrize("command", [["nginx"], [], ["python3.99", "w.py"], ["uv", "run", "w.py"]])
def test_nothing_is_said_of_what_cannot_be_asked(command: list[str]) -> None:
    assert missing_import(command, {}, None) is None
