"""Probe that counts messages leaving the queue that tuner feeds: messages fed minus messages left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, ClassVar, Literal

from tuner.adapters.feeders.queue import QueueFeederSettings
from tuner.adapters.probes.polled import Counts, PolledCounting, polling
from tuner.adapters.queues.brokers import open_queue
from tuner.adapters.queues.forms.message import BrokerError
from tuner.adapters.queues.queue import Claim, MessageQueue, claim_of
from tuner.config.feeders import FORMS_THAT_TELL_FAILED, FeederSettings
from tuner.config.fields import TimeLimit
from tuner.config.kinds import ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings

#: messages per thread that may return to the queue at once for a retry: as many as are in work
_FALL_PER_THREAD = 8
_FALL = 100


class QueueProbeSettings(ProbeSettings):
    """tuner counts the messages that leave the queue, which tuner itself fills (feeder `queue`)."""

    is_alone: ClassVar[bool] = True
    kind: Literal["queue"]  #: Kind of probe
    timeout: TimeLimit = 2.0  #: Time limit for each answer of the broker

    def build(self, settings: Settings, around: Surroundings) -> QueueProbe:
        """See `ProbeSettings`."""
        assert settings.service.kind == "script"
        fed = settings.service.feeder
        assert isinstance(fed, QueueFeederSettings)  # `problem_with` ensures it
        claim = claim_of(around.study.id, around.study.file)
        return QueueProbe(around.clock, fed.url, fed.form, fed.queue, claim, self.timeout, around.warn)

    def counts_failed(self, feeder: FeederSettings | None) -> bool:
        """See `ProbeSettings`."""
        return isinstance(feeder, QueueFeederSettings) and feeder.form in FORMS_THAT_TELL_FAILED

    def problem_with(self, feeder: FeederSettings) -> str:
        """See `ProbeSettings`."""
        if feeder.kind == "queue":
            return ""
        return f"queue counts the messages of feeder queue, but the feeder is {feeder.kind}"


class QueueProbe:
    """Reads the queue that ``QueueFeeder`` keeps full; all counts of a sample are of one moment."""

    def __init__(
        self, clock: Clock, url: str, form: str, queue: str, claim: Claim, timeout_s: float, warn: Warn
    ) -> None:
        self._clock = clock
        self._url, self._form, self._name = url, form, queue
        self._claim, self._timeout_s = claim, timeout_s
        self._warn = warn

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[PolledCounting]:
        """Count during one launch, over a separate connection."""
        queue = open_queue(self._url, self._form, self._name, self._claim, self._timeout_s)
        with closing(queue):
            seen = _Seen(queue, _FALL + _FALL_PER_THREAD * layout.total_threads)
            asked = PolledCounting(
                self._clock,
                seen.counts,
                f"the queue {self._name}",
                self._warn,
                failed_included=True,
                most_falls=0,
            )
            with polling(asked) as counting:
                yield counting


class _Seen:
    """Number of processed messages, which never falls: a message that returns for a retry is not counted
    again.
    """

    def __init__(self, queue: MessageQueue, most_fall: int) -> None:
        self._queue = queue
        self._most_fall = most_fall
        self._n_done = self._n_failed = 0

    def counts(self) -> Counts:
        """Return all processed messages, and the failed ones among them."""
        try:
            backlog = self._queue.look()
        except BrokerError as error:
            raise MeasurementError(str(error)) from error
        fell = self._n_done - backlog.done
        if fell > self._most_fall:
            raise MeasurementError(
                f"{fell} messages did not come from tuner: another program puts messages into the queue"
            )
        self._n_done = max(self._n_done, backlog.done)
        self._n_failed = max(self._n_failed, backlog.left.failed)
        return Counts({"finished messages": self._n_done}, {"failed messages": self._n_failed}, backlog.at_s)
