"""The store of crashes on a file system: what is wrong with a crash, and what with the store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner_workers.crash_processor.errors import CrashNotFoundError, StorageError
from tuner_workers.crash_processor.spool import make_spool
from tuner_workers.crash_processor.storage import CRASHES, RAW_CRASH, TEMPORARY, FileSystemCrashStorage

from ..raising import raises
from ..wording import wording

CRASH = "0b8f7a2e-0000-4000-8000-000000000001"


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[FileSystemCrashStorage]:
    make_spool(tmp_path)
    (tmp_path / CRASHES / CRASH).mkdir()
    (tmp_path / CRASHES / CRASH / RAW_CRASH).write_text("{}", encoding="utf-8")
    (tmp_path / CRASHES / CRASH / "walk.dump").write_bytes(b"MDMP")
    storage = FileSystemCrashStorage(tmp_path, dump_field="walk")
    yield storage
    storage.close()


def test_a_crash_without_a_dump_is_not_found(storage: FileSystemCrashStorage, tmp_path: Path) -> None:
    (tmp_path / CRASHES / CRASH / "walk.dump").unlink()

    with pytest.raises(CrashNotFoundError, match=r"^no walk\.dump for this crash$"):
        storage.fetch(CRASH)


def test_a_folder_for_dumps_that_is_gone_is_not_the_crash_s_fault(
    storage: FileSystemCrashStorage, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / TEMPORARY)

    with pytest.raises(StorageError, match=f"^cannot fetch {CRASH}: No such file or directory: "):
        storage.fetch(CRASH)


def test_annotations_nested_without_end_are_not_json(storage: FileSystemCrashStorage, tmp_path: Path) -> None:
    (tmp_path / CRASHES / CRASH / RAW_CRASH).write_text("[" * 100_000, encoding="utf-8")

    with raises(CrashNotFoundError, wording("crash-processor.is-not-json")):
        storage.fetch(CRASH)
