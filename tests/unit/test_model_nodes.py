"""Nodes: every k of every layout is reached, and what is spread over the processes adds up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.model import nodes as of_nodes
from tuner.core.model.nodes import nodes_of

from ..arrays import farthest

pytestmark = pytest.mark.pythons

layouts = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6)


@given(layouts)
@settings(deadline=None)
def test_probabilities_add_up_to_the_items_that_are_there(sizes: list[tuple[int, int]]) -> None:
    p, t = np.array(sizes, dtype=float).T
    nodes = nodes_of(p, t)
    n = (p * t)[nodes.row]

    some, mean = np.zeros_like(nodes.k), np.zeros_like(nodes.k)
    for j, share in enumerate(nodes.spread, start=1):
        some[: len(share)] += share
        mean[: len(share)] += j * share
    assert (
        farthest(p[nodes.row] * mean, n - nodes.k, rel=1e-6, abs=1e-12) <= 1
    )  # the items that k does not count
    assert farthest(p[nodes.row] * some, nodes.busy, rel=1e-6, abs=1e-12) <= 1
    assert (nodes.busy_variance >= 0).all()


@given(layouts)
@settings(deadline=None)
def test_what_is_linear_in_k_is_taken_to_every_k_of_its_own_layout(sizes: list[tuple[int, int]]) -> None:
    p, t = np.array(sizes, dtype=float).T
    nodes = nodes_of(p, t)
    values = 1000.0 * (nodes.row + 1) + nodes.k

    most = np.minimum(nodes.every, (p * t)[:, None])
    expected = 1000.0 * np.arange(1, len(p) + 1)[:, None] + most
    assert farthest(nodes.between(values), expected, rel=1e-6, abs=1e-12) <= 1


@given(layouts)
@settings(deadline=None, max_examples=30)
def test_what_is_too_much_to_keep_is_the_same(sizes: list[tuple[int, int]]) -> None:
    p, t = np.array(sizes, dtype=float).T
    kept = nodes_of(p, t)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_nodes, "_LARGEST_KEPT", 0)
        anew = nodes_of(p, t)

    assert anew is not kept
    assert nodes_of(p, t) is kept
    assert np.array_equal(anew.k, kept.k)
    assert np.array_equal(anew.low, kept.low)
    assert all(np.array_equal(*pair) for pair in zip(anew.spread, kept.spread, strict=True))


def test_few_threads_have_every_k_and_many_a_spread_of_them_from_none_to_all() -> None:
    nodes = nodes_of(np.array([1.0, 40.0]), np.array([3.0, 40.0]))

    assert sorted(nodes.k[nodes.row == 0]) == [0, 1, 2, 3]
    many = sorted(nodes.k[nodes.row == 1])
    assert many[:13] == list(range(13))
    assert many[-1] == 1600
    assert len(many) < 40
