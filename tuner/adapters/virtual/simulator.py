"""Client of the C program ``tuner-simulate``, which simulates many scenarios in one process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from tuner.core.errors import ConfigError
from tuner.core.model.simulation.scenario import (
    Counts,
    Scenario,
    Simulated,
    TaskSeconds,
    least_residence_s,
    summary,
)

PROGRAM = "tuner-simulate"
_TASKS = [field.name for field in fields(TaskSeconds)]


def find_simulator() -> str:
    """Return the path of the installed program: next to this interpreter, next to the command, or on the
    PATH.

    Raises:
        ConfigError: it is missing, or cannot be executed.
    """
    beside = [str(Path(sys.executable).parent), str(Path(sys.argv[0]).absolute().parent)]
    for path in (os.pathsep.join(beside), None):
        found = shutil.which(PROGRAM, path=path)
        if found is not None:
            return found
    raise ConfigError(
        f"no simulator: {PROGRAM} is neither in the folder of {sys.executable} nor on the PATH",
        hint="Install tuner with pip: its wheel brings the program along.",
    )


def simulate_all(scenarios: Iterable[Scenario], *, program: str | None = None) -> list[Simulated]:
    """Simulate *scenarios* in one process; results equal those of `simulation.simulate` to the last bit.

    Raises:
        ConfigError: *program* is missing, or it rejects a scenario: times are too long for its clock, or a
            million items wait. A `Scenario` refuses arrivals beyond the capacity of its cores, of its GILs or
            of its threads. Their joint capacity is slightly less; arrivals between the two are simulated with
            a queue that grows with the length of the run.
    """
    batch = list(scenarios)
    if not batch:
        return []
    counts = count_all(batch, program=program)
    return [summary(scenario, one) for scenario, one in zip(batch, counts, strict=True)]


def count_all(scenarios: Sequence[Scenario], *, program: str | None = None) -> list[Counts]:
    """Return the counts of each of *scenarios*; see `simulate_all`."""
    command = find_simulator() if program is None else program
    lines = "".join(f"{scenario_line(one)}\n" for one in scenarios)
    try:
        done = subprocess.run([command], input=lines, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigError(
            f"{command} cannot be run: {error.strerror}", hint="Install tuner again: the program is damaged."
        ) from error
    if done.returncode != 0:
        raise ConfigError(_problem(done, command))
    answers = done.stdout.splitlines()
    if len(answers) != len(scenarios):
        raise ConfigError(f"{command} answered {len(answers)} of {len(scenarios)} scenarios")
    return [parse_counts(answer) for answer in answers]


def scenario_line(scenario: Scenario) -> str:
    """Return *scenario* as input for the program; ``tuner-simulate --help`` describes it."""
    machine = scenario.machine
    data = {
        "processes": scenario.layout.processes,
        "threads": scenario.layout.threads,
        "seed": scenario.seed,
        "n_items": scenario.n_items,
        "n_warm_items": scenario.n_warm_items,
        "arrival_per_s": scenario.arrival_per_s or 0.0,
        "cv": scenario.demands.cv_ratio,
        "switch_interval_s": machine.switch_interval_s,
        "handover_s": machine.handover_s,
        "least_residence_s": least_residence_s(scenario),
        "cores": scenario.cores,
        "stages": ",".join(f"{stage.kind}:{float(stage.mean_s)!r}" for stage in scenario.path),
        "speeds": ",".join(map(repr, scenario.speeds)),
    }
    return " ".join(f"{name}={value}" for name, value in data.items())


def parse_counts(line: str) -> Counts:
    """Return the counts in one output line of the program."""
    data = dict(field.split("=", 1) for field in line.split(" "))
    histogram = (pair.split(":") for pair in data["histogram"].split(","))
    return Counts(
        elapsed_s=float(data["elapsed_s"]),
        tasks=TaskSeconds(*(float(data[name]) for name in _TASKS)),
        residence_sum_s=float(data["residence_sum_s"]),
        batch_ends_s=tuple(map(float, data["batch_ends_s"].split(","))),
        histogram=tuple((int(bucket), int(n)) for bucket, n in histogram),
        n_forced=int(data["n_forced"]),
        n_events=int(data["n_events"]),
        digest=int(data["digest"], 16),
    )


def _problem(done: subprocess.CompletedProcess[str], command: str) -> str:
    if done.returncode < 0:
        return f"{command} died of signal {-done.returncode}"
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return f"{command}: {said[-1].removeprefix('ERROR ')}"
