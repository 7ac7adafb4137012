from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from tuner.adapters.text_file import LARGEST_BYTES, read_text, replace_text
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.pythons


def test_line_ends_are_read_and_written_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    replace_text(file, "a\r\nb\n")

    assert file.read_bytes() == b"a\r\nb\n"
    assert read_text(file) == "a\r\nb\n"


def test_a_missing_file_reads_as_none(tmp_path: Path) -> None:
    assert read_text(tmp_path / "none.md") is None


def test_mode_and_link_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.md", tmp_path / "link.md"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)

    replace_text(link, "new")

    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.md", "real.md"]


def test_a_new_file_gets_the_usual_mode(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        replace_text(tmp_path / "a.md", "x")
    finally:
        os.umask(mask)

    assert stat.S_IMODE((tmp_path / "a.md").stat().st_mode) == 0o640


def test_what_is_not_utf_8_is_named_by_its_byte(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"ab\xff")

    with raises(ConfigError, wording("export.page-no-utf8")):
        read_text(tmp_path / "a.md")


def test_a_folder_in_place_of_the_file_is_refused_in_one_line(tmp_path: Path) -> None:
    with raises(ConfigError, wording("export.cannot-read-a-folder")):
        read_text(tmp_path)
    with raises(ConfigError, wording("export.page-unchanged")):
        replace_text(tmp_path, "x")
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with raises(ConfigError, wording("export.page-cannot-be-written")) as result:
        replace_text(tmp_path / "none of them" / "a.md", "x")
    assert result.value.hint == wording("export.make-folder-first", tmp_path=tmp_path)


@pytest.mark.parametrize("what", ["a pipe", "a socket", "a device"])
def test_what_is_no_file_is_refused_at_once_and_stays(what: str, tmp_path: Path) -> None:
    place = tmp_path / "R.md"
    with socket.socket(socket.AF_UNIX) as held:
        if what == "a pipe":
            os.mkfifo(place)
        elif what == "a socket":
            held.bind(str(place))
        else:
            place.symlink_to("/dev/zero")
        before = place.stat()

        for use in (read_text, lambda path: replace_text(path, "x")):
            with raises(ConfigError, wording("export.page-no-file", what=what)):
                use(place)

        assert place.stat().st_ino == before.st_ino
        assert os.listdir(tmp_path) == ["R.md"]


def test_what_is_too_large_for_a_page_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.md"
    with path.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)

    with raises(ConfigError, wording("export.page-too-large")):
        read_text(path)
