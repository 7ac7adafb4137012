"""Windows of a service whose demands are known: what the network says of them, and noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.demand import NO_TERMS, Demands, Terms, layout_demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import solve


def layouts(*texts: str) -> list[Layout]:
    return [parse_layout(text) for text in texts]


ALONE = layouts("1x1")
SMALL = layouts("1x1", "1x4", "2x2", "4x1")
GRID = layouts("1x1", "1x2", "1x4", "1x8", "2x1", "2x2", "2x4", "4x1", "4x2", "8x1")
BOX = Machine(2)


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations as ratios."""

    launch: float = 0.01  #: of throughput and of each CPU demand, from launch to launch
    window: float = 0.01  #: of throughput
    cpu: float = 0.003  #: of a window's CPU per item
    misfit: float = 0.0  #: of a layout's throughput around the network; 1x1 has none


QUIET = Noise(0.0, 0.0, 0.0)


def study_of(
    demands: Demands,
    measured: Sequence[Layout] = GRID,
    *,
    machine: Machine = BOX,
    terms: Terms = NO_TERMS,
    noise: Noise = QUIET,
    n_launches: int = 3,
    n_windows: int = 2,
    length_s: float = 600.0,
    foreign_cores: float = 0.0,
    seed: int = 1,
) -> list[Clocks]:
    """Clocks of *n_launches* x *n_windows* windows of each layout, as a kernel with all clocks tells them."""
    random = np.random.default_rng(seed)
    of = layout_demands(
        demands, terms, [one.processes for one in measured], [one.threads for one in measured]
    )
    result = solve(of, replace(machine, foreign_cores=foreign_cores))
    work = result.throughput_per_s * of.cpu_s
    as_counted = (result.busy_cores - of.process_cores) / work  # a slow second thread of a core counts whole
    found = []
    for n, layout in enumerate(measured):
        misfit = noise.misfit * random.normal() if layout.total_threads > 1 else 0.0
        for launch in range(n_launches):
            of_launch = noise.launch * random.standard_normal(3)
            for _ in range(n_windows):
                per_s = result.throughput_per_s[n] * exp(
                    misfit + of_launch[0] + noise.window * random.normal()
                )
                n_done = max(1, round(per_s * length_s))
                own_s, child_s = (
                    n_done * as_counted[n] * cpu_s * exp(of_launch[1 + k] + noise.cpu * random.normal())
                    for k, cpu_s in enumerate(((of.gil_s + of.python_s)[n], of.child_s[n]))
                )
                other_s, spawning_s = n_done * of.blocked_s[n], n_done * of.spawn_s[n]
                if noise.window:  # looks find a thread in D, or do not
                    other_s = float(random.poisson(other_s))
                    spawning_s = float(random.poisson(spawning_s)) if spawning_s else 0.0
                found.append(
                    Clocks(
                        layout=layout,
                        launch_id=n * n_launches + launch,
                        length_s=length_s,
                        n_done=n_done,
                        n_failed=0,
                        service_cpu_s=own_s + child_s,
                        worker_cpu_s=own_s,
                        child_cpu_s=child_s,
                        run_delay_s=0.0,
                        blocked_s=other_s + spawning_s,
                        spawning_s=spawning_s,
                        child_blocked_s=0.0,
                        foreign_cores=foreign_cores,
                        strangers_cores=foreign_cores,
                        n_active=float(result.load[n]) + foreign_cores,
                        block=launch,
                    )
                )
    return found
