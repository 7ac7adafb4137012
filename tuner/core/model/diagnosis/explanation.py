"""The explanation of a study: the bottleneck of each of its layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.model.calibration.alone import estimate_solo_demands
from tuner.core.model.calibration.clocks import Clocks, clocks_of, clocks_of_counted
from tuner.core.model.calibration.per_item import estimate_looks
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.diagnose import BUSY, Diagnosis, What, diagnose, lacks_requests
from tuner.core.model.diagnosis.evidence import Evidence
from tuner.core.model.diagnosis.expected import as_counted, measured_demands, work_ratio
from tuner.core.model.machine import Machine
from tuner.core.model.network import solve
from tuner.core.model.prediction.extrapolation import CalibratedRange
from tuner.core.stats.interval import Estimate
from tuner.core.windows.memory_growth import MemoryGrowth

#: own CPU of a process, in cores, above which it releases the GIL; clocks are read a moment apart
_MORE_THAN_A_CORE = 1.05
_HALVINGS = 30  #: halvings of the interval of asleep_s
GIL_ASSUMED = (
    "The interpreter of the workers is unknown, so each process is assumed to have a GIL. If they have none"
    " (another language, free-threaded Python behind a wrapper), statements about the GIL do not hold."
)


@dataclass(frozen=True, slots=True)
class Reference:
    """Basis of the modelled figures of one variant of the service."""

    demands: Demands
    machine: Machine  #: machine of the demands, with the gain by second threads that the layouts show
    layouts: tuple[Layout, ...]  #: layouts from which it was estimated
    notes: tuple[str, ...] = ()  #: limitations of its windows, one sentence each


@dataclass(frozen=True, slots=True)
class Explanation:
    """All diagnoses of a study."""

    diagnoses: tuple[Diagnosis, ...]  #: diagnoses, fastest layout first
    evidence: Mapping[Layout, Evidence]
    #: references by variant; a variant is absent if its items' waiting is unknown
    references: Mapping[str, Reference]
    #: machines by variant, at least one; they differ only in the GIL of the workers
    machines: Mapping[str, Machine]
    #: printed throughput of each layout: the ranking's estimate, if there is one, else that of its windows
    throughput_per_s: Mapping[Layout, float]
    #: change of throughput during a launch, in means per hour; without layouts that have no estimate
    trends_per_h: Mapping[Layout, Estimate] = field(default_factory=dict)
    #: growth of memory, of the layouts for which it is known
    memory_growth: Mapping[Layout, MemoryGrowth] = field(default_factory=dict)

    def with_throughput(self, per_s: Mapping[Layout, float]) -> Explanation:
        """Return the explanation with the throughputs *per_s*, of a ranking; other layouts keep theirs.

        The order of the layouts and the measured gain of twice the threads follow the throughputs.
        """
        known = {layout: per_s.get(layout, own) for layout, own in self.throughput_per_s.items()}
        found = [
            replace(one, doubled=_doubled_layout(one.layout, self.evidence, known)) for one in self.diagnoses
        ]
        found.sort(key=lambda one: (-known[one.layout], one.layout))
        return replace(self, diagnoses=tuple(found), throughput_per_s=known)

    @property
    def cores(self) -> float:
        """Return the number of cores of the host."""
        return next(iter(self.machines.values())).cores

    @property
    def gils(self) -> frozenset[bool]:
        """Return whether workers have a GIL; both values if variants differ."""
        return frozenset(one.has_gil for one in self.machines.values())

    @property
    def bound_by(self) -> dict[Layout, tuple[What, ...]]:
        """Return the bottlenecks of each layout, the most important first."""
        return {one.layout: one.what for one in self.diagnoses}

    def known_of(self, variant: str) -> CalibratedRange:
        """Return the calibrated range of *variant*, which its sizing rules rest on."""
        seen = [one for one in self.evidence.values() if one.layout.variant == variant]
        return CalibratedRange(
            self.references[variant].machine,
            tuple(one.shape for one in seen),
            busy_cores=max(one.items_cpu_s / one.length_s for one in seen),
        )


def explain(
    seen: Sequence[Evidence], machine: Machine, *, gils: Mapping[str, bool | None] | None = None
) -> Explanation:
    """Return the bottlenecks of each of the layouts *seen*; items of different variants differ.

    *gils* is whether the workers of each variant have a GIL, if that may differ from *machine*. If it is
    None, it is not known: the value of *machine* is used, and the first reference notes the assumption.
    """
    of_variants: dict[str, Machine] = {}
    is_told = False
    diagnoses: list[Diagnosis] = []
    references: dict[str, Reference] = {}
    for variant in dict.fromkeys(one.layout.variant for one in seen):
        own = [one for one in seen if one.layout.variant == variant]
        gil = (gils or {}).get(variant, machine.has_gil)
        of_own = of_variants[variant] = machine if gil is None else replace(machine, has_gil=gil)
        takes_many = any(one.load is not None and one.load.takes_many for one in own)
        reference = None if takes_many else reference_of(own, of_own)
        if reference is None:
            diagnoses += diagnose(own, of_own, None)
            continue
        if gil is None and of_own.has_gil and not is_told:
            is_told = True
            reference = replace(reference, notes=(GIL_ASSUMED, *reference.notes))
        references[variant] = reference
        diagnoses += diagnose(own, reference.machine, reference.demands)
    # windows were read if needed: a stored explanation does not keep them in memory
    by_layout = {one.layout: replace(one, read_windows=tuple, read_launches=tuple) for one in seen}
    own_per_s = {layout: one.done_per_s for layout, one in by_layout.items()}
    found = Explanation(tuple(diagnoses), by_layout, references, of_variants, own_per_s)
    return found.with_throughput(own_per_s)


def _doubled_layout(
    layout: Layout, measured: Mapping[Layout, Evidence], per_s: Mapping[Layout, float]
) -> tuple[Layout, float] | None:
    """Return the layout with twice the threads (or processes), and its throughput over that of *layout*."""
    if layout.has_threads:
        other = replace(layout, threads=2 * layout.threads)
    else:
        other = replace(layout, processes=2 * layout.processes)
    if other not in measured or not per_s[layout]:
        return None
    if any(lacks_requests(measured[one]) for one in (layout, other)):
        return None  # the load generator was the bottleneck
    return other, per_s[other] / per_s[layout]


def reference_of(seen: Sequence[Evidence], machine: Machine) -> Reference | None:
    """Return the demands of an item, by 1x1 or else by the layout with the fewest threads; None if not known.

    All of a worker's own CPU is assumed to need the GIL, unless a process used more than a core: then the
    joint fit estimates the part that does.
    """
    seen = [one for one in seen if one.n_done]
    if machine.has_gil and any(_lets_go_of_the_gil(one) for one in seen):
        all_clocks = clocks_of_counted(
            (window for one in seen for window in one.read_windows()), spare=seen[0].spare
        )
        if len({clocks.layout for clocks in all_clocks}) > 1:
            from tuner.core.model.calibration.calibrate import calibrate_jointly
            from tuner.core.model.calibration.sampling import Sampling

            joint = calibrate_jointly(
                all_clocks, machine, with_terms=False, with_errors=False, sampling=Sampling(n_draws=0)
            )
            layouts = tuple(one.layout for one in seen)
            return Reference(joint.profile.demands, joint.profile.machine, layouts, joint.notes)
    if not seen:
        return None
    one = min(seen, key=lambda own: (own.shape.total_threads, own.shape.threads))
    clocks_of_one = [clocks_of(window, spare=one.spare) for window in one.read_launches() if window.n_done]
    if not any(clocks.service_cpu_s > 0 for clocks in clocks_of_one):
        return None
    if one.shape.total_threads == 1:
        reported = estimate_solo_demands(clocks_of_one, machine)
        own_s, child_s, blocked_s, asleep_s = (float(value) for value in reported.mean)
        demands = Demands(own_s, child_s=child_s, blocked_s=blocked_s, asleep_s=asleep_s)
        return Reference(_with_looks(demands, clocks_of_one), machine, (one.layout,), reported.notes)
    busy = (one.items_cpu_s + one.others_cpu_s) / (one.length_s * machine.cores)
    if one.shape.threads > 1:
        busy = max(busy, one.own_cpu_s / (one.length_s * one.shape.processes))
    if busy >= BUSY:
        return None
    demands = _with_looks(_fit_sleep(one, machine), clocks_of_one)
    return Reference(demands, machine, (one.layout,))


def _with_looks(demands: Demands, clocks: Sequence[Clocks]) -> Demands:
    """Return *demands* with the results of samples: children's start, and activity of other tasks."""
    looks = estimate_looks(clocks)
    spawn_s = looks.spawning_ratio * demands.blocked_s
    return replace(demands, blocked_s=demands.blocked_s - spawn_s, spawn_s=spawn_s, others_s=looks.others_s)


def _lets_go_of_the_gil(one: Evidence) -> bool:
    return one.own_cpu_s > _MORE_THAN_A_CORE * one.length_s * one.shape.processes


def _fit_sleep(one: Evidence, machine: Machine) -> Demands:
    """Return demands with CPU by the clocks, and the sleep that gives the measured throughput in the network.

    If threads saturate a station, any time fits: the caller has excluded that.
    """
    demands = Demands(
        gil_s=one.own_cpu_s / one.n_done,
        child_s=one.awaited_cpu_s / one.n_done,
        blocked_s=(one.blocked_s or 0.0) / one.n_done,
        asleep_s=one.shape.total_threads / one.done_per_s,
    )
    low_s, high_s = 0.0, demands.asleep_s
    for _ in range(_HALVINGS):
        demands = replace(demands, asleep_s=(low_s + high_s) / 2)
        given = solve(measured_demands([one], demands), as_counted(machine))
        if float(given.throughput_per_s[0]) > one.done_per_s:
            low_s = demands.asleep_s
        else:
            high_s = demands.asleep_s
    ratio = work_ratio(one, machine)
    return demands.scaled(gil_s=ratio, child_s=ratio)


def gils_of(study: StudyRecord) -> dict[str, bool | None]:
    """Return `has_gil` of each variant of *study*; None: not known, and `machine_of` assumes a GIL."""
    workers = study.provenance.workers
    return {variant: workers.has_gil(variant) for variant in {layout.variant for layout in study.layouts}}


def machine_of(study: StudyRecord, variant: str = "") -> Machine:
    """Return the host of *study* without other processes: its cores, and SMT and GIL by the provenance.

    If the physical cores are unknown, each core is assumed to have as many CPUs as the first one.
    """
    cores, facts = study.usable_cores, study.provenance
    try:
        smt = float(facts.threads_per_core or "1")
    except ValueError:  # not known
        smt = 1.0
    whole = facts.held_physical_cores if study.is_held else facts.usable_physical_cores
    physical = cores / max(smt, 1.0) if whole is None else min(cores, whole)
    are_full = physical >= cores
    return Machine(
        cores=cores,
        physical_cores=None if are_full else physical,
        threads_per_core=max(smt, 1.0) if are_full else 1.0,
        has_gil=facts.workers.has_gil(variant) is not False,
    )
