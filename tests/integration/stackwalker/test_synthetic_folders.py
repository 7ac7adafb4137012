"""Folders of synthetic crashes, as a spool takes them and as the corpus command writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tuner_workers.crash_processor.synthetic import write_spool_dumps

from ...wording import wording
from .conftest import TIMEOUT_S

pytestmark = pytest.mark.integration


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_spool_has_a_dump_and_a_raw_crash_each_and_shared_symbols(tmp_path: Path) -> None:
    paths = write_spool_dumps(tmp_path / "spool", 40, 3, 30_000)

    assert len(paths) == len(set(paths)) == 40
    for path in paths:
        assert path.read_bytes()[:4] == b"MDMP"
        assert json.loads(path.with_suffix(".json").read_text())["uuid"] == path.stem
    assert len(list((tmp_path / "spool" / "symbols").rglob("*.sym"))) == 12
    assert len(list((tmp_path / "spool").iterdir())) == 2 * 40 + 1


def test_equal_seeds_fill_equal_folders(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_spool_dumps(tmp_path / name, 10, 3, 30_000)
    write_spool_dumps(tmp_path / "other", 10, 4, 30_000)

    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert not set(contents(tmp_path / "one")) & set(contents(tmp_path / "other"))


def corpus(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tuner_workers.crash_processor.synthetic", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_the_corpus_command_writes_dumps_answers_raw_crashes_and_symbols(tmp_path: Path) -> None:
    done = corpus("--out", tmp_path / "new" / "corpus", "--count", 2, "--seed", 5, "--symbols-bytes", 20_000)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = sorted(path.name for path in (tmp_path / "new" / "corpus").iterdir())
    assert names == sorted(
        ["symbols"]
        + [f"{system}-5-{number}{suffix}" for system in ("linux", "windows", "macos") for number in (0, 1)
           for suffix in (".dmp", ".expected.json", ".raw.json")]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--count", 0), "must be 1 or more, not 0"),
        (("--count", "many"), "invalid"),
        (("--symbols-bytes", -1), "must be 1 or more"),
        (("--os", "beos"), "invalid choice: 'beos'"),
    ],
)
def test_the_corpus_command_refuses_bad_input(
    tmp_path: Path, arguments: tuple[object, ...], words: str
) -> None:
    done = corpus("--out", tmp_path / "corpus", *arguments)

    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "corpus").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    done = corpus("--out", tmp_path / "file" / "corpus")

    assert done.returncode == 2
    assert done.stderr == wording("crash-processor.cannot-write-to", tmp_path=tmp_path)
