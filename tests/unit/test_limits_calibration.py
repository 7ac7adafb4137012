"""Whether verdicts and intervals of noise are wrong as often as they say: the two benches with bars."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from ..bench_modules import loaded
from ..luck import at_most

SEED = 7


@pytest.fixture(scope="module")
def limits() -> Iterator[ModuleType]:
    with loaded("limits") as bench:
        yield bench.limits


@pytest.fixture(scope="module")
def noise() -> Iterator[ModuleType]:
    with loaded("noise") as bench:
        yield bench.noise


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("on: one look, 3 launches each, calibrated", 300),
        ("on: looks, calibrated", 100),
        ("on: looks, strict", 100),
        *(
            pytest.param(name, 1500, marks=pytest.mark.full)
            for name in (
                "on: one look, 3 launches each, calibrated",
                "on: one look, 5 launches each, strict",
                "on: looks, calibrated",
                "on: looks, strict",
                "on, half three times as noisy: looks, strict",
            )
        ),
    ],
)
def test_a_verdict_is_wrong_in_at_most_5_percent_of_studies_with_all_layouts_on_the_limit(
    limits: ModuleType, name: str, n: int
) -> None:
    case = next(case for case in limits.CASES if case.name == name)
    wrong, _ = limits.simulate(case, n, SEED)

    assert wrong <= at_most(0.05, n)


def test_what_lies_off_the_limit_is_reported(limits: ModuleType) -> None:
    case = next(case for case in limits.CASES if case.name == "around: one look, 3 launches each, calibrated")
    _, result = limits.simulate(case, 50, SEED)

    assert result > 0.95


def test_the_simulation_would_see_verdicts_that_ignore_layouts_and_looks(
    limits: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = limits.verdicts

    def careless(
        limit: object, layouts: list[object], windows: object, *_: object, **__: object
    ) -> dict[object, object]:
        # each layout as if it were the only one, at a single look
        found: dict[object, object] = {}
        for layout in layouts:
            found |= judge(limit, [layout], windows, 0.95, kind="strict", at_any_look=False)
        return found

    monkeypatch.setattr(limits, "verdicts", careless)
    case = next(case for case in limits.CASES if case.name == "on: looks, strict")
    wrong, _ = limits.simulate(case, 40, SEED)

    assert wrong > 0.3


@pytest.mark.parametrize("name", ["fronts: 4 blocks", "fronts: a race, 1 block and 40 launches in turn"])
def test_a_front_says_something_wrong_in_at_most_5_percent_of_studies(limits: ModuleType, name: str) -> None:
    n = 300
    case = next(case for case in limits.FRONTS if case.name == name)
    wrong, statements = limits.simulate_fronts(case, n, SEED)

    assert wrong <= at_most(0.05, n)
    assert statements > 1  # it does say something


@pytest.mark.parametrize(
    "name",
    [
        "6 layouts, 3 blocks of 2 windows",
        "22 layouts, 3 blocks of 2 windows",
        "2 layouts, 10 blocks of 4 windows",
    ],
)
def test_the_intervals_of_the_noise_hold_the_truth_as_often_as_they_say(noise: ModuleType, name: str) -> None:
    n = 400
    got = noise.simulate(next(case for case in noise.CASES if case.name == name), n, SEED)

    for source in noise.SOURCES:
        missed = 1 - got.covered[source] / got.n[source]
        assert got.n[source] == n
        assert missed <= at_most(0.05, n) + 0.01  # the limits for components are approximate
