"""CPU that other processes used while windows were measured, and whether it can change a result.

Other processes on F of C cores take at most F / C of the throughput of a layout if all CPU together fills the
cores, and nothing if cores are idle. Under a CPU quota in a container, F counts only as far as it exceeds the
rest of the host. CPUs on which the study may not run (taskset, AllowedCPUs) are not among the C, and in a
valid window F on the C is within the limit. So the ratio of two layouts may be in error by the largest such
share. Where this is more than the margin of the answer, a quiet host may give another answer. Where F also
exceeds the default limit of a valid window, only slices or an override can have let it in, and the figures
are no evidence for the service alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.windows.launch_sums import LaunchTally
from tuner.core.windows.validity import FULL_RATIO, foreign_limit_cores, foreign_limit_of, room_in


@dataclass(frozen=True, slots=True)
class Others:
    """CPU used by other processes and the hypervisor during valid windows."""

    cores: float  #: mean over the windows
    of_layout: Mapping[Layout, float]  #: mean for each layout
    lost: Mapping[Layout, float]  #: largest share of its throughput that each layout may have lost
    host_cores: float  #: cores of the host, with those that a CPU quota or an affinity excludes
    limit_cores: float  #: default limit of a valid window
    within: float  #: margin of the results
    in_turns: bool = False  #: whether layouts took turns, so that all of them were disturbed alike

    @property
    def share(self) -> float:
        """Return the share of the cores."""
        return self.cores / self.host_cores

    @property
    def spread(self) -> float:
        """Return the largest difference of the share between two layouts."""
        found = self.of_layout.values()
        return (max(found) - min(found)) / self.host_cores if found else 0.0

    @property
    def most_lost(self) -> float:
        """Return the largest share of its throughput that any layout may have lost."""
        return max(self.lost.values(), default=0.0)

    @property
    def can_change_a_result(self) -> bool:
        """Return whether a quiet host may give another result."""
        return self.most_lost > self.within

    @property
    def is_no_evidence(self) -> bool:
        """Return whether it also exceeds the default limit of a valid window."""
        return any(
            lost > self.within and self.of_layout[x] > self.limit_cores for x, lost in self.lost.items()
        )

    @property
    def holds_as_busy(self) -> bool:
        """Return whether the result holds, but only for a host as busy as this one."""
        return self.in_turns and self.is_no_evidence


def other_processes_of(
    launches: Sequence[LaunchTally], study: StudyRecord, within: float, *, in_turns: bool = False
) -> Others | None:
    """Return the CPU of other processes during *launches*; None if there are none. See `Others`."""
    of_layout: defaultdict[Layout, list[LaunchTally]] = defaultdict(list)
    for one in launches:
        of_layout[one.layout].append(one)
    length_s = {layout: sum(one.length_s for one in own) for layout, own in of_layout.items()}
    used_s = {layout: sum(map(_foreign_s, own)) for layout, own in of_layout.items()}
    if not length_s or study.box_cores <= 0:
        return None
    return Others(
        cores=sum(used_s.values()) / sum(length_s.values()),
        of_layout={layout: used_s[layout] / length_s[layout] for layout in of_layout},
        lost={layout: _largest_loss(layout, own, study) for layout, own in of_layout.items()},
        host_cores=_host_cores(study),
        limit_cores=foreign_limit_cores(study.box_cores) + room_in(study) + study.provenance.n_cpus_elsewhere,
        within=within,
        in_turns=in_turns,
    )


def _host_cores(study: StudyRecord) -> float:
    facts = study.provenance
    return max(study.box_cores, facts.usable_physical_cores or 0.0) + facts.n_outside_cpus


def _foreign_s(launch: LaunchTally) -> float:
    """Return the CPU time of other processes, and the time that the hypervisor took."""
    return max(0.0, launch.foreign_cpu_s + launch.steal_s)


def _largest_loss(layout: Layout, launches: Sequence[LaunchTally], study: StudyRecord) -> float:
    """Return the largest share of its throughput that other processes may have cost *layout*."""
    length_s = sum(one.length_s for one in launches)
    foreign = sum(map(_foreign_s, launches)) / length_s
    own = sum(one.cpu_s + one.backend_cpu_s for one in launches) / length_s
    tuner = sum(one.tuner_cpu_s for one in launches) / length_s
    interrupts = max(0.0, sum(one.interrupt_s for one in launches)) / length_s
    cores = _host_cores(study) - study.provenance.n_outside_cpus
    if n_elsewhere := study.provenance.n_cpus_elsewhere:
        stolen = max(0.0, sum(one.steal_s for one in launches)) / length_s
        foreign = max(foreign - n_elsewhere, min(foreign, foreign_limit_of(study) + stolen))
    if own + tuner + interrupts + foreign < FULL_RATIO * cores:
        return 0.0
    foreign = max(0.0, foreign - room_in(study))
    n_threads = layout.total_threads
    if n_threads >= study.box_cores or own > n_threads:  # more cores than threads: inner threads, or children
        return min(1.0, foreign / study.box_cores)
    return min(foreign, n_threads - own) / n_threads  # its threads cannot use the other cores
