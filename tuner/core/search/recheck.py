"""The decision of a check: new blocks, combined with the results of the study.

The speed of the host may have changed since the study, so levels are never compared, only differences
between layouts of the same block. A difference may have changed, too, by an unknown amount: `calibrated`
assumes a random change by a quarter of the margin, the margin or four times the margin, each with the same
prior probability, and weighs the three by their likelihood under the new blocks. So the study's results help
if they agree, and count little if not. `strict` uses only the new blocks with their own noise, because
launches may differ by more than in the study without a visible difference in the noise.

If the whole host is faster or slower than in the study, one layout may be affected more than another, as long
as the change lasts. Such a difference is no sign that the answer of the study is stale: another layout counts
as better only if the difference exceeds the effect that the change of the host may have.

The k-th test has the level alpha / (k (k + 1)); these levels sum to alpha. So a test after every block has no
larger error probability than a single test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log, log1p, sqrt
from typing import Literal

from tuner.core.defaults import LEAST_LAUNCHES
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Kind
from tuner.core.stats.quantiles import f_quantile, student_t_quantile, student_t_tail
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit
from tuner.core.stats.variance import MeanSquare

State = Literal["right", "stale", "open"]

LEAST_BLOCKS = 2  #: one block gives no information on the present noise
MOST_FORESEEN = 500  #: most blocks that are predicted
_MOVED_BY = (0.25, 1.0, 4.0)  #: possible changes of a difference since the study, as multiples of the margin
_HALVINGS = 50
#: share of a change of the host by which its effect on two layouts may differ
_FELT_UNEQUALLY = 0.5
_MOST_EXPLAINED = 0.1  #: a larger change, on the logarithmic scale, is a different host
_NOISIER = 0.99  #: present noise above this quantile of the study's noise is used without the study's


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch, on the logarithmic scale."""

    block: int
    layout: Layout
    value: float


@dataclass(frozen=True, slots=True)
class Past:
    """The results of a study that a check uses."""

    #: log(other / winner), and its variance; pairs that no block joins are omitted
    gaps: Mapping[Layout, tuple[float, float]]
    levels: Mapping[Layout, float]  #: logarithm of each layout's value
    residual: MeanSquare  #: variance of one launch around layout + block


@dataclass(frozen=True, slots=True)
class Asked:
    """The question of a check: winner, rivals, margin and confidence."""

    winner: Layout
    others: tuple[Layout, ...]
    within: float
    confidence: float
    kind: Kind  #: calibrated: uses the study's results; strict: does not
    in_turns: bool = False  #: launches of a block take turns, so their noise differs from the study's


@dataclass(frozen=True, slots=True)
class Part:
    """A Student t distribution, as one of a mixture."""

    weight: float
    mean: float
    sd: float


@dataclass(frozen=True, slots=True)
class Against:
    """One other layout against the winner; logarithms of other / winner."""

    other: Layout
    parts: tuple[Part, ...]  #: possible distributions of the difference
    df: float  #: degrees of freedom of each part
    level_low: float  #: error probability of *low*, for "stale"
    level_high: float  #: error probability of *high*, for "right"
    now: float
    now_se: float
    past: float | None  #: difference in the study; None: not in the study
    has_changed: bool  #: whether the present difference contradicts the study's

    @property
    def gap(self) -> float:
        """The expected difference."""
        return fsum(part.weight * part.mean for part in self.parts)

    @property
    def low(self) -> float:
        """The difference is below this value with a probability of *level_low* only."""
        return self._quantile(self.level_low)

    @property
    def high(self) -> float:
        """The difference is above this value with a probability of *level_high* only."""
        return self._quantile(1 - self.level_high)

    def above(self, gap: float) -> float:
        """Return the probability that the difference is larger than *gap*."""
        return fsum(part.weight * _above(gap, part, self.df) for part in self.parts)

    def _quantile(self, p: float) -> float:
        reach = 1.1 * abs(student_t_quantile(min(p, 1 - p) / 2 / len(self.parts), self.df))
        low = min(part.mean - reach * part.sd for part in self.parts)
        high = max(part.mean + reach * part.sd for part in self.parts)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if 1 - self.above(middle) < p else (low, middle)
        return (low + high) / 2


@dataclass(frozen=True, slots=True)
class Check:
    """The state of an answer after the blocks so far."""

    state: State
    n_blocks: int
    against: tuple[Against, ...]  #: the comparisons that are possible
    better: Layout | None  #: if stale, the layout that is better by more than the margin
    #: logarithm of the host's present level over that in the study; None: nothing to compare
    level_shift: float | None
    explained: float  #: difference of two layouts that the change of the host may explain, as a logarithm
    is_noisier: bool  #: whether launches vary more than in the study, whose noise is then not used
    #: expected number of blocks until the decision, if the differences are as measured; None: not predictable
    rest_blocks: int | None

    @property
    def is_beyond_foreseeing(self) -> bool:
        """Whether it is open, and `MOST_FORESEEN` more blocks are not expected to decide it."""
        enough = self.n_blocks >= LEAST_BLOCKS and bool(self.against)
        return self.state == "open" and enough and self.rest_blocks is None


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check, with its cost."""

    check: Check
    asked: Asked
    current: Layout | None  #: layout in use; None: not given
    failed: tuple[Layout, ...]  #: layouts that cannot run now
    age_s: float  #: time from the study's last window to the check's first launch, seconds
    n_windows: int  #: number of valid windows
    spent_s: float
    rest_s: float | None  #: expected time until the decision, seconds; None: not predictable


def check_answer(asked: Asked, past: Past | None, launches: Sequence[Launched]) -> Check:
    """Check whether the answer of *asked* still holds, from *launches* of now and the study's results.

    "right" requires a comparison with all other layouts; "stale" requires only one that is better.
    """
    layouts = [
        layout for layout in (asked.winner, *asked.others) if any(x.layout == layout for x in launches)
    ]
    blocks = sorted({one.block for one in launches})
    n_blocks = len(blocks)
    nothing = Check("open", n_blocks, (), None, None, 0.0, False, None)
    if asked.winner not in layouts or len(layouts) < 2:
        return nothing
    fitted = fit(
        [Observation(layouts.index(one.layout), blocks.index(one.block), one.value) for one in launches],
        len(layouts),
    )
    uses_noise_of_study = asked.kind != "strict" and not asked.in_turns
    noise, is_noisier = _noise(fitted, past if uses_noise_of_study else None)
    if noise is None:
        return nothing
    margin = -log(1 - asked.within)
    look = max(1, n_blocks - LEAST_BLOCKS + 1)
    alpha = (1 - asked.confidence) / (look * (look + 1))
    n_others = len(layouts) - 1
    against = []
    for number, other in enumerate(layouts):
        per_unit = fitted.difference_variance(number, 0)
        if number and per_unit is not None:
            now = fitted.effects[number] - fitted.effects[0]
            known = past.gaps.get(other) if past is not None else None
            variance = per_unit * noise.value
            parts = _parts(now, variance, None if asked.kind == "strict" else known, margin, noise.df)
            against.append(
                Against(
                    other=other,
                    parts=parts,
                    df=noise.df,
                    # Any one may be above: they share the level. All must be below: each has all of it.
                    level_low=alpha / n_others,
                    level_high=alpha,
                    now=now,
                    now_se=sqrt(variance),
                    past=None if known is None else known[0],
                    has_changed=known is not None
                    and _differs(
                        now - known[0], variance + known[1], 1 - asked.confidence, n_others, noise.df
                    ),
                )
            )
    n_of = Counter(one.layout for one in launches)
    can_tell = n_of[asked.winner] >= LEAST_LAUNCHES  # a single launch decides nothing
    decided = {layout for layout in layouts if can_tell and n_of[layout] >= LEAST_LAUNCHES}
    level_shift = _level_shift(fitted, layouts, past)
    explained = _FELT_UNEQUALLY * min(_common_shift(fitted, layouts, past), _MOST_EXPLAINED)
    beyond = margin + explained
    better = max(
        (one for one in against if one.other in decided and 1 - one.above(beyond) <= one.level_low),
        key=lambda one: one.gap,
        default=None,
    )
    # A layout without a valid window may be the better one.
    is_right = len(against) == len(asked.others) and all(
        one.other in decided and one.above(margin) <= one.level_high for one in against
    )
    state: State = "open"
    if n_blocks >= LEAST_BLOCKS:
        state = "stale" if better is not None else "right" if is_right else "open"
    return Check(
        state=state,
        n_blocks=n_blocks,
        against=tuple(against),
        better=better.other if state == "stale" and better is not None else None,
        level_shift=level_shift,
        explained=explained,
        is_noisier=is_noisier,
        rest_blocks=0 if state != "open" else _rest(against, (margin, beyond), asked.confidence, n_blocks),
    )


def _noise(fitted: AdditiveFit, past: Past | None) -> tuple[MeanSquare | None, bool]:
    """Return the variance of one launch, and whether that of now is used alone because it is larger."""
    df = fitted.residual_df
    now = MeanSquare(fitted.residual_ss / df, df) if df else None
    if past is None:
        return now, False
    if now is None:
        return past.residual, False
    if past.residual.value == 0 or now.value / past.residual.value > f_quantile(
        _NOISIER, now.df, past.residual.df
    ):
        return now, now.value > past.residual.value
    total = now.df + past.residual.df
    return MeanSquare((now.value * now.df + past.residual.value * past.residual.df) / total, total), False


def _parts(
    now: float, variance: float, known: tuple[float, float] | None, margin: float, df: float
) -> tuple[Part, ...]:
    """Return the distribution of a difference from now and from the study, for each size of change."""
    if known is None or variance == 0:
        return (Part(1.0, now, sqrt(variance)),)
    past, of_past = known
    found = []
    for times in _MOVED_BY:
        prior = of_past + (times * margin) ** 2
        seen = prior + variance  # of the difference between now and then
        likelihood = exp(-(df + 1) / 2 * log1p((now - past) ** 2 / seen / df)) / sqrt(seen)
        mean = (now * prior + past * variance) / seen
        found.append((likelihood, mean, sqrt(prior * variance / seen)))
    total = fsum(likelihood for likelihood, _, _ in found)
    return tuple(Part(likelihood / total, mean, sd) for likelihood, mean, sd in found)


def _above(gap: float, part: Part, df: float) -> float:
    if part.sd == 0:
        return float(part.mean > gap)
    t = (gap - part.mean) / part.sd
    return student_t_tail(t, df) if t >= 0 else 1 - student_t_tail(-t, df)


def _differs(change: float, variance: float, alpha: float, n_others: int, df: float) -> bool:
    return abs(change) > max(1e-9, student_t_quantile(1 - alpha / (2 * n_others), df) * sqrt(variance))


def _shifts(fitted: AdditiveFit, layouts: Sequence[Layout], past: Past | None) -> list[float]:
    """Subtract the level of each layout in the study from its present level."""
    if past is None:
        return []
    return [
        fitted.effects[number] - past.levels[layout]
        for number, layout in enumerate(layouts)
        if layout in past.levels
    ]


def _level_shift(fitted: AdditiveFit, layouts: Sequence[Layout], past: Past | None) -> float | None:
    shifts = _shifts(fitted, layouts, past)
    return sum(shifts) / len(shifts) if shifts else None


def _common_shift(fitted: AdditiveFit, layouts: Sequence[Layout], past: Past | None) -> float:
    """Return the smallest shift of all layouts; 0: they shifted in different directions."""
    shifts = _shifts(fitted, layouts, past)
    if len(shifts) < 2 or min(shifts) * max(shifts) <= 0:
        return 0.0
    return min(abs(shift) for shift in shifts)


def _rest(
    against: Sequence[Against], limits: tuple[float, float], confidence: float, n_blocks: int
) -> int | None:
    """Predict the number of blocks until "right" or "stale" from the differences of now; None: too many.

    *limits*: all differences must be below the first, or one above the second.
    """
    if not against:
        return None
    more = max(1, LEAST_BLOCKS - n_blocks)
    while more <= MOST_FORESEEN:
        look = n_blocks + more - LEAST_BLOCKS + 1
        level = (1 - confidence) / (look * (look + 1))
        shrunk = sqrt(n_blocks / (n_blocks + more))
        df = against[0].df + more * len(against)  # each block also adds to the estimate of noise
        below = student_t_quantile(1 - level, df) * shrunk
        above = student_t_quantile(1 - level / len(against), df) * shrunk
        is_right = all(one.gap + below * one.now_se < limits[0] for one in against)
        if is_right or any(one.gap - above * one.now_se > limits[1] for one in against):
            return more
        more += 1 + more // 8  # growing steps, because an approximate number is enough
    return None
