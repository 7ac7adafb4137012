"""What probe and sampler see of a layout that runs on a virtual box."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tuner.adapters.virtual.clock import VirtualClock
from tuner.adapters.virtual.launch import RunningLayout
from tuner.core.domain.window import Reading, Sample, Usage


class VirtualCounting:
    """The probe of one launch; *running* gives the layout once there is one."""

    environment: Mapping[str, str] = {}

    def __init__(self, clock: VirtualClock, running: Callable[[], RunningLayout | None]) -> None:
        self._clock, self._running = clock, running

    def pids(self) -> frozenset[int]:
        """The virtual probe has no process."""
        return frozenset()

    def read(self) -> Reading:
        """The counts up to now."""
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
        """What the profile says is in the study's facts already."""
        return None

    def n_interpreters(self) -> int:
        """There is none to be seen."""
        return 1

    def sample(self, reading: Reading) -> Sample:
        """The simulated load and active count."""
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
        """The simulated CPU and memory."""
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
            pss_bytes=int(truth.pss_bytes) if closing else None,
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
        )
