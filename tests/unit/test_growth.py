"""How a grid grows: the walk from its edge, and the grid that is laid around where it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.adapters.virtual.box import virtual_study
from tuner.adapters.virtual.service import VirtualService
from tuner.core.domain.layout import Layout, divisors_grid, full_grid, grid_of, parse_layout, small_grid
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.model.diagnosis.diagnose import What
from tuner.core.search.growth import (
    MOST_THREADS,
    Growth,
    Scout,
    Way,
    added_layouts,
    foreseen_bytes,
    growth_of,
    growth_to_json,
    initial_layouts,
    opens_too_many,
    walk,
)

pytestmark = pytest.mark.pythons

GRID = divisors_grid(4)


def nothing(_: Layout) -> None:
    """Everything fits."""


def walked(
    layouts: list[Layout],
    per_s: Callable[[Layout], float | None],
    what: Callable[[Layout], tuple[What, ...]] = lambda _: ("waiting",),
    refuses: Callable[[Layout], str | None] = nothing,
    memory_bytes: Callable[[Layout], float | None] = lambda _: None,
    most_bytes: float | None = None,
    passes: Callable[[Layout], str | None] = lambda _: None,
) -> tuple[tuple[Way, ...], list[str]]:
    """The ways of a service, and what was looked at on them."""
    scouts: list[Scout] = []
    while True:
        ways = walk(layouts, scouts, refuses, most_bytes=most_bytes)
        if (layout := ways[-1].next) is None:
            return ways, [str(one.layout) for one in scouts]
        assert [one.layout for one in scouts].count(layout) < 2, "a layout is looked at twice at most"
        scouts.append(Scout(layout, per_s(layout), what(layout), memory_bytes(layout), passes(layout)))


def waits(layout: Layout) -> float:
    """4 cores, 12 ms of CPU and 600 ms of waiting."""
    return min(layout.total_threads / 0.612, min(4, layout.processes) / 0.012)


def test_the_grid_grows_by_doubling_the_threads_until_twice_as_many_give_no_more() -> None:
    (way,), looked_at = walked(GRID, waits)

    assert looked_at == ["4x2", "4x4", "4x8", "4x16", "4x32", "4x64", "4x128", "8x64"]
    assert (str(way.began), str(way.reached), way.ended) == ("4x2", "4x64", "no-gain")


def test_a_layout_that_fills_the_cores_ends_the_walk_before_anything_larger_is_tried() -> None:
    def what(layout: Layout) -> tuple[What, ...]:
        return ("cores",) if layout.total_threads >= 32 else ("waiting",)

    (way,), looked_at = walked(GRID, waits, what)

    assert looked_at == ["4x2", "4x4", "4x8"]
    assert (str(way.reached), way.ended) == ("4x8", "full")


@pytest.mark.parametrize("what", ["cores", "gil", "memory"])
def test_a_grid_whose_edge_is_full_costs_one_look_and_stays_as_it_is(what: What) -> None:
    ways, looked_at = walked(GRID, waits, lambda _: (what,))

    assert looked_at == ["4x2"]
    assert added_layouts(GRID, ways, nothing) == ()


def test_an_unknown_bottleneck_neither_ends_the_walk_nor_continues_without_a_gain() -> None:
    (way,), looked_at = walked(GRID, waits, lambda _: ())
    assert str(way.reached) == "4x64"

    (way,), looked_at = walked(GRID, lambda _: 10.0, lambda _: ())
    assert looked_at == ["4x2", "4x4", "8x2"]
    assert way.reached == way.began


@pytest.mark.parametrize(("second", "grows"), [(1.02, False), (1.12, True)])
def test_a_small_gain_has_to_show_twice(second: float, grows: bool) -> None:
    looks = {"4x2": [100.0, 100.0], "4x4": [112.0, 100.0 * second], "4x8": [100.0], "8x4": [100.0]}
    looks["8x2"] = [100.0]
    seen: list[str] = []

    def per_s(layout: Layout) -> float:
        seen.append(str(layout))
        return looks[str(layout)][seen.count(str(layout)) - 1]

    (way,), _ = walked(GRID, per_s)

    assert seen[:4] == ["4x2", "4x4", "4x4", "4x2"]
    assert (str(way.reached) == "4x4") is grows


def test_a_large_gain_shows_at_once() -> None:
    (way,), looked_at = walked(GRID, lambda layout: 130.0 if layout.total_threads > 8 else 100.0)

    assert looked_at == ["4x2", "4x4", "4x8", "8x4"]
    assert str(way.reached) == "4x4"


def test_processes_follow_where_threads_give_no_more_and_threads_again_after_them() -> None:
    def pool_of_two(layout: Layout) -> float:  # two connections in each process
        return layout.processes * min(2, layout.threads) * 10.0 if layout.processes <= 16 else 320.0

    (way,), looked_at = walked(GRID, pool_of_two)

    assert looked_at == ["4x2", "4x4", "8x2", "8x4", "16x2", "16x4", "32x2"]
    assert (str(way.reached), way.ended) == ("16x2", "no-gain")


def test_a_service_without_threads_grows_by_processes_alone() -> None:
    grid = grid_of("divisors", 4, has_threads=False)

    ways, looked_at = walked(grid, lambda layout: min(layout.processes, 40) * 2.0)

    assert looked_at == ["8x-", "16x-", "32x-", "64x-", "128x-"]
    assert [str(layout) for layout in added_layouts(grid, ways, nothing)] == ["32x-", "64x-", "128x-"]


def test_each_variant_walks_its_own_way() -> None:
    grid = [
        *(Layout(one.processes, one.threads, "threads") for one in GRID),
        *grid_of("divisors", 4, has_threads=False),
    ]

    def per_s(layout: Layout) -> float:
        return waits(layout) if layout.has_threads else 5.0

    ways, _ = walked(grid, per_s)

    assert [(str(way.began), str(way.reached)) for way in ways] == [
        ("4x2@threads", "4x64@threads"),
        ("8x-", "8x-"),
    ]
    assert {layout.variant for layout in added_layouts(grid, ways, nothing)} == {"threads"}


@pytest.mark.parametrize(
    ("grid", "grows_by"),
    [
        (GRID, "1x128 2x64 4x32 1x256 2x128 4x64 1x512 2x256 4x128"),
        (small_grid(4), "1x128 2x64 4x32 1x256 2x128 4x64 1x512 2x256 4x128"),
        (full_grid(4), "1x128 2x64 4x32 1x256 2x128 4x64 1x512 2x256 4x128"),
    ],
    ids=["divisors", "small", "full"],
)
def test_the_grid_is_laid_again_around_what_was_reached(grid: list[Layout], grows_by: str) -> None:
    ways, _ = walked(grid, waits)

    assert " ".join(map(str, added_layouts(grid, ways, nothing))) == grows_by


def test_the_processes_that_were_reached_join_the_grid() -> None:
    way = Way(parse_layout("4x2"), parse_layout("16x2"), "no-gain")

    assert {layout.processes for layout in added_layouts(GRID, [way], nothing)} == {1, 2, 4, 16, 32}


def test_what_does_not_fit_is_neither_looked_at_nor_joins() -> None:
    def refuses(layout: Layout) -> str | None:
        return f"{layout} opens too many" if layout.total_threads > 40 else None

    ways, looked_at = walked(GRID, waits, refuses=refuses)

    assert looked_at == ["4x2", "4x4", "4x8"]
    assert (ways[0].ended, ways[0].why) == ("refused", "4x16 opens too many")
    assert max(layout.total_threads for layout in added_layouts(GRID, ways, refuses)) == 32


def test_nothing_is_looked_at_where_nothing_larger_fits() -> None:
    (way,), looked_at = walked(GRID, waits, refuses=lambda _: "no room")

    assert looked_at == []
    assert (way.ended, way.why) == ("refused", "no room")


def test_a_scout_without_a_valid_window_ends_the_walk() -> None:
    (way,), _ = walked(GRID, lambda layout: None if layout.total_threads > 16 else waits(layout))
    assert (str(way.reached), way.ended) == ("4x4", "unseen")

    (way,), looked_at = walked(GRID, lambda _: None)
    assert (looked_at, way.ended) == (["4x2"], "unseen")


def test_a_scout_that_passes_a_limit_of_the_users_is_no_gain() -> None:
    (way,), _ = walked(
        GRID, waits, passes=lambda layout: f"{layout} had load 9" if layout.total_threads > 16 else None
    )

    assert (str(way.reached), way.ended, way.why) == ("4x4", "refused", "4x8 had load 9")


def test_memory_that_is_foreseen_ends_the_walk_before_it_is_used() -> None:
    def memory_bytes(layout: Layout) -> float:
        return 80e6 * layout.processes + 1e6 * layout.total_threads

    (way,), looked_at = walked(GRID, waits, memory_bytes=memory_bytes, most_bytes=400e6)

    # 4x16 uses 384 MB, 4x32 would use 448; the first look at twice the threads knows nothing of a thread yet
    assert looked_at == ["4x2", "4x4", "4x8", "4x16"]
    assert way.ended == "refused"
    assert "4x32" in way.why


def test_memory_is_foreseen_from_what_threads_and_processes_used() -> None:
    seen = {
        one: [Scout(one, 1.0, (), bytes_)] for one, bytes_ in ((Layout(4, 2), 328.0), (Layout(4, 4), 336.0))
    }

    assert foreseen_bytes(Layout(4, 8), seen) == 352.0
    assert foreseen_bytes(Layout(8, 4), seen) == 672.0
    assert foreseen_bytes(Layout(8, 16), seen) is None


@given(st.integers(1, 64), st.floats(0.001, 1000), st.floats(0.0001, 10))
def test_a_walk_ends_and_never_passes_the_most_threads(cores: int, wait_s: float, cpu_s: float) -> None:
    def per_s(layout: Layout) -> float:
        return min(layout.total_threads / (wait_s + cpu_s), cores / cpu_s)

    def refuses(layout: Layout) -> str | None:
        return "too many" if layout.total_threads > MOST_THREADS else None

    grid = divisors_grid(cores)
    ways, looked_at = walked(grid, per_s, lambda _: (), refuses)

    more = added_layouts(grid, ways, refuses)
    assert all(layout.total_threads <= MOST_THREADS for layout in more)
    assert not set(more) & set(grid)
    assert len(looked_at) <= 2 * (3 + 13)  # doublings up to the most threads, and what gave no more


def test_a_study_tells_how_its_grid_grew() -> None:
    way = Way(parse_layout("4x2"), parse_layout("4x64"), "refused", "4x128 is too large")
    growth = Growth(8, (way,))
    layouts = (*GRID, parse_layout("4x64"))
    study = virtual_study(
        VirtualService(dict.fromkeys(layouts, 1.0)), provenance=Provenance(grid_grew=growth_to_json(growth))
    )

    assert growth_of(study) == growth
    assert initial_layouts(study) == tuple(GRID)


def test_connections_are_those_of_the_service() -> None:
    config = StoredConfig('{"study": {"max_connections": 8}, "service": {"connections": 5}}')

    assert opens_too_many(config, Layout(1, 64)) is None
    assert "10 connections, and 8" in str(opens_too_many(config, Layout(2, 1)))
    assert opens_too_many(StoredConfig("{}"), Layout(999, 999)) is None
