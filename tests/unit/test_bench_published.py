"""bench/model/published*.py on the figures that come with tuner: the bars hold wherever the tests run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tuner

from ..bench_modules import MODEL, loaded

KEPT = Path(tuner.__file__).parent / "lab" / "published.yaml"


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    return dict(yaml.safe_load(KEPT.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with loaded("published_socorro", "published_waiting", folder=MODEL) as modules:
        yield modules


def test_the_figures_are_those_beside_the_checkout(shared_data: Path, published: dict[str, Any]) -> None:
    seeds = yaml.safe_load((shared_data / "seeds.yaml").read_text(encoding="utf-8"))

    data = {  # the published words, and the figures that programs read from them
        name: {key: value for key, value in block.items() if key != "figures"}
        for name, block in published.items()
    }
    assert {name: seeds[name] for name in published} == data


@pytest.fixture(scope="module")
def waiting(bench: Any) -> Any:
    return bench.published_waiting


@pytest.fixture(scope="module")
def pools(waiting: Any, published: dict[str, Any]) -> Any:
    """The 32 published pools of nornir."""
    rows = waiting.rows_of(published)
    assert len(rows) == 32
    return rows


@pytest.fixture(scope="module")
def chosen(waiting: Any) -> Any:
    """The structure of the model that docs/method/published.md settled on."""
    (form,) = (one for one in waiting.FORMS if one.name == waiting.CHOSEN)
    return form


@pytest.mark.full
@pytest.mark.parametrize("corners_alone", [False, True], ids=["all", "corners"])
def test_the_waiting_pools_are_met_by_a_fit_to_all_and_by_one_to_the_four_corners(
    waiting: Any, pools: Any, chosen: Any, corners_alone: bool
) -> None:
    seen = [row for row in pools if not corners_alone or (row.wait_s, row.n_workers) in waiting.CORNERS]
    assert len(seen) == (4 if corners_alone else 32)
    costs = waiting.fit_costs(seen, chosen)
    error_ratio = waiting.mean_abs(waiting.errors_of(pools, chosen, costs))

    assert error_ratio <= (waiting.CORNERS_RATIO if corners_alone else waiting.FITTED_RATIO)


@pytest.mark.parametrize(
    ("name", "describes"), [("base", False), ("+ mP q", True)], ids=["base", "two terms more"]
)
def test_two_terms_describe_the_socorro_table_and_the_base_does_not(
    bench: Any, published: dict[str, Any], name: str, describes: bool
) -> None:
    socorro = bench.published_socorro
    rows = socorro.rows_of(published)
    (variant,) = (one for one in socorro.VARIANTS if one.name == name)
    found = socorro.search(rows, variant, seed=1, n_generations=40)
    said = socorro.predicted(variant, found[None, :], [row.layout for row in rows])
    items = socorro.WINDOW_S * said.throughput_per_s
    worst_ratio = np.abs(items / [row.items_per_10min for row in rows] - 1).max()
    loads = {str(row.layout): float(load) for row, load in zip(rows, said.load, strict=True)}

    assert len(rows) == 6
    assert (worst_ratio <= socorro.WORST_RATIO) == describes
    assert (socorro.load_misses(loads) == []) == describes
    if describes:
        best, *_ = sorted(zip(items, loads, strict=True), reverse=True)
        assert best[1] == "4x6"  # as measured
