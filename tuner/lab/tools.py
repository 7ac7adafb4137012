"""What the programs of an experiment are run by, and which of them this box cannot run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.errors import MissingToolError
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.lab.experiments.experiment import At, LabJob, ProgramExperiment
    from tuner.lab.go import Go

_NO_PACKAGE = "pip install 'proctuner[lab]', or name a Python that has it with --python."
_NO_PROGRAM = "Install it so that it is found on PATH."
_NO_GO = "Install Go, or put it on the PATH."


@dataclass(frozen=True, slots=True)
class Tools:
    """The interpreter, its packages, and Go where a program needs it."""

    python: str
    interpreter: str  #: which Python that is
    versions: Mapping[str, str]  #: of everything that is needed, by name; "": it is not there
    go: Go | None
    left_out: tuple[str, ...]  #: why some points cannot be run, in sentences
    programs: frozenset[str]  #: those of `versions` that are programs on PATH

    @property
    def hint(self) -> str:
        """How to get what is missing."""
        from tuner.lab.experiments.experiment import GO

        missing = [name for name, version in self.versions.items() if not version]
        hints = [
            _NO_GO if name == GO else _NO_PROGRAM if name in self.programs else _NO_PACKAGE
            for name in missing
        ]
        return " ".join(dict.fromkeys(hints))

    def can_run(self, job: LabJob) -> bool:
        """Whether everything that *job* needs is there."""
        return all(self.versions[name] for name in (*job.needs, *job.programs))

    def runnable(
        self, job: LabJob, folder: Path, tell: Callable[[str], None]
    ) -> tuple[LabJob, Sequence[str], Path]:
        """What `run_job` takes; a program of Go is built before, unless it has been.

        Args:
            folder: where the programs of experiments are.
        """
        if self.go is None or not job.program.endswith(".go"):
            return job, [job.python or self.python], folder
        from tuner.lab.go import build_program

        program = build_program(folder / job.program, self.go, tell)
        return replace(job, program=program.name), [], program.parent


def tools_of(
    experiment: ProgramExperiment, points: Sequence[At], python: str, others: Sequence[str] = ()
) -> Tools:
    """What this box has of what the runs of *points* need.

    Args:
        others: further interpreters, which need the same packages.

    Raises:
        ConfigError: *python* is none, or another.
        MissingToolError: it lacks a package without which nothing can be run.
    """
    from tuner.lab.experiments.experiment import GO, needs_at, programs_at
    from tuner.lab.go import go_here
    from tuner.lab.program import packages_of, versions_of

    needed = needs_at(experiment, points)
    packages = [*experiment.needs, *(name for name in needed if name != GO)]
    asked = {program: packages_of(program, packages) for program in (python, *others)}
    for program, (_, found) in asked.items():
        for name in experiment.needs:
            if not found[name]:
                raise MissingToolError(f"{name} is not installed for {program}", hint=_NO_PACKAGE)
    interpreter = ", ".join(
        sorted(reported for reported, _ in asked.values())
    )  # in whatever order they were named
    versions = {name: _version_of_all([found[name] for _, found in asked.values()]) for name in packages}
    go = go_here() if GO in needed else None
    if GO in needed:
        versions[GO] = go.version if go is not None else ""
    programs = programs_at(experiment, points)
    versions |= versions_of(programs)
    lacking = [name for name in (*needed, *programs) if not versions[name]]
    left_out = []
    for name in lacking:
        jobs = [experiment.job(at) for at in dict.fromkeys(points)]
        n_points = sum(1 for job in jobs if name in (*job.needs, *job.programs))
        why = f"{name} is not installed" + ("" if name in programs else f" for {' or '.join(asked)}")
        if name == GO:
            why = "there is no Go here"
        left_out.append(f"{pluralize(n_points, 'point')} left out: {why}.")
    return Tools(python, interpreter, versions, go, tuple(left_out), frozenset(programs))


def describe_others(needs: Sequence[str], python: str, interpreter: str) -> tuple[str, ...]:
    """That further Pythons of this box could be compared, where they have packages that are *needed*.

    Args:
        needs: packages; of what needs none nothing is told.
        python: the only one that is asked for.
        interpreter: which Python that is.
    """
    from tuner.lab.program import packages_of, pythons_here

    able = []
    for program in pythons_here(os.environ).values() if needs else ():
        reported, found = packages_of(program, needs)
        if reported != interpreter and all(found.values()):
            able.append(program)
    if not able:
        return ()
    words = shlex.join([word for program in (python, *able) for word in ("--python", program)])
    return (f"Interpreters are not compared: {words} would do that, for each has {', '.join(needs)}.",)


def _version_of_all(versions: Sequence[str]) -> str:
    """The versions that interpreters have of a package, each once; "" where one has none."""
    return ", ".join(sorted(set(versions))) if all(versions) else ""
