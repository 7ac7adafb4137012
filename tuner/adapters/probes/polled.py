"""Polling of an external count in a thread, so that a slow answer does not delay the study."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tuner.config.kinds import PORT_FIELD, PORT_VARIABLE
from tuner.core.domain.window import Reading
from tuner.core.errors import MeasurementError
from tuner.core.messages.service import count_restarted
from tuner.core.text.figures import LARGEST_COUNT, Segments, join_segments, pluralize
from tuner.core.text.safe_text import one_line
from tuner.ports import Clock, Warn

PATIENCE_S = 0.2  #: longest wait of a sample for the answer; the study samples once a second
MOST_FAILURES = 5  #: successive failures until the probe fails
#: the same before the first answer, because a service may not answer right after its start
MOST_FAILURES_AT_FIRST = 30
MOST_FALLS = 3  #: falls of one count within a launch, above which it cannot be a single total
MOST_SERIES = 10_000  #: series of a launch; those that have disappeared count as well


@dataclass(frozen=True, slots=True)
class Counts:
    """One answer: totals by series; the count is their sum."""

    done: Mapping[str, float]
    failed: Mapping[str, float] = field(default_factory=dict)
    at_s: float | None = None  #: time of the counts on the clock; None: some time during the request


class PolledCounting:
    """Counting of one launch by calls of *ask*, which implements ``tuner.ports.Counting``.

    Each ``read`` requests one call of *ask*, so *ask* runs once per sample, and never twice at a time. If an
    answer is late or fails, the sample is a gap: the last reading is returned again, with its own time.

    Args:
        ask: returns the counts now, within a separate time limit; MeasurementError if it cannot.
        name: name of the source in errors.
        failed_included: *done* contains the failed items, too.
        most_falls: times that a series may fall before it is rejected; 0 if restarts cannot explain a fall.
        environment: variables for the workers; None: the service needs none.
    """

    def __init__(
        self,
        clock: Clock,
        ask: Callable[[], Counts],
        name: str,
        warn: Warn,
        *,
        failed_included: bool = False,
        most_falls: int = MOST_FALLS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = environment or {}
        self._clock = clock
        self._ask = ask
        self._name = name
        self._warn = warn
        self._failed_included = failed_included
        self._most_falls = most_falls
        self._changed = threading.Condition()
        self._n_asked = self._n_answered = 0
        self._closed = False
        self._done, self._failed = Segments(), Segments()
        self._reading: Reading | None = None
        self._n_reported = 0  #: number of falls reported so far
        self._n_failures = 0
        self._problem = ""
        self._bug: Exception | None = None
        self._thread = threading.Thread(target=self._answer, name=f"probe {name}", daemon=True)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for the service; none if it always counts."""
        return self._environment

    def pids(self) -> frozenset[int]:
        """Return no process: tuner queries the source itself."""
        return frozenset()

    def start(self) -> None:
        """Start the thread; it queries nothing before the first ``read``."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; returns after the last answer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def read(self) -> Reading:
        """Return the latest answer, counted from the first one; before it 0, at the time of the first call.

        Raises:
            MeasurementError: too many failures in a row, or a count that keeps falling.
        """
        with self._changed:
            if self._reading is None:
                self._reading = Reading(self._clock.monotonic_s(), 0, 0)
            self._n_asked += 1
            wanted = self._n_asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._n_answered >= wanted, PATIENCE_S)
            if self._bug is not None:
                raise self._bug
            self._check()
            return replace(self._reading, problem=self._why_old(wanted))

    def _why_old(self, wanted: int) -> str:
        """Return why the latest counts are not from the last query; empty: they are."""
        if self._n_failures:
            return f"it did not get its count from {self._name}: {self._problem}"
        return "" if self._n_answered >= wanted else f"{self._name} has not answered yet"

    def _check(self) -> None:
        """Raise an error if the counts of this launch are unusable, and warn of counts that restarted."""
        most = MOST_FAILURES_AT_FIRST if self._done.latest is None else MOST_FAILURES
        if self._n_failures >= most:
            times = f"{self._n_failures} times in a row"
            raise MeasurementError(
                f"the probe did not get its count from {self._name} {times}: {self._problem}"
            )
        for series, n_falls in {**self._done.n_falls, **self._failed.n_falls}.items():
            if n_falls > self._most_falls:
                raise MeasurementError(
                    f"{one_line(series)} of {self._name} fell ({pluralize(n_falls, 'time')} in this launch):"
                    " it is not a total, or each answer comes from another process"
                )
        falls = (*self._done.falls, *self._failed.falls)
        for fall in falls[self._n_reported :]:
            self._warn(*count_restarted(self._name, one_line(fall.series), fall.before, fall.after))
        self._n_reported = len(falls)

    def _answer(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._n_asked > self._n_answered)
                if self._closed:
                    return
                asked = self._n_asked
            began_s = self._clock.monotonic_s()
            counts = problem = None
            try:
                counts = self._ask()
            except MeasurementError as error:
                problem = error.problem
            except Exception as error:  # the next `read` raises it, with its traceback
                self._bug = error
            at_s = (began_s + self._clock.monotonic_s()) / 2  # it was counted somewhere between
            if counts is not None and counts.at_s is not None:
                at_s = counts.at_s
            with self._changed:
                self._n_answered = asked
                try:
                    if counts is not None:
                        self._take(counts, at_s)
                except MeasurementError as error:
                    problem = error.problem
                if problem is not None:
                    self._n_failures, self._problem = self._n_failures + 1, one_line(problem)
                self._changed.notify_all()

    def _take(self, counts: Counts, at_s: float) -> None:
        """Store *counts* as the latest; MeasurementError, with nothing stored, if they are not valid."""
        assert self._reading is not None
        done, failed = _join(self._done, counts.done), _join(self._failed, counts.failed)
        self._n_failures = 0
        self._done, self._failed = done, failed
        n_failed = int(self._failed.total)
        n_done = int(self._done.total) - (n_failed if self._failed_included else 0)
        # the two are not counted at one moment: a failure in between must not make the count fall
        n_done = max(n_done, self._reading.n_done_total)
        self._reading = replace(self._reading, at_s=at_s, n_done_total=n_done, n_failed_total=n_failed)


def _join(before: Segments, counts: Mapping[str, float]) -> Segments:
    if any(not abs(count) <= LARGEST_COUNT for count in counts.values()):  # also true for NaN
        raise MeasurementError(f"a count is beyond {LARGEST_COUNT}: it cannot be one of items")
    if len(counts) > MOST_SERIES:
        raise MeasurementError(f"got {len(counts)} series; at most {MOST_SERIES} are supported")
    after = join_segments(before, counts)
    assert after.latest is not None
    if after.total > LARGEST_COUNT:
        raise MeasurementError(f"the sum of all counts is beyond {LARGEST_COUNT}: it cannot be one of items")
    if len(after.latest) > MOST_SERIES:
        raise MeasurementError(f"more than {MOST_SERIES} series came and went in this launch")
    return after


Polled = TypeVar("Polled", bound=PolledCounting)


@contextmanager
def polling(counting: Polled) -> Iterator[Polled]:
    """Run the polling thread of *counting* within the ``with`` block."""
    counting.start()
    try:
        yield counting
    finally:
        counting.close()


# Port reserved for one launch, at which the service offers its counts to the probe.


@contextmanager
def own_port(address: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield *address* with ``{TUNER_PROBE_PORT}`` filled in, and the variables for the service.

    Without the field, the address stays unchanged and there are no variables. The port is held within the
    block, so that no other program gets it by chance. A server that binds it by number with SO_REUSEADDR can
    listen.
    """
    if PORT_FIELD not in address:
        yield address, {}
        return
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
        yield address.replace(PORT_FIELD, port), {PORT_VARIABLE: port}
