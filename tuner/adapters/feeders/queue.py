"""Feeder that keeps the queue of a service full with clones of a recorded sample of messages."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

import tuner
from tuner.adapters.feeders.command import CommandFeeder
from tuner.adapters.processes.pausing import PausedProcess
from tuner.adapters.queues.brokers import client_folder, open_queue, separates_taken_items
from tuner.adapters.queues.feeding import AWAY_EXIT, TOP_UP_EVERY_S, FeedOrder, State, cuts_of, read_state
from tuner.adapters.queues.forms.message import BrokerAway, BrokerError, read_sample
from tuner.adapters.queues.queue import Claim, MessageQueue, claim_of, hint_for
from tuner.config.document import ConfigPath, check_file
from tuner.config.feeders import FORMS_ON_RABBITMQ, FeederSettings, check_form, check_form_at
from tuner.config.fields import Count, TimeLimit, as_value_error
from tuner.config.kinds import FeederSurroundings
from tuner.config.request_fields import BrokerUrl
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError, MeasurementError, SourceAway
from tuner.core.messages.service import queue_left, queue_shared

if TYPE_CHECKING:
    from tuner.config.service import ScriptSettings

#: ``-I -S``: without the user's PYTHON* variables; site-packages only from the folder of the client
_BOOT = (
    "import sys; sys.path += sys.argv[1:3];"
    " from tuner.adapters.queues.feeding import main; main(*sys.argv[3:])"
)
BROKER_WITHIN_S = 10.0  #: time for a broker that restarts or loads its data to answer a launch
_ASK_AGAIN_S = 0.2
EMPTY_WITHIN_S = 60.0  #: time limit to empty the queue at a pause; the first time it may contain 20 s of work
FULL_WITHIN_S = 120.0  #: time limit to fill the queue before the service starts
_LOOK_EVERY_S = 0.02
_DRY_FOR_S = 1.0 + TOP_UP_EVERY_S  #: the study samples every second and must not miss an empty queue
#: arq's default max_jobs; that many messages of a process may be in work but still look as if they wait
_UNSEEN_PER_PROCESS = 10


class QueueFeederSettings(FeederSettings):
    """tuner keeps a queue filled with copies of recorded messages."""

    can_pause: ClassVar[bool] = True
    kind: Literal["queue"]  #: Kind of feeder
    #: Queue library of the workers. list, stream: for workers that read a Redis list or stream without a
    #: library
    form: Literal["celery", "dramatiq", "rq", "huey", "taskiq", "arq", "saq", "streaq", "list", "stream"]
    url: BrokerUrl  #: URL of the broker
    queue: Annotated[str, Field(min_length=1)]  #: Name of the queue that tuner fills
    sample: ConfigPath  #: File with recorded messages, written by `tuner sample`
    #: Number of messages that tuner keeps in the queue. auto: enough messages for 20 s of work
    depth: Count | Literal["auto"] = "auto"
    timeout: TimeLimit = 5.0  #: Time limit for each answer of the broker

    @field_validator("sample")
    @classmethod
    def _check_file(cls, value: Any) -> Any:
        return check_file(value)

    @field_validator("form", mode="before")
    @classmethod
    def _check_form(cls, value: Any) -> Any:
        try:
            return check_form(str(value))
        except ConfigError as error:
            raise as_value_error(error) from error

    @field_validator("url")
    @classmethod
    def _check_form_at_url(cls, url: str, info: ValidationInfo) -> str:
        try:
            check_form_at(info.data.get("form", FORMS_ON_RABBITMQ[0]), url)
        except ConfigError as error:
            raise as_value_error(error) from error
        return url

    @field_validator("depth", mode="before")
    @classmethod
    def _check_number_or_auto(cls, value: Any) -> Any:
        if value == "auto":
            return value
        if isinstance(value, bool) or re.fullmatch(r"[1-9][0-9]{0,8}", str(value)) is None:
            raise ValueError(f"should be auto, or a number of messages from 1 on (got {value!r})")
        return int(value)

    @property
    def servers(self) -> Mapping[str, str]:
        """See `FeederSettings`."""
        return {"url": self.url}

    def describe(self) -> str:
        """See `FeederSettings`."""
        return f"messages that tuner puts into the queue {self.queue} ({self.form})"

    def build(
        self, _service: ScriptSettings, _layouts: Sequence[Layout], around: FeederSurroundings
    ) -> QueueFeeder:
        """See `FeederSettings`."""
        depth = None if self.depth == "auto" else self.depth
        fed = Fed(self.url, self.form, self.queue, self.sample, depth, self.timeout)
        claim = claim_of(around.study.id, around.study.file)
        return QueueFeeder(fed, claim, around.scratch / "queue.state", around.scratch, around.warn)


@dataclass(frozen=True, slots=True)
class Fed:
    """The queue and the messages to feed."""

    url: str
    form: str
    queue: str
    sample: Path
    #: number of messages to keep in the queue; None: 20 s of work at the best rate so far
    depth: int | None = None
    timeout_s: float = 5.0  #: for one answer of the broker


class QueueFeeder:
    """Runs a process for each launch that keeps the queue full, and ends it with the launch.

    The queue is empty before a launch, and full before the service starts; afterwards the remaining messages
    of the launch are removed. The feeder touches no other queue and no other messages: if the queue holds
    other messages, it raises an error.
    """

    def __init__(
        self,
        fed: Fed,
        claim: Claim,
        state: Path,
        scratch: Path | None,
        warn: Callable[[str, str], None],
        *,
        keeps_little: bool = False,
    ) -> None:
        """Set up the feeder; its process writes the file *state* during a launch; *keeps_little*: see
        `in_turns`.
        """
        self._keeps_little = keeps_little
        self._fed, self._claim = fed, claim
        self._state_path = state
        self._scratch = scratch
        self._warn = warn
        self._best_per_s = 0.0
        self._process: CommandFeeder | None = None
        self._pausing: PausedProcess | None = None  #: control of the feeder process; None: no launch is fed
        self._was_away = False  #: whether the broker was unreachable in this launch or the last one

    def in_turns(self) -> QueueFeeder:
        """Return a feeder of the same queue for launches that are paused often: it keeps few messages
        waiting.
        """
        return QueueFeeder(
            self._fed, self._claim, self._state_path, self._scratch, self._warn, keeps_little=True
        )

    def prepare(self) -> None:
        """Check that the sample can be cloned and the queue fed; remove messages of an earlier run of the
        study.
        """
        queue = self._queue()
        try:
            cuts_of(queue, read_sample(self._fed.sample, self._fed.form), self._fed.sample)
            queue.check()
        except BrokerError as error:
            hint = hint_for(error, "Check feeder.url, and that the broker runs.")
            raise ConfigError(str(error), hint=hint) from error
        finally:
            queue.close()

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        """Feed one launch.

        Raises:
            ConfigError: the queue holds other messages.
            SourceAway: the broker could not be reached at some time.
            MeasurementError: the process failed, or the broker refused an operation.
        """
        queue = self._queue()
        self._was_away = False
        try:
            with _asking():
                _claim_patiently(queue)
            try:
                yield from self._run_feeder(layout)
            except BaseException as error:
                self._release(queue, layout, is_told=True)  # report the first error
                if self._was_away and type(error) is MeasurementError:  # the service met the same failure
                    raise SourceAway(error.problem) from error
                raise
            self._release(queue, layout, is_told=False)
        finally:
            queue.close()

    def away(self) -> str:
        """Return why the broker cannot be reached; empty: it can."""
        queue = self._queue()
        try:
            queue.reach()
        except BrokerAway as error:
            return str(error)
        except BrokerError:
            return ""  # the broker runs but refuses: the next launch fails with the reason
        finally:
            queue.close()
        return ""

    def rest(self) -> None:
        """Do nothing: waiting messages do not disturb the stop."""

    def is_dry(self) -> bool:
        """Return whether the queue was empty at some time in the last second, or the process has ended."""
        if self._process is None or self._process.is_dry():
            return True
        if self._pausing is not None and self._pausing.is_paused:
            return False
        state = self._state()
        return state is not None and state.dry_at_s > time.monotonic() - _DRY_FOR_S

    def problem(self) -> str:
        """Return how the process failed, with its last output, or that no worker takes the messages; else
        empty.
        """
        if self._process is None:
            return ""
        if failed := self._process.problem():
            return failed
        state = self._state()
        if state is None or state.best_per_s > 0 or state.dry_at_s > 0:
            return ""
        return f"nothing has left the queue {self._fed.queue} yet: do the workers read it?"

    def pids(self) -> frozenset[int]:
        """Return the pid of the process while it runs."""
        return frozenset() if self._process is None else self._process.pids()

    def requests(self) -> None:
        """Return None: the times of single items are unknown."""

    @property
    def pace(self) -> None:
        """None: the pace does not change."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:  # the port's signature
        """Do nothing: the workers fetch the items themselves."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Raise NotImplementedError: the feeder has no rate."""
        raise NotImplementedError

    @property
    def can_pause(self) -> bool:
        """True: the process can pause."""
        return True

    def pause(self) -> None:
        """Wait until the workers have emptied the queue and finished the messages that they fetched.

        From then on the queue holds work for at most half a second.
        """
        try:
            self._paused_process().pause(EMPTY_WITHIN_S)
        except MeasurementError as error:
            if self.is_dry():  # the process has ended, which is the real reason
                raise
            raise MeasurementError(
                f"{error.problem}: if its items take long, layouts cannot take turns (--slices off)"
            ) from error

    def resume(self) -> None:
        """Fill the queue again; it is full when this returns."""
        self._paused_process().resume(EMPTY_WITHIN_S)

    def _paused_process(self) -> PausedProcess:
        if self._pausing is None:
            raise ValueError("nothing is fed")
        return self._pausing

    def _queue(self) -> MessageQueue:
        fed = self._fed
        return open_queue(fed.url, fed.form, fed.queue, self._claim, fed.timeout_s)

    def _state(self) -> State | None:
        return read_state(self._state_path)

    def _run_feeder(self, layout: Layout) -> Iterator[None]:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="feed-", dir=self._scratch))
            pausing = stack.enter_context(closing(PausedProcess(f"the feeder of {self._fed.queue}")))
            order = Path(folder) / "order.json"
            self._order(layout, pausing.descriptor).write(order)
            command = _command(order, self._state_path, client_folder(self._fed.url))
            process = self._process = CommandFeeder(
                command, scratch=self._scratch, descriptors=[pausing.descriptor]
            )
            try:
                with process.feeding(layout):
                    pausing.started()
                    self._wait_until_full(process)
                    self._pausing = pausing
                    if is_fed := not process.is_dry():
                        yield
                if not is_fed:  # otherwise its end is reported already, unless it ended normally
                    raise MeasurementError(f"nobody feeds the queue {self._fed.queue}")
            finally:
                self._was_away = process.exit_code() == AWAY_EXIT
                self._process = self._pausing = None
                state = self._state()
                if state is not None:
                    self._best_per_s = max(self._best_per_s, state.best_per_s)
                    self._state_path.unlink()

    def _wait_until_full(self, process: CommandFeeder) -> None:
        ends_s = time.monotonic() + FULL_WITHIN_S
        while self._state() is None and not process.is_dry():  # a failure is reported by its own block
            if time.monotonic() > ends_s:
                raise MeasurementError(f"the queue {self._fed.queue} was not full within {FULL_WITHIN_S:g} s")
            time.sleep(_LOOK_EVERY_S)

    def _order(self, layout: Layout, gate_descriptor: int) -> FeedOrder:
        fed, n_threads = self._fed, layout.total_threads
        unseen = (
            0
            if separates_taken_items(fed.url, fed.form)
            else max(n_threads, _UNSEEN_PER_PROCESS * layout.processes)
        )
        return FeedOrder(
            url=fed.url,
            form=fed.form,
            queue=fed.queue,
            sample=str(fed.sample.absolute()),
            claim=self._claim,
            timeout_s=fed.timeout_s,
            n_threads=n_threads,
            dry_below=unseen,
            depth=fed.depth,
            best_per_s=self._best_per_s,
            keeps_little=self._keeps_little,
            gate_descriptor=gate_descriptor,
        )

    def _release(self, queue: MessageQueue, layout: Layout, *, is_told: bool) -> None:
        """Empty the queue; *is_told*: an error is already being raised, and another one would hide it."""
        try:
            n_others = queue.release()
        except BrokerError as error:
            self._was_away |= isinstance(error, BrokerAway)
            if not is_told:
                kind = SourceAway if self._was_away else MeasurementError
                raise kind(f"cannot remove the messages that tuner fed: {error}") from error
            if self._was_away:
                return  # it is reported as that, and the resumed study removes the messages
            self._warn(*queue_left(layout, f"{error}"))
            return
        if n_others:
            self._warn(*queue_shared(layout, n_others, self._fed.queue))


def _claim_patiently(queue: MessageQueue) -> None:
    """Claim the queue, with retries: otherwise a restart of the broker would use up all attempts of a
    launch.
    """
    ends_s = time.monotonic() + BROKER_WITHIN_S
    while True:
        try:
            queue.claim()
            return
        except BrokerError:
            if time.monotonic() > ends_s:
                raise
            time.sleep(_ASK_AGAIN_S)


def _command(order: Path, state: Path, client: Path) -> list[str]:
    root = Path(tuner.__file__).parent.parent
    return [sys.executable, "-I", "-S", "-c", _BOOT, str(root), str(client), str(order), str(state)]


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except BrokerError as error:
        raise (SourceAway if isinstance(error, BrokerAway) else MeasurementError)(str(error)) from error
