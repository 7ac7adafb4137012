"""The uncertainty of demands: joint draws, and an interval of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.core.model.calibration.per_item import Looks
from tuner.core.model.demand import SECONDS, Array, Demands, Terms
from tuner.core.stats.interval import Estimate

CONFIDENCE = 0.9
N_DRAWS = 200
N_DEMANDS = 5  #: number of fitted values that are demands: own CPU, its GIL share, children, blocked, asleep

_N_FOR_QUANTILES = 4000
_LEAST_RATIO = 1e-3  #: least value as a share of the most likely one
_NOTHING_RATIO = 1e-4  #: share of an item's time; a demand that is surely smaller has no interval


@dataclass(frozen=True, slots=True)
class Sampling:
    """Confidence of intervals, number of draws of the demands, and the seed."""

    confidence: float = CONFIDENCE  #: confidence of each interval separately
    n_draws: int = N_DRAWS  #: number of draws, at most 4000
    seed: int = 0


AS_USUAL = Sampling()


@dataclass(frozen=True, slots=True)
class FittedDemands:
    """Fitted demands of a calibration, with a multivariate Student's t distribution.

    The values are own CPU, the share of it that holds the GIL, CPU of children, uninterruptible waiting
    with the start of children, waiting asleep, and then the *terms*. Values outside their bounds are set to
    the bounds.
    """

    values: Array  #: (5 + terms,)
    root: Array  #: (5 + terms, k): root @ root.T is the covariance of the values
    df: float
    cv_ratio: float
    looks: Looks
    terms: tuple[str, ...] = ()  #: names of fields of `Terms`

    @property
    def demands(self) -> Demands:
        """Return the most likely demands."""
        part = np.array([self.looks.spawning_ratio])
        return self._demands(self._fields(self.values[None, :], part))[0]

    def sampled(
        self, sampling: Sampling
    ) -> tuple[tuple[Demands, ...], tuple[Terms, ...], dict[str, Estimate]]:
        """Return draws of the demands, the terms drawn with each, and an interval of each demand above 0.

        The start of children has one, too, if children used CPU and the start is known to take no time.
        """
        values = self._draw(sampling.seed)
        n_drawn, spawning = len(values), self.looks.spawning
        part = np.zeros(n_drawn) if spawning is None else spawning.drawn(n_drawn, sampling.seed)
        drawn = self._fields(values, part)
        mean, tail = self.demands, (1 - sampling.confidence) / 2
        lows, highs = np.quantile(drawn, [tail, 1 - tail], axis=0)
        nothing_s = _NOTHING_RATIO * mean.total_s
        is_told = spawning is not None and mean.child_s > nothing_s
        intervals = {
            name: Estimate(getattr(mean, name), float(low), float(high))
            for name, low, high in zip(SECONDS, lows, highs, strict=True)
            if high > nothing_s or (name == "spawn_s" and is_told)
        }
        n = sampling.n_draws
        return tuple(self._demands(drawn[:n])), tuple(map(self._terms, values[:n, N_DEMANDS:])), intervals

    def _draw(self, seed: int) -> Array:
        random = np.random.default_rng(seed)
        normal = random.standard_normal((_N_FOR_QUANTILES, self.root.shape[1]))
        wider = np.sqrt(self.df / random.chisquare(self.df, _N_FOR_QUANTILES))
        drawn: Array = self.values + wider[:, None] * (normal @ self.root.T)
        return drawn

    def _fields(self, values: Array, spawning_ratio: Array) -> Array:
        """Return `SECONDS` of each row."""
        own_s, share, child_s, blocked_s, asleep_s = np.maximum(values[:, :N_DEMANDS], 0.0).T
        share = np.minimum(share, 1.0)
        spawn_s = spawning_ratio * blocked_s
        parts = (own_s * share, own_s * (1 - share), child_s, asleep_s, blocked_s - spawn_s, spawn_s)
        fields = np.stack(parts, axis=1)
        # With few launches, tails include items without any demand: set a least demand.
        least = _LEAST_RATIO * self.values[[0, 2, 3, 4]].sum()
        fields[fields.sum(axis=1) < least, 0] = least
        return fields

    def _terms(self, row: Array) -> Terms:
        return Terms(**{name: max(0.0, float(value)) for name, value in zip(self.terms, row, strict=True)})

    def _demands(self, rows: Array) -> list[Demands]:
        return [
            Demands(
                gil_s=float(gil_s),
                python_s=float(python_s),
                child_s=float(child_s),
                asleep_s=float(asleep_s),
                blocked_s=float(blocked_s),
                spawn_s=float(spawn_s),
                others_s=self.looks.others_s,
                cv_ratio=self.cv_ratio,
            )
            for gil_s, python_s, child_s, asleep_s, blocked_s, spawn_s in rows
        ]
