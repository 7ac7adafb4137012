"""Probe that receives the statsd metrics of a service (gunicorn, uWSGI, or any client of statsd)."""

from __future__ import annotations

import re
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator

from tuner.config.kinds import FailedIncluded, ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.core.errors import MeasurementError
from tuner.core.messages.service import packets_lost, statsd_lines, statsd_names
from tuner.core.text.figures import LARGEST_COUNT
from tuner.core.text.safe_text import one_line
from tuner.core.text.statsd import Passed, StatsdTally
from tuner.ports import Clock

if TYPE_CHECKING:
    from tuner.config.settings import Settings

ADDRESS_VARIABLE = "TUNER_STATSD"  #: variable with HOST:PORT for the workers
_BUFFER_BYTES = 4 << 20  #: some thousand packets, because tuner may be busy for a second
_PACKET_BYTES = 65536
_MOST_AT_A_TIME = 100  #: packets until the thread gives way to other threads
#: Pause between two reads, because a wake-up for each packet costs more than its count. A socket of the usual
#: 208 KiB holds about 550 small packets.
_PAUSE_S = 0.01
_MOST_AT_A_LOOK = 10_000  #: packets per sample; about 20 ms of work
_LONGEST_TURN_S = 0.05  #: time limit of one turn; a full packet of 64 KiB takes milliseconds
_SO_MEMINFO = 55  #: socket(7): nine 32-bit values about the socket's memory
_DROPS = 8  #: index of the value with the packets dropped since the socket was opened
_MEMINFO = struct.Struct("9I")


_PASSED: tuple[Passed, ...] = ("unreadable", "other-type", "no-metric")


def _metric(name: str) -> str:
    if re.fullmatch(r"[^:|\x00-\x1f\x7f]{1,200}", name) is None or name != name.strip():
        raise ValueError(f"{name!r} is no name of a metric of statsd")
    return name


MetricName = Annotated[str, AfterValidator(_metric)]


class StatsdProbeSettings(ProbeSettings):
    """The service sends statsd metrics to tuner, at the address that replaces ``{TUNER_STATSD}``."""

    is_alone: ClassVar[bool] = True
    fills_in: ClassVar[tuple[str, ...]] = (ADDRESS_VARIABLE,)
    plain_keys: ClassVar[frozenset[str]] = frozenset({"failed"})
    kind: Literal["statsd"]  #: Kind of probe
    name: MetricName  #: Name of the statsd counter that counts finished items
    failed: MetricName | None = None  #: Name of the statsd counter that counts failed items
    failed_included: FailedIncluded = False  #: Whether the counter in `name` also counts failed items

    def build(self, _settings: Settings, around: Surroundings) -> StatsdProbe:
        """See `ProbeSettings`."""
        included = self.failed_included
        return StatsdProbe(around.clock, self.name, self.failed, around.warn, failed_included=included)


class StatsdProbe:
    """Listens at a loopback address, on a separate port for each launch.

    Args:
        name: the metric that counts finished items.
        failed: the metric that counts failed items; None: there is none.
        failed_included: *name* counts the failed ones, too.
    """

    def __init__(
        self,
        clock: Clock,
        name: str,
        failed: str | None,
        warn: Callable[[str, str], None],
        *,
        failed_included: bool = False,
    ) -> None:
        self._clock = clock
        self._name = name
        self._failed = failed
        self._warn = warn
        self._failed_included = failed_included
        #: problems already reported, each once per study
        self._warned: set[Passed | Literal["names"]] = set()

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[StatsdCounting]:
        """Listen as long as the ``with`` block lasts."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            receiver.bind(("127.0.0.1", 0))
            counting = StatsdCounting(self._clock, receiver, self._name, self._failed, self._failed_included)
            counting.start()
            try:
                yield counting
            finally:
                counting.close()
                if n_lost := counting.n_lost():
                    self._warn(*packets_lost(layout, n_lost))
                self._warn_of_uncounted(layout, counting.tally)

    def _warn_of_uncounted(self, layout: Layout, tally: StatsdTally) -> None:
        """Report the metrics of this launch that were not counted, each kind once in a study."""
        names = " or ".join(repr(one.decode()) for one in tally.totals)
        for passed in _PASSED:
            if tally.n_passed[passed] and passed not in self._warned:
                self._warned.add(passed)
                example = _show(tally.examples[passed])
                self._warn(*statsd_lines(layout, passed, tally.n_passed[passed], names, example))
        if tally.other_names and not any(tally.totals.values()) and "names" not in self._warned:
            self._warned.add("names")
            others = [f"{_show(name)} ({_show(kind)})" for name, kind in tally.other_names.items()]
            self._warn(*statsd_names(layout, names, others))


def _show(sent: bytes) -> str:
    return one_line(sent.decode("utf-8", "backslashreplace"))


class StatsdCounting:
    """Metrics that one launch has sent."""

    def __init__(
        self, clock: Clock, receiver: socket.socket, name: str, failed: str | None, failed_included: bool
    ) -> None:
        self._clock = clock
        self._receiver = receiver
        self._name = name.encode()
        self._failed = None if failed is None else failed.encode()
        self.tally = StatsdTally([self._name, *([] if self._failed is None else [self._failed])])
        self._read_totals = dict(self.tally.totals)  #: totals at the last reading
        self._failed_included = failed_included
        self._n_done = 0
        self._closed = False
        self._receiving = threading.Lock()
        self._thread = threading.Thread(target=self._receive, name="probe statsd", daemon=True)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables with the address for the metrics."""
        host, port = self._receiver.getsockname()
        return {ADDRESS_VARIABLE: f"{host}:{port}"}

    def pids(self) -> frozenset[int]:
        """Return no process: tuner counts itself."""
        return frozenset()

    def start(self) -> None:
        """Start receiving."""
        self._thread.start()

    def close(self) -> None:
        """Stop receiving."""
        self._closed = True
        self._receiver.sendto(b"", self._receiver.getsockname())  # the thread may be waiting for a packet
        self._thread.join()

    def n_lost(self) -> int:
        """Return the number of packets lost because they came faster than the buffer was emptied."""
        figures = self._receiver.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(figures)[_DROPS])

    def read(self) -> Reading:
        """Return the counts received so far; under overload, also the number of lost packets.

        Raises:
            MeasurementError: the received counts cannot be counts of items.
        """
        at_s = self._clock.monotonic_s()
        self._drain(_MOST_AT_A_LOOK)
        with self._receiving:
            totals = dict(self.tally.totals)
            n_unreadable = self.tally.n_passed["unreadable"]
        if sum(map(abs, totals.values())) > LARGEST_COUNT:
            raise MeasurementError(
                f"the sum of the counts sent to statsd is above {LARGEST_COUNT}, so they are not"
                " counts of items"
            )
        for name, total in totals.items():
            if total < (before := self._read_totals[name]):
                raise MeasurementError(
                    f"the counter {name.decode()} of statsd fell from {before:g} to {total:g}: negative"
                    " values were sent, and a count of finished items only grows"
                )
        self._read_totals = totals
        n_failed = 0 if self._failed is None else int(totals[self._failed])
        n_done = int(totals[self._name]) - (n_failed if self._failed_included else 0)
        # the two come one after the other: a failure in between must not make the count fall
        self._n_done = max(n_done, self._n_done)
        return Reading(
            at_s=at_s,
            n_done_total=self._n_done,
            n_failed_total=n_failed,
            n_lost_total=self.n_lost(),
            n_unreadable_total=n_unreadable,
            problem="" if any(totals.values()) else f"statsd received no counter {self._name.decode()!r}",
        )

    def _receive(self) -> None:
        waiting = select.poll()
        waiting.register(self._receiver, select.POLLIN)
        while not self._closed:
            waiting.poll()
            if self._drain(_MOST_AT_A_TIME):
                time.sleep(_PAUSE_S)

    def _drain(self, most: int) -> bool:
        """Read waiting packets, at most *most* and for a limited time, so that a fast sender cannot hold the
        thread; return whether all were read.
        """
        with self._receiving:
            ends_s = time.monotonic() + _LONGEST_TURN_S  # of this thread: the other one had its own
            for _ in range(most):
                try:
                    packet = self._receiver.recv(_PACKET_BYTES, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return True
                self.tally.add(packet)
                if time.monotonic() > ends_s:
                    break
        return False
