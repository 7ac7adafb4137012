"""`tuner grid --python A --python B`: one command compares interpreters."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tuner.probe import counter

from ..wording import key_of, wording
from .sleeping_worker import sleeping_worker
from .test_bad_input import PROFILE, is_told
from .typed import Typed

pytestmark = pytest.mark.integration
STUDY = (
    "study: {strategy: all, window: 2s, warmup: 3s, repeats: 2, warm_cache: no, foreign_limit: 1000,"
    " memory_pressure_limit: 1}\n"
)
THIS = ".".join(map(str, sys.version_info[:2]))


def _pythons() -> Iterator[str]:
    """Those that may be another Python than ours: on the PATH by name, or pyenv's."""
    for minor in range(15, 10, -1):
        if (found := shutil.which(f"python3.{minor}")) is not None:
            yield found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from (str(path) for path in sorted(root.glob("versions/3.1[1-9].*/bin/python"), reverse=True))


@cache
def another_python() -> tuple[str, str] | None:
    """A Python of another version that really runs (a shim may stand for nothing), and that version."""
    for path in _pythons():
        result = subprocess.run(
            [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.abiflags)"],
            capture_output=True,
            text=True,
            check=False,
        )
        if (
            result.returncode == 0
            and result.stdout.split() not in ([], [THIS])
            and len(result.stdout.split()) == 1
        ):
            return path, result.stdout.strip()
    return None


@pytest.fixture
def other() -> tuple[str, str]:
    found = another_python()
    if found is None:
        pytest.skip(f"only Python {THIS} is here: install python3.12, python3.13 or python3.14")
    return found


@pytest.fixture
def worker(typed: Typed) -> Path:
    """A worker that any Python can run: its counter lies beside it."""
    path = typed.folder / "worker.py"
    path.write_text(sleeping_worker().replace("from tuner.probe import counter", "import counter"))
    shutil.copy(counter.__file__, typed.folder / "counter.py")
    return path


def test_two_interpreters_are_compared_by_one_command(
    typed: Typed, worker: Path, other: tuple[str, str]
) -> None:
    (typed.folder / "s.yaml").write_text(STUDY)
    pythons = ["--python", sys.executable, "--python", other[0]]
    command = ["--", "python3", worker.name]

    done = typed("grid", "s.yaml", *pythons, "--layouts", "1x2", "--json", *command)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(row["layout"] for row in found["layouts"]) == sorted([f"1x2@{THIS}", f"1x2@{other[1]}"])
    provenance = found["study"]["provenance"]
    assert f" {THIS}." in provenance[f"worker_python@{THIS}"]
    assert f" {other[1]}." in provenance[f"worker_python@{other[1]}"]
    (effect,) = found["axes"]
    assert (effect["axis"], effect["value"], effect["beside"], effect["n_pairs"]) == (
        "python", other[1], THIS, 1,
    )  # fmt: skip
    (best,) = found["axis_bests"]
    assert (best["layout"], best["layout_beside"]) == (f"1x2@{other[1]}", f"1x2@{THIS}")
    assert best["ratio"]["mean"] > 0
    assert best["pss_bytes"] > 0
    text = " ".join(typed("rank", "worker.tuner.db").stdout.split())
    assert best["sentence"] in text
    again = typed("grid", "s.yaml", *pythons, "--layouts", "1x2", "--resume", "worker.tuner.db", *command)
    assert again.returncode == 0, again.stderr
    one = typed("grid", "s.yaml", *pythons[:2], "--resume", "worker.tuner.db", *command)
    assert wording("pythons.begun-with-others") in is_told(one)


def test_one_interpreter_runs_the_built_in_worker_without_having_it(typed: Typed) -> None:
    """With -S it does not see where tuner is installed. One thread: it may start as slowly as it likes."""
    (typed.folder / "s.yaml").write_text(STUDY.replace("repeats: 2", "repeats: 1"))

    done = typed("grid", "s.yaml", "--python", f"{sys.executable} -S", "--layouts", "1x1", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["layout"] for row in found["layouts"]] == [f"1x1@{THIS}"]
    assert found["layouts"][0]["throughput_per_10min"]["mean"] > 0
    ((axis, ((value, change),)),) = found["study"]["config"]["service"]["axes"]
    assert (axis, value, change["interpreter"]) == (
        "python", THIS, [os.path.abspath(sys.executable), "-S"],
    )  # fmt: skip
    assert "axes" not in found, "there is nothing to compare it with"


def test_interpreters_take_the_place_of_the_axis_that_a_config_has(typed: Typed, worker: Path) -> None:
    """Another axis stays, and each layout is every variant of both."""
    (typed.folder / "s.yaml").write_text(
        "service:\n  kind: script\n  name: jobs\n  command: [python3, worker.py]\n  axes:\n"
        "    python: {old: {interpreter: python3.99}}\n    it: {a: {}, b: {environment: {A: b}}}\n"
        + STUDY.replace("window: 2s", "window: 1s").replace("repeats: 2", "repeats: 1")
    )

    done = typed("grid", "s.yaml", "--python", sys.executable, "--layouts", "1x1", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(row["layout"] for row in found["layouts"]) == [f"1x1@a+{THIS}", f"1x1@b+{THIS}"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--python", "python3.99"], wording("pythons.not-here")),
        (["--python", "./python3.99"], wording("pythons.not-here-by-path")),
        (["--python", "ruby"], wording("pythons.by-name")),
        (["--python", " "], wording("pythons.without-words")),
        (["--python", "'python3"], wording("pythons.no-words")),
        (["--python", "THIS", "--python", "THIS"], wording("pythons.named-twice")),
        (["--python", "THIS", "--python", "THIS -X dev"], wording("pythons.of-one-name")),
        (["--python", "./venv"], wording("pythons.is-folder")),
        (["--python", "./broken/python3"], wording("pythons.does-not-run")),
        (["--python", "THIS", "--simulate", PROFILE], wording("pythons.simulated")),
        (["--python", "THIS", "--fleet", "tcp://127.0.0.1:1"], wording("pythons.on-fleet")),
        (["--python", "THIS", "--", "uv", "run", "worker.py"], wording("pythons.of-runner")),
        (["--python", "THIS", "--", "/bin/true"], wording("pythons.of-no-script")),
        (["--python", "THIS", "--", "python3", "lost.py"], wording("pythons.without-package")),
        (["--python", "THIS", "--", "python3", "-m", "there_is_none"], wording("pythons.without-package")),
        (["--python", "THIS", "--", "./venv/bin/tool"], wording("pythons.without-package")),
        (["variants.yaml", "--python", "THIS"], wording("pythons.beside-variants")),
    ],
    ids=key_of,
)
def test_an_interpreter_that_cannot_be_taken_is_reported_in_one_line(
    typed: Typed, arguments: list[str], said: str
) -> None:
    (typed.folder / "broken").mkdir()
    (typed.folder / "venv" / "bin").mkdir(parents=True)
    for name, text in (("broken/python3", "false"), ("venv/bin/python", "true")):
        (typed.folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (typed.folder / name).chmod(0o755)
    tool = typed.folder / "venv" / "bin" / "tool"
    tool.write_text(f"#!{sys.executable}\nimport sys\nfrom there_is_none.cli import main\nmain()\n")
    tool.chmod(0o755)
    (typed.folder / "lost.py").write_text("import os, there_is_none\n")
    (typed.folder / "variants.yaml").write_text(
        "service: {kind: script, name: jobs, command: python3 w.py, variants: {a: {}, b: {}}}\n"
    )

    typed_words = [word.replace("THIS", sys.executable) for word in arguments]
    line = is_told(typed("grid", *typed_words))

    result = line.removeprefix("Error: ").replace(os.path.abspath(sys.executable), "PYTHON")
    result = result.replace(f"{THIS}.{sys.version_info[2]}", "3.X.Y").replace(THIS, "3.X")
    assert result.replace(f"{typed.folder}/", "") == said
    assert list(typed.folder.glob("*.db*")) == []
