"""What other processes took of the host while windows were measured, and whether that can change a result.

Others that use F of C cores take at most F / C of the throughput of a layout that fills the cores, and
nothing of one that waits. So the ratio of two layouts may be in error by F / C, where F is that of the layout
with the most. Where this is more than the margin of the answer, a quiet host may give another answer. Where
it is also more than what makes a window invalid by default, only an override can have let it in, and the
figures are no evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.windows.launch_sums import LaunchTally
from tuner.core.windows.validity import foreign_limit_cores


@dataclass(frozen=True, slots=True)
class Others:
    """CPU that nobody of the service or tuner used in windows that count: other processes, the hypervisor."""

    cores: float  #: mean over the windows
    of_layout: Mapping[Layout, float]  #: the same of each layout's
    host_cores: float
    within: float  #: the margin that results are held against

    @property
    def share(self) -> float:
        """Of the cores: at most so much less does a layout that fills them."""
        return self.cores / self.host_cores

    @property
    def spread(self) -> float:
        """By how much the share differs between layouts, at most."""
        found = self.of_layout.values()
        return (max(found) - min(found)) / self.host_cores if found else 0.0

    @property
    def most_lost(self) -> float:
        """The largest share of its throughput that a layout may have lost: one that fills the cores."""
        return max(self.of_layout.values(), default=self.cores) / self.host_cores

    @property
    def can_change_a_result(self) -> bool:
        """Whether a quiet host may give another answer."""
        return self.most_lost > self.within

    @property
    def is_no_evidence(self) -> bool:
        """Whether it is more than what voids a window by default, too."""
        most = self.most_lost * self.host_cores
        return self.can_change_a_result and most > foreign_limit_cores(self.host_cores)


def others_of(launches: Sequence[LaunchTally], host_cores: float, within: float) -> Others | None:
    """What others took during *launches*; None: there is none."""
    used: dict[Layout, float] = defaultdict(float)
    length: dict[Layout, float] = defaultdict(float)
    for one in launches:
        used[one.layout] += max(0.0, one.foreign_cpu_s + one.steal_s)
        length[one.layout] += one.length_s
    if not length or host_cores <= 0:
        return None
    cores = sum(used.values()) / sum(length.values())
    return Others(cores, {x: used[x] / length[x] for x in length}, host_cores, within)
