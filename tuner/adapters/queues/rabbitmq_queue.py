"""RabbitMQ queue that tuner feeds, with a record in the broker of the study that feeds it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from tuner.adapters.queues.forms.message import (
    BODY,
    BrokerAway,
    BrokerError,
    Clone,
    Cut,
    Left,
    Message,
    study_tag,
)
from tuner.adapters.queues.forms.rabbitmq_forms import FORMS, PROPERTIES
from tuner.adapters.queues.queue import Backlog, Claim, hint_for, without_password
from tuner.adapters.queues.rabbitmq_link import Link, Parcel, Waiting
from tuner.core.errors import ConfigError
from tuner.core.text.figures import LARGEST_COUNT, parse_json, pluralize
from tuner.core.text.safe_text import one_line

_LOOKED_AT = 1000  #: messages read for a sample; workers cannot get them meanwhile
_GONE_WITHIN_S = 10.0  #: time for the consumers of a stopped service to disappear
_AGAIN_EVERY_S = 0.005
_QUICK_S = 0.01  #: longest duration of a quick reading; at 1000 items/s its count is then exact to 5 items
_QUICK_WITHIN_S = 0.3  #: after this time, a slower reading is accepted
_DURABLE = b'{"delivery_mode": 2}'


@dataclass(frozen=True, slots=True)
class _Word:
    """Record of the study that feeds the queue, and of the number of fed messages."""

    study_id: str
    study: str
    host: str
    form: str
    fed: int = 0  #: messages that are or were in the queue
    #: whether a push is under way, so that the queue's length cannot be compared with *fed*
    pushing: bool = False

    @property
    def is_possible(self) -> bool:
        """Return whether tuner may have written this: values from a broker may have any type."""
        texts = (self.study_id, self.study, self.host, self.form)
        return (
            all(isinstance(text, str) for text in texts)
            and type(self.fed) is int
            and 0 <= self.fed <= LARGEST_COUNT
            and isinstance(self.pushing, bool)
        )


class _Drops:
    """Detects that the broker drops messages, as long as no consumer was ever present.

    A loss during a push shows a limit on length. A loss between two pushes may be the work of a process that
    came and went unnoticed. The second such loss shows a limit on age, because the few messages of the
    feeder's first push expire before those of its second one.
    """

    def __init__(self) -> None:
        self._is_untouched = True
        self._expected = 0  #: number of messages in the queue after the previous push
        self._n_unseen = 0  #: number of pushes that found fewer messages

    def before_push(self, where: str, found: Waiting) -> None:
        """Raise BrokerError if messages disappeared without a consumer for the second time."""
        self._see(found)
        if self._is_untouched and found.n_messages < self._expected:
            self._n_unseen += 1
            if self._n_unseen > 1:
                raise self._error(where, found.n_messages, self._expected)
        self._expected = found.n_messages

    def after_push(self, where: str, found: Waiting, n_pushed: int) -> None:
        """Raise BrokerError if the queue holds fewer messages than before plus those pushed."""
        self._see(found)
        self._expected += n_pushed
        if self._is_untouched and found.n_messages < self._expected:
            raise self._error(where, found.n_messages, self._expected)

    def _see(self, found: Waiting) -> None:
        self._is_untouched = self._is_untouched and not found.n_consumers

    def _error(self, where: str, n_there: int, n_expected: int) -> BrokerError:
        return BrokerError(
            f"{where} keeps {n_there} of {n_expected} messages: it has a limit"
            " (x-max-length, x-message-ttl or a policy); raise it, or set a lower depth"
        )


class RabbitQueue:
    """MessageQueue on RabbitMQ; the study's record is the only message of the queue ``tuner.fed.QUEUE``.

    The number of waiting messages and the number of fed messages are read one after the other. The record is
    rewritten before and after each push. If it is equal before and after a reading, and shows no push, then
    none happened in between, so the number of delivered messages is exact. The number of unacknowledged
    messages is not available, so these count as done.
    """

    def __init__(self, url: str, form: str, queue: str, claim: Claim, timeout_s: float) -> None:
        self._url, self._queue, self._claim, self._timeout_s = url, queue, claim, timeout_s
        self._form = FORMS[form]
        self._link = Link(url, timeout_s)
        self._word_queue = f"tuner.fed.{queue}"
        self._written: _Word | None = None  #: record last written by this object
        self._drops = _Drops()
        self.tag = study_tag(claim.study_id)

    @property
    def where(self) -> str:
        """Description of the queue for messages to users."""
        return f"the queue {self._queue} of {without_password(self._url)}"

    def sample(self, n_most: int) -> list[Message]:
        """Return some of the first 1000 (or *n_most*) waiting messages, which are taken and put back."""
        with self._link.asking():
            if self._link.waiting(self._queue) is None:
                return []
            return self._link.taken(self._queue, max(n_most, _LOOKED_AT), n_most)

    def cut(self, message: Message) -> Cut:
        """See ``MessageQueue``."""
        return self._form.cut(message, self._queue)

    def check(self) -> None:
        """See ``MessageQueue``; ConfigError also if the queue does not exist, or has other consumers."""
        with self._link.asking():
            there = self._existing_queue()
            word = self._word()
            if word is not None:
                self._refuse_foreign_word(word)
                self._purge()
                there = self._existing_queue()
            self._refuse_foreign_messages(there)
            self._wait(lambda: not self._existing_queue().n_consumers, _GONE_WITHIN_S)
            self._refuse_consumers()
            if word is not None:
                self._link.delete(self._word_queue)

    def look_free(self) -> None:
        """See ``MessageQueue``; the record is not read, because that would take it and put it back."""
        with self._link.asking():
            there = self._existing_queue()
            word = self._link.waiting(self._word_queue)
            if word is not None and word.n_messages:
                raise ConfigError(
                    f"{self.where} is fed by a study, or by one that was killed ({self._word_queue})",
                    hint="Wait for its end, or resume it.",
                )
            self._refuse_foreign_messages(there)
            self._refuse_consumers()

    def claim(self) -> None:
        """See ``MessageQueue``."""
        self.check()
        self._drops = _Drops()
        with self._link.asking():
            self._link.keep_one(self._word_queue)
            self._write(_Word(**asdict(self._claim), form=self._form.name))

    def reach(self) -> None:
        """See ``MessageQueue``."""
        with self._link.asking():
            self._link.reach()

    def push(self, clones: Sequence[Clone]) -> None:
        """See ``MessageQueue``; all messages of a push are in the queue when it returns."""
        with self._link.asking():
            word = self._written or self._study_word()
            self._write(_Word(**{**asdict(word), "pushing": True}))
            self._drops.before_push(self.where, self._existing_queue())
            self._link.publish(Parcel(self._queue, parts[BODY], parts[PROPERTIES]) for _, parts in clones)
            fed = word.fed + len(clones)
            self._write(_Word(**{**asdict(word), "fed": fed, "pushing": False}))
            self._drops.after_push(self.where, self._existing_queue(), len(clones))

    def look(self) -> Backlog:
        """See ``MessageQueue``; if readings take long because RabbitMQ is busy, return the quickest, whose
        time is known best.
        """
        found: list[tuple[float, Backlog]] = []
        quick_until_s = time.monotonic() + _QUICK_WITHIN_S

        def is_seen() -> bool:
            before = self._study_word()
            asked_s = time.monotonic()
            left = self._count_left()
            took_s = time.monotonic() - asked_s
            if not before.pushing and self._study_word() == before:
                found.append((took_s, Backlog(before.fed, left, asked_s + took_s / 2)))
            return bool(found) and (took_s < _QUICK_S or time.monotonic() > quick_until_s)

        with self._link.asking():
            if not self._wait(is_seen, self._timeout_s):
                raise BrokerError(f"{self.where}: messages were on their way for {self._timeout_s:g} s")
        return min(found, key=lambda one: one[0])[1]

    def release(self) -> int:
        """See ``MessageQueue``."""
        with self._link.asking():
            if self._link.waiting(self._queue) is None:  # removed with its messages
                left = Left(0, 0)
            else:
                # the broker requeues messages that consumers hold
                self._wait(lambda: not self._existing_queue().n_consumers, _GONE_WITHIN_S)
                self._purge()
                left = self._count_left()
            word = self._word()
            if word is not None and word.study_id == self._claim.study_id:
                self._link.delete(self._word_queue)
        self._written = None
        return left.ready + left.in_hand

    def close(self) -> None:
        """See ``MessageQueue``."""
        self._link.close()

    def _existing_queue(self) -> Waiting:
        found = self._link.waiting(self._queue)
        if found is None:
            raise ConfigError(
                f"there is {self.where.replace('the queue', 'no queue', 1)}",
                hint="Start the service once, so that it creates its queue with its own arguments.",
            )
        return found

    def _count_left(self) -> Left:
        found = self._link.waiting(self._queue)
        if found is None:
            raise BrokerError(f"{self.where} is gone")
        delayed, dead = (
            sum(one.n_messages for one in map(self._link.waiting, queues) if one is not None)
            for queues in (self._form.delayed(self._queue), self._form.dead(self._queue))
        )
        return Left(found.n_messages, delayed, dead)

    def _purge(self) -> None:
        for queue in (self._queue, *self._form.delayed(self._queue), *self._form.dead(self._queue)):
            self._link.sift(queue, self.tag)

    def _word(self) -> _Word | None:
        """Return the latest record; None if there is none."""
        found: list[bytes] = []

        def is_there() -> bool:
            body = self._link.first(self._word_queue)
            if body is not None:
                found.append(body)
            # the queue exists without a message: another client reads it at this moment
            return body is not None or self._link.waiting(self._word_queue) is None

        self._wait(is_there, self._timeout_s)
        if not found:
            return None
        try:
            word = _Word(**parse_json(found[0]))
        except (ValueError, TypeError):
            word = None
        if word is None or not word.is_possible:
            raise BrokerError(f"{without_password(self._url)}: {self._word_queue} holds no word of tuner's")
        return word

    def _study_word(self) -> _Word:
        word = self._word()
        if word is None or word.study_id != self._claim.study_id:
            raise BrokerAway(
                f"{without_password(self._url)} was reset: the messages that tuner fed ({self._word_queue}) "
                "are lost"
            )
        return word

    def _write(self, word: _Word) -> None:
        self._link.publish([Parcel(self._word_queue, json.dumps(asdict(word)).encode(), _DURABLE)])
        self._written = word

    def _wait(self, is_so: Callable[[], bool], within_s: float) -> bool:
        """Wait until *is_so* returns True, for at most *within_s* seconds; return whether it did."""
        ends_s = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > ends_s:
                return False
            time.sleep(_AGAIN_EVERY_S)
        return True

    def _refuse_foreign_messages(self, there: Waiting) -> None:
        if n_others := there.n_messages + self._count_left().in_hand:  # also delayed messages
            raise ConfigError(
                f"{self.where} holds {pluralize(n_others, 'message')} that tuner did not feed",
                hint="Feed a separate queue: --set queue=study, or feeder.queue. Or empty"
                " this one yourself: tuner removes only its own messages.",
            )

    def _refuse_consumers(self) -> None:
        if n_consumers := self._existing_queue().n_consumers:
            raise ConfigError(
                f"{self.where} has {pluralize(n_consumers, 'consumer')} already",
                hint="Stop them: only workers of the measured layout may consume from it.",
            )

    def _refuse_foreign_word(self, word: _Word) -> None:
        if word.study_id != self._claim.study_id:
            raise ConfigError(
                f"{self.where} is fed by another study: {one_line(word.study)} on {one_line(word.host)}",
                hint="Wait for its end. If it was killed, resume it, or empty the queue yourself and delete"
                f" {self._word_queue}.",
            )


def find_queue(url: str, form: str | None, queue: str | None, timeout_s: float) -> tuple[str, str]:
    """Return the form and the name of the only queue with waiting messages; given values are kept.

    Raises:
        ConfigError: RabbitMQ does not answer, no messages wait, or they wait in several queues.
    """
    if form is not None:
        return form, queue or FORMS[form].default_queue
    link = Link(url, timeout_s)
    found = []
    try:
        with link.asking():
            for one in FORMS.values():
                name = queue or one.default_queue
                waiting = link.waiting(name)
                if waiting is not None and waiting.n_messages and all(map(one.is_of, link.taken(name, 1, 1))):
                    found.append((one.name, name))
    except BrokerError as error:
        hint = hint_for(error, "Check the address, and that RabbitMQ runs.")
        raise ConfigError(str(error), hint=hint) from error
    finally:
        link.close()
    if len(found) == 1:
        return found[0]
    if not found:
        looked = f"in {queue}" if queue else "in the default queues of the libraries"
        raise ConfigError(
            f"{without_password(url)}: no messages of {' or '.join(FORMS)} wait {looked}",
            hint="Name the queue (--queue), or stop its workers until some wait.",
        )
    several = ", ".join(f"{name} ({one})" for one, name in found)
    raise ConfigError(f"{without_password(url)}: messages wait in {several}", hint="Name --form and --queue.")
