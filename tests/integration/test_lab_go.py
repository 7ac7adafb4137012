"""Programs of Go, built with the real one: once, whole or not at all, without the network."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tuner.adapters.lab.go import Go, built, go_here
from tuner.core.errors import ConfigError

pytestmark = [pytest.mark.integration, pytest.mark.timeout(700)]

HELLO = 'package main\n\nfunc main() { println("%s") }\n'


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    """The Go of this box; what it makes goes to a cache of the test's own."""
    found = go_here()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Go here; CI must test with one")
        pytest.skip("no Go here")
    compiled = subprocess.run([found.program, "env", "GOCACHE"], capture_output=True, text=True, check=True)
    monkeypatch.setenv("GOCACHE", compiled.stdout.strip())  # its standard library, not compiled again
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return found


def said(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stderr.strip()


def test_a_program_is_built_once_and_anew_when_it_changes(tmp_path: Path, go: Go) -> None:
    source, told = tmp_path / "hello.go", list[str]()
    source.write_text(HELLO % "one")
    first = built(source, go, told.append)
    again = built(source, go, told.append)
    source.write_text(HELLO % "two")
    second = built(source, go, told.append)

    assert (said(first), again, said(second)) == ("one", first, "two")
    assert [sentence.split(" with ")[0] for sentence in told] == ["building hello.go"] * 2
    assert sorted((tmp_path / "cache" / "tuner").iterdir()) == sorted([first, second])


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("package main\n\nfunc main() { undefined() }\n", "undefined: undefined"),
        ('package main\n\nimport _ "example.com/not/there"\n\nfunc main() {}\n', "example.com/not/there"),
    ],
)
def test_what_does_not_build_is_told_and_leaves_nothing(
    tmp_path: Path, go: Go, source: str, told: str
) -> None:
    """That what would have to be downloaded does not build is the second."""
    (tmp_path / "it.go").write_text(source)

    with pytest.raises(ConfigError) as error:
        built(tmp_path / "it.go", go, print)
    assert "it.go does not build with Go" in error.value.problem
    assert told in error.value.problem
    assert list((tmp_path / "cache" / "tuner").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it.go").write_text(HELLO % "it")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with pytest.raises(ConfigError, match=r"it\.go cannot be built: .*Not a directory"):
        built(tmp_path / "it.go", go, print)


def test_the_go_on_the_path_is_taken_before_the_one_in_its_root(
    tmp_path: Path, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(go.program).resolve().parents[1]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GOROOT", str(root))
    assert go_here() == Go(str(root / "bin" / "go"), go.version)

    (tmp_path / "go").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "go").chmod(0o755)
    with pytest.raises(ConfigError, match="does not say which Go it is"):
        go_here()


def test_a_box_without_go_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GOROOT", str(tmp_path))

    assert shutil.which("go") is None
    assert go_here() is None
