"""Simulated service whose model profile gives the throughput of each layout."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import log1p, sqrt
from pathlib import Path

from tuner.adapters.clock import VirtualClock
from tuner.adapters.virtual.box import VirtualBox
from tuner.adapters.virtual.service import Noise, Truth
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import SIMULATED_HOST, StudyRecord
from tuner.core.model.demand import layout_demands
from tuner.core.model.network import predict
from tuner.core.model.profile import Profile, ProfileAging
from tuner.core.search.growth import initial_layouts
from tuner.ports import Box, Store


class ProfileService:
    """A Service that queries the model, once for every launched layout."""

    def __init__(self, profile: Profile, n_layouts: int) -> None:
        self.n_layouts = n_layouts
        self.start_s, self.settle_s, self.stop_s = profile.start_s, profile.settle_s, profile.stop_s
        self._profile = profile
        self._known: dict[tuple[Layout, int], Truth] = {}

    def truth(self, layout: Layout, cores: int) -> Truth:
        """Return the model's prediction; CPU and waits as a kernel would count them."""
        key = layout, cores
        if key not in self._known:
            self._known[key] = self._predict(layout, cores)
        return self._known[key]

    def _predict(self, layout: Layout, cores: int) -> Truth:
        profile = self._profile
        machine = profile.machine_of(cores)
        of = layout_demands(profile.demands, profile.terms, [layout.processes], [layout.threads])
        prediction = predict(profile.demands, machine, [layout], profile.terms)
        items_per_s, load = float(prediction.throughput_per_s[0]), float(prediction.load[0])
        n_blocked, background = float(prediction.n_blocked[0]), float(of.process_cores[0])
        done_cores = items_per_s * float(of.cpu_s[0])
        n_runnable = done_cores + float(prediction.n_core_waiting[0])
        n_running = min(n_runnable, float(prediction.busy_cores[0]) - background)
        children_ratio = float(of.child_s[0] / of.cpu_s[0]) if of.cpu_s[0] else 0.0
        n_delayed = n_runnable - n_running
        n_threads = float(layout.total_threads)
        n_children = n_runnable * children_ratio
        noise_sd = profile.noise.second_sd
        aging = profile.aging
        if aging is None or (aging.layouts and layout not in aging.layouts):
            aging = ProfileAging()
        return Truth(
            items_per_s=items_per_s,
            n_active=load,
            # the standard deviation of as many independently active threads, where that fits
            n_active_swing=max(
                0.0, min(sqrt(3 * load * max(0.0, 1 - load / n_threads)), load, n_threads - load)
            ),
            worker_cores=n_running * (1 - children_ratio) + background,
            child_cores=n_running * children_ratio,
            n_delayed=n_delayed * (1 - children_ratio),
            n_blocked=n_blocked,
            n_spawning=items_per_s * float(of.spawn_s[0]),
            n_gil_waiting=float(prediction.n_gil_waiting[0]) if machine.has_gil else None,
            n_children_delayed=n_delayed * children_ratio,
            n_in_items=n_threads - n_runnable * (1 - children_ratio),
            pss_bytes=profile.memory.of(layout, n_children),
            # items that end one after another, with random times
            second_sd=profile.demands.cv_ratio / sqrt(items_per_s) if noise_sd is None else noise_sd,
            trend_per_h=log1p(-aging.loss_per_h),
            leak_bytes_per_s=aging.growth_bytes_per_h / 3600,
            ages_s=aging.settles_s,
        )


def profile_box(
    profile: Profile,
    *,
    cores: int,
    n_layouts: int,
    seed: str,
    name: str,
    clock: VirtualClock,
    began_wall_s: float | None = None,
) -> VirtualBox:
    """Return a simulated host with *cores* cores on which the service of *profile* runs.

    Args:
        profile: the service, its noise and its troubles.
        cores: of the host.
        n_layouts: of the study.
        seed: Seed of the random streams; the same seed produces the same windows.
        name: of the host, in the study's file.
        clock: the simulated clock.
        began_wall_s: start of the study, at which the noise of the host begins; None: now.
    """
    noise = profile.noise
    return VirtualBox(
        ProfileService(profile, n_layouts),
        Noise(
            window_sd=noise.window_sd,
            launch_sd=noise.launch_sd,
            drift_sd=noise.drift_sd,
            drift_ar1=noise.drift_ar1,
            host_sd=noise.host_sd,
            host_lasts_s=noise.host_lasts_s,
        ),
        seed=seed,
        cores=cores,
        name=name,
        clock=clock,
        began_wall_s=began_wall_s,
        risks=profile.failures,
        varied=True,
    )


# The host of a simulated study.


def simulated_box(record: StudyRecord, store: Store, file: Path) -> tuple[Box, Callable[[], float]]:
    """Return the host of the simulated study *record*, kept in *store*, and the clock of the simulation.

    A study that is resumed gets the same windows as an uninterrupted one: they depend on its seed, on the
    command that made it, and on the profile in its *file*.
    """
    from tuner.config.profile import stored_profile

    profile = stored_profile(record, file)
    clock = VirtualClock.resumed(store, profile.stop_s)

    def place() -> AbstractContextManager[Box]:
        return nullcontext(_virtual(record, profile, SIMULATED_HOST, clock))

    with place() as first:
        box = replace(first, another=place)
    return box, lambda: clock.wall_s() - record.created_wall_s


def virtual_box_of(record: StudyRecord, name: str, wall_s: float) -> Box:
    """Return the host *name* of the simulated study *record*, at the time *wall_s*.

    It returns the same windows for the same places, at any time and in any process.
    """
    from tuner.config.profile import stored_profile

    return _virtual(record, stored_profile(record, Path(name)), name, VirtualClock(wall_s))


def _virtual(record: StudyRecord, profile: Profile, name: str, clock: VirtualClock) -> Box:
    provenance = record.provenance
    stream = (str(record.seed), provenance.made_by or "", provenance.simulated_stream or "")
    virtual = profile_box(
        profile,
        cores=int(record.box_cores),
        n_layouts=len(initial_layouts(record)),  # streams are as before the grid grew
        seed="/".join(stream),
        name=name,
        clock=clock,
        began_wall_s=record.created_wall_s,
    )
    return virtual.box()
