"""What docs/stability.md and docs/reference/public.md declare holds for the code."""

from __future__ import annotations

import importlib.metadata
import re
import struct
from pathlib import Path

from packaging.version import Version

from tuner import __version__
from tuner.adapters.sqlite.study_file import SCHEMA_VERSION
from tuner.probe.counter import SUFFIX, VERSION, Totals, read_totals

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = (ROOT / "docs" / "reference" / "public.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_version_stands_in_one_place_and_is_semantic() -> None:
    build = (ROOT / "meson.build").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[\w.]+)?", __version__)
    assert importlib.metadata.version("proctuner") == __version__  # what meson-python made of it
    assert not re.search(r"^\s*version( =|: ')", project.partition("[project]")[2] + build, re.MULTILINE)


def test_the_changelog_has_what_is_not_released_first_and_then_versions_that_fall() -> None:
    titles = re.findall(r"^## \[(.+?)\]", CHANGELOG, re.MULTILINE)
    kinds = re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)
    dated = re.findall(r"^## \[(.+?)\] - \d{4}-\d{2}-\d{2}$", CHANGELOG, re.MULTILINE)
    numbers = [Version(title) for title in titles[1:]]

    assert titles[1:] == dated  # each release has its day
    assert titles[0] == "Unreleased"
    assert numbers == sorted(set(numbers), reverse=True)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_a_file_of_every_older_study_version_is_kept_to_be_read() -> None:
    kept = (ROOT / "tests" / "golden").glob("study_version_*.db")

    versions = sorted(int(path.stem.rpartition("_")[2]) for path in kept)
    assert versions == list(range(1, SCHEMA_VERSION))


def offsets(of: str) -> dict[str, int]:
    """word -> its byte, as the page declares them."""
    return {
        word: int(byte)
        for byte, word in re.findall(rf"^- byte (\d+) of (?:the|a) {of}: (.+)$", PUBLIC, re.MULTILINE)
    }


def test_a_counter_written_as_the_page_declares_its_bytes_is_read(tmp_path: Path) -> None:
    header, slot = offsets("header"), offsets("slot")
    header_bytes, slot_bytes = map(
        int, re.search(r"header of (\d+) bytes, then slots of (\d+) ", PUBLIC).groups()
    )
    data = bytearray(header_bytes + 2 * slot_bytes)
    data[0:8] = b"tunercnt"
    entries = {
        "version": VERSION,
        "pid": 1,
        "start time": 2,
        "number of slots in use": 2,
        "size of a slot in bytes": slot_bytes,
    }
    for word, value in entries.items():
        struct.pack_into("=Q", data, header[word], value)
    for number in range(2):
        for place, byte in enumerate(slot.values()):
            struct.pack_into("=Q", data, header_bytes + number * slot_bytes + byte, 10**place * (number + 1))
    (tmp_path / f"1-0{SUFFIX}").write_bytes(bytes(data))

    totals = read_totals(str(tmp_path))

    assert totals == Totals(3, 30, 300, 3000, 30000, n_slots=2, n_processes=1)
    assert list(slot) == [
        "number of finished items", "number of failed items", "CPU time of the Python code, ns",
        "CPU time of child processes, ns", "waiting time, ns",
    ]  # fmt: skip
