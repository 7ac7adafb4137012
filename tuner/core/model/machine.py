"""The machine of a service: its cores, hyperthreads and interpreter, and the CPU that others use."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores and interpreter. The service gets the cores that other processes (*foreign_cores*) leave."""

    cores: float  #: logical cores that the service may use; above 0
    physical_cores: float | None = None  #: None: each logical core is a physical core (no SMT)
    #: gain by a second thread on a physical core; the default is assumed, not measured
    smt_gain_ratio: float = 0.3
    foreign_cores: float = 0.0  #: cores that other processes use
    has_gil: bool = True  #: False: a free-threaded interpreter, or workers that do not run Python
    #: sys.getswitchinterval(): time after which a waiting thread requests the GIL
    switch_interval_s: float = 0.005
    handover_s: float = 5e-6  #: CPU time to hand the GIL to a waiting thread; some microseconds
    wake_s: float = 0.00027  #: time for which a thread that wakes up to request the GIL waits for a busy core
    #: logical cores of a physical one on the host; used to predict more cores if *physical_cores* is None
    threads_per_core: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.threads_per_core < float("inf"):
            raise ValueError(f"threads_per_core should be 1 or more, got {self.threads_per_core!r}")
        if not 0 < self.cores < float("inf"):
            raise ValueError(f"cores should be above 0, got {self.cores!r}")
        if self.physical_cores is not None and not 0 < self.physical_cores <= self.cores:
            raise ValueError(
                f"physical_cores should be above 0 and at most cores, got {self.physical_cores!r}"
            )

    @property
    def free_cores(self) -> float:
        """Return the cores that other processes leave, at least a tenth of a core."""
        return max(0.1, self.cores - self.foreign_cores)

    @property
    def own_cores(self) -> float:
        """Return how many tasks can have a physical core for themselves.

        *physical_cores* is rounded up, as there are no parts of cores: 1 of 1 logical cores, 2 of 3.
        """
        if self.physical_cores is None:
            return self.cores
        return min(self.cores, ceil(self.physical_cores - 1e-9))

    def cores_left(self, used_cores: Array | float = 0.0) -> Array:
        """Return the cores for tasks while *used_cores* are in use, at least a tenth of a core."""
        left: Array = np.maximum(0.1, self.free_cores - used_cores)
        return left

    def total_speed(
        self, n_runnable: Array, used_cores: Array | float = 0.0, smt_gain_ratio: Array | None = None
    ) -> Array:
        """Return the work per second, in cores, of *n_runnable* tasks while *used_cores* are in use.

        *smt_gain_ratio*, if given, replaces that of the machine.
        """
        return self.speed_on(self.cores_left(used_cores), np.asarray(n_runnable, dtype=float), smt_gain_ratio)

    def speed_on(self, cores: Array, n_runnable: Array, smt_gain_ratio: Array | None = None) -> Array:
        """Return the work per second, in cores, of *n_runnable* tasks on *cores*."""
        at_work: Array = np.minimum(n_runnable, cores)
        if self.own_cores == self.cores:
            return at_work
        gain = self.smt_gain_ratio if smt_gain_ratio is None else smt_gain_ratio
        physical = cores * (self.own_cores / self.cores)
        speed: Array = np.minimum(n_runnable, physical) + gain * np.maximum(0.0, at_work - physical)
        return speed
