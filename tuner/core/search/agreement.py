"""The check that started layouts do not disturb each other: ratios in slices against ratios alone.

Slices give the ratio of two layouts, and the size of three noises: of slices, of launches, and of the host
from one heat to the next, minutes later. Windows alone have all of them; noise of the host cancels in
slices only. So the ratio of two windows alone is predicted with an interval, by each filter of the
posterior with its own noises. If it is outside, and further than `ALLOWED_RATIO` from the slices, started
layouts disturb each other.

A window alone is several times as long as the windows in slices, and averages more noise. The size of this
effect is uncertain, because it depends on the share of the noise between launches. So the window is assumed
to have the noise of a window in slices, which makes the interval too wide rather than too narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, fsum, log, sqrt

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Agreement
from tuner.core.search.posterior import LENGTH_REF_S, Posterior
from tuner.core.stats.groups import bound
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import tail_beyond

#: A race stops earlier if its noise looks smaller, so this interval misses about 1 % and not 0.5 %.
LEVEL = 0.995
ALLOWED_RATIO = 0.01  #: tolerated bias of slices, as measured by bench/heats.py


def agreement_of(
    posterior: Posterior,
    numbers: tuple[int, int],
    layouts: tuple[Layout, Layout],
    alone: tuple[float, float],
    length_s: float,
) -> Agreement:
    """Compare the ratio of two layouts in slices with that of a window of each alone.

    Args:
        posterior: of windows in slices only.
        numbers: indices of both layouts in it.
        layouts: the same layouts by name.
        alone: their values in the windows alone.
        length_s: mean length of a window in slices, in seconds.
    """
    one, other = numbers
    gaps, variances = posterior.gaps(one)
    noise = 1 - posterior.share + posterior.share * (LENGTH_REF_S / length_s)
    of_both = posterior.noise_scale[one] + posterior.noise_scale[other]
    windows = posterior.sigma2 * (of_both * noise + 2 * posterior.ratio**2)
    df = max(float(posterior.df), 1.0)
    filters = [
        (float(weight), float(gap), sqrt(variance))
        for weight, gap, variance in zip(
            posterior.weight, gaps[:, other], variances[:, other] + windows, strict=True
        )
    ]
    middle = fsum(weight * gap for weight, gap, _ in filters)

    def beyond(sign: float) -> Callable[[float], float]:
        def chance(by: float) -> float:
            return fsum(weight * tail_beyond(by - sign * gap, scale, df) for weight, gap, scale in filters)

        return chance

    risk = (1 - LEVEL) / 2
    high = bound(beyond(1.0), risk, middle)
    low = -bound(beyond(-1.0), risk, -middle)
    seen = log(alone[0] / alone[1])
    return Agreement(
        *layouts,
        in_slices=exp(middle),
        alone=exp(seen),
        expected=Estimate(exp(middle), exp(low), exp(high)),
        holds=low <= seen <= high or abs(seen - middle) <= ALLOWED_RATIO,
    )
