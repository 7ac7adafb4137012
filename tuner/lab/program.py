"""Subprocess runner for one program of ``workers/lab/``, with timing of wall clock and CPU."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from resource import struct_rusage as Usage
from typing import IO

from tuner.adapters.proc.process_tree import read_box_times
from tuner.adapters.processes.signals import ending_in_words, run_in_process_group
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.figures import parse_json, render_duration
from tuner.lab.experiments.experiment import LabJob

_MOST_WORDS = 400  #: characters kept of the last output of a failed program
_ASK_WAIT_S = 60.0
_PROC = Path("/proc")
_IN_MEMORY = Path("/dev/shm")
#: prints the Python version (CPython 3.13.0; 3.13.0t for a build that can run without a GIL) and the version
#: of each named package ("": missing)
_QUESTION = """
import importlib.metadata, json, platform, sys, sysconfig
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
interpreter = platform.python_implementation() + " " + platform.python_version()
interpreter += "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
print(json.dumps([interpreter, {name: version(name) for name in sys.argv[1:]}]))
"""


def folder_of_programs() -> Path:
    """Return the folder in which the programs of experiments are installed."""
    found = find_spec("tuner_workers.lab")
    if found is None or found.origin is None:
        raise ConfigError("tuner_workers.lab is not installed", hint="Install tuner whole: make grid")
    return Path(found.origin).parent


def packages_of(python: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the version of an interpreter, and the versions of its packages; "" for a missing one.

    Raises:
        ConfigError: it cannot be run, or does not answer as Python does.
    """
    try:
        done = subprocess.run(
            [python, "-c", _QUESTION, *names],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_WAIT_S,
            check=True,
        )
        interpreter, versions = json.loads(done.stdout)
    except OSError as error:
        raise ConfigError(f"{python} cannot be run: {error.strerror}") from error
    except (ValueError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{python} does not answer as a Python does") from error
    return str(interpreter), {str(name): str(version) for name, version in versions.items()}


def versions_of(programs: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the versions that *programs* print, by their command lines; "" for one that is not on PATH.

    Raises:
        ConfigError: one cannot be run.
    """
    return {name: _version_of(name, words) for name, words in programs.items()}


def _version_of(name: str, words: Sequence[str]) -> str:
    found = shutil.which(name)
    if found is None:
        return ""
    try:
        done = subprocess.run(
            [found, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_WAIT_S,
            check=True,
        )
    except OSError as error:
        raise ConfigError(f"{found} cannot be run: {error.strerror}") from error
    except subprocess.SubprocessError as error:
        raise ConfigError(f"cannot read the version of {found}") from error
    number = re.search(r"\d+(\.\d+)+", done.stdout)
    return number[0] if number else "of no number"


def run_job(
    job: LabJob, python: Sequence[str], folder: Path, scratch: Path | None = None
) -> dict[str, float]:
    """Run *job* with the interpreter *python*; return its times and the numbers that it printed.

    Its TMPDIR is a new folder below *scratch* (None: in `memory`), which is removed afterwards.

    ``total_s`` is from its start to its end, interpreter included; ``user_s`` and ``system_s`` are the
    kernel's for it and the children that it waited for; ``cpu_s`` is their sum, ``cpu_percent`` that per
    total; ``foreign_cores`` is the use of the host by other processes meanwhile, in cores: time that was not
    idle, less these times and tuner's own, including time that a hypervisor took.

    Raises:
        MeasurementError: it failed, exceeded its time limit, or did not print an object of numbers.
    """
    words = [*python, str(folder / job.program), *job.options]
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryDirectory(prefix="lab-", dir=scratch or memory()) as own,
    ):
        before = read_box_times(_PROC)
        own_s, begun_s = time.process_time(), time.monotonic()
        environment = {**os.environ, "TMPDIR": own, **job.environment}
        try:
            with run_in_process_group(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment
            ) as process:
                usage = _wait(process, job.at_most_s)
        except OSError as error:
            raise ConfigError(f"{words[0]} cannot be run: {error.strerror}") from error
        total_s = time.monotonic() - begun_s
        after = read_box_times(_PROC)
        own_s = time.process_time() - own_s
        if process.returncode != 0:
            raise MeasurementError(
                f"{job.program} {_how(process.returncode, total_s, job)}{_last_words(err)}"
            )
        out.seek(0)
        printed = _numbers(out.read(), job)
    cpu_s = usage.ru_utime + usage.ru_stime
    used_s = total_s * after.n_cpus - (after.idle_s - before.idle_s)
    return {
        **printed,
        "total_s": total_s,
        "user_s": usage.ru_utime,
        "system_s": usage.ru_stime,
        "cpu_s": cpu_s,
        "cpu_percent": 100 * cpu_s / total_s,
        "foreign_cores": max(0.0, used_s - cpu_s - own_s) / total_s,
    }


def memory() -> Path:
    """Return a folder in memory if this host has one; else the default folder for temporary files."""
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _wait(process: subprocess.Popen[bytes], at_most_s: float) -> Usage:
    """Wait for a program, kill its group at its end or after *at_most_s*, and return its times.

    The group is killed before its leader is reaped, so that its number cannot be reused.
    """
    descriptor = None
    try:
        descriptor = os.pidfd_open(process.pid)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(1000 * at_most_s)
    finally:
        if descriptor is not None:
            os.close(descriptor)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # Popen cannot detect it
    return usage


def _how(code: int, took_s: float, job: LabJob) -> str:
    if code == -signal.SIGKILL and took_s >= job.at_most_s:
        return f"took longer than {render_duration(job.at_most_s)} and was killed"
    return ending_in_words(code)


def _last_words(err: IO[bytes]) -> str:
    err.seek(0)
    lines = err.read().decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:_MOST_WORDS]}" if lines else ""


def _numbers(printed: bytes, job: LabJob) -> dict[str, float]:
    try:
        found = {str(name): float(value) for name, value in parse_json(printed).items()}
        if not all(map(isfinite, found.values())):
            raise ValueError("a number without end")
        return found
    except (ValueError, AttributeError, TypeError, OverflowError) as error:
        raise MeasurementError(
            f"{job.program} printed no object of numbers but {printed[:_MOST_WORDS]!r}"
        ) from error


# Pythons of this host that experiments compare.

VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")  #: the versions of Python on which tuner runs


def find_pythons(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a Python for each of VERSIONS on this host, from the PATH or pyenv, by version."""
    found = {}
    for version in VERSIONS:
        for program in _candidate_pythons(version, environment):
            if _is(version, program):
                found[version] = program
                break
    return found


def _candidate_pythons(version: str, environment: Mapping[str, str]) -> Iterator[str]:
    on_path = shutil.which(f"python{version}", path=environment.get("PATH"))
    if on_path is not None:
        yield on_path
    root = environment.get("PYENV_ROOT") or os.path.join(environment.get("HOME", ""), ".pyenv")
    for folder in sorted(Path(root).glob(f"versions/{version}.*"), key=_patch, reverse=True):
        yield str(folder / "bin" / "python")


def _patch(folder: Path) -> tuple[int, str]:
    number = folder.name.rpartition(".")[2]
    return (int(number) if number.isdigit() else -1, folder.name)


def _is(version: str, program: str) -> bool:
    """Return whether it starts (a shim may have no target) and is that CPython, with a GIL."""
    try:
        reported, _ = packages_of(program, ())
    except ConfigError:
        return False
    return reported.startswith(f"CPython {version}.") and not reported.endswith("t")
