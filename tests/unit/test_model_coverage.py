"""Intervals hold through the whole calibration: from windows of a few layouts to windows of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.core.model.calibration.calibrate import calibrate_jointly
from tuner.core.model.demand import Demands
from tuner.core.model.prediction.extrapolation import Seen
from tuner.core.model.prediction.trust import trusted
from tuner.core.model.profile import ProfileNoise

from .synthetic_clocks import ALONE, BOX, GRID, SMALL, Noise, study_of

MIXES = {
    "gil": Demands(gil_s=0.06, child_s=0.01, asleep_s=0.01),
    "child": Demands(gil_s=0.01, child_s=0.1, asleep_s=0.02),
    "wait": Demands(gil_s=0.01, child_s=0.01, asleep_s=0.2),
    "mixed": Demands(gil_s=0.03, child_s=0.06, asleep_s=0.05, blocked_s=0.02),
}
N_STUDIES = 8  #: of each mix
#: layouts lie as far from the model as a calibration takes them to; launches and windows differ by 1 %
NOISE = Noise(launch=0.01, window=0.01, cpu=0.003, misfit=0.04)


@pytest.mark.parametrize("seen", [ALONE, SMALL], ids=["1x1", "four-layouts"])
def test_nine_in_ten_windows_of_layouts_that_were_not_seen_lie_in_their_intervals(seen: list) -> None:
    """288 windows (192 from four layouts): 85 % to 95 % is more than four standard errors wide."""
    unseen = [layout for layout in GRID if layout not in seen]
    inside = n = 0
    for demands in MIXES.values():
        for seed in range(N_STUDIES):
            clocks = study_of(demands, GRID, noise=NOISE, seed=seed, length_s=60.0)
            found = calibrate_jointly([one for one in clocks if one.layout in seen], BOX)
            profile = replace(found.profile, noise=ProfileNoise(window_sd=0.01, launch_sd=0.01))
            result = trusted(profile, found.draws, found.misfit_sd, Seen(BOX, tuple(seen)), BOX, unseen)
            for row in result.rows:
                window = next(one for one in clocks if one.layout == row.layout)
                low, high = row.throughput_per_s.low, row.throughput_per_s.high
                assert low is not None
                assert high is not None
                inside += low <= window.throughput_per_s <= high
                n += 1

    assert n == len(MIXES) * N_STUDIES * len(unseen)
    assert 0.85 <= inside / n <= 0.95
