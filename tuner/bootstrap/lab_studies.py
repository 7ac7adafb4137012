"""Published experiments whose runs are windows of ordinary studies, kept beside the results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.bootstrap.answers import recalled
from tuner.bootstrap.asked import check_same_box, planned, settings_kept
from tuner.bootstrap.stores import open_store
from tuner.core.errors import ConfigError, MeasurementError

if TYPE_CHECKING:
    from tuner.adapters.lab.results import Results
    from tuner.bootstrap.lab import LabAsked
    from tuner.config.settings import Settings
    from tuner.core.lab.experiment import Run
    from tuner.core.lab.studied import Study, StudyExperiment
    from tuner.core.records import StudyRecord

#: makes the study of a record with these settings in a file, new or gone on with; False: it was interrupted
Measure = Callable[["Settings", "StudyRecord", Path, bool], bool]

_PYTHON = "python "  #: before a version, in the provenance of results: what ran its workers


def run_studies(
    experiment: StudyExperiment,
    asked: LabAsked,
    results: Results,
    measure: Measure,
    tell: Callable[[str], None],
    check_same: Callable[[Mapping[str, str], Mapping[str, str]], None],
) -> Results:
    """Make, or go on with, the studies of *experiment*; the results with their runs, written after each.

    Args:
        experiment: whose studies.
        asked: how.
        results: those that are there, or none yet.
        measure: makes a study, as `tuner grid` does.
        tell: gets sentences.
        check_same: told what results were begun with, and what is here; refuses what differs.

    Raises:
        ConfigError: another box or interpreter than before, or a study's file is in the way.
        MeasurementError: no window counts.
        KeyboardInterrupt: a study was interrupted; what it has is in the results.
    """
    from tuner.adapters.lab.program import packages_of
    from tuner.adapters.lab.results import write_results
    from tuner.adapters.provenance import provenance
    from tuner.adapters.simulator import find_simulator, simulate_all

    find_simulator()  # what is missing is told before anything runs
    python = None if asked.also else asked.python  # several are compared with each other only
    is_new = not results.provenance
    pythons = _pythons(asked, results, is_new=is_new)
    facts = {
        **provenance(),
        "worker_python": packages_of(python or sys.executable, ())[0],
        **{_PYTHON + name: program for name, program in pythons.items()},
    }
    if not is_new:
        check_same(results.provenance, facts)
    studies = experiment.studies(results.cores, python, pythons, quick=results.quick)
    left_out = experiment.left_out(python, pythons, quick=results.quick)
    results = replace(results, provenance={**results.provenance, **facts}, left_out=tuple(left_out))
    files = {study.name: study_file(asked.results, study.name) for study in studies}
    if is_new and (there := [file for file in files.values() if os.path.lexists(file)]):
        raise ConfigError(
            f"{there[0]} exists already, and a study is never overwritten",
            hint="Name another file with --results.",
        )
    write_results(asked.results, results)  # what can go wrong with it goes wrong before anything runs
    for sentence in left_out:
        tell(sentence)
    runs: list[Run] = []
    for study in studies:
        is_whole = _made(study, files[study.name], results, measure, tell)
        runs += _runs(experiment, study, files[study.name])
        if runs:
            results = replace(results, runs=tuple(experiment.together(runs, simulate_all)))
            write_results(asked.results, results)
        if not is_whole:
            raise KeyboardInterrupt
    if not runs:
        raise MeasurementError(
            f"no window of {', '.join(map(str, files.values()))} counts",
            hint=f"tuner rank {files[studies[0].name]} says why.",
        )
    return results


def study_file(results: Path, name: str) -> Path:
    """Where the study called *name* is kept, beside *results*."""
    stem = results.name.removesuffix(".json").removesuffix(".lab")
    return results.with_name(f"{stem}.{name}.tuner.db")


def _pythons(asked: LabAsked, results: Results, *, is_new: bool) -> dict[str, str]:
    """What results were begun with; for new ones those named, or those here unless time is short."""
    from tuner.adapters.lab.pythons import pythons_here
    from tuner.bootstrap.lab_interpreters import by_version

    if not is_new:
        kept = results.provenance.items()
        return {name.removeprefix(_PYTHON): one for name, one in kept if name.startswith(_PYTHON)}
    if asked.python is not None and asked.also:
        return by_version([asked.python, *asked.also])
    return {} if asked.python is not None or results.quick else pythons_here(os.environ)


def _made(study: Study, file: Path, results: Results, measure: Measure, tell: Callable[[str], None]) -> bool:
    """Make *study*, as far as *file* does not have it; False: it was interrupted."""
    if file.exists():
        with open_store(file, read_only=True) as store:
            record, is_over = store.study(), recalled(store).ending() == "over"
        if is_over:
            return True
        check_same_box(record, file, tell)
        settings = settings_kept(record, file, f"tuner grid --resume {file}")
        tell(f"{study.what}: going on with {file}")
        return measure(settings, record, file, False)
    settings = _settings(study.settings, results)
    record = planned(settings)
    n_windows = len(record.layouts) * record.n_blocks
    tell(f"{study.what}: {n_windows} windows, kept in {file}")
    return measure(settings, record, file, True)


def _settings(asked: Mapping[str, Any], results: Results) -> Settings:
    from tuner.config.settings import Settings

    study = {**asked["study"], "repeats": results.repeats, "seed": results.seed}
    return Settings.model_validate({**asked, "study": study}, context={"folder": Path.cwd()})


def _runs(experiment: StudyExperiment, study: Study, file: Path) -> list[Run]:
    from tuner.core.model.diagnosis.explanation import machine_of

    if not file.exists():  # nothing was begun in it
        return []
    with open_store(file, read_only=True) as store:
        return experiment.runs_of(study.name, store.windows(), machine_of(store.study()))
