"""Intervals hold through the whole calibration: from windows of a few layouts to windows of others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.calibrate import calibrate_jointly
from tuner.core.model.prediction.extrapolation import CalibratedRange
from tuner.core.model.prediction.trust import predict_with_intervals
from tuner.core.model.profile import ProfileNoise

from ..luck import of_studies
from .known_mixes import MIXES
from .synthetic_clocks import ALONE, BOX, GRID, SMALL, Noise, study_of

#: layouts lie as far from the model as a calibration takes them to; launches and windows differ by 1 %
NOISE = Noise(launch=0.01, window=0.01, cpu=0.003, misfit=0.04)
ABOUT = 0.02  #: of the windows of very many studies 91.5 % do from 1x1 alone, 89 % from four layouts


@pytest.mark.parametrize(("seen", "n_studies"), [(ALONE, 30), (SMALL, 20)], ids=["1x1", "four-layouts"])
def test_nine_in_ten_windows_of_layouts_that_were_not_seen_lie_in_their_intervals(
    seen: list[Layout], n_studies: int
) -> None:
    unseen = [layout for layout in GRID if layout not in seen]
    shares = []
    for number, (demands, _) in enumerate(product(MIXES.values(), range(n_studies))):
        clocks = study_of(demands, GRID, noise=NOISE, seed=number, length_s=60.0)
        found = calibrate_jointly([one for one in clocks if one.layout in seen], BOX)
        profile = replace(found.profile, noise=ProfileNoise(window_sd=0.01, launch_sd=0.01))
        result = predict_with_intervals(
            profile, found.draws, found.misfit_sd, CalibratedRange(BOX, tuple(seen)), BOX, unseen
        )
        inside = 0
        for row in result.rows:
            window = next(one for one in clocks if one.layout == row.layout)
            low, high = row.throughput_per_s.low, row.throughput_per_s.high
            assert low is not None
            assert high is not None
            inside += low <= window.throughput_per_s <= high
        shares.append(inside / len(unseen))
    share, luck = of_studies(shares)

    assert abs(share - 0.9) < ABOUT + luck
    assert luck < 0.1  # studies enough to see intervals of another confidence
