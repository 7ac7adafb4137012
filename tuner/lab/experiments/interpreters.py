"""Wrapper that repeats an experiment on several interpreters and estimates their effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import Any

from tuner.core.defaults import CONFIDENCE
from tuner.core.stats.quantiles import student_t_quantile
from tuner.core.text.figures import pluralize
from tuner.lab.experiments.experiment import (
    GO,
    At,
    LabClaim,
    LabFigure,
    LabJob,
    Model,
    ProgramExperiment,
    Row,
    Spread,
)

PARAMETER = "python"
WITHOUT_GIL = "t"  #: suffix of the version of a build without a GIL
N_POINTS_LEAST = 3  #: least number of points for an interval; over two points it spans many powers of ten
NONE = "none"  #: value of the parameter for programs in Go; such a point is run once, without an interpreter
_CPU = LabFigure("cpu_s", "CPU s")  #: figure of the whole program, if user and system time are figures
_CPU_PARTS = {"user_s", "system_s"}


@dataclass(frozen=True, slots=True)
class InterpreterRatio:
    """Ratio of a figure with one interpreter to that with another, at otherwise equal points."""

    figure: LabFigure
    ratio: float  #: geometric mean over the points
    low: float | None  #: lower end of its interval over the points; None: too few points
    high: float | None
    least: float  #: smallest ratio of a point
    most: float
    n_points: int

    @property
    def is_sure(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


class OnInterpreters:
    """*experiment* with an additional first parameter: the interpreter that runs a program, or NONE."""

    def __init__(self, experiment: ProgramExperiment, programs: Mapping[str, str]) -> None:
        """Set up the experiment; *programs* are the interpreters by version, in the order of reports."""
        self._of_one = experiment
        self.programs = programs
        self.name = experiment.name
        self.title = experiment.title
        self.publication = experiment.publication
        self.what = experiment.what
        self.parameters = (PARAMETER, *experiment.parameters)
        self.figures = experiment.figures
        self.needs = experiment.needs
        #: made with the first interpreter, so that all do the same work
        self.calibration = experiment.calibration

    def published(self, seeds: Mapping[str, Any]) -> dict[At, Mapping[str, float]]:
        """Return the published figures for each interpreter."""
        sentences = self._of_one.published(seeds)
        return {(python, *at): sentences[at] for python, at in self._on_each(list(sentences))}

    def points(self, published: Sequence[At], *, quick: bool) -> list[At]:
        """Return the points of one interpreter, on each interpreter that matters for them."""
        points = self._of_one.points(list(dict.fromkeys(at[1:] for at in published)), quick=quick)
        return [(python, *at) for python, at in self._on_each(points)]

    def job(self, at: At) -> LabJob:
        """Return the program of one run, with its interpreter."""
        python = "" if at[0] == NONE else self.programs[str(at[0])]
        return replace(self._of_one.job(at[1:]), python=python)

    def model(self, runs: Mapping[At, Mapping[str, Spread]]) -> Model:
        """Return the model of each interpreter, fitted to its runs."""
        modelled: dict[At, Mapping[str, float]] = {}
        fitted: set[At] = set()
        lines = []
        for python in (*self.programs, NONE):
            own = {at[1:]: values for at, values in runs.items() if at[0] == python}
            if not own:
                continue
            model = self._of_one.model(own)
            modelled |= {(python, *at): figures for at, figures in model.modelled.items()}
            fitted |= {(python, *at) for at in model.fitted_to}
            lines.append(model.sentence if python == NONE else f"Python {python}: {model.sentence}")
        return Model(modelled, frozenset(fitted), " ".join(lines))

    def findings(self, rows: Sequence[Row]) -> list[LabClaim]:
        """Return the claims on each interpreter, and then the effect of the interpreter alone."""
        of_none = self._rows_of(NONE, rows)
        of_each = {
            python: self._of_one.findings([*own, *of_none]) for python, own in self._by_python(rows).items()
        }
        shared = [
            finding
            for finding in (self._of_one.findings(of_none) if of_none else [])
            if all(finding in found for found in of_each.values())  # it depends on no interpreter's rows
        ]
        own = [
            replace(finding, claim=f"Python {python}. {finding.claim}")
            for python, found in of_each.items()
            for finding in found
            if finding not in shared
        ]
        changed = [
            _claim(change, one, other) for one, other, changes in self.changes(rows) for change in changes
        ]
        return [*shared, *own, *changed]

    def follows(self, rows: Sequence[Row]) -> str:
        """Return the conclusion on each interpreter, and the significant differences of the main figure."""
        of_none = self._rows_of(NONE, rows)
        lines = [
            f"Python {python}: {self._of_one.follows([*own, *of_none])}"
            for python, own in self._by_python(rows).items()
        ]
        sure = [
            f"{change.figure.label} of {other} is {_times(change)} that of {one}"
            for one, other, changes in self.changes(rows)
            for change in changes
            if change.is_sure
        ]
        lines.append(
            f"Significant effects of the interpreter alone: {'; '.join(sure) if sure else 'nothing'}."
        )
        return " ".join(lines)

    def changes(self, rows: Sequence[Row]) -> list[tuple[str, str, list[InterpreterRatio]]]:
        """Return the effect of the interpreter, by figure, in each of the `comparable_pairs`.

        Figures without values are left out.

        Points are the replicates: the interval is for the mean over such points, each the median of its runs.
        All intervals are right at the same time (Bonferroni).
        """
        by_python = self._by_python(rows)
        pairs = comparable_pairs(list(by_python))
        figures = [figure for figure in self.figures if figure.is_outcome]
        if {figure.key for figure in figures} >= _CPU_PARTS:
            figures.append(_CPU)
        at_risk = (1 - CONFIDENCE) / max(1, len(pairs) * len(figures))
        found = []
        for one, other in pairs:
            changes = [_change(figure, by_python[one], by_python[other], at_risk) for figure in figures]
            found.append((one, other, [change for change in changes if change is not None]))
        return found

    def _on_each(self, points: Sequence[At]) -> list[tuple[str, At]]:
        """Return the points of one interpreter, each with the interpreters that run it."""
        of_none = {at for at in points if GO in self._of_one.job(at).needs}
        on_each = [(python, at) for python in self.programs for at in points if at not in of_none]
        return on_each + [(NONE, at) for at in points if at in of_none]

    def _by_python(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        """Return the rows of each interpreter that was run, as rows of an experiment on it alone."""
        found = {python: self._rows_of(python, rows) for python in self.programs}
        return {python: own for python, own in found.items() if any(row.measured for row in own)}

    def _rows_of(self, python: str, rows: Sequence[Row]) -> list[Row]:
        return [replace(row, at=row.at[1:]) for row in rows if row.at[0] == python]


def comparable_pairs(versions: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of *versions* (earliest first) that differ in one thing.

    These are two versions of the same build, or one version with and without a GIL (3.13.0, 3.13.0t). A build
    without a GIL whose version has no build with one is compared with the previous build without a GIL.
    """
    pairs = []
    for no, version in enumerate(versions):
        earlier = versions[:no]
        with_gil = version.removesuffix(WITHOUT_GIL)
        if with_gil != version and with_gil in earlier:
            pairs.append((with_gil, version))
            continue
        alike = [one for one in earlier if one.endswith(WITHOUT_GIL) == version.endswith(WITHOUT_GIL)]
        if alike or earlier:
            pairs.append(((alike or earlier)[-1], version))
    return pairs


def _change(
    figure: LabFigure, before: Sequence[Row], after: Sequence[Row], at_risk: float
) -> InterpreterRatio | None:
    first = {row.at: row.of(figure.key) for row in before if figure.key in row.measured}
    second = {row.at: row.of(figure.key) for row in after if figure.key in row.measured}
    logs = [log(second[at] / value) for at, value in first.items() if value > 0 and second.get(at, 0.0) > 0]
    if not logs:
        return None
    mean, half = fmean(logs), None
    if len(logs) >= N_POINTS_LEAST:
        t = student_t_quantile(1 - at_risk / 2, len(logs) - 1)
        half = t * stdev(logs) / sqrt(len(logs))
    return InterpreterRatio(
        figure,
        exp(mean),
        None if half is None else exp(mean - half),
        None if half is None else exp(mean + half),
        exp(min(logs)),
        exp(max(logs)),
        len(logs),
    )


def _claim(change: InterpreterRatio, one: str, other: str) -> LabClaim:
    claim = f"Not published: Python {other} instead of {one} changes {change.figure.label}."
    if change.least == change.most == 1:
        return LabClaim(claim, False, f"It is the same at all {change.n_points} points.")
    why = (
        f"{_times(change)} on average over {change.n_points} points that differ in nothing else; at "
        f"single ones {change.least:.2f} to {change.most:.2f} times."
    )
    if change.is_sure:
        return LabClaim(claim, True, why)
    return LabClaim(claim, None, f"Not significantly different: {why}")


def _times(change: InterpreterRatio) -> str:
    interval = (
        f"no interval: {pluralize(change.n_points, 'point')}"
        if change.low is None
        else f"{change.low:.2f} to {change.high:.2f}, {100 * CONFIDENCE:.0f} %"
    )
    return f"{change.ratio:.2f} times ({interval})"
