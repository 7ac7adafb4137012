"""The measured throughput of a layout is the same figure in every command: the ranking's estimate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.cli import run

from ..overviews import RECORDED, recorded
from ..wording import wording


def facts(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    run([*words, "--json"])
    return json.loads(capsys.readouterr().out or "null")


@pytest.mark.parametrize("name", RECORDED)
def test_rank_explain_and_predict_print_one_throughput_of_a_layout(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(recorded(name, tmp_path))
    ranked = {
        row["layout"]: row["throughput_per_10min"]["mean"] for row in facts(capsys, "rank", file)["layouts"]
    }

    explained = facts(capsys, "explain", file)["layouts"]
    predicted = facts(capsys, "predict", file)

    assert {row["layout"]: row["throughput_per_10min"] for row in explained} == {
        row["layout"]: pytest.approx(ranked[row["layout"]]) for row in explained
    }
    for row in [] if predicted is None else predicted["layouts"]:
        if row["measured"] is not None:
            assert row["measured"]["throughput_per_10min"] == pytest.approx(ranked[row["layout"]])
    printed = [row["throughput_per_10min"] for row in explained]
    assert printed == sorted(printed, reverse=True)


@pytest.mark.parametrize("name", RECORDED)
def test_the_measured_gain_is_the_ratio_of_the_printed_throughputs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = facts(capsys, "explain", str(recorded(name, tmp_path)))["layouts"]
    per_10min = {row["layout"]: row["throughput_per_10min"] for row in rows}

    doubled = {row["layout"]: row["doubled"] for row in rows if row["doubled"] is not None}

    for layout, other in doubled.items():
        assert other["ratio"] == pytest.approx(per_10min[other["layout"]] / per_10min[layout])
    if name.startswith("celery"):
        assert {"1x1@threads", "1x2@threads", "2x1@threads", "1x-@prefork"} <= doubled.keys()


def test_the_table_of_left_out_layouts_names_its_other_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(recorded("celery-mixed-2-cores-busy.tuner.db", tmp_path))

    for command in ("predict", "calibrate"):
        variant = ["--variant", "prefork"] if command == "calibrate" else []
        run([command, file, *variant])
        assert wording("model.mean-of-own-launches") in capsys.readouterr().out
