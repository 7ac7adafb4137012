"""Protocol of experiments whose runs are windows of ordinary studies, as `tuner grid` makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tuner.core.domain.records import WindowRecord
from tuner.core.model.machine import Machine
from tuner.core.model.simulation.scenario import Scenario, Simulated
from tuner.lab.experiments.experiment import At, Experiment, LabRun

Simulate = Callable[[Sequence[Scenario]], Sequence[Simulated]]


@dataclass(frozen=True, slots=True)
class Study:
    """A study to make on this box; each of its blocks is a block of the experiment."""

    name: str  #: of its file, beside the results
    what: str  #: is measured by it, for people
    settings: Mapping[str, Any]  #: as a config would have them, but for repeats and seed


@runtime_checkable
class StudyExperiment(Experiment, Protocol):
    """One that makes studies. Its functions are pure."""

    def studies(
        self, n_cores: int, python: str | None, pythons: Mapping[str, str], *, quick: bool
    ) -> list[Study]:
        """What to measure on a box of *n_cores*.

        Args:
            n_cores: that workers may use.
            python: that runs the workers; None: tuner's own.
            pythons: others to compare, by their version.
            quick: what tells most in a few minutes.
        """

    def left_out(self, python: str | None, pythons: Mapping[str, str], *, quick: bool) -> list[str]:
        """What is not measured then, in sentences; the arguments are those of `studies`."""

    def panel(self, at: At) -> tuple[str, str]:
        """Where a point, whose last two parameters are a layout, stands in the picture: in the panel of that
        title, in the row of points of that name."""

    def runs_of(self, windows: Sequence[WindowRecord], machine: Machine) -> list[LabRun]:
        """The runs that *windows* of a study are, void ones left out; *machine* is the box."""

    def together(self, runs: Sequence[LabRun], simulate: Simulate) -> list[LabRun]:
        """The *runs* of all studies, with what can only be told of all, and with those that are simulated."""
