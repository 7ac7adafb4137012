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
    """A study to make on this host; each of its blocks is a block of the experiment."""

    name: str  #: name of its file, in the folder of the results
    what: str  #: description for progress messages
    settings: Mapping[str, Any]  #: settings as in a config, without repeats and seed


@runtime_checkable
class StudyExperiment(Experiment, Protocol):
    """An experiment that makes studies. Its functions are pure."""

    def studies(
        self, n_cores: int, python: str | None, pythons: Mapping[str, str], *, quick: bool
    ) -> list[Study]:
        """Return the studies for a host with *n_cores*.

        Args:
            n_cores: number of cores that workers may use.
            python: interpreter of the workers; None: tuner's own.
            pythons: other interpreters to compare, by version.
            quick: only the most informative ones, in a few minutes.
        """

    def left_out(self, python: str | None, pythons: Mapping[str, str], *, quick: bool) -> list[str]:
        """Return what these studies leave out, in sentences; the arguments are those of `studies`."""

    def panel(self, at: At) -> tuple[str, str]:
        """Return the panel title and the row name of a point in the chart; the last two parameters of the
        point are a layout.
        """

    def runs_of(self, windows: Sequence[WindowRecord], machine: Machine) -> list[LabRun]:
        """Return the valid *windows* of a study as runs; *machine* is the host."""

    def together(self, runs: Sequence[LabRun], simulate: Simulate) -> list[LabRun]:
        """Return the *runs* of all studies, completed by joint figures and by simulated runs."""
