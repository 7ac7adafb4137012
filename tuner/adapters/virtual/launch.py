"""Layout that runs on a simulated host: items, CPU and load, second by second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, floor, sqrt
from random import Random

from tuner.adapters.clock import VirtualClock
from tuner.adapters.virtual.service import Service
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import LoadAverage, VoidReason
from tuner.core.messages import invalid
from tuner.core.model.profile import Failure

# Troubles of a simulated host: at set places, or at random, which depends only on the seed.

Kind = Failure
_OF_A_LAUNCH: tuple[Kind, ...] = ("dies-at-start", "dies-warming", "late-threads")
_WARMING_UP: tuple[Kind, ...] = ("dies-warming", "late-threads")
_BEGINS_S, _LASTS_S = (2.0, 60.0), (120.0, 240.0)
_IN_A_WINDOW: tuple[Kind, ...] = ("dies", "wrong-threads", "foreign-cpu", "dry", "clock-jump")


@dataclass(frozen=True, slots=True)
class Trouble:
    """A trouble that occurs in every launch or window that it matches; None matches all."""

    kind: Kind
    layout: Layout | None = None
    block: int | None = None
    attempt: int | None = None  #: attempt of the launch
    window: int | None = None
    window_attempt: int | None = None
    after_s: float = 2.0  #: time since RUNNING, or since the start of the window
    lasts_s: float = 3.0  #: duration of other processes' work, or of an empty source
    size: float = 1.0  #: other processes' CPU as a multiple of the host's cores; clock jump in hours


@dataclass(frozen=True, slots=True)
class Try:
    """Launch and window that the study makes."""

    block: int = 0
    position: int = 0
    attempt: int = 1
    window: int | None = None
    window_attempt: int | None = None
    heat: int | None = None  #: number of its heat in the block; None: it runs alone
    #: number of earlier launches with the same values; only launches that warm the cache have any
    again: int = 0

    def launch_key(self, stream: str, layout: Layout) -> str:
        """Return the name of the random streams of this launch; *stream* is that of its host."""
        again = f"/{self.again} before" if self.again else ""
        return f"{stream}/{self.block}/{self.position}/{layout}/{self.attempt}{again}"

    def window_key(self, stream: str, layout: Layout) -> str:
        """Return the same name for this window, or for the warm-up."""
        return f"{self.launch_key(stream, layout)}/{self.window}/{self.window_attempt}"


@dataclass(frozen=True, slots=True)
class Fate:
    """Choice of troubles: *troubles* occur at set places, *risks* are probabilities per launch or window."""

    stream: str  #: name of the host's random streams
    troubles: Sequence[Trouble]
    risks: Mapping[Kind, float]
    #: whether random troubles have random start times (in the first minute) and durations
    varied: bool = False

    def of_stretch(self, now: Try, layout: Layout) -> list[Trouble]:
        """Return the troubles of this window or warm-up."""
        kinds = _WARMING_UP if now.window is None else _IN_A_WINDOW
        return [trouble for kind in kinds if (trouble := self.of(kind, now, layout)) is not None]

    def of(self, kind: Kind, now: Try, layout: Layout) -> Trouble | None:
        """Return the trouble of *kind* that occurs now; None: there is none."""
        for trouble in self.troubles:
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
        if kind not in self.risks:
            return None
        key = (now.launch_key if kind in _OF_A_LAUNCH else now.window_key)(self.stream, layout)
        random = Random(f"{key}/{kind}")
        if random.random() >= self.risks[kind]:
            return None
        if not self.varied:
            return Trouble(kind)
        return Trouble(kind, after_s=random.uniform(*_BEGINS_S), lasts_s=random.uniform(*_LASTS_S))


_QUIET_CORES = 0.02  #: CPU use of a host without a study, in cores
_TUNER_CORES = 0.002
_PID = 5_000_000  #: pid of the first worker; larger than any real pid
_WIDE = 0.3  #: largest relative deviation for a normal distribution; a wider one would often be negative


class RunningLayout:
    """The Launch port, and the state of the simulation.

    It passes through stretches, each a warm-up or a window, with separate random noise and troubles.
    """

    def __init__(
        self,
        layout: Layout,
        service: Service,
        *,
        clock: VirtualClock,
        cores: int,
        sample_sd: float,
        host: HostNoise | None = None,
    ) -> None:
        self.layout, self.running_after_s = layout, service.start_s
        self.truth = service.truth(layout, cores)
        self._settle_s, self._clock, self._cores = service.settle_s, clock, cores
        self._host = host
        self._sample_sd = sample_sd if self.truth.second_sd is None else self.truth.second_sd
        self._began_s = self._stretch_s = self._until_s = clock.monotonic_s()
        self._factor, self._random = 1.0, Random(0)
        self._troubles: dict[Kind, Trouble] = {}
        self._problems: dict[str, VoidReason] = {}
        self._n_done_before = (
            0  # of this stretch; whole items, so that a window's count does not depend on earlier ones
        )
        self._n_done = 0.0
        self.load = LoadAverage(self._began_s, was_idle=True)
        self.busy_s = 0.0  #: time weighted with the layout's activity, relative to the steady state
        self.foreign_cpu_s = self.tuner_cpu_s = 0.0
        self.n_active = 0
        self._has_ended = False
        self._stopped: set[str] = set()  #: causes why it is idle at the moment: frozen, not fed

    @property
    def n_done(self) -> int:
        """Number of items finished since the launch."""
        return self._n_done_before + int(self._n_done)

    @property
    def pss_bytes(self) -> int:
        """Present memory in bytes."""
        return int(
            self.truth.pss_bytes
            + self.truth.leak_bytes_per_s * self.truth.aged_s(self._until_s - self._began_s)
        )

    @property
    def shape(self) -> Layout:
        """The layout."""
        return self.layout

    def worker_pids(self) -> frozenset[int]:
        """Return invented pids, one per process."""
        if self._has_ended:
            return frozenset()
        alive = self.layout.processes - ("worker-died" in self._problems)
        return frozenset(range(_PID, _PID + alive))

    def overhead_pids(self) -> frozenset[int]:
        """Return no process: no supervisord runs."""
        return frozenset()

    def gil_module(self) -> str | None:
        """Return None: nothing is imported."""
        return None

    def clue(self) -> str:
        """Return no clue: there are no processes to inspect."""
        return ""

    def freeze(self) -> None:
        """Stop the progress of all items until `thaw`."""
        self.stop_by("frozen")

    def thaw(self) -> None:
        """Let items make progress again."""
        self.go_on_from("frozen")

    def stop_by(self, why: str) -> None:
        """Be idle from now on, because of *why*."""
        self.advance()
        self._stopped.add(why)

    def go_on_from(self, why: str) -> None:
        """Be as busy as before, unless there is another reason to be idle."""
        self.advance()
        self._stopped.discard(why)

    def problems(self, *, threads: bool = True) -> Sequence[VoidReason]:
        """Return the reasons that make the window invalid, by the troubles so far."""
        self.advance()
        late = self._troubles.get("late-threads")
        if threads and late is not None and self._until_s - self._began_s < late.after_s:
            self._wrong_threads(1)
        found = self._problems.values()
        return [reason for reason in found if threads or reason.slug != "wrong-layout"]

    def end(self) -> None:
        """Stop the layout."""
        self._has_ended = True

    def begin_stretch(self, factor: float, random: Random, troubles: Sequence[Trouble]) -> None:
        """Begin a stretch in which throughput is *factor* times the service's, with noise from *random*."""
        self.advance()
        self._factor, self._random = factor, random
        self._stretch_s = self._until_s
        self._n_done_before, self._n_done = self.n_done, 0.0
        self._troubles = {trouble.kind: trouble for trouble in troubles}

    def is_within(self, kind: Kind) -> bool:
        """Return whether a trouble of *kind* with a duration is active."""
        trouble = self._troubles.get(kind)
        if trouble is None:
            return False
        since_s = self._clock.monotonic_s() - self._stretch_s - trouble.after_s
        return 0 <= since_s < trouble.lasts_s

    def advance(self) -> None:
        """Advance the simulation to the present."""
        now_s = self._clock.monotonic_s()
        elapsed_s = now_s - self._until_s
        if elapsed_s <= 0:
            return
        self._until_s = now_s
        if self._stopped:
            self._idle(now_s, elapsed_s)
            return
        truth = self.truth
        settled = (now_s - self._began_s) / self._settle_s if self._settle_s else 1.0
        busy_s = elapsed_s * min(1.0, settled)
        speed = self._factor
        if self._host is not None:
            wall_s = self._clock.wall_s()
            speed *= self._host.mean_speed(wall_s - elapsed_s, wall_s)
        if truth.trend_per_h:
            speed *= exp(truth.trend_per_h * truth.aged_s(now_s - self._began_s - elapsed_s / 2) / 3600)
        self._n_done += truth.items_per_s * speed * busy_s * self._noise(elapsed_s)
        self.n_active = self._seen_active()
        self.busy_s += busy_s
        self.tuner_cpu_s += elapsed_s * _TUNER_CORES
        self.foreign_cpu_s += elapsed_s * _QUIET_CORES
        if self._troubles:
            self._suffer(now_s, elapsed_s)
        self.load.advance(now_s, self.n_active)

    def _idle(self, now_s: float, elapsed_s: float) -> None:
        """Let time pass without items; the warm-up stands still, too."""
        self._began_s += elapsed_s
        self.n_active = 0
        self.tuner_cpu_s += elapsed_s * _TUNER_CORES
        self.foreign_cpu_s += elapsed_s * _QUIET_CORES
        if self._troubles:
            self._suffer(now_s, elapsed_s)
        self.load.advance(now_s, self.n_active)

    def _noise(self, elapsed_s: float) -> float:
        """Return the random factor of *elapsed_s* seconds, 1 on average."""
        sd = self._sample_sd / sqrt(elapsed_s)
        if sd <= _WIDE:
            return max(0.0, 1.0 + sd * self._random.gauss(0, 1))
        return self._random.gammavariate(1 / sd**2, sd**2)

    def _seen_active(self) -> int:
        mean, swing = self.truth.n_active, self.truth.n_active_swing
        if swing:
            mean += swing * (2 * self._random.random() - 1)
        return int(mean) + (self._random.random() < mean % 1)

    def _suffer(self, now_s: float, elapsed_s: float) -> None:
        in_s = now_s - self._stretch_s
        if self.is_within("foreign-cpu"):
            self.foreign_cpu_s += elapsed_s * self._troubles["foreign-cpu"].size * self._cores
        for kind in ("dies", "dies-warming"):
            if kind in self._troubles and in_s >= self._troubles[kind].after_s:
                self._problems["died"] = invalid.worker_died(f"process 1 (pid {_PID})", "exit status 1")
        if "wrong-threads" in self._troubles and in_s >= self._troubles["wrong-threads"].after_s:
            self._wrong_threads(self.layout.threads + 3)
        jump = self._troubles.get("clock-jump")
        if jump is not None and in_s >= jump.after_s:
            self._clock.jump_wall(3600 * jump.size)
            del self._troubles["clock-jump"]

    def _wrong_threads(self, n_threads: int) -> None:
        wanted = self.layout.threads
        reason = invalid.wrong_threads(f"process 1 (pid {_PID})", n_threads, wanted, wanted)
        self._problems.setdefault("threads", reason)


# Noise of a simulated host from second to second, the same for all layouts.


@dataclass(slots=True)
class HostNoise:
    """Random speed of the host: its logarithm is an AR(1) process in steps of a second.

    The same stream gives the same speed at the same time, for any layout, so all layouts that are started at
    once share it.
    """

    sd: float  #: standard deviation of the logarithm
    lasts_s: float  #: correlation time
    stream: str  #: name of the random numbers
    began_wall_s: float  #: time of the first step
    _path: list[float] = field(default_factory=list)
    _random: Random | None = None

    def mean_speed(self, from_wall_s: float, to_wall_s: float) -> float:
        """Return the mean speed in a period, as a multiple of the usual speed."""
        if not self.sd or to_wall_s <= from_wall_s:
            return 1.0
        begin, end = from_wall_s - self.began_wall_s, to_wall_s - self.began_wall_s
        total, at_s = 0.0, begin
        while at_s < end:
            step = floor(at_s)
            until_s = min(end, step + 1.0)
            total += (until_s - at_s) * exp(self._at(step))
            at_s = until_s
        return total / (end - begin)

    def _at(self, step: int) -> float:
        if self._random is None:
            self._random = Random(f"{self.stream}/host")
        keeps = exp(-1.0 / self.lasts_s)
        while len(self._path) <= step:
            shock = self._random.gauss(0, self.sd)
            before = self._path[-1] if self._path else None
            self._path.append(shock if before is None else keeps * before + sqrt(1 - keeps**2) * shock)
        return self._path[max(0, step)]
