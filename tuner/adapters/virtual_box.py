"""A simulated box behind the same ports as a real one: for tests, dry runs and teaching.

Time is its own and costs nothing. What a launch or window gives follows from the seed and from which cell
and try it is, never from when it is taken or what came before: a study that was cut off and resumed sees
the same windows as one that was not. The box learns which cell it runs from the study's hooks; the user's
own commands do not run on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import exp, sqrt
from random import Random
from typing import Any, Literal

from tuner.core.errors import MeasurementError
from tuner.core.layout import Layout
from tuner.core.records import StudyRecord
from tuner.core.window import Reading, Sample, Usage, VoidReason
from tuner.ports import Box, Launch, Store

_LOAD_EVERY_S = 5.0  #: the kernel's LOAD_FREQ
_LOAD_KEEPS = tuple(exp(-_LOAD_EVERY_S / 60.0 / minutes) for minutes in (1, 5, 15))
_QUIET_CORES = 0.02  #: what a box runs beside a study
_TUNER_CORES = 0.002
_PID = 1000
STOP_S = 0.25  #: until a layout is gone

Kind = Literal[
    "dies-at-start",
    "dies-warming",
    "late-threads",  # they appear *after_s* after RUNNING
    "dies",
    "wrong-threads",
    "foreign-cpu",
    "dry",
    "clock-jump",
]
_OF_A_LAUNCH: tuple[Kind, ...] = ("dies-at-start", "dies-warming", "late-threads")


@dataclass(frozen=True, slots=True)
class VirtualService:
    """What is true of a service on this box, noise apart."""

    items_per_s: Mapping[Layout, float]  #: throughput, settled
    n_active: Mapping[Layout, float] = field(default_factory=dict)  #: default: as many threads as find a core
    cpu_s_per_item: float = 0.1
    pss_bytes_per_process: int = 60_000_000
    start_s: float = 0.5  #: until RUNNING
    settle_s: float = 8.0  #: throughput rises for so long after RUNNING
    stop_s: float = STOP_S


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of log throughput."""

    window_sd: float = 0.05  #: each window
    launch_sd: float = 0.015  #: drawn once per launch, shared by its windows
    drift_sd: float = 0.0  #: of the box, alike for every layout: a stationary AR(1) over the launches
    drift_ar1: float = 0.95  #: correlation from one launch to the next
    sample_sd: float = 0.1  #: each second


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that goes wrong in every launch or window that it matches; None matches all."""

    kind: Kind
    layout: Layout | None = None
    block: int | None = None
    attempt: int | None = None  #: of the launch
    window: int | None = None
    window_attempt: int | None = None
    after_s: float = 2.0  #: since RUNNING, or since the window began
    lasts_s: float = 3.0  #: foreign CPU, dry source
    size: float = 1.0  #: foreign CPU in times the box's cores; clock jump in hours


def virtual_study(service: VirtualService, **asked: Any) -> StudyRecord:
    """A study of all layouts of *service*; *asked* are the fields of StudyRecord that shall differ."""
    usual: dict[str, Any] = {
        "service": "virtual",
        "strategy": "all",
        "layouts": tuple(service.items_per_s),
        "cores": 24,
        "box_cores": 24.0,
        "window_s": 600.0,
        "warmup_s": None,
        "n_blocks": 3,
        "windows_per_launch": 1,
        "seed": 1,
        "budget_s": None,
        "created_wall_s": 1_000_000_000.0,
        "config": "{}",
    }
    return StudyRecord(**{**usual, **asked})


class VirtualClock:
    """Time that passes only by sleeping."""

    def __init__(self, wall_s: float = 1_000_000_000.0, monotonic_s: float = 1000.0) -> None:
        self._wall_s = wall_s - monotonic_s
        self._now_s = monotonic_s

    def monotonic_s(self) -> float:
        """The time of the simulation."""
        return self._now_s

    def wall_s(self) -> float:
        """The same, as the box's clock shows it."""
        return self._wall_s + self._now_s

    def sleep_until(self, at_s: float) -> None:
        """Let time pass, at once."""
        self._now_s = max(self._now_s, at_s)

    @classmethod
    def resumed(cls, store: Store) -> VirtualClock:
        """The time at which the study in *store* was cut off or ended; of a new one, when it was created."""
        launches = store.launches()
        if not launches:
            return cls(store.study().created_wall_s)
        launch_id, last = launches[-1]
        windows = [window for window in store.windows() if window.launch_id == launch_id]
        if last.ended_wall_s is not None:
            return cls(last.ended_wall_s)
        if not windows:
            return cls(last.started_wall_s)
        return cls(windows[-1].started_wall_s + windows[-1].length_s + STOP_S)

    def jump_wall(self, by_s: float) -> None:
        """Somebody sets the clock."""
        self._wall_s += by_s


@dataclass(frozen=True, slots=True)
class _Try:
    """Which launch and window the study says it makes."""

    block: int = 0
    position: int = 0
    attempt: int = 1
    window: int | None = None
    window_attempt: int | None = None


class VirtualBox:
    """Launcher, probe, feeder, sampler and hooks of one simulated box; ``box()`` hands them to a study."""

    def __init__(
        self,
        service: VirtualService,
        noise: Noise = Noise(),
        *,
        seed: int = 0,
        cores: int = 24,
        name: str = "virtual-box",
        clock: VirtualClock | None = None,
        troubles: Sequence[Trouble] = (),
        risks: Mapping[Kind, float] | None = None,
    ) -> None:
        """*troubles* happen as told, *risks* are probabilities per launch or window of everything else."""
        self.service, self.noise, self.cores, self.name = service, noise, cores, name
        self.clock = clock or VirtualClock()
        self._seed = seed
        self._troubles = tuple(troubles)
        self._risks = dict(risks or {})
        self._try = _Try()
        self._running: _RunningLayout | None = None
        self._drift: list[float] = []

    def box(self) -> Box:
        """All of it, as a study takes it."""
        return Box(self.name, self.clock, self, self, self, self, self)

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        """Hear from the study what it is about to do."""
        if event == "before_launch":
            self._try = _Try(int(facts["block"]), int(facts["position"]), int(facts["attempt"]))
        elif event in ("before_window", "after_window"):
            launch = self._try.block, self._try.position, self._try.attempt
            window = (int(facts["window"]), int(facts["window_attempt"])) if event == "before_window" else ()
            self._try = _Try(*launch, *window)
            if self._running is not None:
                self._begin_stretch(self._running)

    @contextmanager
    def running(self, layout: Layout, environment: Mapping[str, str]) -> Iterator[_RunningLayout]:  # noqa: ARG002
        """Run *layout* in virtual time."""
        service, clock = self.service, self.clock
        clock.sleep_until(clock.monotonic_s() + service.start_s)
        if self._trouble("dies-at-start", layout):
            raise MeasurementError(f"{layout} died at start: exit code 1", hint="It was told to.")
        running = _RunningLayout(self, layout, service.start_s)
        self._running = running
        try:
            self._begin_stretch(running)
            yield running
        finally:
            running.end()
            self._running = None
            clock.sleep_until(clock.monotonic_s() + service.stop_s)

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[_VirtualCounting]:  # noqa: ARG002
        """Count what the simulation finishes."""
        yield _VirtualCounting(self)

    def prepare(self) -> None:
        """Nothing needs to be fed."""

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:  # noqa: ARG002
        """Nothing needs to be fed."""
        yield

    def is_dry(self) -> bool:
        """Whether a trouble says so."""
        return self._running is not None and self._running.is_within("dry")

    def pids(self) -> frozenset[int]:
        """The virtual feeder has no process."""
        return frozenset()

    @contextmanager
    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> Iterator[_VirtualWatch]:  # noqa: ARG002
        """See the simulated load and CPU."""
        assert self._running is not None
        yield _VirtualWatch(self, self._running)

    def _begin_stretch(self, running: _RunningLayout) -> None:
        """A window begins or ends: draw what it is like."""
        launch, noise = self._key(running.layout), self.noise
        window = f"{launch}/{self._try.window}/{self._try.window_attempt}"
        in_window = self._try.window is not None
        log_factor = self._drift_of_launch() + noise.launch_sd * Random(f"{launch}/launch").gauss(0, 1)
        if in_window:
            log_factor += noise.window_sd * Random(f"{window}/window").gauss(0, 1)
        kinds: tuple[Kind, ...] = ("dies-warming", "late-threads")
        if in_window:
            kinds = ("dies", "wrong-threads", "foreign-cpu", "dry", "clock-jump")
        troubles = [self._trouble(kind, running.layout) for kind in kinds]
        running.begin_stretch(exp(log_factor), Random(f"{window}/samples"), [t for t in troubles if t])

    def _trouble(self, kind: Kind, layout: Layout) -> Trouble | None:
        now = self._try
        for trouble in self._troubles:
            if trouble.kind == kind and all(
                wanted is None or wanted == seen
                for wanted, seen in (
                    (trouble.layout, layout),
                    (trouble.block, now.block),
                    (trouble.attempt, now.attempt),
                    (trouble.window, now.window),
                    (trouble.window_attempt, now.window_attempt),
                )
            ):
                return trouble
        window = "" if kind in _OF_A_LAUNCH else f"/{now.window}/{now.window_attempt}"
        drawn = Random(f"{self._key(layout)}{window}/{kind}").random() if kind in self._risks else 1.0
        return Trouble(kind) if drawn < self._risks.get(kind, 0.0) else None

    def _key(self, layout: Layout) -> str:
        now = self._try
        return f"{self._seed}/{self.name}/{now.block}/{now.position}/{layout}/{now.attempt}"

    def _drift_of_launch(self) -> float:
        """Over launches, not over time: a study that lost time to a cut meets the same drift."""
        ordinal = max(0, self._try.block * len(self.service.items_per_s) + self._try.position)
        keeps = self.noise.drift_ar1
        while len(self._drift) <= ordinal:
            step = Random(f"{self._seed}/{self.name}/drift/{len(self._drift)}").gauss(0, 1)
            before = self._drift[-1] if self._drift else None
            self._drift.append(step if before is None else keeps * before + sqrt(1 - keeps**2) * step)
        return self.noise.drift_sd * self._drift[ordinal]


class _LoadAverage:
    """The kernel's load averages. A launch meets an idle box: what ran before must not matter, see above."""

    def __init__(self, now_s: float) -> None:
        self.values = [0.0, 0.0, 0.0]
        self._next_s = now_s + _LOAD_EVERY_S

    def advance(self, now_s: float, n_active: int) -> None:
        while self._next_s <= now_s:
            self._next_s += _LOAD_EVERY_S
            self.values = [
                keeps * value + (1 - keeps) * n_active
                for keeps, value in zip(_LOAD_KEEPS, self.values, strict=True)
            ]


class _RunningLayout:
    """A launch on the virtual box: the Launch port, and the state of the simulation."""

    def __init__(self, box: VirtualBox, layout: Layout, running_after_s: float) -> None:
        self._box = box
        self.layout = layout
        self.running_after_s = running_after_s
        self._rate = box.service.items_per_s[layout]
        self._n_active_mean = box.service.n_active.get(layout, float(min(layout.total_threads, box.cores)))
        self._began_s = self._stretch_s = self._until_s = box.clock.monotonic_s()
        self._factor, self._random = 1.0, Random(0)
        self._troubles: dict[Kind, Trouble] = {}
        self._problems: dict[str, VoidReason] = {}
        self._n_done_before = (
            0  # the stretch; whole items, so that a window's count does not hang on what came before
        )
        self._n_done = 0.0
        self.load = _LoadAverage(self._began_s)
        self.service_cpu_s = self.foreign_cpu_s = self.tuner_cpu_s = 0.0
        self.n_active = 0
        self._has_ended = False

    @property
    def n_done(self) -> int:
        """Items finished since the launch."""
        return self._n_done_before + int(self._n_done)

    def worker_pids(self) -> frozenset[int]:
        if self._has_ended:
            return frozenset()
        alive = self.layout.processes - ("worker-died" in self._problems)
        return frozenset(range(_PID, _PID + alive))

    def overhead_pids(self) -> frozenset[int]:
        return frozenset()

    def problems(self, *, threads: bool = True) -> Sequence[VoidReason]:
        self.advance()
        late = self._troubles.get("late-threads")
        if threads and late is not None and self._until_s - self._began_s < late.after_s:
            self._wrong_threads(1)
        found = self._problems.values()
        return [reason for reason in found if threads or reason.slug != "wrong-layout"]

    def end(self) -> None:
        """Stop what runs."""
        self._has_ended = True

    def begin_stretch(self, factor: float, random: Random, troubles: Sequence[Trouble]) -> None:
        self.advance()
        self._factor, self._random = factor, random
        self._stretch_s = self._until_s
        self._n_done_before, self._n_done = self.n_done, 0.0
        self._troubles = {trouble.kind: trouble for trouble in troubles}

    def is_within(self, kind: Kind) -> bool:
        """Whether a trouble of some duration is on now."""
        trouble = self._troubles.get(kind)
        if trouble is None:
            return False
        since_s = self._box.clock.monotonic_s() - self._stretch_s - trouble.after_s
        return 0 <= since_s < trouble.lasts_s

    def advance(self) -> None:
        """Bring the simulation up to now."""
        box = self._box
        now_s = box.clock.monotonic_s()
        elapsed_s = now_s - self._until_s
        if elapsed_s <= 0:
            return
        self._until_s = now_s
        service = box.service
        settling = (now_s - self._began_s) / service.settle_s if service.settle_s else 1.0
        noise = max(0.0, 1.0 + box.noise.sample_sd / sqrt(elapsed_s) * self._random.gauss(0, 1))
        items = self._rate * self._factor * min(1.0, settling) * noise * elapsed_s
        mean = self._n_active_mean
        self.n_active = int(mean) + (self._random.random() < mean % 1)
        self._n_done += items
        self.service_cpu_s += items * service.cpu_s_per_item
        self.tuner_cpu_s += elapsed_s * _TUNER_CORES
        self.foreign_cpu_s += elapsed_s * _QUIET_CORES
        if self._troubles:
            self._suffer(now_s, elapsed_s)
        self.load.advance(now_s, self.n_active)

    def _suffer(self, now_s: float, elapsed_s: float) -> None:
        in_s = now_s - self._stretch_s
        if self.is_within("foreign-cpu"):
            self.foreign_cpu_s += elapsed_s * self._troubles["foreign-cpu"].size * self._box.cores
        for kind in ("dies", "dies-warming"):
            if kind in self._troubles and in_s >= self._troubles[kind].after_s:
                self._problems["died"] = VoidReason(
                    "worker-died", f"process 0 (pid {_PID}) exited with code 1"
                )
        if "wrong-threads" in self._troubles and in_s >= self._troubles["wrong-threads"].after_s:
            self._wrong_threads(self.layout.threads + 3)
        jump = self._troubles.get("clock-jump")
        if jump is not None and in_s >= jump.after_s:
            self._box.clock.jump_wall(3600 * jump.size)
            del self._troubles["clock-jump"]

    def _wrong_threads(self, n_threads: int) -> None:
        detail = f"process 0 has {n_threads} threads, {self.layout.threads} were asked for"
        self._problems.setdefault("threads", VoidReason("wrong-layout", detail))


class _VirtualCounting:
    """The probe of one launch."""

    environment: Mapping[str, str] = {}

    def __init__(self, box: VirtualBox) -> None:
        self._box = box

    def read(self) -> Reading:
        running, now_s = self._box._running, self._box.clock.monotonic_s()
        if running is None:
            return Reading(now_s, 0, 0)
        running.advance()
        cpu_ns = int(running.service_cpu_s * 1e9)
        return Reading(now_s, running.n_done, 0, cpu_ns, 0, 0, running.layout.total_threads)


class _VirtualWatch:
    """The sampler of one launch."""

    def __init__(self, box: VirtualBox, running: _RunningLayout) -> None:
        self._box, self._running = box, running

    def sample(self, reading: Reading) -> Sample:
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

    def usage(self, *, closing: bool = False) -> Usage:
        running, box = self._running, self._box
        running.advance()
        layout = running.layout
        own_s = running.service_cpu_s + running.tuner_cpu_s
        return Usage(
            at_s=box.clock.monotonic_s(),
            wall_s=box.clock.wall_s(),
            service_cpu_s_total=running.service_cpu_s,
            tuner_cpu_s_total=running.tuner_cpu_s,
            backend_cpu_s_total=0.0,
            box_cpu_s_total=own_s + running.foreign_cpu_s,
            steal_s_total=0.0,
            n_context_switches_total=running.n_done * 40,
            pss_bytes=layout.processes * box.service.pss_bytes_per_process if closing else None,
            n_processes=len(running.worker_pids()),
            n_threads=layout.total_threads,
            cpu_pressure_s_total=None,
            memory_pressure_s_total=None,
            io_pressure_s_total=None,
        )
