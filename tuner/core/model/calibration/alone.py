"""Demands from windows of 1x1, in which items do not wait for each other.

One thread works on one item after the other, so the residence time of an item is 1 / throughput. Own CPU,
children's CPU and time in state D come from the clocks; the rest, less the wait for a core, is waiting
asleep. The CPU of a backend that the config names counts with that of children: the item waits while the
backend computes, and the backend uses a core. 1x1 does not show which part of the own CPU releases the GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from tuner.core.errors import ConfigError
from tuner.core.model.calibration.clocks import Clocks, bin_s
from tuner.core.model.calibration.per_item import PerItem, by_launch, per_item
from tuner.core.model.demand import Array
from tuner.core.model.machine import Machine
from tuner.core.text.figures import percent, pluralize

NAMES = ("gil_s", "child_s", "blocked_s", "asleep_s")

#: Assumed scatter of launches before it is measured: 2 % of each clock and of the residence time, with the
#: weight of two more launches. One launch shows none of it, and two nearly none (t = 6.3 at 90 %).
ASSUMED_LAUNCH_SD = 0.02
ASSUMED_DF = 2
_FEW_DF = 4  #: windows; with fewer, the measured scatter may be far too small by chance
USUAL_CV = 0.5  #: used if the windows do not show it
_LEAST_BINS = 60  #: fewest counts of all windows together, which give the dispersion to 20 %
_HIDDEN_RATIO = 0.02  #: workers that use less than this share of the service's CPU only start other processes
_WORTH_TELLING = 0.005  #: share of an item's time; smaller parts are not reported


@dataclass(frozen=True, slots=True)
class SoloDemands:
    """Means of `NAMES` per item, and a square root of the covariance of these means."""

    mean: Array  #: (4,): means of `NAMES`
    root: Array  #: (4, k): the covariance is root @ root.T
    df: float  #: degrees of freedom of Student's t
    cv_ratio: float
    notes: tuple[str, ...]  #: limitations of these windows, one sentence each


def check_clocks(windows: Sequence[Clocks]) -> None:
    """Check that a calibration is possible.

    Raises:
        ConfigError: there are no windows, none with CPU, or they are of services that differ.
    """
    if not windows:
        raise ConfigError(
            "there is no valid window to calibrate on",
            hint="tuner rank prints the reasons of invalid windows.",
        )
    if not any(window.service_cpu_s > 0 for window in windows):
        n_windows = sum(window.n_windows for window in windows)
        raise ConfigError(
            f"none of the {pluralize(n_windows, 'window')} has the CPU use of the service, so no demand can "
            "be estimated",
            hint="Measure again where tuner may read the workers' files in /proc (hidepid, another user).",
        )
    variants = sorted({window.layout.variant for window in windows})
    if len(variants) > 1:
        text = ", ".join(variant or "no variant" for variant in variants)
        raise ConfigError(
            f"the windows are of {len(variants)} variants of the service ({text}): items of each differ",
            hint="Calibrate each variant separately.",
        )


def estimate_solo_demands(windows: Sequence[Clocks], machine: Machine) -> SoloDemands:
    """Estimate the demands of an item from *windows* of 1x1.

    The interval is Student's t over launches. It covers differences between windows and launches like these,
    but neither errors of the model nor larger demands of the items on another day.

    Raises:
        ConfigError: see `check_clocks`; or there is no window of 1x1.
    """
    check_clocks(windows)
    alone = [window for window in windows if window.layout.total_threads == 1]
    if not alone:
        layouts = ", ".join(sorted({str(window.layout) for window in windows}))
        raise ConfigError(
            f"there is no window of 1x1 ({layouts}): nothing else shows an item that meets nobody",
            hint="Measure 1x1 (--layouts 1x1), or calibrate on all layouts together.",
        )
    launches = by_launch(alone)
    of_launch = np.array([_demands(per_item(launch), machine) for launch in launches])
    mean = of_launch.mean(axis=0)
    off = (of_launch - mean).T
    df = len(launches) - 1 + ASSUMED_DF
    assumed = sqrt(ASSUMED_DF) * _assumed_root(launches, mean, machine)
    root = np.concatenate([off, assumed], axis=1) / sqrt(df * len(launches))
    total = per_item(alone)
    return SoloDemands(mean, root, df, _cv(alone, mean), tuple(_notes(total, len(launches), machine)))


def _demands(item: PerItem, machine: Machine) -> list[float]:
    """Return `NAMES` of one launch: the parts of the residence time in seconds.

    If other processes leave less than a core, computing takes longer than its CPU time: the workers' clock of
    waiting for a core gives the difference; for children (and without that clock) the share of a core does.
    Children and backends that compute less than the workers are assumed to wait as these do, if the CPU of
    the threads that work on items is known.
    """
    left = item.foreign_cores + machine.foreign_cores
    speed = min(1.0, max(0.1, machine.cores - left))
    if item.delay_s is not None and item.item_s and item.children_s <= item.own_s:
        speed_of_children = item.item_s / (item.item_s + item.delay_s)
    else:
        speed_of_children = speed
    computing_s = item.children_s / speed_of_children
    computing_s += item.own_s / speed if item.delay_s is None else item.own_s + item.delay_s
    waiting_s = max(0.0, item.residence_s - computing_s)
    blocked_s = min(item.blocked_s or 0.0, waiting_s)
    return [item.own_s, item.children_s, blocked_s, waiting_s - blocked_s]


def _assumed_root(launches: Sequence[Sequence[Clocks]], mean: Array, machine: Machine) -> Array:
    """Return a square root of the covariance that one launch is assumed to have before any other is measured.

    Between launches it is 2 % of each clock, and of the residence time, of which sleep is the remainder.
    Between windows it is estimated; with too few windows it follows from the number of items and the number
    of samples of state D.
    """
    of_clocks = np.diag(mean)
    of_clocks[3] = -mean
    of_clocks[3, 3] = mean.sum()
    columns = [ASSUMED_LAUNCH_SD * of_clocks]
    df = sum(len(launch) - 1 for launch in launches)
    n_windows = sum(len(launch) for launch in launches) / len(launches)
    if df:
        for launch in launches:
            each = np.array([_demands(per_item([window]), machine) for window in launch])
            columns.append((each - each.mean(axis=0)).T / sqrt(df * n_windows))
    if df < _FEW_DF:
        windows = [window for launch in launches for window in launch]
        items = sum(window.n_done for window in windows) / len(launches)
        looks = sum(window.length_s for window in windows) / len(launches)
        share = mean[2] / mean.sum()
        share = (share * looks + 0.5) / (looks + 1)  # none in 60 samples does not mean a share of 0
        of_d = sqrt(share * (1 - share) / looks) * mean.sum() if windows[0].blocked_s is not None else 0.0
        columns.append((USUAL_CV * mean / sqrt(items))[:, None])
        columns.append(np.array([[0.0], [0.0], [of_d], [-of_d]]))
    return np.concatenate(columns, axis=1)


def _cv(windows: Sequence[Clocks], mean: Array) -> float:
    """Estimate the coefficient of variation of each demand from the scatter of item counts.

    Demands are assumed equally variable and independent: cv^2 of their sum is cv^2 sum(d^2) / (sum d)^2.
    """
    reported = [
        (window.count_dispersion, window.length_s / bin_s(window.throughput_per_s))
        for window in windows
        if window.count_dispersion is not None
    ]
    n_bins = sum(bins for _, bins in reported)
    if n_bins < _LEAST_BINS:
        return USUAL_CV
    of_residence = sum(dispersion * bins for dispersion, bins in reported) / n_bins
    return min(1.0, sqrt(of_residence * mean.sum() ** 2 / (mean**2).sum()))


def backend_notes(total: PerItem) -> list[str]:
    """Return a note with the part of the children's CPU that backends used; empty if too small."""
    if total.backend_s <= _WORTH_TELLING * total.residence_s:
        return []
    return [
        f"In the model, the CPU of children includes that of backends ({1000 * total.backend_s:.3g} ms per"
        " item), because an item waits for both."
    ]


def _notes(total: PerItem, n_launches: int, machine: Machine) -> list[str]:
    notes = []
    if total.source == "service":
        notes.append(
            "The CPU of workers and children was not separated: all of it counts as Python with the GIL."
        )
    if total.source == "probe":
        notes.append(
            "The CPU of workers and children was reported by the items through the probe, not by the"
            " kernel's clocks."
        )
    if total.source == "kernel" and total.own_s < _HIDDEN_RATIO * total.service_s:
        notes.append(
            f"The processes that supervisord started used {percent(total.own_s / total.service_s)} of the"
            " service's CPU. If they only start the real workers (a shell, a master), these count as"
            " children: set workers: children in the config, or start the workers directly."
        )
    if total.blocked_s is None:
        notes.append(
            "Uninterruptible waiting was not measured: it counts as sleep, and the predicted load is"
            " without it."
        )
    notes += backend_notes(total)
    if n_launches == 1:
        notes.append(
            "There was one launch, so the variation between launches is unknown;"
            f" {percent(ASSUMED_LAUNCH_SD)}"
            " for each clock is assumed."
        )
    if machine.has_gil:
        notes.append(
            "1x1 does not show Python code that releases the GIL: all CPU of the workers counts as"
            " holding it."
        )
    if total.own_s + total.children_s > 1.02 * total.residence_s:
        notes.append(
            f"An item used {total.own_s + total.children_s:.3g} s of CPU in {total.residence_s:.3g} s:"
            " workers and children (or backends) compute at the same time. The model does not include that,"
            " so it predicts 1x1 too slow."
        )
    return notes
