"""Predictions of all models for one mix, compared with the measurements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from mix_figures import covered, relative_errors
from mix_peers import Predicted, by_bounds, by_network, by_simulation, by_usl, by_usl_2d, half_of, on_box
from mix_points import Measured, MixRun

from tuner.core.domain.layout import Layout
from tuner.core.errors import TunerError
from tuner.core.model.calibration.calibrate import Calibration, calibrate_alone, calibrate_jointly
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.explanation import machine_of
from tuner.core.model.machine import Machine
from tuner.core.model.prediction.extrapolation import CalibratedRange
from tuner.core.model.prediction.trust import CONFIDENCE, predict_with_intervals
from tuner.core.model.profile import ProfileNoise

ALONE = Layout(1, 1)
CONVOY_GIL = 0.8  #: a convoy: several threads, and the GIL held for more than this share of time
MOST_FITTED = 6  #: layouts that a joint fit may see
N_SUBSETS = 12  #: choices of them, seeded
MODEL = "network"  #: the peer that the bars are for
OWN_SPEED = "own speed"  #: the network, told what CPU an item took in the layout's own windows
PEERS = (MODEL, OWN_SPEED, "simulation", "bounds", "USL(N)", "USL(P,T)")


@dataclass(frozen=True)
class Peer:
    """Predictions of one model."""

    name: str
    fitted_to: frozenset[Layout]  #: no errors are told of these
    predicted: Mapping[Layout, Predicted]
    silent: str = ""  #: why it says nothing; empty: it does

    def throughputs(self) -> dict[Layout, float]:
        return {layout: one.throughput_per_s for layout, one in self.predicted.items()}

    def loads(self) -> dict[Layout, float]:
        return {layout: one.load for layout, one in self.predicted.items() if one.load is not None}


@dataclass(frozen=True)
class LeftOut:
    """Predictions of joint fits on few layouts for the others; one figure per fit and layout."""

    n_fitted: int  #: layouts that each saw
    throughput: tuple[float, ...]  #: relative errors
    load: tuple[float, ...]
    n_covered: int  #: windows in their layout's interval
    n_points: int


@dataclass(frozen=True)
class Judged:
    """A mix."""

    run: MixRun
    calibration: Calibration
    measured: Mapping[Layout, Measured]
    peers: tuple[Peer, ...]
    intervals: Mapping[Layout, tuple[float, float]]  #: of the throughput of a window
    n_covered: int
    n_points: int
    convoy: frozenset[Layout]
    left_out: LeftOut | None  #: None: too few layouts

    def peer(self, name: str) -> Peer:
        return next(one for one in self.peers if one.name == name)


def judge(run: MixRun, peers: Collection[str] = PEERS, n_subsets: int = N_SUBSETS) -> Judged:
    """Calibrate on the windows of 1x1 and let *peers* predict, `MODEL` among them.

    Raises:
        ConfigError: there is no window of 1x1.
    """
    machine = machine_of(run.record)
    measured = run.measured()
    calibration = calibrate_alone(run.clocks_of({ALONE}), machine)
    demands = calibration.profile.demands
    said = _said(run, peers, demands, machine, measured)
    network = next(one for one in said if one.name == MODEL).predicted
    intervals = _intervals(calibration, run.noise_of({ALONE}), {ALONE}, machine, measured)
    points = [(one.layout, one.throughput_per_s) for one in run.points if one.layout != ALONE]
    n_covered, n_points = covered(intervals, points)
    return Judged(
        run=run,
        calibration=calibration,
        measured=measured,
        peers=said,
        intervals=intervals,
        n_covered=n_covered,
        n_points=n_points,
        convoy=frozenset(layout for layout, one in network.items() if is_convoy(layout, one)),
        left_out=_left_out(run, machine, measured, n_subsets),
    )


def is_convoy(layout: Layout, predicted: Predicted) -> bool:
    """Return whether threads wait for the GIL, according to the network."""
    return layout.threads > 1 and (predicted.gil_utilization_ratio or 0.0) > CONVOY_GIL


def subsets(layouts: Collection[Layout], n_subsets: int = N_SUBSETS, seed: int = 1) -> list[list[Layout]]:
    """Choices of `MOST_FITTED` layouts, 1x1 among each of them; as many as there are, at most *n_subsets*."""
    others, random = sorted(set(layouts) - {ALONE}), Random(seed)
    found: set[tuple[Layout, ...]] = set()
    for _ in range(20 * n_subsets):
        if len(found) < n_subsets:
            found.add(tuple(sorted(random.sample(others, MOST_FITTED - 1))))
    return [[ALONE, *chosen] for chosen in sorted(found)]


def _said(
    run: MixRun,
    peers: Collection[str],
    demands: Demands,
    machine: Machine,
    measured: Mapping[Layout, Measured],
) -> tuple[Peer, ...]:
    """Return the predictions of all *peers*; a model with an error is printed, and has none."""
    layouts = list(measured)
    half = half_of(layouts)
    points = [point for point in run.points if point.layout in half]
    makers: Sequence[tuple[str, Collection[Layout], Callable[[], dict[Layout, Predicted]]]] = [
        (MODEL, {ALONE}, lambda: by_network(demands, machine, measured)),
        (OWN_SPEED, {ALONE}, lambda: _at_own_speed(run, demands, machine, measured)),
        ("simulation", {ALONE}, lambda: by_simulation(demands, machine, measured)),
        ("bounds", {ALONE}, lambda: by_bounds(demands, machine, measured)),
        ("USL(N)", half, lambda: by_usl(points, layouts)),
        ("USL(P,T)", half, lambda: by_usl_2d(points, layouts)),
    ]
    found = []
    for name, fitted_to, make in (maker for maker in makers if maker[0] in peers):
        try:
            found.append(Peer(name, frozenset(fitted_to), make()))
        except (TunerError, ValueError) as error:
            if name == MODEL:
                raise
            found.append(Peer(name, frozenset(fitted_to), {}, silent=str(error)))
    return tuple(found)


def _at_own_speed(
    run: MixRun, demands: Demands, machine: Machine, measured: Mapping[Layout, Measured]
) -> dict[Layout, Predicted]:
    """The network with the CPU per item of the layout's own windows, its waits from 1x1.

    A box whose cores change their speed from window to window (neighbours on their second threads, whom no
    clock of the guest shows) is no fault of the network: this tells the one from the other.

    Raises:
        ValueError: of some window no clock told the workers' own CPU.
    """
    found: dict[Layout, Predicted] = {}
    for layout, one in measured.items():
        clocks = run.clocks_of({layout})
        n_done = sum(each.n_done for each in clocks)
        of_workers = [each.worker_cpu_s for each in clocks if each.worker_cpu_s is not None]
        if len(of_workers) < len(clocks):
            raise ValueError(f"no clock told the workers' own CPU in {layout}")
        own_s = sum(of_workers) / n_done
        total_s = sum(each.service_cpu_s for each in clocks) / n_done
        at_its_speed = replace(demands, gil_s=own_s, child_s=total_s - own_s)
        found |= by_network(at_its_speed, machine, {layout: one})
    return found


def _intervals(
    calibration: Calibration,
    noise: ProfileNoise,
    seen: Collection[Layout],
    machine: Machine,
    measured: Mapping[Layout, Measured],
) -> dict[Layout, tuple[float, float]]:
    """Return intervals for the throughput of one window of a separate launch, of the same length."""
    found = {}
    for layout, one in measured.items():
        result = predict_with_intervals(
            replace(calibration.profile, noise=noise),
            calibration.draws,
            calibration.misfit_sd,
            CalibratedRange(on_box(machine, one), tuple(seen), calibration.smt_gains),
            on_box(machine, one),
            [layout],
            term_draws=calibration.term_draws,
            confidence=CONFIDENCE,
        )
        interval = result.rows[0].throughput_per_s
        assert interval.low is not None
        assert interval.high is not None
        found[layout] = (interval.low, interval.high)
    return found


def _left_out(
    run: MixRun, machine: Machine, measured: Mapping[Layout, Measured], n_subsets: int
) -> LeftOut | None:
    if not n_subsets or len(measured) <= MOST_FITTED:
        return None
    throughput: list[float] = []
    load: list[float] = []
    n_covered = n_points = 0
    for fitted in subsets(measured, n_subsets):
        others = {layout: one for layout, one in measured.items() if layout not in fitted}
        calibration = calibrate_jointly(run.clocks_of(set(fitted)), machine)
        profile = calibration.profile
        predicted = by_network(profile.demands, machine, others, profile.terms)
        peer = Peer("joint", frozenset(fitted), predicted)
        of_throughput = {layout: one.throughput_per_s for layout, one in others.items()}
        of_load = {layout: one.load for layout, one in others.items() if one.load is not None}
        throughput += relative_errors(peer.throughputs(), of_throughput).values()
        load += relative_errors(peer.loads(), of_load).values()
        intervals = _intervals(calibration, run.noise_of(fitted), fitted, machine, others)
        n_in, n = covered(intervals, [(one.layout, one.throughput_per_s) for one in run.points])
        n_covered, n_points = n_covered + n_in, n_points + n
    return LeftOut(MOST_FITTED, tuple(throughput), tuple(load), n_covered, n_points)
