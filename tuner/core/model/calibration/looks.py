"""What looks at tasks tell that no clock does: the start of children, and who else is active for an item.

Once a second the workers' threads are looked at; one in state D is asked whether it is starting a child:
its parent waits so until the child runs its program. So looks split the time in D, and what windows say of
all of it (`alone`, `joint_fit`) splits with them.

How sure that is: of as many looks as find a thread in D, those that find it starting a child are a binomial
draw. Their part is drawn from Jeffreys' Beta, by itself, and multiplied with a draw of all of D, which
scatters as Poisson counts do. What starting children takes comes out as uncertain as its own looks make it
(the parts of a thinned Poisson process are independent).

It is the time from the parent's fork to the child's program: what the child waits for a core meanwhile is
in it, and the CPU that it uses by then, which counts as CPU of children, too. From 1x1 on an idle box it is
nearly the plain time; where all cores are busy it is longer. Hence layouts with few threads are asked
first.

In the same second the box's active tasks are counted. In 1x1 they are more than the item's own computing and
waiting: threads of the kernel that an item wakes (its child's end leaves work to them) wait behind whoever
computes, and count in the load average meanwhile. docs/method/model.md has what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, hypot, sqrt

import numpy as np

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.per_item import by_layout, per_item
from tuner.core.model.demand import Array

_LOOKS_PER_S = 1.0
_LEAST_LOOKS = 5.0  #: that found a thread in D: fewer say nothing
_PLENTY = 100.0  #: of these: the part is known within a tenth, and larger layouts are not asked
_STREAM = 1  #: of random numbers, so that draws of everything else do not depend on what is known here
#: What may be expected of others' time before looking: items of four mixes with a child each had 4 to 6 ms
#: of it, so that twice as much is no surprise.
_EXPECTED_OTHERS_S = 0.01
_STRANGERS_WAIT = 0.5  #: what strangers may wait for a core meanwhile, of what they compute


@dataclass(frozen=True, slots=True)
class Spawning:
    """Looks that found a task of the service in state D."""

    n_starting: float  #: it was starting a child
    n_other: float  #: it was not

    @property
    def ratio(self) -> float:
        """The part of the uninterruptible waiting that is the start of children, most likely."""
        return self.n_starting / (self.n_starting + self.n_other)

    def drawn(self, n: int, seed: int) -> Array:
        """So many draws of the part."""
        random = np.random.default_rng((seed, _STREAM))
        found: Array = random.beta(self.n_starting + 0.5, self.n_other + 0.5, n)
        return found


@dataclass(frozen=True, slots=True)
class Looks:
    """What looks said of an item."""

    spawning: Spawning | None = (
        None  #: the part of uninterruptible waiting that starts children; None: not known
    )
    others_s: float = 0.0  #: see `Demands.others_s`

    @property
    def spawning_ratio(self) -> float:
        """The part of the uninterruptible waiting that is the start of children; 0 where it is not known."""
        return 0.0 if self.spawning is None else self.spawning.ratio


def estimate_looks(windows: Sequence[Clocks]) -> Looks:
    """What *windows*, of any layouts, say by the looks that were taken in them."""
    return Looks(estimate_spawning(windows), estimate_others_s(windows))


def estimate_spawning(windows: Iterable[Clocks]) -> Spawning | None:
    """What *windows*, of any layouts, say of the start of children.

    Layouts are asked in the order of their threads, until enough was seen. None: nobody could tell (an
    older study, workers of another user), or hardly a look found a thread in D. What starting children
    takes is then a part of the uninterruptible waiting that nobody knows.
    """
    return spawning_of({layout: looks_in_d(of_layout) for layout, of_layout in by_layout(windows).items()})


def looks_in_d(windows: Iterable[Clocks]) -> tuple[float, float]:
    """Looks of *windows* that found a task in D: starting a child, and not."""
    looks = [_in_d(one) for one in windows]
    return fsum(starting for starting, _ in looks), fsum(other for _, other in looks)


def spawning_of(in_d: Mapping[Layout, tuple[float, float]]) -> Spawning | None:
    """`estimate_spawning` of windows that are counted already: `looks_in_d` of each layout."""
    n_starting = n_other = 0.0
    for layout in sorted(in_d, key=lambda one: (one.total_threads, one.threads)):
        starting, other = in_d[layout]
        n_starting += starting
        n_other += other
        if n_starting + n_other >= _PLENTY:
            break
    return Spawning(n_starting, n_other) if n_starting + n_other >= _LEAST_LOOKS else None


def estimate_others_s(windows: Iterable[Clocks]) -> float:
    """Seconds per item in which tasks of others are active for it, by those of *windows* that are of 1x1.

    What was active beside the item's own computing, its waiting for a core or uninterruptibly, and strangers.
    Looks are few: what they say is drawn to nothing, the more the less sure it is (the mean of a normal
    distribution after looking, where it was around 0 before). Counts scatter like Poisson's at most, and
    strangers that wait for a core may be taken for it. 0 where nobody looked, or not at 1x1: larger layouts
    have lines for cores and the GIL that make as many tasks active.
    """
    alone = [one for one in windows if one.layout.total_threads == 1 and one.n_active is not None]
    if not alone:
        return 0.0
    item = per_item(alone)
    if item.n_active is None:  # of a launch that is not of one kind
        return 0.0
    n_active = item.n_active
    # where the kernel keeps no account of a wait, who waits so is taken for another
    own_s = item.own_s + item.children_s
    own_s += sum(one for one in (item.delay_s, item.beside_delay_s, item.blocked_s) if one is not None)
    strangers = fsum(one.strangers_cores * one.length_s for one in alone) / item.length_s
    others = n_active - strangers - own_s * item.throughput_per_s
    n_looks = fsum(one.n_active_looks or _LOOKS_PER_S * one.length_s for one in alone)
    sd = hypot(sqrt(n_active / n_looks), _STRANGERS_WAIT * strangers)
    expected = _EXPECTED_OTHERS_S * item.throughput_per_s
    return max(0.0, others / item.throughput_per_s * expected**2 / (expected**2 + sd**2))


def _in_d(window: Clocks) -> tuple[float, float]:
    """Looks that found a task in D: starting a child, and not; none where nobody told."""
    if window.spawning_s is None or window.blocked_s is None:
        return 0.0, 0.0
    starting_s = min(window.spawning_s, window.blocked_s)
    other_s = window.blocked_s - starting_s + (window.child_blocked_s or 0.0)
    return _LOOKS_PER_S * starting_s, _LOOKS_PER_S * other_s
