"""Calibration of the model: its launches of 1x1, and demands estimated from any study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, WindowRecord, is_simulated, simulation_notes
from tuner.core.domain.requests import uneven_ratio
from tuner.core.domain.window import Sample
from tuner.core.errors import ConfigError
from tuner.core.model.calibration.calibrate import Calibration, calibrate_jointly, predict_held_out
from tuner.core.model.calibration.calibrated import Calibrated, LeftOut, LeftOutErrors, Measured
from tuner.core.model.calibration.clocks import Clocks, clocks_of_layouts, spare_cores_of
from tuner.core.model.calibration.per_item import by_layout
from tuner.core.model.diagnosis.explanation import GIL_ASSUMED, machine_of
from tuner.core.model.machine import Machine
from tuner.core.model.prediction.extrapolation import CalibratedRange
from tuner.core.model.prediction.memory import MemoryLeftOut, MemorySeen, fit_memory, leave_memory_out
from tuner.core.model.profile import ProfileMemory, ProfileNoise
from tuner.core.stats.interval import Estimate
from tuner.core.windows.launch_sums import Sums
from tuner.core.windows.load_facts import load_facts, sum_spreads
from tuner.ports import Store
from tuner.study.counted import counted_sums
from tuner.study.pilot_run import read_noise

MADE_BY = "tuner calibrate"
ANCHOR = Layout(1, 1)
N_LAUNCHES = 3
N_WINDOWS = 2  #: windows of each launch
WINDOW_S = 60.0
POOLS_TOLD = "Pools are named by all their processes together: 8x- is any of 1x8, 2x4, 4x2 and 8x1."
_NAMED = 8  #: largest number of layouts named in a note


def calibration_study(study: StudyRecord, *, n_launches: int, n_windows: int, window_s: float) -> StudyRecord:
    """Return the calibration study (1x1 only) for *study*, the study that the config describes."""
    like = study.layouts[0]
    return replace(
        study,
        strategy="all",
        kind="none",
        layouts=(replace(ANCHOR, variant=like.variant, has_threads=like.has_threads),),
        n_blocks=n_launches,
        windows_per_launch=n_windows,
        window_s=window_s,
        min_window_s=None,
        provenance=replace(study.provenance, made_by=MADE_BY),
    )


def read_calibration(
    store: Store,
    name: str,
    *,
    variant: str | None = None,
    sums: Sums | None = None,
    throughput_per_s: Mapping[Layout, float] | None = None,
) -> Calibrated:
    """Estimate the demands of an item, the memory, and the model's errors from the windows in *store*.

    Args:
        store: the store of any study.
        name: the name of the store's file, for error messages.
        variant: the variant to calibrate; None: the service without a variant, else its only variant.
        sums: the sums over the windows of the store; None: they are read from *store*.
        throughput_per_s: the throughputs of a ranking, to be printed as measured; None: those of the windows.

    Raises:
        ConfigError: the store has no window to calibrate on.
    """
    study = store.study()
    sums = counted_sums(store, store.sums() if sums is None else sums)
    noise = _noise(store, sums)
    pooled = study.config.service.pooled_variants
    all_clocks = clocks_of_layouts(
        sums, _samples_of_anchor(store), spare=spare_cores_of(study), pooled=pooled
    )
    if not all_clocks and any(one.n_at_a_rate for one in sums.launches):
        raise ConfigError(
            f"{name} was measured at a rate, so waiting for items cannot be separated from other waiting",
            hint="Measure it in a closed loop: leave the feeder's rate out.",
        )
    clocks = _select_loaded(study, sums, _used_clocks(all_clocks, name, variant), name)
    layouts = sorted({one.layout for one in clocks})
    machine = machine_of(study, layouts[0].variant)
    try:
        calibration = calibrate_jointly(clocks, machine, name=study.service)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.problem}", hint=error.hint) from error
    memory_seen = [_memory_of(one) for one in clocks if one.pss_bytes is not None]
    memory = fit_memory(memory_seen)
    ranked = {} if layouts[0].variant in pooled or throughput_per_s is None else throughput_per_s
    measured = tuple(_sum_up(own, ranked.get(own[0].layout)) for own in by_layout(clocks).values())
    busy_cores = max(one.cpu_cores or 0.0 for one in measured)
    foreign_cores = sum((one.foreign_cores - one.interrupt_cores) * one.length_s for one in clocks) / sum(
        one.length_s for one in clocks
    )
    profile = replace(
        calibration.profile,
        source=_source(study, calibration.profile.source),
        machine=replace(calibration.profile.machine, foreign_cores=foreign_cores),
        noise=replace(noise, model_sd=calibration.misfit_sd),
        memory=ProfileMemory() if memory is None else memory.memory,
        intervals=around_their_means(calibration.profile.intervals),
        simulated=study.provenance.simulated or "",
        measured=tuple(layouts),
        busy_cores=busy_cores,
    )
    notes = [
        *_describe_unused(all_clocks, clocks),
        *([GIL_ASSUMED] if study.provenance.workers.has_gil(layouts[0].variant) is None else []),
        *([POOLS_TOLD] if layouts[0].variant in pooled else []),
    ]
    return Calibrated(
        service=study.service,
        where=_where(study),
        calibration=replace(calibration, profile=profile, notes=(*notes, *calibration.notes)),
        seen=CalibratedRange(
            calibration.profile.machine,
            tuple(layouts),
            calibration.smt_gains,
            busy_cores=busy_cores,
        ),
        memory=memory,
        measured=measured,
        left_out=_left_out(calibration, clocks, layouts, machine, leave_memory_out(memory_seen)),
        foreign_cores=foreign_cores,
        simulated=tuple(simulation_notes(study)),
    )


def _samples_of_anchor(store: Store) -> Callable[[WindowRecord], Sequence[Sample]]:
    """Return a reader of the samples of 1x1, which show how items differ; for other layouts it returns ()."""

    def samples(window: WindowRecord) -> Sequence[Sample]:
        if window.layout.total_threads > 1:
            return ()
        return store.samples(window.launch_id, window.index, window.attempt)

    return samples


def _used_clocks(clocks: Sequence[Clocks], name: str, variant: str | None) -> list[Clocks]:
    """Return the clocks of *variant*; None: of the service without a variant, else of its only variant.

    Raises:
        ConfigError: there is no valid window, none of *variant*, or *variant* is None and all windows belong
            to several named variants.
    """
    if not clocks:
        raise ConfigError(
            f"{name} has no valid window to calibrate on",
            hint="tuner rank prints the reasons; tuner calibrate CONFIG measures 1x1.",
        )
    variants = sorted({one.layout.variant for one in clocks})
    if variant is None and len(variants) > 1 and "" not in variants:
        raise ConfigError(
            f"{name} has windows of {len(variants)} variants of the service ({', '.join(variants)}), whose"
            " items differ",
            hint=f"Choose one, as --variant {variants[0]}.",
        )
    wanted = variants[0] if variant is None else variant
    if wanted not in variants:
        text = ", ".join(one or "the service without a variant" for one in variants)
        raise ConfigError(
            f"--variant {variant}: {name} has no valid window of it, only of {text}",
            hint="The variant is the part of a layout after the @, as gevent in 4x6@gevent.",
        )
    return [one for one in clocks if one.layout.variant == wanted]


def _describe_unused(clocks: Sequence[Clocks], used: Sequence[Clocks]) -> list[str]:
    """Return a note on the layouts whose windows are not *used*, and the option that uses them."""
    aside = sorted({one.layout for one in clocks} - {one.layout for one in used})
    if not aside:
        return []
    named, more = ", ".join(map(str, aside[:_NAMED])), len(aside) - _NAMED
    rest = f" and {more} more" if more > 0 else ""
    others = sorted({one.variant for one in aside} - {""})
    how = f"--variant {' or '.join(others)} uses them" if others else "leave --variant out to use them"
    return [f"Not used, because items of another variant of the service differ: {named}{rest} ({how})."]


def around_their_means(intervals: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Extend each interval to its mean, which may lie slightly outside: draws are cut at a demand's limit.

    If the CPU demand and its share that holds the GIL trade off, and the most likely share is 1, hardly a
    draw exceeds the most likely value.
    """
    found = {}
    for name, one in intervals.items():
        known = [value for value in (one.low, one.mean, one.high) if value is not None]
        found[name] = Estimate(one.mean, min(known), max(known))
    return found


def _left_out(
    calibration: Calibration,
    clocks: Sequence[Clocks],
    layouts: Sequence[Layout],
    machine: Machine,
    memory: Mapping[Layout, MemoryLeftOut],
) -> LeftOutErrors | None:
    """Return the prediction errors of each layout left out; None: too few layouts to predict from."""
    if len(layouts) < 3 and all(layout.total_threads > 1 for layout in layouts):
        return None
    rows = tuple(
        LeftOut(
            layout=one.layout,
            measured_per_s=one.measured_per_s,
            predicted_per_s=one.predicted_per_s,
            measured_load=one.measured_active,
            predicted_load=one.predicted_active,
            measured_bytes=None
            if (of_memory := memory.get(one.layout)) is None
            else of_memory.measured_bytes,
            predicted_bytes=None if of_memory is None else of_memory.predicted_bytes,
        )
        for one in calibration.held_out or predict_held_out(clocks, machine)
    )
    return LeftOutErrors(rows) if rows else None


def _sum_up(clocks: Sequence[Clocks], ranked_per_s: float | None) -> Measured:
    """Sum up the measurements of one layout; *ranked_per_s*: its throughput in the ranking, if known."""
    length_s = sum(one.length_s for one in clocks)
    loads = [(one.n_active, one.length_s) for one in clocks if one.n_active is not None]
    sizes = [(one.pss_bytes, one.n_windows) for one in clocks if one.pss_bytes is not None]
    return Measured(
        layout=clocks[0].layout,
        throughput_per_s=ranked_per_s or sum(one.n_done for one in clocks) / length_s,
        load=_weighted_mean(loads),
        cpu_cores=sum(one.busy_cores * one.length_s for one in clocks) / length_s,
        pss_bytes=_weighted_mean(sizes),
        n_windows=sum(one.n_windows for one in clocks),
    )


def _weighted_mean(values: Sequence[tuple[float, float]]) -> float | None:
    """Return the weighted mean of *values* (pairs of value and weight); None: there are none."""
    return fmean(*zip(*values, strict=True)) if values else None


def _memory_of(clocks: Clocks) -> MemorySeen:
    """Return memory and the number of children that items start.

    The children measured include a main process that only starts workers: its share of their CPU is left out.
    The number is estimated from CPU shares if it was not sampled.
    """
    of_items_ratio = 1.0
    if clocks.child_cpu_s and clocks.master_cpu_s:
        of_items_ratio = max(0.0, 1 - clocks.master_cpu_s / clocks.child_cpu_s)
    if clocks.child_running_s is not None:
        n_children = (clocks.child_running_s + (clocks.child_blocked_s or 0.0)) / clocks.length_s
    elif clocks.child_cpu_s is not None and clocks.busy_cores > 0:
        share = clocks.child_cpu_s / clocks.length_s / clocks.busy_cores
        n_children = max(clocks.busy_cores, clocks.n_active or 0.0) * share
    else:
        n_children = 0.0
    return MemorySeen(clocks.layout, of_items_ratio * n_children, clocks.pss_bytes or 0.0, clocks.n_windows)


def _select_loaded(study: StudyRecord, sums: Sums, clocks: Sequence[Clocks], name: str) -> list[Clocks]:
    """Return the *clocks* of the layouts that had a request for each thread.

    Raises:
        ConfigError: no layout had, or a process works on more requests than the model has threads for.
    """
    facts = load_facts(study)
    if facts is None:
        return list(clocks)
    found = []
    for one in clocks:
        spread = sum_spreads(launch for launch in sums.launches if launch.layout == one.layout)
        if facts.takes_many(one.layout, spread):
            raise ConfigError(
                f"{name}: each process works on many requests at once, but the model has one per thread",
                hint=f"Compare the measurements: tuner rank {name}",
            )
        if spread is None or uneven_ratio(spread, one.layout.total_threads) is None:
            found.append(one)
    if not found:
        raise ConfigError(
            f"{name}: in every layout threads lacked requests, as connections were uneven",
            hint="Measure again with --connections even.",
        )
    return found


def _noise(store: Store, sums: Sums) -> ProfileNoise:
    """Return the noise of windows and launches in the study; the default noise if it cannot be estimated."""
    usual, found = ProfileNoise(), read_noise(store, sums)
    launch, window = (None, None) if found is None else found
    if launch is None or launch.mean is None:
        return usual
    if window is None or window.mean is None:  # the launch's noise includes the window's
        return replace(usual, window_sd=0.0, launch_sd=launch.mean)
    return replace(usual, window_sd=window.mean, launch_sd=launch.mean)


def _source(study: StudyRecord, windows: str) -> str:
    """Return the source line of the profile: the windows, the host and the date."""
    simulated = " (simulated)" if is_simulated(study) else ""
    return f"{MADE_BY}: {windows}{simulated}, {_where(study)}"


def _where(study: StudyRecord) -> str:
    day = datetime.fromtimestamp(study.created_wall_s, UTC).strftime("%Y-%m-%d")
    host = study.provenance.host
    return f"{host}, {day}" if host else day
