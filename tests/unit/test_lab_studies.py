"""Experiments whose runs are studies: begun, gone on with, short of windows; on a virtual box."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.virtual.box import Trouble, VirtualBox, VirtualClock, VirtualService
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.bootstrap.stores import new_store, open_store
from tuner.config.settings import Settings
from tuner.core.domain.records import StudyRecord
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.lab.experiments.socorro import Socorro
from tuner.lab.interpreters import LabAsked, lab_command
from tuner.lab.results import Results, read_results
from tuner.lab.studies import run_studies
from tuner.lab.tools import describe_others
from tuner.study.run import run_study

from ..e2e.typed import Typed
from ..raising import raises
from ..wording import start_of, wording

QUICK = Results("socorro", True, 1, 1, 2, {})
STUDY = "it.layouts.tuner.db"


def made(
    folder: Path, results: Results = QUICK, troubles: tuple[Trouble, ...] = (), **asked: Any
) -> tuple[Results, list[str]]:
    """What `tuner lab socorro` makes of it, and the names of the studies that were measured."""
    measured = []

    def measure(_settings: Settings, record: StudyRecord, file: Path, is_new: bool) -> int:
        service = VirtualService(dict.fromkeys(record.layouts, 10.0), settle_s=1.0)
        box = VirtualBox(service, seed=3, cores=2, clock=VirtualClock(), troubles=troubles).box()
        measured.append(file.name)
        with new_store(file, record) if is_new else open_store(file) as store:
            return run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(record)).exit_code

    def check_same(_before: Mapping[str, str], _facts: Mapping[str, str]) -> None:
        pass

    lab = LabAsked(folder / "it.lab.json", quick=results.quick, **asked)
    found = run_studies(Socorro(), lab, results, measure, lambda _sentence: None, check_same)
    assert read_results(folder / "it.lab.json") == found
    return found, measured


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of it was measured, by this Python, which was named."""
    folder = tmp_path_factory.mktemp("whole")
    _, measured = made(folder, python=sys.executable)
    assert measured == [STUDY]
    return folder


@pytest.fixture
def whole(whole_folder: Path, tmp_path: Path) -> Results:
    """The results of a copy of that in this test's folder."""
    shutil.copytree(whole_folder, tmp_path, dirs_exist_ok=True)
    found = read_results(tmp_path / "it.lab.json")
    assert found is not None
    return found


def python(path: Path, version: str) -> str:
    """A program that answers as such a Python does."""
    path.write_text(f"#!/bin/sh\necho '[\"CPython {version}\", {{}}]'\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_study_that_gave_all_is_not_made_again(tmp_path: Path, whole: Results) -> None:
    again, measured = made(tmp_path, whole)

    assert measured == []
    assert whole.gaps == again.gaps == ()
    assert whole.runs == again.runs


def test_layouts_without_a_window_that_counts_are_reported_now_and_later(tmp_path: Path) -> None:
    with raises(MeasurementError, wording("lab.no-window-counts", file=tmp_path / STUDY)):
        made(tmp_path, troubles=(Trouble("dies-at-start"),))
    (tmp_path / STUDY).unlink()
    (tmp_path / "it.lab.json").unlink()
    study = Socorro().studies(2, None, {}, quick=True)[0]
    (lost, *_) = Settings.model_validate(study.settings, context={"folder": tmp_path}).layouts_for(2)

    found, _ = made(tmp_path, troubles=(Trouble("dies-at-start", lost),))
    again, _ = made(tmp_path, found)

    (result,) = found.gaps
    assert wording("lab.windows-lacking-of-layout", lost=lost) in start_of(result)
    assert again.gaps == found.gaps


def test_runs_without_their_study_are_not_measured_anew(tmp_path: Path, whole: Results) -> None:
    (tmp_path / STUDY).rename(tmp_path / "elsewhere")

    with raises(ConfigError, wording("lab.study-not-there", file=tmp_path / STUDY)):
        made(tmp_path, whole)
    assert read_results(tmp_path / "it.lab.json") == whole
    assert not (tmp_path / STUDY).exists()


def test_of_several_pythons_the_first_runs_the_layouts_and_others_do_not_continue(tmp_path: Path) -> None:
    first, other = python(tmp_path / "python3.99", "3.99.1+"), python(tmp_path / "python3.98", "3.98.0")
    results = replace(QUICK, quick=False)
    lab = {"python": first, "also": (other,)}
    record = {}

    def stop(settings: Settings, *_: object) -> int:
        record["interpreter"] = settings.service.interpreter
        return 130

    asked = LabAsked(tmp_path / "it.lab.json", **lab)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        run_studies(Socorro(), asked, results, stop, lambda _: None, lambda *_: None)
    kept = read_results(tmp_path / "it.lab.json")

    assert record["interpreter"] == (first,)
    assert kept is not None
    assert kept.left_out == ()
    assert {"python 3.98.0", "python 3.99.1.dev"} <= kept.provenance.keys()
    third = python(tmp_path / "python3.97", "3.97.0")
    with raises(ConfigError, wording("lab.was-made-with-python", were="3.98.0, 3.99.1.dev", now="3.97")):
        run_studies(Socorro(), replace(asked, also=(third,)), kept, stop, lambda _: None, lambda *_: None)


def test_a_look_says_that_only_the_first_of_several_pythons_runs_it(tmp_path: Path) -> None:
    other = python(tmp_path / "python3.98", "3.98.0")

    found, _ = made(tmp_path, python=sys.executable, also=(other,))

    assert found.left_out[-1] == wording("lab.one-python-runs-the-layouts", executable=sys.executable)


def test_what_was_typed_is_reported_by_the_results(whole: Results) -> None:
    pythons = {"worker_program": "/b/python3", "python 3.11.7": "/a b/python3", "python 3.12.1": "/b/python3"}

    assert lab_command(QUICK) == wording("lab.tuner-lab-socorro-quick")
    assert lab_command(replace(QUICK, repeats=3, seed=7)) == wording("lab.tuner-lab-socorro-quick-repeats")
    assert lab_command(replace(QUICK, quick=False, repeats=3, provenance=pythons)) == wording(
        "lab.tuner-lab-socorro-python"
    )
    found = {"python 3.11": "/a/python3"}
    assert lab_command(replace(QUICK, provenance=found)) == wording("lab.tuner-lab-socorro-quick")
    assert lab_command(whole) == wording("lab.tuner-lab-socorro-quick-python", executable=sys.executable)


def test_further_pythons_that_have_what_is_needed_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, has in (("3.11", '"1.0"'), ("3.12", '""'), ("3.13", '"1.0"')):
        program = tmp_path / f"python{version}"
        python(program, f"{version}.1")
        program.write_text(program.read_text().replace("{}", f'{{"nornir": {has}}}'), encoding="utf-8")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    (result,) = describe_others(["nornir"], "/opt/python", "CPython 3.13.1")

    assert wording("lab.interpreters-not-compared") in start_of(result)
    assert result.split(" would ")[0].split("--python ")[2:] == [str(tmp_path / "python3.11")]
    assert describe_others([], "/opt/python", "CPython 3.13.1") == ()


def test_a_python_that_is_none_by_its_name_is_reported_before_anything_is_written(tmp_path: Path) -> None:
    mine = python(tmp_path / "my-interp", "3.12.1")

    done = Typed(tmp_path)("lab", "socorro", "--quick", "--python", mine, "--results", "it.lab.json")

    assert done.returncode == 2
    assert wording("config.option-python-no-python", mine=mine) in start_of(done.stderr)
    assert [one.name for one in tmp_path.iterdir()] == ["my-interp"]
