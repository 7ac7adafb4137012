"""The distance of a prediction from the measured layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, log2

from tuner.core.domain.layout import Layout
from tuner.core.model.machine import Machine
from tuner.core.text.figures import pluralize

Point = tuple[float, float]
#: gains by a second thread on a physical core if they were not measured: the middles of thirds of 0 to 60 %
ASSUMED_SMT_GAINS = (0.1, 0.3, 0.5)

#: Cores up to which predictions from 1x1, with one busy core at most, were compared with windows
#: (docs/method/model.md).
CHECKED_CORES = 2.0
_NEAR = 1e-9
_OVERSHOOT = 0.03  #: in doublings, 2 %: the network may exceed the capacity of full cores slightly


@dataclass(frozen=True, slots=True)
class CalibratedRange:
    """Machine and layouts of the calibration."""

    machine: Machine
    layouts: tuple[Layout, ...]  #: at least one
    #: possible gains by a second thread on a physical core, all equally likely; from the windows if they show
    #: it
    smt_gains: tuple[float, ...] = ASSUMED_SMT_GAINS
    busy_cores: float = 0.0  #: largest mean number of cores that a layout kept busy

    @property
    def known_cores(self) -> float:
        """Return how many busy cores are no extrapolation: as measured, or as the model was checked on."""
        return max(self.busy_cores, min(self.machine.cores, CHECKED_CORES))

    @property
    def has_filled_smt(self) -> bool:
        """Return whether second threads of physical cores were used in some of the windows."""
        own = self.machine.own_cores
        return own < self.machine.cores and any(one.total_threads > own for one in self.layouts)


def smt_gains_about(gain: float) -> tuple[float, ...]:
    """Return gains with the assumed spread around *gain*, none below 0."""
    middle = ASSUMED_SMT_GAINS[1]
    return tuple(max(0.0, gain + one - middle) for one in ASSUMED_SMT_GAINS)


def reasons(
    seen: CalibratedRange, machine: Machine, layout: Layout, *, cpu_cores: float, n_runnable: float
) -> list[str]:
    """Return short reasons why *layout* on *machine* lies beyond the measurements; empty if it does not.

    Args:
        seen: the range of the calibration.
        machine: the host of the prediction.
        layout: the layout.
        cpu_cores: cores it is predicted to keep busy: more cores matter only if the layout uses them.
        n_runnable: tasks that it is predicted to have running or waiting for a core.
    """
    found = _layout_reasons(seen, layout)
    if core_doublings(seen, cpu_cores) > 0:
        found.append(f"more than {pluralize(seen.known_cores, 'core', '.3g')} busy")
    if machine.own_cores < machine.cores and not seen.has_filled_smt and n_runnable > machine.own_cores:
        found.append("two threads on a physical core (SMT)")
    if machine.has_gil != seen.machine.has_gil:
        found.append("with a GIL" if machine.has_gil else "no GIL")
    return found


def core_doublings(seen: CalibratedRange, cpu_cores: float) -> float:
    """Return how many doublings lie between the measured busy cores and *cpu_cores*."""
    return max(0.0, log2(max(cpu_cores, _NEAR) / seen.known_cores) - _OVERSHOOT)


def _layout_reasons(seen: CalibratedRange, layout: Layout) -> list[str]:
    """Return why *layout* lies outside the convex hull of the measured ones, on logarithmic scales."""
    if doublings_outside(seen.layouts, layout) <= _NEAR:
        return []
    most_processes = max(one.processes for one in seen.layouts)
    most_threads = max(one.threads for one in seen.layouts)
    found = []
    if layout.processes > most_processes:
        found.append(f"more than {pluralize(most_processes, 'process')}")
    if layout.threads > most_threads:
        found.append(f"more than {pluralize(most_threads, 'thread')} in a process")
    return found or ["not between measured layouts"]


def doublings_outside(measured: Sequence[Layout], layout: Layout) -> float:
    """Return the doublings of processes and threads from *layout* to the hull of *measured*; 0 inside."""
    at = _point(layout)
    corners = _hull([_point(one) for one in measured])
    if len(corners) > 2 and all(
        _turn(a, b, at) >= -_NEAR for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)
    ):
        return 0.0
    return min(_distance(a, b, at) for a, b in zip(corners, [*corners[1:], corners[0]], strict=True))


def _point(layout: Layout) -> Point:
    return log2(layout.processes), log2(layout.threads)


def _hull(points: Sequence[Point]) -> list[Point]:
    """Return the corners, counter-clockwise (Andrew's monotone chain, 1979); one or two if that is all."""
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return ordered
    corners: list[Point] = []
    for way in (ordered, ordered[::-1]):
        chain: list[Point] = []
        for point in way:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= _NEAR:
                chain.pop()
            chain.append(point)
        corners += chain[:-1]
    return corners


def _turn(a: Point, b: Point, c: Point) -> float:
    """Return a number above 0 if a, b, c turn left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _distance(a: Point, b: Point, at: Point) -> float:
    """Return the distance of *at* from the segment from *a* to *b*."""
    along = b[0] - a[0], b[1] - a[1]
    length = along[0] ** 2 + along[1] ** 2
    share = 0.0
    if length > 0:
        share = ((at[0] - a[0]) * along[0] + (at[1] - a[1]) * along[1]) / length
        share = min(1.0, max(0.0, share))
    return hypot(at[0] - a[0] - share * along[0], at[1] - a[1] - share * along[1])
