"""Which interpreters an experiment is run by, and by which its results were made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.adapters.lab.results import Results
    from tuner.bootstrap.lab import LabAsked
    from tuner.core.lab.experiment import Experiment, ProgramExperiment


def on_interpreters(experiment: ProgramExperiment, asked: LabAsked, results: Results) -> ProgramExperiment:
    """*experiment* on the interpreters that are asked for, or that *results* are of; itself on one.

    Raises:
        ConfigError: they are no Pythons, or two of one version, or others than those of the results.
    """
    from tuner.core.lab.interpreters import OnInterpreters

    kept = _versions_in(experiment, results)
    if not asked.also:
        if not kept:
            return experiment
        return OnInterpreters(experiment, dict.fromkeys(kept, asked.python or ""))
    if asked.python is None:
        raise ValueError("further interpreters, and no first one")
    programs = by_version([asked.python, *asked.also])
    if results.runs and set(kept) != set(programs):
        raise ConfigError(
            f"{asked.results} was made with {_told(kept)}, not with {_told(list(programs))}",
            hint="Name the same interpreters with --python, or another file with --results.",
        )
    return OnInterpreters(experiment, programs)


def _versions_in(experiment: Experiment, results: Results) -> list[str]:
    if not results.runs or len(results.runs[0].at) == len(experiment.parameters):
        return []
    return sorted({str(run.at[0]) for run in results.runs}, key=_in_order)


def _in_order(version: str) -> tuple[bool, list[int], str]:
    return not version[0].isdigit(), [int(part) for part in re.findall(r"\d+", version)], version


def by_version(programs: Sequence[str]) -> dict[str, str]:
    """Interpreters by version, the earliest first: 3.13.0, 3.13.0t without a GIL, and others than CPython as
    pypy3.11.13.

    Raises:
        ConfigError: one is no Python, or two are of one version.
    """
    from tuner.adapters.lab.program import packages_of

    found: dict[str, str] = {}
    for program in programs:
        told, _, number = packages_of(program, ())[0].rpartition(" ")
        version = f"{told.lower().removeprefix('cpython')}{number}"
        if version in found:
            raise ConfigError(
                f"{found[version]} and {program} are both Python {version}",
                hint="Name interpreters of different versions with --python.",
            )
        found[version] = program
    return {version: found[version] for version in sorted(found, key=_in_order)}


def _told(versions: Sequence[str]) -> str:
    return f"Python {', '.join(versions)}" if versions else "one interpreter"
