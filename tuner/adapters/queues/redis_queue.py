"""Redis queue that tuner feeds, with a record in the broker of the study that feeds it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tuner.adapters.bounded_socket import Bound, BoundedSocket
from tuner.adapters.queues.forms.message import BrokerAway, BrokerError, Clone, Cut, Left, Message, study_tag
from tuner.adapters.queues.forms.redis_forms import FORMS, Holding, forms_of, list_queues
from tuner.adapters.queues.queue import Backlog, Claim, hint_for, without_password
from tuner.core.errors import ConfigError, TunerError
from tuner.core.text.figures import LARGEST_COUNT, pluralize
from tuner.core.text.safe_text import one_line

if TYPE_CHECKING:
    from redis import Redis

_SHOWN = 80
_QUEUES_SHOWN = 8
#: Forms whose waiting messages stay complete if their ``keys`` are renamed. dramatiq and SAQ count with
#: further keys, and the key of a stream (also streaQ's) remains after the study.
_MOVABLE = ("rq", "huey", "celery", "taskiq", "arq", "list")
_LARGEST_BYTES = 64 << 20  #: limit for one answer: ids of messages, a thousand at a time
_LARGEST_SAMPLE_BYTES = 1 << 30
_SAMPLE_S = 600.0  #: time limit for all messages of a sample; each piece of it has the usual limit


def connect_redis(url: str, timeout_s: float, bound: Bound | None = None) -> Redis:
    """Return a client that has not connected yet; each read has *timeout_s*, and commands are not retried.

    Args:
        bound: limit of each whole answer; None: *timeout_s* and 64 MB.

    Raises:
        ConfigError: the client is not installed.
    """
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise ConfigError(
            "queues in Redis need the redis client, which is not installed",
            hint="pip install 'proctuner[redis]'",
        ) from error
    client = Redis.from_url(
        url,
        socket_timeout=timeout_s,
        protocol=2,  # Redis before version 6 rejects HELLO
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),  # a retry might push twice
    )
    pool = client.connection_pool
    pool.connection_class = _with_limits(pool.connection_class, bound or Bound(timeout_s, _LARGEST_BYTES))
    return client


def _with_limits(kind: Any, bound: Bound) -> Any:
    """Return a subclass of *kind* whose *bound* starts anew with each command."""

    class Bounded(kind):  # type: ignore[misc]  # selected by the url
        def _connect(self) -> Any:
            bound.renew()
            return BoundedSocket(super()._connect(), bound)

        def send_packed_command(self, *command: Any, **how: Any) -> None:
            bound.renew()
            super().send_packed_command(*command, **how)

    return Bounded


@contextmanager
def asking(url: str) -> Iterator[None]:
    """Convert errors of the client to BrokerError with a one-line text.

    The client and the forms trust the server, so an invalid answer may raise any exception.
    """
    from redis import AuthenticationError, BusyLoadingError, RedisError
    from redis import ConnectionError as Unreachable
    from redis import TimeoutError as Unanswered

    try:
        yield
    except (BrokerError, TunerError):
        raise
    except RedisError as error:
        text = f"{without_password(url)}: {one_line(f'{type(error).__name__}: {error}')}"
        is_refused = isinstance(error, AuthenticationError)  # it is also a ConnectionError
        is_away = isinstance(error, Unreachable | Unanswered | BusyLoadingError) and not is_refused
        raise (BrokerAway if is_away else BrokerError)(text) from error
    except Exception as error:
        text = one_line(f"the answer is none of Redis: {type(error).__name__}: {error}")
        raise BrokerError(f"{without_password(url)}: {text}") from error


class RedisQueue:
    """MessageQueue on Redis; the study's record is the hash ``tuner:fed:QUEUE``.

    A push and its count are one transaction, and a reading of count and lengths is another. So the number of
    processed messages is exact at every reading.
    """

    def __init__(self, url: str, form: str, queue: str, claim: Claim, timeout_s: float) -> None:
        self._url, self._queue, self._claim = url, queue, claim
        self._form = FORMS[form]
        self._bound = Bound(timeout_s, _LARGEST_BYTES)
        self._client = connect_redis(url, timeout_s, self._bound)
        self._word = f"tuner:fed:{queue}"
        self.tag = study_tag(claim.study_id)

    @property
    def where(self) -> str:
        """Description of the queue for messages to users."""
        return f"the queue {self._queue} of {without_password(self._url)}"

    def sample(self, n_most: int) -> list[Message]:
        """See ``MessageQueue``."""
        with asking(self._url), self._bound.raised(_SAMPLE_S, _LARGEST_SAMPLE_BYTES):
            messages = self._form.sample(self._client, self._queue, n_most)
            if not all(isinstance(part, bytes) for message in messages for part in message.values()):
                raise BrokerError(
                    f"{without_password(self._url)}: {self._queue} holds messages that are no text"
                )
            return messages

    def cut(self, message: Message) -> Cut:
        """See ``MessageQueue``."""
        return self._form.cut(message, self._queue)

    def check(self) -> None:
        """See ``MessageQueue``."""
        with asking(self._url):
            word = self._client.hgetall(self._word)
            if word:
                self._refuse_foreign_word(word)
                self._form.purge(self._client, self._queue, self.tag.encode())
            self._refuse_foreign_messages()
            if b"study_id" in word:
                self._client.delete(self._word)

    def look_free(self) -> None:
        """See ``MessageQueue``."""
        with asking(self._url):
            self._refuse_foreign_word(self._client.hgetall(self._word))
            self._refuse_foreign_messages()

    def claim(self) -> None:
        """See ``MessageQueue``."""
        self.check()
        with asking(self._url):
            if not self._client.hsetnx(self._word, "study_id", self._claim.study_id):
                self._refuse_foreign_word(self._client.hgetall(self._word))
            data: dict[Any, Any] = {
                "study": self._claim.study,
                "host": self._claim.host,
                "form": self._form.name,
                "fed": 0,
            }
            self._client.hset(self._word, mapping=data)

    def reach(self) -> None:
        """See ``MessageQueue``."""
        with asking(self._url):
            self._client.ping()

    def push(self, clones: Sequence[Clone]) -> None:
        """See ``MessageQueue``."""
        with asking(self._url), self._client.pipeline(transaction=True) as pipe:
            # without the watch, a deleted record would come back with the count alone and no study
            pipe.watch(self._word)  # type: ignore[no-untyped-call]
            if pipe.hget(self._word, "study_id") != self._claim.study_id.encode():
                raise self._messages_lost()
            pipe.multi()
            self._form.push(pipe, self._queue, clones)
            pipe.hincrby(self._word, "fed", len(clones))
            pipe.execute()

    def look(self) -> Backlog:
        """See ``MessageQueue``."""
        with asking(self._url), self._client.pipeline(transaction=True) as pipe:
            pipe.hmget(self._word, "study_id", "fed")
            self._form.look(pipe, self._queue)
            (study_id, fed), *answers = pipe.execute()
            if study_id != self._claim.study_id.encode() or fed is None:
                raise self._messages_lost()
            return Backlog(self._count(int(fed)), self._counts(answers))

    def release(self) -> int:
        """See ``MessageQueue``."""
        with asking(self._url):
            self._form.purge(self._client, self._queue, self.tag.encode())
            left = self._count_left()
            if self._client.hget(self._word, "study_id") == self._claim.study_id.encode():
                self._client.delete(self._word)
        return left.ready + left.in_hand

    def close(self) -> None:
        """See ``MessageQueue``."""
        self._client.close()

    def _messages_lost(self) -> BrokerError:
        return BrokerAway(
            f"{without_password(self._url)} was restarted or flushed: the messages that tuner fed"
            f" ({self._word}) are lost"
        )

    def _count_left(self) -> Left:
        with self._client.pipeline(transaction=True) as pipe:
            self._form.look(pipe, self._queue)
            return self._counts(pipe.execute())

    def _counts(self, answers: Sequence[Any]) -> Left:
        left = self._form.left(answers, self.tag.encode())
        for n in (left.ready, left.in_hand, left.failed):
            self._count(n)
        return left

    def _count(self, n: object) -> int:
        if not isinstance(n, int) or not 0 <= n <= LARGEST_COUNT:
            reported = one_line(repr(n)[:_SHOWN])
            raise BrokerError(
                f"{without_password(self._url)}: the count of messages in {self._queue} is {reported}"
            )
        return n

    def _refuse_foreign_messages(self) -> None:
        left = self._count_left()
        if n_others := left.ready + left.in_hand:
            raise ConfigError(
                f"{self.where} holds {pluralize(n_others, 'message')} that tuner did not feed",
                hint="Feed a separate queue, which need not exist yet: --set queue=study, or feeder.queue."
                f"{self._way_aside(left)} tuner removes only its own messages.",
            )

    def _way_aside(self, left: Left) -> str:
        """Return how to move waiting messages aside, as a part of a hint.

        RENAMENX is atomic and never overwrites a key.
        """
        if (
            self._form.name not in _MOVABLE or left.in_hand
        ):  # they would return to the queue when their worker ends
            return ""
        with self._client.pipeline(transaction=False) as pipe:
            keys = self._form.keys(self._queue)
            for key in keys:
                pipe.exists(key)
            there = [key for key, n in zip(keys, pipe.execute(), strict=True) if n]
        if not there or not all(map(str.isprintable, there)):  # Celery's keys of priorities are not printable
            return ""
        moves = [(shlex.quote(key), shlex.quote(f"{key}.aside")) for key in there]
        redis_cli = f"{_redis_cli(self._url)} renamenx"
        aside = " && ".join(f"{redis_cli} {key} {moved}" for key, moved in moves)
        back = " && ".join(f"{redis_cli} {moved} {key}" for key, moved in moves)
        return f" Or move these messages aside ({aside}) and back after the study ({back})."

    def _refuse_foreign_word(self, word: Any) -> None:
        """Raise ConfigError for a record of another study; a record without a study is ignored, because an
        older tuner wrote it after Redis was restarted.
        """
        data = {name.decode(): value.decode("utf-8", "replace") for name, value in word.items()}
        if data.get("study_id", self._claim.study_id) != self._claim.study_id:
            study, host = one_line(data.get("study", "unknown")), one_line(data.get("host", "unknown"))
            raise ConfigError(
                f"{self.where} is fed by another study: {study} on {host}",
                hint="Wait for its end. If it was killed, resume it, or empty the queue yourself and delete"
                f" {self._word}.",
            )


def _redis_cli(url: str) -> str:
    """Return the redis-cli command for the server at *url*, without user and password."""
    parts = urlsplit(without_password(url))
    if parts.scheme != "unix":
        return f"redis-cli -u {shlex.quote(without_password(url))}"
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis-cli -s {shlex.quote(parts.path)} -n {shlex.quote(database)}"


def find_queue(url: str, form: str | None, queue: str | None, timeout_s: float) -> tuple[str, str]:
    """Return the form and the name of the only queue with waiting messages; given values are kept.

    Raises:
        ConfigError: Redis does not answer, no messages wait, or they wait in several queues.
    """
    if form is not None and not (queue or FORMS[form].default_queue):
        raise ConfigError(f"a {form} of Redis has no usual name", hint="Name it: --queue KEY.")
    client = connect_redis(url, timeout_s)
    try:
        with asking(url):
            if form is not None:
                return form, queue or FORMS[form].default_queue
            found = [(one.name, name) for one, name in forms_of(client, queue)]
            others = [] if found else list_queues(client)
    except BrokerError as error:
        hint = hint_for(error, "Check the address, and that Redis runs.")
        raise ConfigError(str(error), hint=hint) from error
    finally:
        client.close()
    if len(found) == 1:
        return found[0]
    looked = f"in {queue}" if queue else "in the default queues of the libraries"
    if not found:
        raise ConfigError(
            f"{without_password(url)}: no messages wait {looked}{_describe_place(others)}",
            hint=_to_name(others),
        )
    several = ", ".join(f"{name} ({one})" for one, name in found)
    raise ConfigError(f"{without_password(url)}: messages wait in {several}", hint="Name --form and --queue.")


def empty_queue(url: str, form: str, queue: str, timeout_s: float) -> ConfigError:
    """Return the error for an empty *queue*, which names the queues that hold messages."""
    client = connect_redis(url, timeout_s)
    try:
        with asking(url):
            others = list_queues(client)
    except BrokerError:
        others = []
    finally:
        client.close()
    problem = f"the queue {queue} of {without_password(url)} is empty ({form})"
    return ConfigError(f"{problem}{_describe_place(others)}", hint=_to_name(others))


def _describe_place(others: Sequence[Holding]) -> str:
    """Return the queues where messages wait, as the end of a sentence."""
    if not others:
        return ""
    named = ", ".join(
        f"{one_line(one.queue)} ({one.n_messages}, {one.form})" for one in others[:_QUEUES_SHOWN]
    )
    more = f" and {len(others) - _QUEUES_SHOWN} more" if len(others) > _QUEUES_SHOWN else ""
    return f"; these hold messages: {named}{more}"


def _to_name(others: Sequence[Holding]) -> str:
    if not others:
        return "Name the queue (--queue), or stop its workers until some wait."
    first = others[0]
    return f"Name one: --form {first.form} --queue {shlex.quote(one_line(first.queue))}"
