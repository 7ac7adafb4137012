"""The number of clients that loads a service fully: doubled until throughput stops rising."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from tuner.core.domain.layout import Layout
from tuner.core.domain.load import (
    MOST_CLIENTS,
    ClientSearchResult,
    TriedClients,
    choose,
    first_clients,
    hardest_to_load,
    has_risen,
)
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord
from tuner.core.domain.requests import Requests
from tuner.core.errors import MeasurementError
from tuner.core.text.figures import per_second
from tuner.ports import Box, Feeder, Launch
from tuner.study.launch.outcome import around_hooks

LOOK_S = 4.0  #: shortest measurement of one number of clients
ENOUGH = 200  #: answers per measurement; where answers are rare, the measurement is longer ...
LONGEST_LOOK_S = 12.0  #: ... up to this limit
_LONGEST_SETTLING_S = 20.0  #: longest wait until each client has had an answer
_STEP_S = 0.2
_PATIENCE_RATIO = 0.25  #: longest queueing time of a request, as a share of the time after which it fails
_MANY_FAILED_RATIO = 0.01


class LoadingFeeder(Feeder, Protocol):
    """A feeder that sends requests in a closed loop, by an adjustable number of clients."""

    @property
    def lacks_clients(self) -> bool:
        """Whether the feeder has a closed loop whose number of clients is not set."""

    @property
    def timeout_s(self) -> float:
        """Seconds without an answer after which a request has failed."""

    def use_clients(self, n_clients: int) -> None:
        """Send by *n_clients* from the next launch on."""


@dataclass(slots=True)
class _ClientSearch:
    """A search for the number of clients while a layout runs."""

    box: Box
    feeder: LoadingFeeder
    launch: Launch
    layout: Layout
    stop_requested: Callable[[], bool]
    tried: list[TriedClients] = field(default_factory=list)

    def found(self, n_clients: int) -> ClientSearchResult | None:
        """Double *n_clients* until throughput stops rising; return the result, None: a stop was requested."""
        why = ""
        while has_risen(self.tried):
            if n_clients > MOST_CLIENTS and self.tried:
                why = f"{MOST_CLIENTS} clients are the most that is tried"
                break
            if self.tried and (waits_s := n_clients / self.tried[-1].per_s) > self._longest_s:
                why = f"with {n_clients} clients requests would wait {waits_s:.0f} s, too near their timeout"
                break
            seen = self._look(n_clients)
            if self.stop_requested():
                return None
            if isinstance(seen, str):
                if not self.tried:
                    raise MeasurementError(f"{self.layout}: {seen}")
                why = seen
                break
            self.tried.append(seen)
            if not has_risen(self.tried):  # another process may have disturbed it: measure once more
                again = self._look(n_clients)
                if not isinstance(again, str) and again.per_s > seen.per_s:
                    self.tried[-1] = again
            n_clients *= 2
        return ClientSearchResult(
            choose(self.tried), str(self.layout), tuple(self.tried), saturates=not why, why=why
        )

    @property
    def _longest_s(self) -> float:
        return _PATIENCE_RATIO * self.feeder.timeout_s

    def _look(self, n_clients: int) -> TriedClients | str:
        """Measure the throughput with *n_clients*; a text: the problem with this number."""
        self.feeder.use_clients(n_clients)
        with self.feeder.feeding(self.layout):
            before, _ = self._until(
                lambda seen, _: seen.latencies.n_recorded > 2 * n_clients, _LONGEST_SETTLING_S
            )
            after, took_s = self._until(
                lambda seen, took_s: (
                    took_s >= LOOK_S and seen.latencies.n_recorded - before.latencies.n_recorded >= ENOUGH
                ),
                LONGEST_LOOK_S,
            )
            problem = "" if after.latencies.n_recorded else self.feeder.problem()
        seen = after.since(before)
        if seen.n_failed > _MANY_FAILED_RATIO * seen.n_total:
            return f"with {n_clients} clients {seen.n_failed} of {seen.n_total} requests failed"
        if not seen.latencies.n_recorded:
            why = f": {problem}" if problem else ""
            return f"with {n_clients} clients no request was answered in {took_s:.0f} s{why}"
        return TriedClients(n_clients, seen.latencies.n_recorded / took_s)

    def _until(
        self, is_enough: Callable[[Requests, float], bool], longest_s: float
    ) -> tuple[Requests, float]:
        """Return the requests, and the elapsed seconds, once *is_enough* holds or *longest_s* have passed."""
        clock, feeder = self.box.clock, self.feeder
        began_s = clock.monotonic_s()
        while True:
            clock.sleep_until(clock.monotonic_s() + _STEP_S)
            feeder.follow(self.launch.worker_pids)
            if problems := self.launch.problems(threads=False):
                raise MeasurementError(f"{self.layout}: {problems[0].slug}: {problems[0].detail}")
            if feeder.is_dry():
                raise MeasurementError(f"{self.layout}: the load generator has ended")
            seen, took_s = feeder.requests() or Requests(), clock.monotonic_s() - began_s
            if is_enough(seen, took_s) or took_s >= longest_s or self.stop_requested():
                return seen, took_s


def find_clients(
    box: Box,
    feeder: LoadingFeeder,
    study: StudyRecord,
    warn: Callable[[str, str], None],
    stop_requested: Callable[[], bool],
) -> ClientSearchResult | None:
    """Launch the layout that is hardest to load, and double the clients until throughput stops rising.

    Returns None if a stop was requested.

    Raises:
        MeasurementError: the layout does not run, or answers no request.
    """
    layout = hardest_to_load(study.layouts)
    with ExitStack() as stack:
        facts = _facts(study, box.name, layout)
        for what in ("study", "launch"):  # a hook of either may start a backend of the service
            stack.enter_context(around_hooks(box.hooks, warn, what, facts))
        environment: dict[str, str] = {}
        probes = [box.probe] if box.cross_check is None else [box.probe, box.cross_check.probe]
        for probe in probes:
            environment |= stack.enter_context(probe.counting(layout)).environment
        launch = stack.enter_context(box.launcher.running(layout, environment))
        search = _ClientSearch(box, feeder, launch, layout, stop_requested)
        return search.found(first_clients(study.layouts))


def describe_search(found: ClientSearchResult) -> str:
    """Return *found* as a sentence."""
    tried = ", ".join(f"{one.clients}: {per_second(one.per_s)}" for one in found.tried)
    ending = "more bring nothing" if found.saturates else found.why
    return f"{found.clients} clients load every layout ({found.layout} with {tried}; {ending})"


def _facts(study: StudyRecord, box: str, layout: Layout) -> Mapping[str, str]:
    return {
        "service": study.service,
        "box": box,
        "layout": str(layout),
        "processes": str(layout.processes),
        "threads": str(layout.threads),
        "variant": layout.variant,
        "block": str(WARMING_BLOCK),
        "position": "0",
        "attempt": "1",
    }
