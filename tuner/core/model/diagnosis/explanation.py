"""Why each layout of a study does what it does, from what its windows show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.core.layout import Layout
from tuner.core.model.calibration.alone import told_by_1x1
from tuner.core.model.calibration.clocks import clocks_of, clocks_of_counted
from tuner.core.model.demand import NO_TERMS, Demands, layout_demands
from tuner.core.model.diagnosis.diagnose import BUSY, Diagnosis, What, diagnose
from tuner.core.model.diagnosis.evidence import Evidence
from tuner.core.model.machine import Machine
from tuner.core.model.network import solve
from tuner.core.records import StudyRecord

_MORE_THAN_A_CORE = 1.05  #: clocks are read a moment apart
_HALVINGS = 30  #: of an interval of asleep_s


@dataclass(frozen=True, slots=True)
class Reference:
    """What the modelled figures of one variant of the service rest on."""

    demands: Demands
    layouts: tuple[Layout, ...]  #: what it was worked out from
    notes: tuple[str, ...] = ()  #: what its windows cannot tell, a sentence each


@dataclass(frozen=True, slots=True)
class Explanation:
    """All diagnoses of a study."""

    diagnoses: tuple[Diagnosis, ...]  #: fastest layout first
    evidence: Mapping[Layout, Evidence]
    references: Mapping[str, Reference]  #: by variant; a variant is absent where nothing tells how items wait
    machine: Machine

    @property
    def bound_by(self) -> dict[Layout, tuple[What, ...]]:
        """What binds each layout, the most first."""
        return {one.layout: one.what for one in self.diagnoses}


def explain(seen: Sequence[Evidence], machine: Machine) -> Explanation:
    """Say what binds each of the layouts *seen*; items of different variants of the service differ."""
    diagnoses: list[Diagnosis] = []
    references = {}
    for variant in dict.fromkeys(one.layout.variant for one in seen):
        own = [one for one in seen if one.layout.variant == variant]
        reference = reference_of(own, machine)
        if reference is not None:
            references[variant] = reference
        diagnoses += diagnose(own, machine, None if reference is None else reference.demands)
    by_layout = {one.layout: one for one in seen}
    diagnoses.sort(key=lambda one: (-by_layout[one.layout].done_per_s, one.layout))
    return Explanation(tuple(diagnoses), by_layout, references, machine)


def reference_of(seen: Sequence[Evidence], machine: Machine) -> Reference | None:
    """What an item asks for, by 1x1 or else by the layout with the fewest threads; None: that cannot tell.

    All of a worker's own CPU is taken to need the GIL, unless a process was seen to use more than a core:
    then the joint fit says how much of it does.
    """
    if machine.has_gil and any(_lets_go_of_the_gil(one) for one in seen):
        all_clocks = clocks_of_counted(window for one in seen for window in one.windows)
        if len({clocks.layout for clocks in all_clocks}) > 1:
            from tuner.core.model.calibration.calibrate import (
                calibrate_jointly,  # scipy, which few services need here
            )
            from tuner.core.model.calibration.sampling import Sampling

            joint = calibrate_jointly(all_clocks, machine, with_terms=False, sampling=Sampling(n_draws=0))
            return Reference(joint.profile.demands, tuple(one.layout for one in seen), joint.notes)
    one = min(seen, key=lambda own: (own.layout.total_threads, own.layout.threads))
    clocks_of_one = [clocks_of(window) for window in one.windows if window.n_done]
    if not any(clocks.service_cpu_s > 0 for clocks in clocks_of_one):
        return None
    if one.layout.total_threads == 1:
        told = told_by_1x1(clocks_of_one, machine)
        own_s, child_s, blocked_s, asleep_s = (float(value) for value in told.mean)
        demands = Demands(own_s, child_s=child_s, blocked_s=blocked_s, asleep_s=asleep_s)
        return Reference(demands, (one.layout,), told.notes)
    busy = (one.own_cpu_s + one.child_cpu_s + one.others_cpu_s) / (one.length_s * machine.cores)
    if one.layout.threads > 1:
        busy = max(busy, one.own_cpu_s / (one.length_s * one.layout.processes))
    return None if busy >= BUSY else Reference(_demands_that_give(one, machine), (one.layout,))


def _lets_go_of_the_gil(one: Evidence) -> bool:
    return one.own_cpu_s > _MORE_THAN_A_CORE * one.length_s * one.layout.processes


def _demands_that_give(one: Evidence, machine: Machine) -> Demands:
    """CPU by the clocks; asleep for as long as the network needs to give the throughput that was seen.

    Where threads saturate a station that could be any time: the caller has looked.
    """
    quiet = replace(machine, foreign_cores=0.0)
    demands = Demands(
        gil_s=one.own_cpu_s / one.n_items,
        child_s=one.child_cpu_s / one.n_items,
        blocked_s=(one.blocked_s or 0.0) / one.n_items,
        asleep_s=one.layout.total_threads / one.throughput_per_s,
    )
    low_s, high_s = 0.0, demands.asleep_s
    for _ in range(_HALVINGS):
        demands = replace(demands, asleep_s=(low_s + high_s) / 2)
        of = replace(
            layout_demands(demands, NO_TERMS, [one.layout.processes], [one.layout.threads]),
            process_cores=np.array([one.others_cores]),
        )
        if float(solve(of, quiet).throughput_per_s[0]) > one.throughput_per_s:
            low_s = demands.asleep_s
        else:
            high_s = demands.asleep_s
    return demands


def machine_of(study: StudyRecord) -> Machine:
    """What *study* ran on, quiet: the cores it was for, or those there were; SMT, GIL by its provenance."""
    cores = min(float(study.cores), study.box_cores)
    siblings = study.provenance.get("threads_per_core", "")
    smt = int(siblings) if siblings.isdigit() else 1
    return Machine(
        cores=cores,
        physical_cores=cores / smt if smt > 1 else None,
        has_gil=study.provenance.get("worker_gil") != "off",
    )
