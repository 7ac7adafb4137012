"""Tools that experiments need (interpreter, packages, Go), and detection of missing ones."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.adapters.processes.signals import run_in_process_group
from tuner.core.errors import ConfigError, MissingToolError
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.lab.experiments.experiment import At, LabJob, ProgramExperiment

_NO_PACKAGE = "pip install 'proctuner[lab]', or name a Python that has it with --python."
_NO_PROGRAM = "Install it so that it is found on PATH."
_NO_GO = "Install Go, or put it on the PATH."


@dataclass(frozen=True, slots=True)
class Tools:
    """The interpreter, its packages, and Go if a program needs it."""

    python: str
    interpreter: str  #: version of the Python
    versions: Mapping[str, str]  #: versions of everything needed, by name; "": missing
    go: Go | None
    left_out: tuple[str, ...]  #: sentences why some points cannot be run
    programs: frozenset[str]  #: the programs on PATH among `versions`

    @property
    def hint(self) -> str:
        """Return how to install missing tools."""
        from tuner.lab.experiments.experiment import GO

        missing = [name for name, version in self.versions.items() if not version]
        hints = [
            _NO_GO if name == GO else _NO_PROGRAM if name in self.programs else _NO_PACKAGE
            for name in missing
        ]
        return " ".join(dict.fromkeys(hints))

    def can_run(self, job: LabJob) -> bool:
        """Return whether this host has everything that *job* needs."""
        return all(self.versions[name] for name in (*job.needs, *job.programs))

    def runnable(
        self, job: LabJob, folder: Path, tell: Callable[[str], None]
    ) -> tuple[LabJob, Sequence[str], Path]:
        """Return the arguments for `run_job`; a Go program is built first, unless it is in the cache.

        Args:
            folder: the folder of the experiments' programs.
        """
        if self.go is None or not job.program.endswith(".go"):
            return job, [job.python or self.python], folder

        program = build_program(folder / job.program, self.go, tell)
        return replace(job, program=program.name), [], program.parent


def tools_of(
    experiment: ProgramExperiment, points: Sequence[At], python: str, others: Sequence[str] = ()
) -> Tools:
    """Return the tools on this host that the runs of *points* need.

    Args:
        others: further interpreters, which need the same packages.

    Raises:
        ConfigError: *python* is none, or another.
        MissingToolError: a package that all runs need is missing.
    """
    from tuner.lab.experiments.experiment import GO, needs_at, programs_at
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
    )  # independent of the order of the arguments
    versions = {name: _version_of_all([found[name] for _, found in asked.values()]) for name in packages}
    go = find_go() if GO in needed else None
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
    """Return a hint that further Pythons of this host could be compared, if they have the *needs*.

    Args:
        needs: packages; without any, there is no hint.
        python: the only requested interpreter.
        interpreter: its version.
    """
    from tuner.lab.program import find_pythons, packages_of

    able = []
    for program in find_pythons(os.environ).values() if needs else ():
        reported, found = packages_of(program, needs)
        if reported != interpreter and all(found.values()):
            able.append(program)
    if not able:
        return ()
    words = shlex.join([word for program in (python, *able) for word in ("--python", program)])
    return (f"Interpreters are not compared: {words} would do that, for each has {', '.join(needs)}.",)


def _version_of_all(versions: Sequence[str]) -> str:
    """Return the versions of a package in all interpreters, each once; "" if one lacks it."""
    return ", ".join(sorted(set(versions))) if all(versions) else ""


# Go: detection, and its programs, which are built on first use and kept in the user's cache.


_USUAL_ROOT = "/usr/local/go"  #: installation folder of Go's archives, which is not on PATH by default
_ASK_WAIT_S = 60.0
_BUILD_WAIT_S = 600.0  #: long, because the first build also compiles Go's standard library
_MOST_WORDS = 400  #: characters kept of the last output of a failed build
#: settings under which Go downloads neither modules nor toolchains and ignores the user's settings
_SETTINGS = {
    "GOFLAGS": "-mod=mod",
    "GOTOOLCHAIN": "local",
    "GOPROXY": "off",
    "GOWORK": "off",
    "GO111MODULE": "on",
    "CGO_ENABLED": "0",
    "GOENV": "off",
    "GOOS": "",
    "GOARCH": "",
    "GOEXPERIMENT": "",
}


@dataclass(frozen=True, slots=True)
class Go:
    """An installed Go compiler."""

    program: str
    version: str  #: such as 1.26.8


def find_go() -> Go | None:
    """Return the Go of this host: from the PATH, else GOROOT, else the usual folder; None: there is none.

    Raises:
        ConfigError: it does not print its version.
    """
    root = os.environ.get("GOROOT") or _USUAL_ROOT
    program = shutil.which("go") or shutil.which(os.path.join(root, "bin", "go"))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "env", "GOVERSION"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_WAIT_S,
            check=True,
            env={**os.environ, **_SETTINGS},
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigError(
            f"cannot read the version of {program}", hint="Use a Go that is on the PATH, or repair it."
        ) from error
    return Go(program, done.stdout.strip().removeprefix("go"))


def build_program(source: Path, go: Go, tell: Callable[[str], None]) -> Path:
    """Return the program that *go* builds from *source*, one file of standard Go; from the cache if possible.

    Another source or Go version is another program; the cache is written atomically.

    Raises:
        ConfigError: it does not build, or the cache cannot be written.
    """
    try:
        key = hashlib.sha256(source.read_bytes() + b"\0" + go.version.encode()).hexdigest()[:16]
        folder = _cache(os.environ)
        program = folder / f"{source.stem}-{key}"
        if program.exists():
            return program
        tell(f"building {source.name} with Go {go.version}; it is kept in {program}")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as building:
            made = Path(building) / "program"
            _build(source, go, made)
            made.replace(program)
    except (OSError, RuntimeError) as error:  # Path.home() may fail
        raise ConfigError(
            f"{source.name} cannot be built: {error}", hint="Point XDG_CACHE_HOME to a folder of yours."
        ) from error
    return program


def _cache(environment: Mapping[str, str]) -> Path:
    named = environment.get("XDG_CACHE_HOME", "")
    root = Path(named) if os.path.isabs(named) else Path.home() / ".cache"  # a relative path is ignored
    return root / "tuner"


def _build(source: Path, go: Go, made: Path) -> None:
    with tempfile.TemporaryFile() as errors:
        try:
            with run_in_process_group(
                [go.program, "build", "-trimpath", "-o", str(made), str(source)],
                cwd=made.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **_SETTINGS},
            ) as process:
                process.wait(_BUILD_WAIT_S)
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"{source.name} was not built in {_BUILD_WAIT_S:.0f} s") from error
        errors.seek(0)
        err = errors.read()
    if process.returncode != 0:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        text = f": {lines[-1][:_MOST_WORDS]}" if lines else ""
        raise ConfigError(f"{source.name} does not build with Go {go.version}{text}")
