"""What each test costs: measured in every run, kept in costs.tsv for the tests that are not cheap.

`make test` runs the cheap tests, `.ci/run` the others too (CONTRIBUTING.md has the table). With
`pytest --record-costs` the costs of this run are written into costs.tsv; `make costs` does so for all tests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import pytest

TABLE = Path(__file__).with_name("costs.tsv")
HEAD = "# test\tCPU s\twall s; written by `make costs`, only tests that are not cheap"
CHEAP_CPU_S = 0.5  #: 95 % of the tests take less; all of them together two minutes of CPU time on two cores
CHEAP_WALL_S = 3.0  #: a test that waits longer delays `make test`, even if it computes little
PROPERTY = "cost"


@dataclass(frozen=True)
class Cost:
    """What one test took, its fixtures and the child processes it waited for included."""

    cpu_s: float
    wall_s: float

    @property
    def is_cheap(self) -> bool:
        """Whether `make test` runs such a test."""
        return self.cpu_s <= CHEAP_CPU_S and self.wall_s <= CHEAP_WALL_S


@cache
def kept_costs() -> Mapping[str, Cost]:
    """Node id -> cost, of the tests in costs.tsv."""
    costs = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            node, cpu_s, wall_s = line.split("\t")
            costs[node] = Cost(float(cpu_s), float(wall_s))
    return costs


def table_of(costs: Mapping[str, Cost]) -> str:
    """The text of costs.tsv: the tests that are not cheap, by node id."""
    rows = [
        f"{node}\t{cost.cpu_s:.2f}\t{cost.wall_s:.1f}"
        for node, cost in sorted(costs.items())
        if not cost.is_cheap
    ]
    return "\n".join((HEAD, *rows, ""))


class CostMeter:
    """A plugin of pytest that measures each test, in its own process or in a worker of pytest-xdist."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}  #: of the tests that have ended, here or in a worker
        self._began = (0.0, 0.0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Note when a test begins."""
        self._began = (_cpu_s(), time.monotonic())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the cost to the test's last report: reports travel from the workers to the main process."""
        report = yield
        if call.when == "teardown":
            cpu_s, wall_s = self._began
            report.user_properties.append((PROPERTY, (_cpu_s() - cpu_s, time.monotonic() - wall_s)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the cost of a test that has ended."""
        for name, value in report.user_properties:
            if name == PROPERTY and report.when == "teardown":
                self.costs[report.nodeid] = Cost(*cast("tuple[float, float]", value))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """With --collect-only, remove the rows of tests that are gone or have another id."""
        if session.config.getoption("record_costs") and session.config.getoption("collectonly"):
            there = {item.nodeid for item in session.items}
            kept = {node: cost for node, cost in kept_costs().items() if node in there}
            TABLE.write_text(table_of(kept), encoding="utf-8")

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        """Write costs.tsv if that was asked for; else name the tests that have become expensive."""
        if config.getoption("collectonly"):
            return
        if config.getoption("record_costs"):
            others = {node: cost for node, cost in kept_costs().items() if still_there(node)}
            TABLE.write_text(table_of(others | self.costs), encoding="utf-8")
            return
        new = [
            node
            for node, cost in self.costs.items()
            if cost.cpu_s > 2 * CHEAP_CPU_S and node not in kept_costs()
        ]
        if new:
            terminalreporter.write_line(
                f"{len(new)} tests took over {2 * CHEAP_CPU_S:g} s of CPU and are not in tests/costs.tsv; "
                "`make costs` records them:"
            )
            for node in new:
                terminalreporter.write_line(f"  {self.costs[node].cpu_s:.1f} s  {node}")


def _cpu_s() -> float:
    """CPU time of this process and of the children that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def still_there(node: str) -> bool:
    """Whether the test's file still has a function of its name."""
    file, _, name = node.partition("::")
    path = TABLE.parents[1] / file
    return path.is_file() and f"def {name.partition('[')[0]}(" in path.read_text(encoding="utf-8")
