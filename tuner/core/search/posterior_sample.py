"""A box as it may truly be, drawn from what a race's windows say: windows come of it that nobody took."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np

from tuner.core.search.posterior import LENGTH_REF_S, Array, Posterior

#: How much layouts that may be best truly differ, in units of sigma: each as likely beforehand.
_SPREADS = (0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)


class DrawnWorld:
    """One of the posterior's filters by its weight, its scale, its layouts and its drift, all drawn.

    Estimates differ by more than what they are of, the more so the less was measured: the first few of
    *rivals*, the best first, are taken to differ by one unknown spread. How many they are is drawn, and the
    spread too, as their estimates have it. Else worlds would have a clear winner too often, and races in them
    would be over too soon.
    """

    def __init__(self, posterior: Posterior, rivals: Sequence[int], random: np.random.Generator) -> None:
        self._random = random
        chosen = int(random.choice(len(posterior.weight), p=posterior.weight))
        self._share = float(posterior.share[chosen])
        self._ratio, self._tau_s = float(posterior.ratio[chosen]), float(posterior.tau_s[chosen])
        df = max(float(posterior.df), 1.0)
        self._sigma = sqrt(float(posterior.sigma2[chosen]) * df / random.chisquare(df))
        mean, covariance = posterior.mean[chosen], posterior.covariance[chosen] * self._sigma**2
        if len(rivals) > 1:
            n_alike = round(exp(random.uniform(log(2), log(len(rivals)))))
            mean, covariance = self._drawn_together(mean, covariance, rivals[:n_alike])
        values, vectors = np.linalg.eigh(covariance)
        state = mean + vectors @ (np.sqrt(np.maximum(values, 0.0)) * random.standard_normal(len(values)))
        self._levels, self._drift = posterior.centre + state[:-1], float(state[-1])
        self._at_s = posterior.at_s

    def window(self, layout: int, at_s: float, length_s: float) -> float:
        """The logarithm of what a launch's window at *at_s* gives; times never go back."""
        if self._ratio and at_s > self._at_s:
            keeps = exp((self._at_s - at_s) / self._tau_s)
            step = self._sigma * self._ratio * sqrt(1 - keeps**2)
            self._drift = keeps * self._drift + step * float(self._random.standard_normal())
        self._at_s = max(at_s, self._at_s)
        noise = self._sigma * sqrt(1 - self._share + self._share * LENGTH_REF_S / length_s)
        return float(self._levels[layout] + self._drift + noise * self._random.standard_normal())

    def _drawn_together(self, mean: Array, covariance: Array, rivals: Sequence[int]) -> tuple[Array, Array]:
        """Mean and covariance, given that *rivals* are normal about a mean of theirs nobody knows."""
        n = len(rivals)
        # Rows: differences among rivals, orthonormal, so that their mean is in none of them
        contrasts = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:].T
        seen = contrasts @ mean[list(rivals)]
        across = covariance[:, list(rivals)] @ contrasts.T
        among = contrasts @ across[list(rivals), :]
        values, vectors = np.linalg.eigh(among)
        spreads = (self._sigma * np.array(_SPREADS)) ** 2
        variances = np.maximum(values, 0.0) + spreads[:, None]
        along = vectors.T @ seen
        logs = -0.5 * (np.log(variances) + along**2 / variances).sum(axis=1)
        weights = np.exp(logs - logs.max())
        spread = self._random.choice(len(spreads), p=weights / weights.sum())
        gain = across @ vectors / variances[spread]
        return mean - gain @ along, covariance - gain @ (across @ vectors).T
