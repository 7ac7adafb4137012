"""Process that keeps a message queue full with clones of a recorded sample of messages.

The process runs until it is ended. A push is atomic in the broker, so ending the process leaves no partial
push. It prints only the error that stopped it.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from math import ceil
from pathlib import Path

from tuner.adapters.processes.pausing import Asked, PausingProcess
from tuner.adapters.queues.brokers import open_queue
from tuner.adapters.queues.forms.message import (
    BrokerAway,
    BrokerError,
    Cut,
    Ids,
    Message,
    UnclonableError,
    read_sample,
)
from tuner.adapters.queues.queue import Claim, MessageQueue
from tuner.core.domain.load import BestRate, wanted_backlog
from tuner.core.errors import ConfigError, TunerError

TOP_UP_EVERY_S = 0.25
FAILED_EXIT = 3
AWAY_EXIT = 4  #: exit code if the broker is unreachable
_AT_ONCE = 500  #: messages in one push, so that the broker is not blocked for long
_AT_ONCE_BYTES = 4 * 2**20
_FIRST = 5  #: messages that are pushed before the service starts, to detect other workers that take them
_SMALL_S = 0.5  #: after its first pause, a queue holds the work of this time at the best rate ...
_SMALL_EVERY_S = 0.1  #: ... and is filled at this interval
#: messages per thread that it holds at first; the number doubles each time the queue is empty
_SMALL_PER_THREAD = 2
#: longest wait at a pause for items in work; a failed item may wait longer for its retry
_IN_HAND_WITHIN_S = 2.0
_EMPTY_EVERY_S = 0.01  #: interval of checks while the queue becomes empty
#: time in which idle workers would take a message: they are notified at once or poll every second
_TAKEN_WITHIN_S = 1.5


def cuts_of(queue: MessageQueue, messages: Sequence[Message], path: Path) -> list[Cut]:
    """Return the templates of clones of *messages*.

    Raises:
        ConfigError: a message cannot be cloned; the error names the message and the reason.
    """
    cuts = []
    for number, message in enumerate(messages, start=1):
        try:
            cuts.append(queue.cut(message))
        except UnclonableError as error:
            raise ConfigError(
                f"{path}: message {number} {error}",
                hint="Take it out, or record another sample: tuner sample.",
            ) from error
    return cuts


class Feeding:
    """One run of the feeding process."""

    def __init__(self, order: FeedOrder, queue: MessageQueue, cuts: Sequence[Cut], ids: Ids) -> None:
        self._order, self._queue, self._cuts, self._ids = order, queue, cuts, ids
        self._n_at_once = _AT_ONCE
        self._message_bytes = sum(cut.n_bytes for cut in cuts) / len(cuts)
        if self._message_bytes * _AT_ONCE > _AT_ONCE_BYTES:
            self._n_at_once = max(1, int(_AT_ONCE_BYTES / self._message_bytes))
        self._say_when = any(cut.says_when for cut in cuts)
        self._place = 0  #: position of the next message in the sample
        self._rate = BestRate(order.best_per_s)
        self._pausing = None if order.gate_descriptor is None else PausingProcess(order.gate_descriptor)
        #: whether the queue is kept short, because it must be emptied quickly at a pause
        self._is_small = order.keeps_little
        self._small_least = _SMALL_PER_THREAD * order.n_threads

    def run(self, state: Path) -> None:
        """Keep the queue full until the broker fails, which raises BrokerError."""
        self._check_no_other_consumer()
        self._top_up()
        reported = StateWriter(state)
        reported.write(State(self._rate.per_s, 0.0))
        dry_at_s = 0.0
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + (_SMALL_EVERY_S if self._is_small else TOP_UP_EVERY_S), time.monotonic())
            asked = self._hear(max(0.0, due_s - time.monotonic()))
            if asked is not None:
                self._pause(asked)
                continue
            n_ready = self._top_up()
            if n_ready <= self._order.dry_below:
                dry_at_s = time.monotonic()
            reported.write(State(self._rate.per_s, dry_at_s))

    def _hear(self, within_s: float) -> Asked | None:
        if self._pausing is not None:
            return self._pausing.hear(within_s)
        time.sleep(within_s)
        return None

    def _pause(self, asked: Asked | None) -> None:
        """Push nothing until asked to resume; answer each request once the queue is empty or full again."""
        assert self._pausing is not None
        self._is_small = True
        ends_s: float | None = None
        while asked is None or asked.pauses:
            if asked is not None:
                left = self._queue.look().left
                if left.ready <= self._order.dry_below:
                    ends_s = ends_s or time.monotonic() + _IN_HAND_WITHIN_S
                    if left.ready + left.in_hand == 0 or time.monotonic() > ends_s:
                        self._pausing.answer(asked)
                        asked = None
            asked = self._pausing.hear(_EMPTY_EVERY_S if asked is not None else 1.0) or asked
        self._top_up(resumes=True)
        self._pausing.answer(asked)

    def _check_no_other_consumer(self) -> None:
        """Push a few messages before the service is started, and check that they stay in the queue.

        Raises:
            BrokerError: other workers took some of them.
        """
        n_first = min(_FIRST, self._order.depth or _FIRST)
        self._queue.push(list(islice(self._clones(), n_first)))
        ends_s = time.monotonic() + _TAKEN_WITHIN_S
        while time.monotonic() < ends_s:
            time.sleep(_TAKEN_WITHIN_S / 10)
            backlog = self._queue.look()
            if n_taken := backlog.done + backlog.left.in_hand:
                raise BrokerError(
                    f"workers empty {self._order.queue} before the service is started ({n_taken} of the first"
                    f" {n_first} messages are gone): stop the other workers, or name another queue"
                )

    def _top_up(self, *, resumes: bool = False) -> int:
        """Push the missing messages and return how many waited before.

        *resumes*: the queue was emptied for a pause, so that it is empty is no reason to keep more in it.
        """
        backlog = self._queue.look()
        self._rate.add(time.monotonic(), backlog.done)
        wanted = self._order.depth or wanted_backlog(
            self._rate.per_s, self._order.n_threads, self._message_bytes
        )
        if self._is_small:
            least = self._order.dry_below + 2 * self._order.n_threads
            if not resumes and backlog.done and backlog.left.ready <= self._order.dry_below:
                self._small_least = min(wanted, 2 * self._small_least)
            wanted = min(wanted, max(self._small_least, least + ceil(self._rate.per_s * _SMALL_S)))
        missing = wanted - backlog.left.ready
        clones = self._clones() if missing > 0 else iter(())
        while missing > 0:
            batch = list(islice(clones, min(missing, self._n_at_once)))
            self._queue.push(batch)
            missing -= len(batch)
        return backlog.left.ready

    def _clones(self) -> Iterator[tuple[bytes, dict[str, bytes]]]:
        """Yield clones without end, marked as sent now; a later call continues in the sample where this
        one stopped.
        """
        now_s = time.time()
        cuts = [cut.stamped(now_s) for cut in self._cuts] if self._say_when else self._cuts
        for cut in islice(cycle(cuts), self._place, None):
            self._place = (self._place + 1) % len(cuts)
            new_id = self._ids.next()
            yield new_id, cut.clone(new_id)


def main(order_path: str, state: str) -> None:
    """Run the order in the file *order_path* and report progress in the file *state*."""
    order = read_order(Path(order_path))
    try:
        queue = open_queue(order.url, order.form, order.queue, order.claim, order.timeout_s)
        sample = Path(order.sample)
        cuts = cuts_of(queue, read_sample(sample, order.form), sample)
        Feeding(order, queue, cuts, Ids(queue.tag)).run(Path(state))
    except (BrokerError, TunerError) as error:
        print(error, file=sys.stderr)  # noqa: T201  # the feeder prints it
        raise SystemExit(AWAY_EXIT if isinstance(error, BrokerAway) else FAILED_EXIT) from None


# Order and state: the input and the progress report of the feeding process.


# The progress of the feeding process: a few numbers in a file that it maps into memory.

_LAYOUT = struct.Struct("=8sdd")
_MAGIC = b"tunfeed1"


@dataclass(frozen=True, slots=True)
class State:
    """Progress of the feeding process."""

    best_per_s: float  #: best rate so far
    dry_at_s: float  #: monotonic time at which the queue was last empty; 0: never


class StateWriter:
    """Creates the file when the queue is full for the first time; readers find all of it or no file."""

    def __init__(self, path: Path) -> None:
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.truncate(descriptor, _LAYOUT.size)
            self._mapped = mmap.mmap(descriptor, _LAYOUT.size)
        finally:
            os.close(descriptor)
        self.write(State(0.0, 0.0))
        os.replace(draft, path)

    def write(self, state: State) -> None:
        """Write *state* to the shared file."""
        _LAYOUT.pack_into(self._mapped, 0, _MAGIC, state.best_per_s, state.dry_at_s)


def read_state(path: Path) -> State | None:
    """Return the latest state; None until the queue has been full for the first time."""
    try:
        magic, best_per_s, dry_at_s = _LAYOUT.unpack(path.read_bytes())
    except FileNotFoundError:
        return None
    if magic != _MAGIC:
        raise ValueError(f"{path} holds no state of a feeder")
    return State(best_per_s, dry_at_s)


@dataclass(frozen=True, slots=True)
class FeedOrder:
    """Order for one run of the feeding process."""

    url: str
    form: str
    queue: str
    sample: str  #: file of recorded messages
    claim: Claim
    timeout_s: float  #: time limit for one answer of the broker
    n_threads: int  #: total threads of the layout
    dry_below: int  #: number of waiting messages below which the queue counts as empty
    depth: int | None = None  #: number of messages to keep in the queue; None: chosen by the rate
    best_per_s: float = 0.0  #: best rate of earlier launches
    keeps_little: bool = False  #: whether the queue is kept short, because it is often paused
    gate_descriptor: int | None = None  #: socket for requests to pause; None: the feeder never pauses

    def write(self, path: Path) -> None:
        """Write the order to *path*, readable only by this user: the url may contain a password."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)


def read_order(path: Path) -> FeedOrder:
    """Read an order that ``FeedOrder.write`` wrote."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return FeedOrder(**{**data, "claim": Claim(**data["claim"])})
