"""How much of the uninterruptible waiting of items is the start of their children.

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
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum

import numpy as np

from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.per_item import by_layout
from tuner.core.model.demand import Array

_LOOKS_PER_S = 1.0
_LEAST_LOOKS = 5.0  #: that found a thread in D: fewer say nothing
_PLENTY = 100.0  #: of these: the part is known within a tenth, and larger layouts are not asked
_STREAM = 1  #: of random numbers, so that draws of everything else do not depend on what is known here


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


def told_spawning(windows: Iterable[Clocks]) -> Spawning | None:
    """What *windows*, of any layouts, say of the start of children.

    Layouts are asked in the order of their threads, until enough was seen. None: nobody could tell (an
    older study, workers of another user), or hardly a look found a thread in D. What starting children
    takes is then a part of the uninterruptible waiting that nobody knows.
    """
    groups = by_layout(windows)
    n_starting = n_other = 0.0
    for layout in sorted(groups, key=lambda one: (one.total_threads, one.threads)):
        of_layout = [_looks(one) for one in groups[layout]]
        n_starting += fsum(starting for starting, _ in of_layout)
        n_other += fsum(other for _, other in of_layout)
        if n_starting + n_other >= _PLENTY:
            break
    return Spawning(n_starting, n_other) if n_starting + n_other >= _LEAST_LOOKS else None


def _looks(window: Clocks) -> tuple[float, float]:
    """That found a task in D: starting a child, and not; none where nobody told."""
    if window.spawning_s is None or window.blocked_s is None:
        return 0.0, 0.0
    starting_s = min(window.spawning_s, window.blocked_s)
    other_s = window.blocked_s - starting_s + (window.child_blocked_s or 0.0)
    return _LOOKS_PER_S * starting_s, _LOOKS_PER_S * other_s
