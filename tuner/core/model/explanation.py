"""Why each layout of a study does what it does, from what its windows show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.core.layout import Layout
from tuner.core.model.demand import NO_TERMS, Demands, Terms, layout_demands
from tuner.core.model.diagnosis import BUSY, Diagnosis, What, diagnose
from tuner.core.model.evidence import Evidence
from tuner.core.model.machine import Machine
from tuner.core.model.network import solve
from tuner.core.records import StudyRecord

_HALVINGS = 30  #: of an interval of asleep_s


@dataclass(frozen=True, slots=True)
class Explanation:
    """All diagnoses of a study."""

    diagnoses: tuple[Diagnosis, ...]  #: fastest layout first
    evidence: Mapping[Layout, Evidence]
    demands: Demands | None  #: what the modelled figures rest on; None: nothing tells how items wait
    terms: Terms
    machine: Machine

    @property
    def bound_by(self) -> dict[Layout, tuple[What, ...]]:
        """What binds each layout, the most first."""
        return {one.layout: one.what for one in self.diagnoses}


def explain(
    seen: Sequence[Evidence], machine: Machine, demands: Demands | None = None, terms: Terms = NO_TERMS
) -> Explanation:
    """Say what binds each of the layouts *seen*; there is at least one.

    *demands* and *terms* are of a calibration; None: worked out from the layout with the fewest threads.
    """
    if demands is None:
        demands = reference_demands(seen, machine)
    found = diagnose(seen, machine, demands, terms)
    by_layout = {one.layout: one for one in seen}
    found.sort(key=lambda one: (-by_layout[one.layout].n_done / by_layout[one.layout].length_s, one.layout))
    return Explanation(tuple(found), by_layout, demands, terms, machine)


def reference_demands(seen: Sequence[Evidence], machine: Machine) -> Demands | None:
    """What an item asks for, by the layout with the fewest threads; None where its throughput cannot tell.

    CPU is as clocks have it, all of a worker's own with the GIL; how long items sleep is what the network
    needs to give the throughput that was seen. Where several threads saturate a station it could be anything.
    """
    one = min(seen, key=lambda own: (own.layout.total_threads, own.layout.threads))
    own_s, blocked_s = one.own_cpu_s / one.n_items, (one.blocked_s or 0.0) / one.n_items
    cpu_s = own_s + one.child_cpu_s / one.n_items
    if one.layout.total_threads > 1:
        busy = max(
            one.own_cpu_s / (one.length_s * one.layout.processes) if one.layout.threads > 1 else 0.0,
            (one.own_cpu_s + one.child_cpu_s + one.others_cpu_s) / (one.length_s * machine.cores),
        )
        if busy >= BUSY:
            return None
    most_s = one.layout.total_threads / one.throughput_per_s
    low_s, high_s = 0.0, most_s
    for _ in range(_HALVINGS):
        asleep_s = (low_s + high_s) / 2
        demands = Demands(
            gil_s=own_s, child_s=one.child_cpu_s / one.n_items, asleep_s=asleep_s, blocked_s=blocked_s
        )
        of = replace(
            layout_demands(demands, NO_TERMS, [one.layout.processes], [one.layout.threads]),
            process_cores=np.array([one.others_cores]),
        )
        given_per_s = float(solve(of, replace(machine, foreign_cores=0.0)).throughput_per_s[0])
        low_s, high_s = (asleep_s, high_s) if given_per_s > one.throughput_per_s else (low_s, asleep_s)
    return demands if cpu_s + low_s > 0 else None


def machine_of(study: StudyRecord) -> Machine:
    """What *study* ran on, quiet: the cores it was for, or those there were; SMT by its provenance."""
    cores = min(float(study.cores), study.box_cores)
    siblings = study.provenance.get("threads_per_core", "")
    smt = int(siblings) if siblings.isdigit() else 1
    return Machine(cores=cores, physical_cores=cores / smt if smt > 1 else None)
