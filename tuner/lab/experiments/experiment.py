"""Protocols and data of published experiments: points, runs, rows, models and claims.

An experiment is a set of pure functions. It names the programs to run by their command line, and takes their
measurements as values. The published figures are passed in; only their column and the checks of the claims
use them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Protocol, runtime_checkable

from tuner.core.text.figures import pluralize
from tuner.core.windows.validity import foreign_limit_cores

GO = "go"  #: name of the Go toolchain among the needs; every other need is a Python package
Value = str | float  #: value of a parameter: a name or a number
_SAME_AS = "same as "
USABLE_CORES = "usable_cores"  #: value of each run: whole cores that the programs could use
SIMULATED = "simulated"  #: value that marks a run as simulated
#: largest error of the host's idle time over a run, caused by the clock ticks at both ends, in CPU seconds
_TICKS_S = 0.03
At = tuple[Value, ...]  #: a point: the value of each parameter, in their order


@dataclass(frozen=True, slots=True)
class LabFigure:
    """A quantity that each run measures."""

    key: str  #: name in the output of programs and in JSON
    label: str  #: column header, with the unit
    digits: int = 3  #: digits after the decimal point
    is_outcome: bool = True  #: whether the program's run determines it; False: the host or the request does
    caption: str = ""  #: caption of a chart; empty: the label


FOREIGN = LabFigure("foreign_cores", "other processes' cores", 2, is_outcome=False)  #: a figure of every run


@dataclass(frozen=True, slots=True)
class LabJob:
    """One program of ``workers/lab/`` to run to its end: in Python, or in Go (``.go``, which needs GO).

    Its wall-clock time, user and system time are measured from outside (``total_s``, ``user_s``,
    ``system_s``, ``cpu_s``, ``cpu_percent``). Its output, a JSON object of numbers, is added to them.
    """

    program: str  #: its file in ``workers/lab/``
    options: tuple[str, ...]  #: its arguments
    environment: Mapping[str, str] = field(default_factory=dict)  #: variables added to the environment
    at_most_s: float = 600.0  #: time limit; the program is killed after it, and the run has failed
    #: programs that it starts, by their name on PATH, each with the arguments that print its version
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: needs in addition to `Experiment.needs`; without them, the point is left out
    needs: tuple[str, ...] = ()
    python: str = ""  #: interpreter that runs it, if there are several; "": the only one
    #: further options, each with the name of its value: USABLE_CORES, or a number printed by the calibration
    handed: Mapping[str, str] = field(default_factory=dict)

    def with_handed(self, values: Mapping[str, float]) -> LabJob:
        """Return the same job with further options."""
        words = [word for option, name in self.handed.items() for word in (option, f"{values[name]:.0f}")]
        return replace(self, options=(*self.options, *words), handed={})


@dataclass(frozen=True, slots=True)
class LabRun:
    """Results of one run of a point."""

    at: At
    block: int  #: 0, 1, ...; each point is run once in each block
    values: Mapping[str, float]  #: values by the keys of the figures


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed; it is retried when its results file is resumed."""

    at: At
    block: int
    why: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of some runs."""

    median: float
    low: float  #: smallest value
    high: float  #: largest value
    n: int  #: number of runs


@dataclass(frozen=True, slots=True)
class Row:
    """A point with its published, measured and modelled values, by figure."""

    at: At
    published: Mapping[str, float]  #: empty: not published
    measured: Mapping[str, Spread]  #: empty: not run
    modelled: Mapping[str, float]  #: empty: not modelled
    is_fitted: bool = False  #: whether this row is one of those to which the model was fitted
    #: number of runs disturbed by other processes; the row uses them only if it has no other run
    n_disturbed: int = 0
    is_disturbed: bool = False  #: whether all runs were disturbed, so that no claim uses this row

    @property
    def is_simulated(self) -> bool:
        """Whether nothing ran, so that the measured values are simulated."""
        return SIMULATED in self.measured

    def of(self, key: str) -> float:
        """Return the measured median of a figure.

        Raises:
            KeyError: the figure was not measured.
        """
        return self.measured[key].median


class NotRunError(LookupError):
    """A statement depends on a row that was not run; names the row."""


class Rows(dict[Any, Row]):
    """Rows by some key; a missing row raises an error that names it."""

    def __init__(self, what: str, rows: Mapping[Any, Row]) -> None:
        super().__init__(rows)
        self._what = what

    def __missing__(self, key: Any) -> Row:
        raise NotRunError(f"{self._what}{format_point(key)} was not run undisturbed")


@dataclass(frozen=True, slots=True)
class LabClaim:
    """A claim on the published figures, and its verdict here."""

    claim: str
    holds: bool | None  #: None: these runs do not decide
    why: str  #: figures that support the verdict
    is_simulated: bool = False  #: whether these runs are simulated


@dataclass(frozen=True, slots=True)
class Model:
    """The model's figures, and their source."""

    modelled: Mapping[At, Mapping[str, float]]  #: by point and figure
    fitted_to: frozenset[At]  #: points to whose runs the model was fitted
    sentence: str  #: sentence with the fitted parameters and their values


class Experiment(Protocol):
    """One published experiment. Its functions are pure.

    Its runs come from programs (`ProgramExperiment`) or from studies (`studied.StudyExperiment`); they are
    evaluated alike.
    """

    @property
    def name(self) -> str:
        """Name of the experiment after ``tuner lab``."""

    @property
    def title(self) -> str:
        """Title of half a line."""

    @property
    def publication(self) -> str:
        """Name of the block of published figures that it repeats."""

    @property
    def what(self) -> str:
        """Description of the runs and of the timing, in a few sentences."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Headers of the columns that name a point."""

    @property
    def figures(self) -> tuple[LabFigure, ...]:
        """The measured figures, the main one first."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Python packages without which it cannot run at all."""

    def published(self, seeds: Mapping[str, Any]) -> Mapping[At, Mapping[str, float]]:
        """Return the published figures of *seeds*, by point."""

    def points(self, published: Sequence[At], *, quick: bool) -> list[At]:
        """Return the points to run: every published one, or, if *quick*, the most informative ones in a
        few minutes.
        """

    def model(self, runs: Mapping[At, Mapping[str, Spread]]) -> Model:
        """Return the model's figures, fitted to these runs alone; some runs may be missing."""

    def findings(self, rows: Sequence[Row]) -> list[LabClaim]:
        """Return the published claims with verdicts by *rows*; any row may be missing."""

    def follows(self, rows: Sequence[Row]) -> str:
        """Return the conclusion, in two sentences.

        Raises:
            NotRunError: a row that it depends on was not run.
        """


@runtime_checkable
class ProgramExperiment(Experiment, Protocol):
    """An experiment that runs a program for each point."""

    @property
    def calibration(self) -> LabJob | None:
        """Return a program to run once before all jobs, which get its output, or None."""

    def job(self, at: At) -> LabJob:
        """Return the program of one run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of an experiment."""

    experiment: Experiment
    source: str  #: author and date of the publication
    rows: tuple[Row, ...]
    model: str  #: sentence on the origin of the model
    findings: tuple[LabClaim, ...]
    follows: str

    def errors(self, key: str) -> dict[At, float]:
        """Return modelled over measured value minus 1, for undisturbed rows that the model was not fitted
        to.
        """
        return {
            row.at: row.modelled[key] / row.of(key) - 1
            for row in self.rows
            if key in row.modelled and key in row.measured
            if not (row.is_fitted or row.is_simulated or row.is_disturbed)
        }


def programs_at(experiment: Experiment, points: Iterable[At]) -> dict[str, tuple[str, ...]]:
    """Return the programs that the runs of *points* start, as `LabJob.programs`."""
    if not isinstance(experiment, ProgramExperiment):
        return {}
    return {name: words for at in points for name, words in experiment.job(at).programs.items()}


def needs_at(experiment: Experiment, points: Iterable[At]) -> tuple[str, ...]:
    """Return the packages that the runs of *points* need besides `Experiment.needs`, each once."""
    if not isinstance(experiment, ProgramExperiment):
        return ()
    return tuple(dict.fromkeys(need for at in points for need in experiment.job(at).needs))


def is_quiet(run: LabRun) -> bool:
    """Return whether other processes used no more CPU than a window of a study may have; True if unknown.

    The kernel counts idle time in whole ticks, so short runs get a tolerance.
    """
    limit_cores = foreign_limit_cores(run.values.get(USABLE_CORES, 1.0))
    ticks_cores = _TICKS_S / run.values["total_s"] if "total_s" in run.values else 0.0
    return run.values.get(FOREIGN.key, 0.0) <= limit_cores + ticks_cores


def format_point(at: Value | At) -> str:
    """Return a point, or a part of one, as text."""
    values = at if isinstance(at, tuple) else (at,)
    return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in values)


def describe_failures(experiment: Experiment, failures: Sequence[Failure]) -> list[str]:
    """Return a sentence for each reason of a failure."""
    sentence = []
    for why in dict.fromkeys(one.why for one in failures):
        same = [one.at for one in failures if one.why == why]
        points = "; ".join(map(format_point, dict.fromkeys(same)))
        head = f"{pluralize(len(same), 'run')} failed ({', '.join(experiment.parameters)}: {points})"
        sentence.append(f"{head}, tried again when the file is continued: {why}.")
    return sentence


def in_blocks(points: Sequence[At], n_blocks: int, seed: int) -> list[tuple[int, At]]:
    """Return every point once per block, in a random order per block."""
    order = []
    for block in range(n_blocks):
        shuffled = list(points)
        random.Random(f"{seed}/{block}").shuffle(shuffled)
        order += [(block, at) for at in shuffled]
    return order


def spreads(runs: Sequence[LabRun]) -> dict[At, dict[str, Spread]]:
    """Return the spread of each point's runs, by figure; points in the order of their first run."""
    found: dict[At, dict[str, Spread]] = {}
    for at in dict.fromkeys(run.at for run in runs):
        same = [run.values for run in runs if run.at == at]
        keys = [key for key in same[0] if all(key in values for values in same)]
        found[at] = {key: _spread([values[key] for values in same]) for key in keys}
    return found


def source_of(experiment: Experiment, seeds: Mapping[str, Any]) -> str:
    """Return author and date of the publication; "same as NAME" refers to that block."""
    sentence = str(seeds[experiment.publication]["source"])
    head, mark, rest = sentence.partition(";")
    other = head.removeprefix(_SAME_AS)
    return f"{seeds[other]['source']}{mark}{rest}" if other != head else sentence


def outcome(experiment: Experiment, seeds: Mapping[str, Any], runs: Sequence[LabRun]) -> Outcome:
    """Return the results of *runs* in the order of the experiment's points, including published points that
    were not run.

    Raises:
        ValueError: there is no run.
    """
    if not runs:
        raise ValueError(f"no run of {experiment.name}")
    published = experiment.published(seeds)
    quiet = spreads([run for run in runs if is_quiet(run)])
    measured = {at: quiet.get(at, figures) for at, figures in spreads(runs).items()}
    disturbed = Counter(run.at for run in runs if not is_quiet(run))
    model = experiment.model(measured)
    sentence = dict.fromkeys([*experiment.points(list(published), quick=False), *published])
    known = [at for at in sentence if at in published or at in measured]
    others = sorted((at for at in measured if at not in known), key=_in_order)
    rows = tuple(
        Row(
            at,
            published.get(at, {}),
            measured.get(at, {}),
            model.modelled.get(at, {}),
            at in model.fitted_to,
            disturbed[at],
            at in measured and at not in quiet,
        )
        for at in [*known, *others]
    )
    undisturbed = [replace(row, measured={}) if row.is_disturbed else row for row in rows]
    try:
        follows = experiment.follows(undisturbed)
    except NotRunError as missing:
        follows = f"Nothing follows from these runs: {missing}."
    return Outcome(
        experiment,
        source_of(experiment, seeds),
        rows,
        _describe_fit(model, rows),
        tuple(experiment.findings(undisturbed)),
        follows,
    )


def _describe_fit(model: Model, rows: Sequence[Row]) -> str:
    n = sum(1 for row in rows if row.is_fitted and row.is_disturbed)
    return (
        f"{model.sentence} It was fitted to {pluralize(n, 'row')} measured while other work ran."
        if n
        else model.sentence
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values), len(values))


def _in_order(at: At) -> tuple[tuple[bool, Value], ...]:
    return tuple((isinstance(value, str), value) for value in at)
