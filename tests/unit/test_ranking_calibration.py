"""Whether the ranking is wrong as often as it says, by simulation: bench/ranking.py with bars."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from ..bench_modules import loaded
from ..luck import at_most

pytestmark = pytest.mark.full

N_STUDIES = 1500
SEED = 20


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    with loaded("ranking") as bench:
        yield bench.ranking


@pytest.mark.parametrize(
    "name",
    [
        "2 layouts, 2 blocks",
        "6 layouts, 2 blocks",
        "6 layouts, 3 blocks",
        "6 layouts, 5 blocks",
        "6 layouts, 3 blocks of 6 windows, launch sd 3 %",
        "6 layouts, 2 blocks of 20 windows, launch sd 3 %",
        "6 layouts, 3 blocks, drift 20 %",
        "6 layouts, 5 blocks, 1 in 3 launches missing",
    ],
)
def test_identical_layouts_are_called_different_in_at_most_5_percent_of_studies(
    bench: ModuleType, name: str
) -> None:
    case = next(case for case in bench.CASES if case.name == name)
    got = bench.simulate(case, N_STUDIES, SEED)

    assert got.n_false / got.n <= at_most(0.05, got.n)
    # Intervals of one study share its blocks, so a study is worth about one of them.
    assert 1 - got.n_covered / got.n_intervals <= at_most(0.05, got.n) + 0.01  # Satterthwaite approximates
    assert got.n_ratios_right / got.n_ratios >= 1 - at_most(0.05, got.n_ratios)


@pytest.mark.parametrize(
    "name",
    ["6 layouts that differ by 20 %, 3 blocks", "6 layouts that differ by 20 %, 5 blocks, 1 in 5 missing"],
)
def test_intervals_hold_the_truth_where_layouts_differ(bench: ModuleType, name: str) -> None:
    case = next(case for case in bench.CASES if case.name == name)
    got = bench.simulate(case, N_STUDIES, SEED)

    assert 1 - got.n_covered / got.n_intervals <= at_most(0.05, got.n) + 0.01
    assert got.n_ratios_right / got.n_ratios >= 1 - at_most(0.05, got.n_ratios)


def test_the_simulation_would_see_windows_taken_for_independent(bench: ModuleType) -> None:
    case = next(case for case in bench.CASES if "20 windows" in case.name)
    got = bench.simulate(case, 200, SEED)

    assert got.n_welch / got.n > 0.3
