"""Choice of the interpreters for an experiment, and check against those of stored results."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.lab.experiments.experiment import Experiment, ProgramExperiment
    from tuner.lab.results import Results


@dataclass(frozen=True, slots=True)
class LabAsked:
    """How to run an experiment; None: as in the existing results, else the default."""

    results: Path  #: file for the results, which a later run can continue
    quick: bool = False  #: whether to run only a few points, once
    repeats: int | None = None  #: number of runs of each point
    seed: int | None = None  #: seed of the order of runs
    python: str | None = None  #: interpreter that runs the programs; None: the one that runs tuner
    also: tuple[str, ...] = ()  #: further interpreters, which make the interpreter a parameter of the points


# Command line that made results of the lab, from the results.

USUAL_REPEATS, QUICK_REPEATS, USUAL_SEED = 3, 1, 1
#: keys in the provenance of results: first interpreter named, and prefix before the version of each of
#: several
PROGRAM, PYTHON = "worker_program", "python "


def lab_command(results: Results) -> str:
    """Return the command that makes such results again."""
    words = ["tuner", "lab", results.name]
    if results.quick:
        words.append("--quick")
    if results.repeats != (QUICK_REPEATS if results.quick else USUAL_REPEATS):
        words += ["--repeats", str(results.repeats)]
    if results.seed != USUAL_SEED:
        words += ["--seed", str(results.seed)]
    first = results.provenance.get(PROGRAM)
    if first is not None:  # otherwise the compared ones were found automatically
        several = [one for name, one in results.provenance.items() if name.startswith(PYTHON)]
        words += [word for one in dict.fromkeys([first, *several]) for word in ("--python", one)]
    return shlex.join(words)


def on_interpreters(
    experiment: ProgramExperiment, asked: LabAsked, results: Results
) -> tuple[ProgramExperiment, LabAsked]:
    """Return *experiment* on the requested interpreters, or else on those of *results*; unchanged for one.

    Raises:
        ConfigError: one is not a Python, two have the same version, or they differ from those of the results.
    """
    from tuner.lab.experiments.interpreters import OnInterpreters

    facts = results.provenance.items()
    kept = {name.removeprefix(PYTHON): program for name, program in facts if name.startswith(PYTHON)}
    if not asked.also and not kept:
        return experiment, asked
    if asked.python is None:
        first, *others = kept.values()
        return OnInterpreters(experiment, kept), replace(asked, python=first, also=tuple(others))
    programs = by_version([asked.python, *asked.also])
    if results.provenance and kept.keys() != programs.keys():
        raise ConfigError(
            f"{asked.results} was made with {_list_versions(list(kept))}, not with "
            f"{_list_versions(list(programs))}",
            hint="Leave --python out to continue it, or name another file with --results.",
        )
    return OnInterpreters(experiment, programs), asked


def facts_of(experiment: Experiment) -> dict[str, str]:
    """Return the interpreters of *experiment*, as its results store them; empty for one."""
    from tuner.lab.experiments.interpreters import OnInterpreters

    if not isinstance(experiment, OnInterpreters):
        return {}
    return {f"{PYTHON}{version}": program for version, program in experiment.programs.items()}


def check_points(experiment: Experiment, results: Results, file: Path) -> None:
    """Check that the points of *results* are points of *experiment*.

    Raises:
        ConfigError: a point is not.
    """
    from tuner.lab.experiments.experiment import format_point
    from tuner.lab.experiments.interpreters import NONE, OnInterpreters

    pythons = {*experiment.programs, NONE} if isinstance(experiment, OnInterpreters) else None
    for at in (*(run.at for run in results.runs), *(one.at for one in results.failed)):
        if len(at) != len(experiment.parameters) or (pythons is not None and at[0] not in pythons):
            raise ConfigError(
                f"{file} has a point ({format_point(at)}) that is none of {experiment.name}'s "
                f"({', '.join(experiment.parameters)})",
                hint="Name another file with --results.",
            )


def _in_order(version: str) -> tuple[bool, list[int], str]:
    return not version[0].isdigit(), [int(part) for part in re.findall(r"\d+", version)], version


def by_version(programs: Sequence[str]) -> dict[str, str]:
    """Return interpreters by version, the earliest first: 3.13.0, 3.13.0t without a GIL, and others than
    CPython as pypy3.11.13.

    Raises:
        ConfigError: one is no Python, or two are of one version.
    """
    from tuner.lab.program import packages_of

    found: dict[str, str] = {}
    for program in programs:
        reported, _, number = packages_of(program, ())[0].rpartition(" ")
        version = f"{reported.lower().removeprefix('cpython')}{number}"
        if version in found:
            raise ConfigError(
                f"{found[version]} and {program} are both Python {version}",
                hint="Name interpreters of different versions with --python.",
            )
        found[version] = program
    return {version: found[version] for version in sorted(found, key=_in_order)}


def _list_versions(versions: Sequence[str]) -> str:
    return f"Python {', '.join(versions)}" if versions else "one interpreter"
