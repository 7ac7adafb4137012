"""A limit on memory is to be kept until the horizon, if memory is shown to grow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.app.model import explain_file
from tuner.app.study_queries import rank_file
from tuner.bootstrap.wire import Session
from tuner.cli.grid import _print_result
from tuner.config.settings import Settings
from tuner.core.domain.limits import Later, Limit, LimitVerdict, State, Verdict, verdict_later
from tuner.core.domain.safety_limits import describe_needed, render_level
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import EXIT_WEAKER, ConfigError
from tuner.core.ranking.ranked import parse_question
from tuner.core.stats.interval import Estimate
from tuner.reports.ranking.ranking_data import render_ranking_json

from ..leaking_studies import MB, A, B, kept, measured
from ..raising import raises
from ..wording import key_of, wording

LEAK = MB / 60
LIMIT = Limit("memory_bytes", 1000 * MB)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return kept(tmp_path / "s.tuner.db", measured(LEAK))


def test_a_layout_that_will_exceed_the_limit_cannot_win_and_both_figures_are_reported(study: Path) -> None:
    record, ranking = rank_file(study, question=parse_question(max_memory="1GB"))
    row = next(row for row in ranking.rows if row.layout == A)
    facts = json.loads(render_ranking_json(record, ranking))["layouts"]
    finding = next(one for one in facts if one["layout"] == "4x6")["limits"]["memory_bytes"]

    assert ranking.best is not None
    assert ranking.best.layout == B
    assert row.reason == wording("rank.memory-beyond-after-horizon")
    assert (finding["verdict"], round(finding["after_horizon"]["mean"] / MB)) == ("beyond", 1686)


def test_it_may_win_if_the_horizon_is_shorter(study: Path) -> None:
    _, ranking = rank_file(study, question=parse_question(max_memory="1GB", horizon="6h"))

    assert ranking.best is not None
    assert ranking.best.layout == A


def test_the_horizon_is_the_one_of_the_study_unless_another_is_named(study: Path) -> None:
    record, _ = rank_file(study)
    asked = StoredConfig.of_sections({"study": {"horizon": 3600.0}})

    assert record.horizon_s == 86_400.0
    assert parse_question().horizon_of(measured(LEAK).study()) == 86_400.0
    assert parse_question(horizon="7d").horizon_of(record) == 7 * 86_400.0
    assert replace(record, config=asked).horizon_s == 3600.0


def test_a_race_whose_answer_will_exceed_its_limit_has_none(tmp_path: Path) -> None:
    file = kept(tmp_path / "s.tuner.db", measured(LEAK, "race", 1000 * MB))
    _, ranking = rank_file(file)

    assert ranking.is_answer_kept_out
    assert ranking.claim is not None
    assert not ranking.claim.answer.reached
    assert ranking.next_step is not None
    assert ranking.next_step.words[-2:] == ("--layouts", "1x24")
    assert ranking.next_step.sentence == wording("rank.race-without-leaks")


def test_explain_names_the_memory_after_the_horizon(study: Path) -> None:
    _, found, _ = explain_file(study, question=parse_question(max_memory="1GB"))

    assert not isinstance(found, str)
    assert next(one for one in found.diagnoses if one.layout == A).memory == wording(
        "model.memory-grows-beyond"
    )


@pytest.mark.parametrize(
    ("state", "n", "later", "expected"),
    [
        ("within", 3, Estimate(900 * MB, 800 * MB, 950 * MB), "within"),
        ("within", 3, Estimate(1100 * MB, 900 * MB, 1300 * MB), "open"),
        ("within", 3, Estimate(1500 * MB, 1200 * MB, 1800 * MB), "beyond"),
        ("within", 1, Estimate(1500 * MB, 1200 * MB, 1800 * MB), "open"),
        ("within", 3, Estimate(900 * MB), "open"),
        ("open", 3, Estimate(900 * MB, 800 * MB, 950 * MB), "open"),
        ("beyond", 3, Estimate(1100 * MB, 900 * MB, 1300 * MB), "beyond"),
    ],
)
def test_both_the_memory_now_and_after_the_horizon_count(
    state: State, n: int, later: Estimate, expected: State
) -> None:
    finding = LimitVerdict(LIMIT, state, n, 500 * MB, 0.01, 5, 0.05)
    found = verdict_later(Verdict(state, (finding,)), "memory_bytes", Later(later, 86_400.0))

    assert (found.state, found.findings[0].state) == (expected, expected)
    assert found.findings[0].launches_needed == (None if expected == "open" else 0)


def test_what_would_decide_is_a_longer_window() -> None:
    later = Later(Estimate(1100 * MB, 900 * MB, 1300 * MB), 86_400.0)
    finding = LimitVerdict(LIMIT, "open", 3, 500 * MB, later=later)

    assert render_level(finding) == wording("rank.memory-now-and-later")
    assert describe_needed(finding) == wording("rank.longer-windows-show-growth")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("7", wording("rank.horizon-without-unit")),
        ("0s", wording("rank.horizon-of-no-time")),
        ("soon", wording("rank.horizon-no-duration")),
    ],
    ids=key_of,
)
def test_a_horizon_is_a_duration(text: str, problem: str) -> None:
    with raises(ConfigError, problem):
        parse_question(horizon=text)


def test_the_exit_code_of_grid_is_that_of_a_weaker_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = measured(LEAK, "race", 1000 * MB)
    session = Session(Settings(), store.study(), kept(tmp_path / "s.tuner.db", store), is_new=True)

    code = _print_result(session, (0, True), None, None, as_json=True)

    assert code == EXIT_WEAKER
    assert not json.loads(capsys.readouterr().out)["answer"]["reached"]
