"""What a study says before it starts anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.virtual.box import VirtualService, virtual_study
from tuner.app.measuring import beginning
from tuner.bootstrap.configs import settings_of
from tuner.config.load import Given
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.core.text.safe_text import HIDDEN

from ..wording import key_of, wording

LAYOUTS = (Layout(2, 3), Layout(1, 6), Layout(6, 1))
SERVICE = VirtualService(dict.fromkeys(LAYOUTS, 1.0))


def study(**asked: Any) -> StudyRecord:
    usual: dict[str, Any] = {"strategy": "race", "window_s": 600.0, "min_window_s": 60.0, "warmup_s": None}
    return virtual_study(SERVICE, **{**usual, "n_blocks": 0, **asked})


def said(folder: Path, record: StudyRecord, feeder: str = "", *, is_new: bool = True) -> list[str]:
    config = folder / "s.yaml"
    config.write_text(
        "service:\n  kind: script\n  name: w\n"
        "  command: [python, w.py, -p, '{processes}', '-t{threads}', --password, hunter2]\n"
        f"  programs: one\n{feeder}"
    )
    return list(beginning(settings_of(config, {}), record, is_new=is_new))


def test_what_is_measured_and_started_is_said_without_a_secret(tmp_path: Path) -> None:
    measured, started, *_ = said(tmp_path, study())

    assert measured == wording("grid.to-measure")
    assert started == wording("grid.is-started-as", hidden=HIDDEN)


def test_the_command_of_layouts_that_take_turns_is_the_one_that_runs(tmp_path: Path) -> None:
    config = tmp_path / "g.yaml"
    config.write_text("service: {kind: uvicorn, command: uvicorn app:app --port 8123}\n")
    settings = settings_of(config, {})
    _, alone, *_ = beginning(settings, study(), is_new=True)
    _, in_turns, *_ = beginning(settings, study(n_resident=3), is_new=True)

    assert "KEEP_ALIVE" not in alone
    assert "UVICORN_TIMEOUT_KEEP_ALIVE=300 uvicorn app:app --port 8123" in in_turns


def test_variables_that_hold_the_layout_are_part_of_what_is_started(tmp_path: Path) -> None:
    result = said(
        tmp_path,
        study(),
        "  environment: {N: '-w {processes} -t {threads}', OTHER: same, A_TOKEN: '{threads}'}\n",
    )

    assert result[1].startswith(wording("grid.is-started-as-with-variables"))


def test_who_supplies_the_work_is_said(tmp_path: Path) -> None:
    alone = said(tmp_path, study())
    requests = said(
        tmp_path, study(), "  feeder: {kind: http, url: 'http://127.0.0.1:8000/x?token=hunter2'}\n"
    )

    assert alone[2] == wording("grid.feeds-itself")
    assert requests[2] == wording("grid.is-sent-requests", hidden=HIDDEN)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, wording("grid.takes-until-seen-and-answer")),
        ({"budget_s": 600.0}, wording("grid.takes-until-the-budget-ends")),
        ({"strategy": "all", "kind": "none", "n_blocks": 3, "window_s": 60.0}, wording("grid.takes-in-all")),
    ],
    ids=key_of,
)
def test_how_long_it_takes_is_said_before_anything_starts(
    tmp_path: Path, asked: dict[str, Any], text: str
) -> None:
    assert said(tmp_path, study(**asked))[-1] == text


def test_a_study_that_slices_would_shorten_says_so() -> None:
    own, without = settings_of(None, {}), settings_of(None, {("study", "slices"): Given("--slices", "off")})
    hint = wording("grid.takes-less-with-slices")

    assert beginning(own, study(), is_new=True)[-1] == hint
    for settings, record in [
        (without, study()),
        (own, study(budget_s=36_000.0)),
        (own, study(n_resident=3)),
        (own, study(strategy="all", kind="none", n_blocks=3)),
        (own, study(provenance=Provenance(simulated="web"))),
    ]:
        assert hint not in beginning(settings, record, is_new=True)


def test_a_first_look_is_announced(tmp_path: Path) -> None:
    plain, looked = said(tmp_path, study()), said(tmp_path, study(provenance=Provenance(has_first_look=True)))

    assert wording("grid.a-provisional-ranking-comes") in looked
    assert wording("grid.a-provisional-ranking-comes") not in plain


def test_a_study_that_continues_says_nothing_of_the_time(tmp_path: Path) -> None:
    assert len(said(tmp_path, study(), is_new=False)) == 3
