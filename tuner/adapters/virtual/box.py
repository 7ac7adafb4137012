"""Simulated host that implements the ports of a real one, for tests, dry runs and teaching.

Simulated time costs no real time. The results of a launch or window depend only on the seed, the cell and
the attempt, not on the time or on earlier launches. So a study that was interrupted and resumed gets the same
windows as an uninterrupted one. The study's hooks name the cell that runs. User commands do not run on a
simulated host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import exp, sqrt
from random import Random

from tuner.adapters.clock import STOP_S, VirtualClock
from tuner.adapters.virtual.launch import Fate, HostNoise, Kind, RunningLayout, Trouble, Try
from tuner.adapters.virtual.service import Noise, Service, VirtualService, virtual_study
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.domain.window import Reading, Sample, Usage
from tuner.core.errors import MeasurementError
from tuner.ports import Box, Launch, WhileStarting

# Probe and sampler of a layout that runs on a simulated host.


class VirtualCounting:
    """The probe of one launch; *running* returns the layout once there is one."""

    environment: Mapping[str, str] = {}

    def __init__(self, clock: VirtualClock, running: Callable[[], RunningLayout | None]) -> None:
        self._clock, self._running = clock, running

    def pids(self) -> frozenset[int]:
        """Return no process: the probe is simulated."""
        return frozenset()

    def read(self) -> Reading:
        """Return the counts so far."""
        running, now_s = self._running(), self._clock.monotonic_s()
        if running is None:
            return Reading(now_s, 0, 0)
        running.advance()
        truth, busy_ns = running.truth, running.busy_s * 1e9
        return Reading(
            at_s=now_s,
            n_done_total=running.n_done,
            n_failed_total=0,
            python_cpu_ns_total=int(busy_ns * truth.worker_cores),
            child_cpu_ns_total=int(busy_ns * truth.child_cores),
            waiting_ns_total=int(busy_ns * truth.n_in_items),
            n_slots=running.layout.total_threads,
        )


class VirtualWatch:
    """The sampler of one launch."""

    def __init__(self, clock: VirtualClock, running: RunningLayout) -> None:
        self._clock, self._running = clock, running

    def has_gil(self) -> bool | None:
        """Return None: the study's facts already contain the GIL state of the profile."""
        return None

    def n_interpreters(self) -> int:
        """Return 1: the simulation has no interpreters to inspect."""
        return 1

    def next_sample_s(self, now_s: float, by_s: float) -> float:
        """Return *by_s*: the items of a simulated service have no rhythm."""
        return max(now_s, by_s)

    def sample(self, reading: Reading) -> Sample:
        """Return the simulated load and number of active tasks."""
        self._running.advance()
        load1, load5, load15 = self._running.load.values
        return Sample(
            at_s=reading.at_s,
            n_done_total=reading.n_done_total,
            n_failed_total=reading.n_failed_total,
            load1=round(load1, 2),
            load5=round(load5, 2),
            load15=round(load15, 2),
            n_active=self._running.n_active,
        )

    def usage(self, *, closing: bool = False, at_edge: bool = False) -> Usage:
        """Return the simulated CPU time and memory."""
        running, clock = self._running, self._clock
        running.advance()
        layout, truth, busy_s = running.layout, running.truth, running.busy_s
        service_s = busy_s * (truth.worker_cores + truth.child_cores)
        return Usage(
            at_s=clock.monotonic_s(),
            wall_s=clock.wall_s(),
            service_cpu_s_total=service_s,
            tuner_cpu_s_total=running.tuner_cpu_s,
            backend_cpu_s_total=0.0,
            box_cpu_s_total=service_s + running.tuner_cpu_s + running.foreign_cpu_s,
            steal_s_total=0.0,
            n_context_switches_total=running.n_done * 40,
            pss_bytes=running.pss_bytes if closing or (truth.leak_bytes_per_s and not at_edge) else None,
            n_processes=len(running.worker_pids()),
            n_threads=layout.processes * (truth.threads or layout.threads),
            n_threads_most=truth.threads or layout.threads,
            cpu_pressure_s_total=None,
            memory_pressure_s_total=None,
            io_pressure_s_total=None,
            worker_cpu_s_total=busy_s * truth.worker_cores,
            child_cpu_s_total=busy_s * truth.child_cores,
            run_delay_s_total=busy_s * truth.n_delayed,
            running_s_total=busy_s * (truth.worker_cores + truth.n_delayed),
            blocked_s_total=busy_s * truth.n_blocked,
            child_running_s_total=busy_s * (truth.child_cores + truth.n_children_delayed),
            child_blocked_s_total=0.0,
            spawning_s_total=busy_s * truth.n_spawning,
            gil_waiting_s_total=None if truth.n_gil_waiting is None else busy_s * truth.n_gil_waiting,
            gil_waking_s_total=None if truth.n_gil_waiting is None else 0.0,
            item_cpu_s_total=busy_s * truth.worker_cores,
            master_cpu_s_total=0.0,
            beside_delay_s_total=0.0,
            interrupt_s_total=0.0,
        )


__all__ = [
    "STOP_S",
    "Kind",
    "Noise",
    "Trouble",
    "VirtualBox",
    "VirtualClock",
    "VirtualService",
    "virtual_study",
]


_USUAL = Noise()


class VirtualBox:
    """Launcher, probe, feeder, sampler and hooks of one simulated host; ``box()`` passes them to a study."""

    def __init__(
        self,
        service: Service,
        noise: Noise = _USUAL,
        *,
        seed: int | str = 0,
        cores: int = 24,
        name: str = "virtual-box",
        clock: VirtualClock | None = None,
        troubles: Sequence[Trouble] = (),
        risks: Mapping[Kind, float] | None = None,
        varied: bool = False,
        began_wall_s: float | None = None,
    ) -> None:
        """Set up the host; *troubles* happen at set places, *risks* are probabilities per launch or window.

        *varied*: random troubles begin at any time in the first minute, instead of after two seconds.
        """
        self.service, self.noise, self.cores, self.name = service, noise, cores, name
        self.clock = clock or VirtualClock()
        self._stream = f"{seed}/{name}"
        self._fate = Fate(self._stream, tuple(troubles), dict(risks or {}), varied)
        self._try = Try()
        self._n_warming = 0  #: launches that only warmed the cache; each gets its own random numbers
        self._running: RunningLayout | None = None
        self._drift: list[float] = []
        self._while_starting = WhileStarting()
        began_wall_s = self.clock.wall_s() if began_wall_s is None else began_wall_s
        self._host = HostNoise(noise.host_sd, noise.host_lasts_s, self._stream, began_wall_s)

    def box(self) -> Box:
        """Return all ports, as a study takes them."""
        return Box(self.name, self.clock, self, self, self, self, self, while_starting=self._while_starting)

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        """Record the study's next step, as its hook reports it."""
        if event == "before_launch":
            block, position = int(facts["block"]), int(facts["position"])
            is_warming = block == WARMING_BLOCK and position == 0
            again = self._n_warming if is_warming else 0
            self._n_warming += is_warming
            heat = int(facts["heat"]) if facts.get("heat") else None
            self._try = Try(block, position, int(facts["attempt"]), again=again, heat=heat)
        elif event in ("before_window", "after_window"):
            is_inside = event == "before_window"
            self._try = replace(
                self._try,
                window=int(facts["window"]) if is_inside else None,
                window_attempt=int(facts["window_attempt"]) if is_inside else None,
            )
            if self._running is not None:
                self._begin_stretch(self._running)

    @contextmanager
    def running(self, layout: Layout, environment: Mapping[str, str]) -> Iterator[RunningLayout]:  # noqa: ARG002
        """Run *layout* in simulated time."""
        service, clock = self.service, self.clock
        begins_s, n_looks = clock.monotonic_s(), 0
        while clock.monotonic_s() < begins_s + service.start_s:
            self._while_starting.check()
            n_looks += 1
            clock.sleep_until(begins_s + min(service.start_s, float(n_looks)))
        if self._fate.of("dies-at-start", self._try, layout):
            raise MeasurementError(f"{layout} died at start: exit code 1", hint="It was told to.")
        running = RunningLayout(
            layout, service, clock=clock, cores=self.cores, sample_sd=self.noise.sample_sd, host=self._host
        )
        self._running = running
        try:
            self._begin_stretch(running)
            yield running
        finally:
            running.end()
            self._running = None
            clock.sleep_until(clock.monotonic_s() + service.stop_s)

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[VirtualCounting]:  # noqa: ARG002
        """Count the items that the simulation finishes."""
        yield VirtualCounting(self.clock, lambda: self._running)

    def prepare(self) -> None:
        """Do nothing: no feeder is needed."""

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:  # noqa: ARG002
        """Do nothing: no feeder is needed."""
        yield

    def away(self) -> str:
        """Return no reason: the source is simulated."""
        return ""

    def rest(self) -> None:
        """Do nothing: nothing is sent."""

    def is_dry(self) -> bool:
        """Return whether a simulated trouble makes the source dry."""
        return self._running is not None and self._running.is_within("dry")

    def problem(self) -> str:
        """Return no problem: nothing is fed."""
        return ""

    def pids(self) -> frozenset[int]:
        """Return no process: the feeder is simulated."""
        return frozenset()

    def requests(self) -> None:
        """Return None: there are no requests."""

    @property
    def pace(self) -> None:
        """None: the pace does not change."""

    @property
    def can_pause(self) -> bool:
        """True: during a pause no item makes progress."""
        return True

    def pause(self) -> None:
        """Stop the supply of the running layout."""
        self._fed_layout().stop_by("not fed")

    def resume(self) -> None:
        """Start the supply again."""
        self._fed_layout().go_on_from("not fed")

    def _fed_layout(self) -> RunningLayout:
        if self._running is None:
            raise ValueError("nothing is fed")
        return self._running

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:  # the port's signature
        """Do nothing: the workers fetch the items themselves."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Raise NotImplementedError: the feeder has no rate."""
        raise NotImplementedError

    def idle_fixed_work_cpu_s(self) -> float | None:
        """Return None: a simulated host has no speed to measure."""
        return None

    @contextmanager
    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> Iterator[VirtualWatch]:  # noqa: ARG002
        """Yield the sampler of the simulated load and CPU."""
        assert self._running is not None
        yield VirtualWatch(self.clock, self._running)

    def _begin_stretch(self, running: RunningLayout) -> None:
        """Draw the random properties of the window that begins, or of the time after one."""
        layout, noise = running.layout, self.noise
        launch, window = (key(self._stream, layout) for key in (self._try.launch_key, self._try.window_key))
        log_factor = self._drift_of_launch() + noise.launch_sd * Random(f"{launch}/launch").gauss(0, 1)
        if self._try.window is not None:
            log_factor += noise.window_sd * Random(f"{window}/window").gauss(0, 1)
        troubles = self._fate.of_stretch(self._try, layout)
        running.begin_stretch(exp(log_factor), Random(f"{window}/samples"), troubles)

    def _drift_of_launch(self) -> float:
        """Return the drift of this launch; it depends on the launch, not on time, so interruptions do not
        change it.
        """
        place = self._try.position if self._try.heat is None else self._try.heat
        ordinal = max(0, self._try.block * self.service.n_layouts + place)
        keeps = self.noise.drift_ar1
        while len(self._drift) <= ordinal:
            step = Random(f"{self._stream}/drift/{len(self._drift)}").gauss(0, 1)
            before = self._drift[-1] if self._drift else None
            self._drift.append(step if before is None else keeps * before + sqrt(1 - keeps**2) * step)
        return self.noise.drift_sd * self._drift[ordinal]
