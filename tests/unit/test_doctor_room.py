"""What `tuner doctor` takes a study's settings to need: which folders, how much in each, which layouts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tuner.app.doctor import examine_host
from tuner.bootstrap.parts.services import StudyName, service_of
from tuner.bootstrap.room import room_of
from tuner.config.load import load_settings
from tuner.config.settings import Settings
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError
from tuner.doctor.room import FolderSeen, disk_findings
from tuner.doctor.surroundings import query_servers

from ..raising import raises
from ..wording import wording

LAYOUTS = (Layout(1, 2),)


def settings_of(folder: Path, service: str, study: str = "study: {cores: 1}\n") -> Settings:
    (folder / "s.yaml").write_text(f"service:\n{service}{study}")
    return load_settings(folder / "s.yaml", {})


def spec_of(settings: Settings) -> ServiceSpec:
    return service_of(settings, LAYOUTS, StudyName("", ""), Path("/nowhere"), lambda _slug, _text: None)[0]


def folders(settings: Settings, study: Path | None) -> dict[str, FolderSeen]:
    room = room_of(settings, LAYOUTS, spec_of(settings), study)
    return {one.what: one for one in room.folders}


def with_spool(folder: Path, more: str = "") -> Settings:
    return settings_of(folder, f"  kind: crash-processor\n  spool: {folder / 'spool'}\n  items: 40\n{more}")


def test_a_spool_that_is_not_there_blocks_as_a_study_refuses_it(tmp_path: Path) -> None:
    seen = folders(with_spool(tmp_path), tmp_path / "s.db")["the spool"]

    assert [finding.level for finding in disk_findings([seen])] == ["blocker"]


def test_a_spool_that_is_filled_needs_nothing(tmp_path: Path) -> None:
    new = tmp_path / "spool" / "new"
    new.mkdir(parents=True)
    empty = folders(with_spool(tmp_path), tmp_path / "s.db")["the spool"]
    (new / "item").touch()
    filled = folders(with_spool(tmp_path), tmp_path / "s.db")["the spool"]

    assert empty.needed_bytes > 0
    assert filled.needed_bytes == 0


def test_dumps_and_symbols_count_with_their_own_sizes(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "dumps").mkdir()
    for name in ("a.dmp", "b.dump"):
        (tmp_path / "dumps" / name).write_bytes(bytes(1_000_000))
    of_symbols = folders(with_spool(tmp_path, "  symbols_bytes: 50000000\n"), None)["the spool"]
    of_dumps = folders(with_spool(tmp_path, f"  dumps: {tmp_path / 'dumps'}\n"), None)["the spool"]

    assert of_symbols.needed_bytes > 5 * 50_000_000 * 0.9
    assert 40_000_000 < of_dumps.needed_bytes < 42_000_000  # each of them twenty times


def test_what_launches_log_to_is_the_temporary_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    settings = settings_of(tmp_path, "  kind: crash-processor\n")

    seen = folders(settings, tmp_path / "s.db").values()

    assert [(one.what, one.path) for one in seen if one.has_logs] == [("the spool", str(tmp_path))]


def test_a_box_of_a_fleet_keeps_no_file_of_the_study(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "  kind: crash-processor\n")

    assert set(folders(settings, tmp_path / "s.db")) - set(folders(settings, None)) == {"the study's file"}


def test_where_there_is_no_shared_memory_a_temporary_folder_is_found_without_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "/dev/shm" and access(path, mode))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    settings = settings_of(tmp_path, "  kind: crash-processor\n")

    seen = folders(settings, None)["counters of the workers"]

    assert seen.path == str(tmp_path)
    assert tempfile.tempdir is None  # tempfile would have found it out by writing


def test_a_layout_of_a_variant_that_there_is_not_is_refused_as_a_study_refuses_it(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path,
        "  kind: script\n  name: s\n  command: [./worker, '{threads}']\n",
        "study: {layouts: [1x2@x]}\n",
    )

    with raises(ConfigError, wording("compare.study-without-variants")):
        examine_host(settings, tmp_path / "s.db", 0)


def test_a_server_that_feeder_and_probe_name_is_reported_once_with_both_keys(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parents[1] / "golden" / "messages" / "celery.json"
    at = "redis://127.0.0.1:1"  # nobody listens there
    settings = settings_of(
        tmp_path,
        "  kind: script\n  name: s\n  command: [./worker, '{threads}', 'redis://r{process}:6379']\n"
        f"  feeder: {{kind: queue, form: celery, url: '{at}/0', queue: celery, sample: {sample}}}\n"
        f"  probe: {{kind: redis, url: '{at}/1', count: [{{get: done}}]}}\n",
    )

    (seen,) = query_servers(settings, spec_of(settings))

    assert seen.named_by == "service.feeder.url, service.probe.url"
    assert seen.problem
