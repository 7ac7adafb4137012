"""How a study on several hosts goes, in lines: never silent for long."""

from __future__ import annotations

import io

from tuner.adapters.terminal.fleet_lines import FleetLines
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.domain.window import Sample

from ..wording import wording

A, B = Layout(4, 6), Layout(6, 4)
SAMPLE = Sample(1.0, 10, 0, 17.5, 1.0, 1.0, 21)


class Told:
    """Lines at times that a test sets."""

    def __init__(self, patience_s: float | None = 600.0) -> None:
        self.now_s = 0.0
        self._output = io.StringIO()
        self.lines = FleetLines(
            self._output, stamp=lambda: "", patience_s=patience_s, now_s=lambda: self.now_s
        )

    def said(self) -> list[str]:
        """The lines since this was called last."""
        text = self._output.getvalue()
        self._output.seek(0)
        self._output.truncate()
        return [line.strip() for line in text.splitlines()]

    def beat_at(self, now_s: float) -> list[str]:
        self.now_s = now_s
        self.said()
        self.lines.beat()
        return self.said()


def joined(result: Told, *names: str) -> None:
    for name in names:
        result.lines.box_came(BoxFacts(name, 4.0, Provenance(host=name)))


def test_each_launch_has_a_line_once_it_is_ordered() -> None:
    result = Told()
    joined(result, "box-1")
    result.said()
    result.lines.launch_started("box-1", A, WARMING_BLOCK, None)
    result.lines.launch_started("box-1", A, 0, None)

    assert result.said() == [
        "box-1: 4x6 before its first block, discarded: starting",
        "box-1: 4x6 block 1: starting",
    ]


def test_what_the_hosts_do_is_said_where_nothing_else_was_for_half_a_minute() -> None:
    result = Told()
    joined(result, *(f"box-{n}" for n in range(1, 6)))
    for n in range(1, 6):
        result.lines.launch_started(f"box-{n}", A, 0, None)
    result.now_s = 12.0
    result.lines.sampled("box-1", A, 10.0, None, None, None)
    result.lines.sampled("box-2", B, 5.0, 600.0, 4.0, SAMPLE)

    assert result.beat_at(20.0) == []
    assert result.beat_at(30.0) == [wording("fleet.what-hosts-do")]
    assert result.beat_at(31.0) == []


def test_it_is_said_that_a_host_is_waited_for_and_for_how_long() -> None:
    result = Told()
    joined(result, "box-1")
    result.lines.launch_started("box-1", A, 0, None)
    result.said()
    result.now_s = 5.0
    result.lines.box_went("box-1", "its process ended")

    assert result.said()[-1] == wording("fleet.no-host-is-left")
    assert result.beat_at(45.0) == [wording("fleet.no-host-measures")]


def test_launches_of_a_simulated_study_get_no_line() -> None:
    result = Told(patience_s=None)
    joined(result, "box-1")
    result.said()
    result.lines.launch_started("box-1", A, 0, 60.0)

    assert result.said() == []
