"""Experiments whose runs are windows of ordinary studies, which are stored next to the results."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.plan_builder import check_same_box, plan_record, stored_settings
from tuner.app.study_queries import replay_study
from tuner.bootstrap.stores import open_store
from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.errors import (
    EXIT_BRAKED,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_NOTHING,
    ConfigError,
    MeasurementError,
)
from tuner.lab.interpreters import PROGRAM, PYTHON

if TYPE_CHECKING:
    from tuner.config.settings import Settings
    from tuner.core.domain.records import StudyRecord
    from tuner.lab.experiments.experiment import LabRun
    from tuner.lab.experiments.studied import Study, StudyExperiment
    from tuner.lab.interpreters import LabAsked
    from tuner.lab.results import Results

#: makes or continues the study of a record, with these settings, in a file; returns its exit code
Measure = Callable[["Settings", "StudyRecord", Path, bool], int]

_STUDY = "study "  #: prefix of a study's name in the provenance of results; the value is its file


def run_studies(
    experiment: StudyExperiment,
    asked: LabAsked,
    results: Results,
    measure: Measure,
    tell: Callable[[str], None],
    check_same: Callable[[Mapping[str, str], Mapping[str, str]], None],
) -> Results:
    """Make or resume the studies of *experiment*; return the results with their runs, written after each
    study.

    Args:
        experiment: the experiment.
        asked: Options of the runs.
        results: existing results, or empty ones.
        measure: makes a study, as `tuner grid` does.
        tell: Called with each sentence to print.
        check_same: compares the conditions of the results with the present ones; raises if they differ.

    Raises:
        ConfigError: another host or interpreter than before, or a study's file is in the way.
        MeasurementError: no window is valid.
        KeyboardInterrupt: a study was interrupted; its windows so far are in the results.
    """
    from tuner.adapters.provenance import provenance
    from tuner.adapters.virtual.simulator import find_simulator, simulate_all
    from tuner.lab.program import packages_of
    from tuner.lab.results import write_results

    find_simulator()  # report a missing one before anything runs
    python = asked.python or results.provenance.get(PROGRAM)
    is_new = not results.provenance
    pythons = _pythons(asked, results, is_new=is_new)
    facts = {
        **provenance(),
        "worker_python": packages_of(python or sys.executable, ())[0],
        **({} if python is None else {PROGRAM: python}),
        **{PYTHON + name: program for name, program in pythons.items()},
    }
    if not is_new:
        check_same(results.provenance, facts)
    studies = experiment.studies(results.cores, python, pythons, quick=results.quick)
    left_out = experiment.left_out(None if pythons else python, pythons, quick=results.quick)
    if pythons and results.quick:
        left_out.append(f"Of the Pythons that were named {python} alone runs the layouts.")
    before, results = results, replace(results, provenance={**results.provenance, **facts}, gaps=())
    results = replace(results, left_out=tuple(left_out))
    files = {study.name: study_file(asked.results, study.name) for study in studies}
    _check_files_exist(before, files, asked.results)
    settings = {one.name: _settings(one, results) for one in studies if not files[one.name].exists()}
    if is_new and (there := [file for file in files.values() if os.path.lexists(file)]):
        raise ConfigError(
            f"{there[0]} exists already, and a study is never overwritten",
            hint="Name another file with --results.",
        )
    write_results(asked.results, results)  # fail before anything runs
    for sentence in left_out:
        tell(sentence)
    runs: list[LabRun] = []
    again = shlex.join(["tuner", "lab", experiment.name, "--results", str(asked.results)])
    for study in studies:
        file = files[study.name]
        code = _make_study(study, file, settings.get(study.name), measure, tell, again)
        runs += _runs(experiment, file)
        results = replace(results, gaps=(*results.gaps, *_gaps(file, code)))
        if runs:
            original = {**results.provenance, _STUDY + study.name: file.name}
            together = tuple(experiment.together(runs, simulate_all))
            results = replace(results, provenance=original, runs=together)
            write_results(asked.results, results)
        if code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        if code in (EXIT_NOTHING, EXIT_BRAKED):
            break
    if not runs:
        raise MeasurementError(
            f"no window of {', '.join(str(file) for file in files.values() if file.exists())} counts",
            hint=f"{shlex.join(['tuner', 'rank', str(files[studies[0].name])])} prints the reason.",
        )
    return results


def study_file(results: Path, name: str) -> Path:
    """Return the file of the study called *name*, next to *results*."""
    stem = results.name.removesuffix(".json").removesuffix(".lab")
    return results.with_name(f"{stem}.{name}.tuner.db")


def _pythons(asked: LabAsked, results: Results, *, is_new: bool) -> dict[str, str]:
    """Return the Pythons of existing results; for new ones those requested, or those found unless time is
    short.
    """
    from tuner.lab.interpreters import by_version
    from tuner.lab.program import find_pythons

    named = {}
    if asked.python is not None and asked.also:
        found = by_version([asked.python, *asked.also])
        named = {_value_name(version): program for version, program in found.items()}
    if is_new:
        no_others = asked.python is not None or results.quick
        return named or ({} if no_others else find_pythons(os.environ))
    facts = results.provenance.items()
    kept = {name.removeprefix(PYTHON): one for name, one in facts if name.startswith(PYTHON)}
    if named and named.keys() != kept.keys():
        with_kept = f"Python {', '.join(kept)}" if kept else "one Python"
        raise ConfigError(
            f"{asked.results} was made with {with_kept}, not with Python {', '.join(named)}",
            hint="Leave --python out to continue it, or name another file with --results.",
        )
    return kept


def _value_name(version: str) -> str:
    """Return a version as the value of an axis; one between two releases ends in ``+``."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", version.replace("+", ".dev"))


def _check_files_exist(results: Results, files: Mapping[str, Path], kept: Path) -> None:
    """Check that the files of studies with runs in *results* exist, because such studies are only resumed.

    Raises:
        ConfigError: the file of one is missing at *kept*.
    """
    for name, file in files.items():
        if _STUDY + name in results.provenance and not file.exists():
            raise ConfigError(
                f"{kept} has runs of a study that is not there: {file}",
                hint="Put that file into the same folder, or name another file with --results.",
            )


def _make_study(
    study: Study,
    file: Path,
    settings: Settings | None,
    measure: Measure,
    tell: Callable[[str], None],
    again: str,
) -> int:
    """Measure the parts of *study* that *file* does not contain; return the exit code.

    Args:
        settings: Settings of a new study; None: the study in *file* continues.
        again: Command that resumes the experiment.
    """
    if settings is None:
        with open_store(file, read_only=True) as store:
            record, is_over = store.study(), replay_study(store).ending() == "over"
        if is_over:
            return EXIT_DONE
        check_same_box(record, file, tell)
        settings = stored_settings(record, file, again)
        tell(f"{study.what}: continuing {file}")
        return measure(settings, record, file, False)
    record = plan_record(settings)
    n_windows = len(record.layouts) * record.n_blocks
    tell(f"{study.what}: {n_windows} windows, kept in {file}")
    return measure(settings, record, file, True)


def _settings(asked: Study, results: Results) -> Settings:
    """Return the settings of a study, checked before anything is written.

    Raises:
        ConfigError: they are invalid, such as an interpreter that does not exist.
    """
    from pydantic import ValidationError

    from tuner.config.problems import message
    from tuner.config.settings import Settings

    study = {**asked.settings["study"], "repeats": results.repeats, "seed": results.seed}
    try:
        return Settings.model_validate({**asked.settings, "study": study}, context={"folder": Path.cwd()})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        is_python = "interpreter" in first["loc"]
        where = "--python" if is_python else f"the study {asked.name}: {'.'.join(map(str, first['loc']))}"
        raise ConfigError(
            f"{where}: {message(first)}",
            hint="Name it as python3.13, or /path/to/python." if is_python else None,
        ) from error


def _gaps(file: Path, code: int) -> Sequence[str]:
    """Return the gaps of the study in *file*, which ended with that exit code, in sentences."""
    if code == EXIT_INTERRUPTED or not file.exists():
        return ()
    with open_store(file, read_only=True) as store:
        record, windows = store.study(), store.windows()
    counted = Counter(
        one.layout for one in windows if not one.void and one.n_done and one.block != WARMING_BLOCK
    )
    lacking = [one for one in record.layouts if counted[one] < record.n_blocks]
    stopped = [f"A safety limit stopped the study in {file}."] if code == EXIT_BRAKED else []
    if not lacking:
        return stopped
    text = ", ".join(f"{one} {counted[one]} of {record.n_blocks}" for one in lacking)
    why = shlex.join(["tuner", "rank", str(file)])
    return [*stopped, f"Valid windows are missing: {text}. {why} prints the reasons."]


def _runs(experiment: StudyExperiment, file: Path) -> list[LabRun]:
    from tuner.core.model.diagnosis.explanation import machine_of

    if not file.exists():  # it was not started
        return []
    with open_store(file, read_only=True) as store:
        return experiment.runs_of(store.windows(), machine_of(store.study()))
