"""Whether a trend is left in a launch, with a standard error that survives autocorrelation.

The series is looked at through its slowest cosines (a discrete cosine transform). Noise that forgets within a
fraction of the series puts the same variance into each of them, whatever its autocorrelation; a straight line
puts 98.6 % of itself into the first. So the first measures the trend and the next ones the noise at that time
scale: the ratio is Student's t, exactly for white noise, nearly for noise with a short memory. Sixteen
cosines measure quick noise well; five see also slow noise. The less certain of the two answers counts.

Source: equal-weighted cosines for long-run variances: Müller (2007, 2014); Lazarus, Lewis, Stock & Watson
(2018), who recommend them for regressions; Müller & Watson (2008) for looking at slow movements this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sqrt

from tuner.core.stats.quantiles import student_t_quantile, student_t_tail

N_COSINES = (16, 5)  #: measure the noise; the fewer, the slower the noise that they see, and the less sure
FEWEST = 12  #: values; below that there is no telling trend from noise


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line's slope through a series, in shares of its mean per value."""

    slope: float
    standard_error: float
    df: int

    @property
    def p_value(self) -> float:
        """Probability of a slope as large in either direction, were there none."""
        if self.standard_error == 0.0:
            return 0.0 if self.slope else 1.0
        return min(1.0, 2 * student_t_tail(abs(self.slope) / self.standard_error, self.df))


def estimate_trend(values: Sequence[float]) -> Trend | None:
    """The trend of *values*, evenly spaced in time; None when they are fewer than 12 or their mean is 0."""
    n = len(values)
    mean = sum(values) / n if n else 0.0
    if n < FEWEST or mean == 0.0:
        return None
    middle = (n - 1) / 2
    found, of_line = [], []
    for j in range(1, min(N_COSINES[0], n // 3) + 2):
        wave = _cosine(j, n)
        found.append(sum(w * value for w, value in zip(wave, values, strict=True)))
        of_line.append(sum(w * (i - middle) for i, w in enumerate(wave)))
    slope = found[0] / of_line[0]
    noise = [c - slope * line for c, line in zip(found[1:], of_line[1:], strict=True)]
    answers = []
    for n_cosines in {min(each, len(noise)) for each in N_COSINES}:
        standard_error = sqrt(sum(c * c for c in noise[:n_cosines]) / n_cosines) / abs(of_line[0])
        answers.append(Trend(slope / mean, standard_error / abs(mean), n_cosines))
    return max(answers, key=lambda trend: (trend.p_value, trend.df))


def pool_trends(trends: Sequence[Trend]) -> Trend | None:
    """The trend that launches share, by their slopes alone: each launch is one value, however noisy within.

    A leak of the service is in every launch; what one launch cannot tell from noise, a study often can. The
    launches should be of about one length; None for fewer than 3.
    """
    n = len(trends)
    if n < 3:
        return None
    mean = sum(trend.slope for trend in trends) / n
    squares = sum((trend.slope - mean) ** 2 for trend in trends)
    return Trend(mean, sqrt(squares / (n - 1) / n), n - 1)


def detectable_slope(noise_ratio: float, n: int, *, alpha: float, power: float = 0.9) -> float:
    """The slope per value that is found with probability *power*, where values scatter by *noise_ratio*.

    White noise; *alpha* is the two-sided chance of a trend found where there is none. By the quantiles of
    Student's t, which is a few per cent on the large side.

    Raises:
        ValueError: fewer than 12 values.
    """
    if n < FEWEST:
        raise ValueError(f"need {FEWEST} values or more, got {n}")
    df = min(N_COSINES[-1], n // 3)
    middle = (n - 1) / 2
    of_line = sum(w * (i - middle) for i, w in enumerate(_cosine(1, n)))
    quantiles = student_t_quantile(1 - alpha / 2, df) + student_t_quantile(power, df)
    return noise_ratio * quantiles / abs(of_line)


def _cosine(j: int, n: int) -> list[float]:
    """The j-th cosine of the transform, of length 1."""
    scale = sqrt(2 / n)
    return [scale * cos(pi * j * (i + 0.5) / n) for i in range(n)]
