"""The two-way fit against numpy's general least squares, for designs with holes and repeats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.pythons

N_LAYOUTS, N_BLOCKS = 5, 5


@st.composite
def designs(draw: st.DrawFn) -> list[Observation]:
    """Some launches of some layouts in some blocks; layouts are numbered 0.. without a gap."""
    cells = draw(
        st.lists(
            st.tuples(st.integers(0, N_LAYOUTS - 1), st.integers(0, N_BLOCKS - 1), st.floats(-3, 3)),
            min_size=1,
            max_size=30,
        )
    )
    number = {layout: index for index, layout in enumerate(sorted({layout for layout, _, _ in cells}))}
    return [Observation(number[layout], block, value) for layout, block, value in cells]


def design_matrix(observations: list[Observation]) -> tuple[np.ndarray, list[int]]:
    blocks = sorted({seen.block for seen in observations})
    n_layouts = 1 + max(seen.layout for seen in observations)
    matrix = np.zeros((len(observations), n_layouts + len(blocks)))
    for row, seen in enumerate(observations):
        matrix[row, seen.layout] = matrix[row, n_layouts + blocks.index(seen.block)] = 1
    return matrix, blocks


def fitted(observations: list[Observation]) -> AdditiveFit:
    return fit(observations, 1 + max(seen.layout for seen in observations))


@settings(max_examples=60, deadline=None)
@given(designs())
def test_residuals_and_degrees_of_freedom_are_those_of_least_squares(observations: list[Observation]) -> None:
    got = fitted(observations)
    matrix, _ = design_matrix(observations)
    values = np.array([seen.value for seen in observations])
    solution = np.linalg.lstsq(matrix, values, rcond=None)[0]

    assert got.residual_ss == pytest.approx(float(((values - matrix @ solution) ** 2).sum()), abs=1e-9)
    assert got.residual_df == len(observations) - np.linalg.matrix_rank(matrix)


@settings(max_examples=60, deadline=None)
@given(designs())
def test_effects_and_their_variances_are_those_of_least_squares(observations: list[Observation]) -> None:
    got = fitted(observations)
    matrix, blocks = design_matrix(observations)
    n_layouts = len(got.effects)
    values = np.array([seen.value for seen in observations])
    solution = np.linalg.lstsq(matrix, values, rcond=None)[0]
    covariance = np.linalg.pinv(matrix.T @ matrix)

    for one in range(n_layouts):
        component = got.components[one]
        own_blocks = {seen.block for seen in observations if got.components[seen.layout] == component}
        level = np.zeros(matrix.shape[1])
        level[one] = 1
        for block in own_blocks:
            level[n_layouts + blocks.index(block)] = 1 / len(own_blocks)
        assert got.effects[one] == pytest.approx(level @ solution, abs=1e-9)
        assert got.effect_variance[one] == pytest.approx(level @ covariance @ level, abs=1e-9)
        for other in range(n_layouts):
            contrast = np.zeros(matrix.shape[1])
            contrast[one] += 1
            contrast[other] -= 1
            estimable = np.allclose(contrast @ covariance @ matrix.T @ matrix, contrast)
            variance = got.difference_variance(one, other)
            assert (variance is not None) == estimable
            if variance is not None:
                assert variance == pytest.approx(contrast @ covariance @ contrast, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(designs())
def test_the_share_of_blocks_is_hendersons(observations: list[Observation]) -> None:
    got = fitted(observations)
    matrix, _ = design_matrix(observations)
    n_layouts = len(got.effects)
    layouts_only, blocks_only = matrix[:, :n_layouts], matrix[:, n_layouts:]
    values = np.array([seen.value for seen in observations])
    off_layouts = np.eye(len(values)) - layouts_only @ np.linalg.pinv(layouts_only)

    assert got.block_ss == pytest.approx(float(values @ off_layouts @ values) - got.residual_ss, abs=1e-9)
    assert got.block_ss_per_variance == pytest.approx(
        float(np.trace(blocks_only.T @ off_layouts @ blocks_only)), abs=1e-9
    )
    assert got.block_df == np.linalg.matrix_rank(matrix) - n_layouts


def test_a_layout_measured_in_good_blocks_only_is_put_right_by_the_others() -> None:
    # block 1 gives 1.0 more to all; layout 1 was measured in block 1 only, and is as good as layout 0
    got = fitted([Observation(0, 0, 5.0), Observation(0, 1, 6.0), Observation(1, 1, 6.0)])

    assert got.effects == pytest.approx((5.5, 5.5))


def test_layouts_that_share_no_block_are_in_different_components() -> None:
    got = fitted([Observation(0, 0, 1.0), Observation(1, 0, 2.0), Observation(2, 1, 3.0)])

    assert got.components == (0, 0, 1)
    assert got.difference_variance(0, 1) == pytest.approx(2.0)
    assert got.difference_variance(0, 2) is None


def test_large_designs_with_holes_are_solved_as_well() -> None:
    # Without noise each effect comes out as it went in, holes or not.
    truth = [(layout * 7919 % 101) / 100 for layout in range(60)]
    observations = [
        Observation(layout, block, truth[layout] + block / 10)
        for layout in range(60)
        for block in range(8)
        if (layout + 3 * block) % 4
    ]
    got = fitted(observations)

    assert got.residual_ss == pytest.approx(0, abs=1e-18)
    assert [effect - got.effects[0] for effect in got.effects] == pytest.approx(
        [one - truth[0] for one in truth]
    )


def test_every_layout_needs_an_observation() -> None:
    with raises(ValueError, wording("model.every-layout-needs-observation")):
        fit([Observation(1, 0, 1.0)], 2)
    with raises(ValueError, wording("model.every-layout-needs-observation")):
        fit([], 0)
