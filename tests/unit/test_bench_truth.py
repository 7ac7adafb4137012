"""bench/truth.py: ideals worked out by hand, and what its table says of figures that are off."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ..bench_modules import loaded
from ..conftest import ROOT


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with loaded("truth_ideal", "truth_table", "truth_services", "truth") as modules:
        yield modules


@pytest.mark.parametrize(
    ("demand", "n_processes", "n_items", "items_per_s", "bottleneck"),
    [
        pytest.param({"wait_s": 0.2}, 2, 16, 80.0, {"waiting"}, id="sixteen waits of 200 ms"),
        pytest.param({"python_s": 0.1}, 1, 1, 10.0, {"gil"}, id="one thread keeps its GIL"),
        pytest.param({"python_s": 0.1}, 1, 8, 10.0, {"gil"}, id="eight threads share one GIL"),
        pytest.param({"python_s": 0.1}, 2, 4, 20.0, {"gil", "cores"}, id="two GILs and two cores, all full"),
        pytest.param({"python_s": 0.1}, 8, 8, 20.0, {"cores"}, id="eight processes on two cores"),
        pytest.param({"child_s": 0.1}, 1, 1, 10.0, {"waiting"}, id="one child leaves a core idle"),
        pytest.param({"child_s": 0.1}, 1, 8, 20.0, {"cores"}, id="children of one process fill the cores"),
        pytest.param(
            {"python_s": 0.01, "child_s": 0.03, "wait_s": 0.16}, 2, 4, 20.0, {"waiting"}, id="below the knee"
        ),
        pytest.param(
            {"python_s": 0.01, "child_s": 0.03, "wait_s": 0.16}, 1, 16, 50.0, {"cores"}, id="beyond it"
        ),
    ],
)
def test_the_lowest_bound_is_the_ideal(
    bench: Any,
    demand: dict[str, float],
    n_processes: int,
    n_items: int,
    items_per_s: float,
    bottleneck: set[str],
) -> None:
    found = bench.truth_ideal.ideal(bench.truth_ideal.Demand(**demand), n_processes, n_items, 2)

    assert found.items_per_s == pytest.approx(items_per_s)
    assert found.bottleneck == bottleneck
    assert sum(found.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("n_processes", "n_items", "shares"),
    [
        (1, 4, {"python": 0.25, "gil_line": 0.75, "core_line": 0.0}),
        (4, 4, {"python": 0.5, "gil_line": 0.0, "core_line": 0.5}),
        (4, 8, {"python": 0.25, "gil_line": 0.5, "core_line": 0.25}),
    ],
)
def test_threads_that_compute_wait_for_their_gil_or_for_a_core(
    bench: Any, n_processes: int, n_items: int, shares: dict[str, float]
) -> None:
    found = bench.truth_ideal.ideal(bench.truth_ideal.Demand(python_s=0.1), n_processes, n_items, 2)

    assert found.shares == pytest.approx({"child": 0.0, "asleep": 0.0, **shares})


def test_pairs_of_like_ideals_do_not_count(bench: Any) -> None:
    assert bench.truth_ideal.pairs_in_order([10.0, 10.4, 20.0], [9.0, 8.0, 21.0]) == (2, 2)
    assert bench.truth_ideal.pairs_in_order([10.0, 20.0, 40.0], [9.0, 8.0, 21.0]) == (2, 3)


def test_each_bar_names_how_many_miss_it(bench: Any) -> None:
    good = bench.truth_table.Row(
        "gunicorn", "wait", "1x4", 20.0, 0.99, ["waiting"], ["waiting"], ("asleep", -0.01), 1.01
    )
    bad = replace(
        good, layout="2x2", ratio=0.5, bottleneck=["GIL"], share_error=("asleep", -0.3), memory_ratio=0.6
    )
    more = replace(good, layout="2x8", ideal_per_s=80.0, ratio=0.2)

    assert list(bench.truth_table.bars([good, bad, more])) == [
        "measured / ideal from 0.95 to 1.02: 1 of 3 (0.20 to 0.99)",
        "pairs that differ by 5 % or more, in order: 1 of 2",
        "bottleneck: 2 of 3",
        "shares within 5 points: 2 of 3",
        "memory within 5 %: 2 of 3 (0.60 to 1.01)",
    ]


def test_a_layout_without_a_valid_window_misses_its_bar(bench: Any) -> None:
    row = bench.truth_table.Row("gunicorn", "wait", "1x4", 20.0, None, [], ["waiting"], None, None)

    assert next(iter(bench.truth_table.bars([row]))) == "measured / ideal from 0.95 to 1.02: 0 of 1"


def test_the_table_survives_its_csv(bench: Any) -> None:
    table = bench.truth_table
    rows = [
        table.Row("rq fork", "cpu", "2x-", 20.0, 0.987, ["cores", "GIL"], ["cores"], ("asleep", -0.07), 1.06),
        table.Row("rq fork", "wait", "8x-", 8.0, None, [], ["waiting"], None, None),
        table.Row(
            "saq", "cpu", "2x2", 20.0, 0.915, [], ["cores"], None, None, table.Uses(1.83, 0.11, 0.1004)
        ),
    ]
    written = io.StringIO()
    table.print_csv(rows, written)

    assert table.read_csv(written.getvalue().splitlines()) == rows


def test_ranges_have_a_column_per_kind_of_item(bench: Any) -> None:
    table = bench.truth_table
    row = table.Row("uwsgi", "wait", "1x1", 5.0, 0.96, ["waiting"], ["waiting"], None, None)
    rows = [
        row,
        replace(row, layout="1x2", ratio=0.99),
        replace(row, service="script", kind="cpu", ratio=1.0),
    ]
    written = io.StringIO()
    table.print_ranges(rows, written)

    assert written.getvalue().splitlines() == [
        "| service | `wait` | `cpu` |",
        "|---|---|---|",
        "| script | - | 1.00 to 1.00 |",
        "| uwsgi | 0.96 to 0.99 | - |",
    ]


def test_the_csv_in_the_docs_is_as_the_bench_prints_it(bench: Any) -> None:
    kept, written = (ROOT / "docs" / "truth.csv").read_text(), io.StringIO()
    bench.truth_table.print_csv(bench.truth_table.read_csv(kept.splitlines()), written)

    assert written.getvalue() == kept


def test_what_explain_prints_undivided_is_held_against_the_sum(bench: Any) -> None:
    truth = bench.truth_ideal.ideal(bench.truth_ideal.Demand(wait_s=0.2), 1, 4, 2)
    divided = {"python": {"value": 0.0}, "asleep": {"value": 0.7}, "contended": {"value": 0.3}}
    undivided = {"python": {"value": 0.02}, "core_line": {"value": 0.03}, "elsewhere": {"value": 0.95}}

    assert bench.truth._largest_error(divided, truth) == ("asleep", pytest.approx(-0.3))
    assert abs(bench.truth._largest_error(undivided, truth)[1]) == pytest.approx(0.02)


def test_every_service_has_five_layouts_and_an_ideal_for_each_kind(bench: Any) -> None:
    for service in bench.truth_services.SERVICES.values():
        assert len(service.layouts.split(",")) >= 5
        assert "wait" in service.kinds
        for kind in service.kinds:
            assert service.demand(kind).alone_s > 0
