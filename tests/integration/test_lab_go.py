"""Programs of Go, built with the real one: once, whole or not at all, without the network."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tuner.core.errors import ConfigError
from tuner.lab.tools import Go, build_program, find_go

from ..raising import raises
from ..wording import wording

pytestmark = [pytest.mark.integration, pytest.mark.timeout(700)]

WORKER = Path(__file__).resolve().parents[2] / "workers" / "lab" / "goroutine_worker.sh"
LONG_S = 600.0
HELLO = 'package main\n\nfunc main() { println("%s") }\n'


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    """The Go of this box; what it makes goes to a cache of the test's own."""
    found = find_go()
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
    source, result = tmp_path / "hello.go", list[str]()
    source.write_text(HELLO % "one")
    first = build_program(source, go, result.append)
    again = build_program(source, go, result.append)
    source.write_text(HELLO % "two")
    second = build_program(source, go, result.append)

    assert (said(first), again, said(second)) == ("one", first, "two")
    assert [sentence.split(" with ")[0] for sentence in result] == ["building hello.go"] * 2
    assert sorted((tmp_path / "cache" / "tuner").iterdir()) == sorted([first, second])


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("package main\n\nfunc main() { undefined() }\n", "undefined: undefined"),
        ('package main\n\nimport _ "example.com/not/there"\n\nfunc main() {}\n', "example.com/not/there"),
    ],
)
def test_what_does_not_build_is_reported_and_leaves_nothing(
    tmp_path: Path, go: Go, source: str, text: str
) -> None:
    """That what would have to be downloaded does not build is the second."""
    (tmp_path / "it.go").write_text(source)

    with pytest.raises(ConfigError) as error:
        build_program(tmp_path / "it.go", go, print)
    assert wording("lab.go-does-not-build") in error.value.problem
    assert text in error.value.problem
    assert list((tmp_path / "cache" / "tuner").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_reported(
    tmp_path: Path, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it.go").write_text(HELLO % "it")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with raises(ConfigError, wording("lab.go-cannot-be-built")) as caught:
        build_program(tmp_path / "it.go", go, print)
    assert "Not a directory" in str(caught.value)


def test_the_continue_the_path_is_taken_before_the_one_in_its_root(
    tmp_path: Path, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(go.program).resolve().parents[1]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GOROOT", str(root))
    assert find_go() == Go(str(root / "bin" / "go"), go.version)

    (tmp_path / "go").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "go").chmod(0o755)
    with raises(ConfigError, wording("lab.does-say-go")):
        find_go()


def test_a_box_without_go_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GOROOT", str(tmp_path))

    assert shutil.which("go") is None
    assert find_go() is None


def help_of_worker(environment: dict[str, str]) -> str:
    """What the worker says of its options; it works at nothing."""
    done = subprocess.run(
        [WORKER, "-h"], env=environment, capture_output=True, text=True, check=False, timeout=LONG_S
    )
    return done.stderr


def test_the_worker_of_a_study_is_the_program_that_tuner_would_build(tmp_path: Path, go: Go) -> None:
    """The user's own settings would make it one of another system, or none."""
    settings = {
        "GOFLAGS": "-mod=nonsense",
        "GOOS": "plan9",
        "GO111MODULE": "off",
        "GOEXPERIMENT": "none such",
    }
    result = help_of_worker({**os.environ, **settings})
    cache, sentences = tmp_path / "cache" / "tuner", list[str]()
    program = build_program(WORKER.with_suffix(".go"), go, sentences.append)

    assert "-workers" in result
    assert sentences == []
    assert sorted(cache.iterdir()) == sorted([program, cache / "goroutine_worker.lock"])


def test_the_worker_of_a_study_finds_go_in_its_root_and_the_cache_where_the_user_lives(
    tmp_path: Path, go: Go
) -> None:
    """A relative XDG_CACHE_HOME does not count."""
    programs, root = tmp_path / "bin", Path(go.program).resolve().parents[1]
    programs.mkdir()
    for name in ("sh", "cat", "cut", "flock", "mkdir", "mktemp", "mv", "rm", "sha256sum"):
        (programs / name).symlink_to(str(shutil.which(name)))
    environment = {"PATH": str(programs), "GOROOT": str(root), "GOCACHE": os.environ["GOCACHE"]}
    result = help_of_worker({**environment, "HOME": str(tmp_path), "XDG_CACHE_HOME": "here"})
    homeless = help_of_worker(environment)
    without_go = help_of_worker({**environment, "GOROOT": str(tmp_path)})

    assert "-workers" in result
    assert list((tmp_path / ".cache" / "tuner").glob("goroutine_worker-*"))
    assert not (WORKER.parent / "here").exists()
    assert wording("lab.no-home") in homeless
    assert without_go == wording("lab.no-go-is-here")


def test_a_worker_of_a_study_that_is_ended_while_it_is_built_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Go never ends by itself."""
    folder = tmp_path / "cache" / "tuner"
    (tmp_path / "go").write_text(
        f'#!/bin/sh\n[ "$1" = env ] && echo go1 && exit\ntouch {tmp_path}/builds\nexec sleep 1000\n'
    )
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    worker = subprocess.Popen([WORKER])
    try:
        deadline_s = time.monotonic() + LONG_S
        while not (tmp_path / "builds").exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        building = [path.name[:18] for path in folder.glob(".*")]
        worker.terminate()
        code = worker.wait(LONG_S)
    finally:
        worker.kill()
        worker.wait()

    assert building == [".goroutine_worker-"]
    assert code == 143
    assert list(folder.iterdir()) == [folder / "goroutine_worker.lock"]
