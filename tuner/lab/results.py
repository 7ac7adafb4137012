"""Results file of an experiment, which is replaced atomically after each run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from tuner.adapters.text_file import read_text, replace_text
from tuner.core.errors import ConfigError
from tuner.core.text.figures import parse_json
from tuner.lab.experiments.experiment import At, Failure, LabRun

_VERSION = 2  #: in version 1, some figures with the same names had other meanings


@dataclass(frozen=True, slots=True)
class Results:
    """The runs of one experiment, and how they were made."""

    name: str  #: name of the experiment
    quick: bool
    repeats: int
    seed: int
    cores: int  #: cores that the programs could use
    provenance: Mapping[str, str]  #: facts about the host and the interpreter
    runs: tuple[LabRun, ...] = ()
    left_out: tuple[str, ...] = ()  #: sentences why some points were not run
    failed: tuple[Failure, ...] = ()  #: runs that failed
    calibration: Mapping[str, float] = field(default_factory=dict)  #: values measured before all runs
    gaps: tuple[str, ...] = ()  #: sentences about requested windows that studies did not give

    def with_run(self, run: LabRun) -> Results:
        """Return the results with *run* added, and without a failure of the same run."""
        return replace(self, runs=(*self.runs, run), failed=self._failed_but(run))

    def with_failure(self, failure: Failure) -> Results:
        """Return the results with *failure*, in place of an earlier one of the same run."""
        return replace(self, failed=(*self._failed_but(failure), failure))

    def _failed_but(self, one: LabRun | Failure) -> tuple[Failure, ...]:
        return tuple(other for other in self.failed if (other.block, other.at) != (one.block, one.at))


def read_results(file: Path) -> Results | None:
    """Return the contents of *file*; None if it does not exist.

    Raises:
        ConfigError: it is not a results file, or one of another version.
    """
    text = read_text(file)
    if text is None:
        return None
    try:
        return _results(parse_json(text))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        why = str(error) if isinstance(error, _OtherVersionError) else "it does not read as one"
        raise ConfigError(
            f"{file} holds no results of tuner lab: {why}", hint="Name another file with --results."
        ) from error


def write_results(file: Path, results: Results) -> None:
    """Replace *file* atomically.

    Raises:
        ConfigError: the file cannot be written.
    """
    facts = {
        "tuner_lab": _VERSION,
        "name": results.name,
        "quick": results.quick,
        "repeats": results.repeats,
        "seed": results.seed,
        "cores": results.cores,
        "provenance": dict(results.provenance),
        "calibration": dict(results.calibration),
        "left_out": list(results.left_out),
        "gaps": list(results.gaps),
        "failed": [{"at": list(one.at), "block": one.block, "why": one.why} for one in results.failed],
    }
    head = json.dumps(facts, ensure_ascii=False)[:-1]
    runs = ",\n  ".join(
        json.dumps({"at": list(run.at), "block": run.block, "values": dict(run.values)})
        for run in results.runs
    )
    replace_text(file, f'{head}, "runs": [\n  {runs}\n]}}\n')


class _OtherVersionError(ValueError):
    """Written by a later tuner, or by one before the first release."""


def _results(facts: Any) -> Results:
    if facts["tuner_lab"] != _VERSION:
        raise _OtherVersionError(f"version {facts['tuner_lab']!r}, but this tuner supports {_VERSION}")
    if int(facts["repeats"]) < 1:
        raise ValueError("no runs of each point")
    runs = tuple(
        LabRun(
            _at(run["at"]),
            int(run["block"]),
            {str(key): _number(value) for key, value in run["values"].items()},
        )
        for run in facts["runs"]
    )
    failed = tuple(Failure(_at(one["at"]), int(one["block"]), str(one["why"])) for one in facts["failed"])
    return Results(
        str(facts["name"]),
        bool(facts["quick"]),
        int(facts["repeats"]),
        int(facts["seed"]),
        int(facts["cores"]),
        {str(key): str(value) for key, value in facts["provenance"].items()},
        runs,
        tuple(map(str, facts["left_out"])),
        failed,
        {str(key): _number(value) for key, value in facts["calibration"].items()},
        tuple(map(str, facts["gaps"])),
    )


def _at(values: Any) -> At:
    return tuple(value if isinstance(value, str) else _number(value) for value in values)


def _number(value: Any) -> float:
    """Return a finite number: 1e999 is read as infinity."""
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{value} is no number of a run")
    return number
