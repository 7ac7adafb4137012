"""A study of several boxes, as its user types it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ..fleet_files import ALIKE, fleet_file
from ..wording import wording
from .typed import Typed


@pytest.fixture
def tuner(tmp_path: Path) -> Typed:
    """Where the third of three boxes gives a fifth less."""
    slower = {layout: 0.8 * value for layout, value in ALIKE["box-3"].items()}
    fleet_file(tmp_path / "s.tuner.db", {**ALIKE, "box-3": slower})
    return Typed(tmp_path)


def test_the_ranking_names_the_box_that_is_slower_and_a_look_at_the_others_does_not(tuner: Typed) -> None:
    result = tuner("rank", "s.tuner.db")
    others = tuner("rank", "s.tuner.db", "--without-box", "box-3")

    assert (result.returncode, others.returncode) == (0, 0)
    assert "box-3 is 14 % slower (" in result.stdout
    assert wording("fleet.than-on-average") not in others.stdout
    assert " on 2 hosts, " in others.stdout


def test_one_box_is_ranked_as_if_it_were_alone_and_says_so(tuner: Typed) -> None:
    result = tuner("rank", "s.tuner.db", "--box", "box-2", "--json")
    found = json.loads(result.stdout)

    assert result.returncode == 0
    assert "boxes" not in found
    assert wording("fleet.one-box-alone", box="box-2") in found["study"]["notes"]
    assert {row["n_windows"] for row in found["layouts"]} == {3}


def test_a_box_that_is_not_there_is_one_line_and_what_to_do(tuner: Typed) -> None:
    result = tuner("rank", "s.tuner.db", "--box", "box-7")

    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[0] == "Error: " + wording("fleet.box-unknown", box="box-7")
    assert "box-1, box-2, box-3" in result.stderr


def test_the_report_of_a_fleet_has_its_boxes(tuner: Typed) -> None:
    result = tuner("report", "s.tuner.db", "-o", "s.html")

    assert result.returncode == 0, result.stderr
    assert 'id="boxes"' in (tuner.folder / "s.html").read_text(encoding="utf-8")


def test_a_fleet_that_is_over_can_be_watched(tuner: Typed) -> None:
    result = tuner("watch", "s.tuner.db", "--once", terminal=io.StringIO())

    assert result.returncode == 0
    assert " on 3 hosts, " in result.stdout
    assert "last   box-3: " in result.stdout
