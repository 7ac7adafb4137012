"""Layouts of services without threads to choose: how they are written, and which a grid has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.config.settings import Settings
from tuner.core.domain.layout import GRIDS, Layout, grid_of, parse_layout, parse_layouts, spread_subset
from tuner.core.errors import ConfigError
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.sizing import sizing_rules
from tuner.core.model.machine import Machine
from tuner.core.model.prediction.extrapolation import CalibratedRange

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.pythons

SERVICE = "service: {kind: script, name: pool, command: run, threads: no}\n"
UVICORN = Layout(8, 1, has_threads=False)


@pytest.mark.parametrize("text", ["8x-", "8x-@prefork", "4x6", "4x6@gevent", "1x1"])
def test_a_layout_is_read_as_it_is_written(text: str) -> None:
    assert str(parse_layout(text)) == text


def test_a_dash_for_threads_is_one_thread_that_nobody_chose() -> None:
    assert parse_layout("8x-") == UVICORN
    assert UVICORN.total_threads == 8
    assert replace(UVICORN, has_threads=True) == Layout(8, 1) != UVICORN
    with raises(ValueError, wording("command-line.none-to-choose")):
        Layout(2, 2, has_threads=False)


@pytest.mark.parametrize(
    "text", ["0x-", "-x8", "8x--", "8x", f"{'9' * 5000}x1", "\N{ARABIC-INDIC DIGIT FOUR}x1"]
)
def test_what_is_no_layout_is_reported_with_both_ways_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_layout(text)

    assert caught.value.hint is not None


@pytest.mark.parametrize("text", ["1x1,,2x2", ",1x1", "1x1, ,2x2,"])
def test_a_layout_that_is_missing_between_commas_is_reported(text: str) -> None:
    with raises(ConfigError, wording("command-line.layout-missing-between-commas")):
        parse_layouts(text)


def test_a_list_of_layouts_may_end_in_a_comma() -> None:
    assert parse_layouts("2x2, 1x1,") == [Layout(2, 2), Layout(1, 1)]


@pytest.mark.parametrize(
    ("name", "counts"),
    [("small", [12, 24, 48]), ("divisors", [1, 2, 3, 4, 6, 8, 12, 24, 48]), ("full", list(range(1, 49)))],
)
def test_a_grid_of_processes_has_each_count_once(name: str, counts: list[int]) -> None:
    grid = grid_of(name, 24, has_threads=False)

    assert [layout.processes for layout in grid] == counts
    assert not any(layout.has_threads for layout in grid)


@pytest.mark.parametrize("name", ["divisors", "full"])
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 96])
def test_a_grid_of_processes_spans_what_the_grid_with_threads_does(name: str, cores: int) -> None:
    with_threads, without = grid_of(name, cores), grid_of(name, cores, has_threads=False)

    assert with_threads == GRIDS[name](cores)
    assert max(one.total_threads for one in without) == max(one.total_threads for one in with_threads)
    assert len(set(without)) == len(without) <= max(2 * cores, len(with_threads))
    assert set(spread_subset(without, 5)) <= set(without)


def load(folder: Path, text: str) -> Settings:
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, {})


def test_a_service_without_threads_is_measured_in_processes_alone(tmp_path: Path) -> None:
    settings = load(tmp_path, SERVICE)
    named = load(tmp_path, SERVICE + "study: {layouts: [4x-, 2x1, 8x-@uv]}")

    for kept in (settings, settings_of_study(canonical_json(settings), "s.db")):
        assert not kept.service.threads
        layouts = kept.layouts_for(4)
        assert " ".join(map(str, layouts)) == "1x- 2x- 4x- 8x-"
    layouts = named.study.layouts_for(4, {"": False})
    assert " ".join(map(str, layouts)) == "4x- 2x- 8x-@uv"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SERVICE + "study:\n  layouts: [8x-, 2x4]",
            wording("config.threads-unasked", layout="s.yaml:3:18: study.layouts.1: 2x4"),
        ),
        (
            SERVICE.replace("no", "yes") + "study:\n  layouts: [8x-]",
            wording("config.threads-left-out", layout="s.yaml:3:13: study.layouts.0: 8x-"),
        ),
        (
            "study: {layouts: [1x1, 8x-]}",
            wording("config.threads-left-out", layout="s.yaml:1:24: study.layouts.1: 8x-"),
        ),
        (
            "service: {kind: script, name: pool, command: [run, '{threads}'], threads: no}",
            "s.yaml:1:52: service.command.1: " + wording("config.asks-for-threads"),
        ),
        (
            "service: {kind: script, name: pool, command: run, threads: no, environment: {T: '{threads}'}}",
            "s.yaml:1:81: service.environment.T: " + wording("config.asks-for-threads"),
        ),
    ],
    ids=key_of,
)
def test_threads_where_there_are_none_are_reported_with_their_place(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)

    assert caught.value.problem.replace(f"{tmp_path}/", "") == said


def test_rules_to_size_a_service_without_threads_are_of_its_processes() -> None:
    demands, box = Demands(gil_s=0.02, asleep_s=0.06), Machine(8)
    seen = CalibratedRange(box, tuple(grid_of("divisors", 8, has_threads=False)))

    whats = [(rule.kind, rule.what) for rule in sizing_rules(demands, box, seen)]

    assert whats == [
        ("single-threads", wording("model.processes-that-fill-the-box")),
        ("utilization", wording("lab.processes-all-cores-utilization")),
    ]
