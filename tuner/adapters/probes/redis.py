"""Probe that adds up numbers in Redis, such as the length of a queue or of a list of results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from tuner.adapters.bounded_socket import Bound, BoundedSocket
from tuner.adapters.probes.polled import MOST_FALLS, Counts, PolledCounting, polling
from tuner.adapters.queues.queue import hint_for
from tuner.config.fields import Section, TimeLimit
from tuner.config.kinds import ProbeSettings, Surroundings
from tuner.config.request_fields import RedisUrl
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.safe_text import one_line
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from redis import Redis

    from tuner.config.settings import Settings

#: counters: a fall is a restart; a fall of a length means that items left
_COUNTERS = ("get", "hget", "smembers_hget")
MOST_MEMBERS = 10_000
_SHOWN = 80
_WHOLE = re.compile(rb"-?[0-9]{1,19}")
#: limit for all answers of one sample; lists of empty lists take sixteen times as much memory
_LARGEST_BYTES = 8 << 20


RedisKey = Annotated[str, Field(min_length=1)]  #: text
_TERMS = ("llen", "hlen", "zcard", "scard", "get", "hget", "smembers_hget")


class TermSettings(Section):
    """One number in Redis, for example `llen: jobs` for the length of the Redis list `jobs`."""

    llen: RedisKey | None = None  #: Length of the Redis list with this key
    hlen: RedisKey | None = None  #: Number of fields of the Redis hash with this key
    zcard: RedisKey | None = None  #: Number of members of the Redis sorted set with this key
    scard: RedisKey | None = None  #: Number of members of the Redis set with this key
    get: RedisKey | None = None  #: Number that is the value of this Redis key
    #: Key of a Redis hash, and the name of the field that contains the number
    hget: tuple[RedisKey, RedisKey] | None = None
    #: Key of a Redis set whose members are keys of hashes, and the name of a field. The number is the sum of
    #: the field over these hashes
    smembers_hget: tuple[RedisKey, RedisKey] | None = None
    sign: Literal["plus", "minus"] = "plus"  #: Whether tuner adds or subtracts the number

    @model_validator(mode="after")
    def _check_one_query(self) -> Self:
        if sum(getattr(self, name) is not None for name in _TERMS) != 1:
            raise ValueError(f"should request one of {', '.join(_TERMS)}")
        return self

    @property
    def asked(self) -> tuple[str, str, str]:
        """Command, key and, if the command takes one, field."""
        (name,) = (name for name in _TERMS if getattr(self, name) is not None)
        given = getattr(self, name)
        return (name, given, "") if isinstance(given, str) else (name, *given)

    @property
    def term(self) -> Term:
        """The query, with its sign."""
        return Term(*self.asked, sign=1 if self.sign == "plus" else -1)


def _at_least_one(terms: tuple[TermSettings, ...]) -> tuple[TermSettings, ...]:
    if not terms:
        raise ValueError("should name at least one")
    return terms


class RedisProbeSettings(ProbeSettings):
    """tuner adds up one or more numbers in Redis."""

    kind: Literal["redis"]  #: Kind of probe
    url: RedisUrl  #: URL of the Redis server
    #: Numbers in Redis whose sum is the number of finished items
    count: Annotated[tuple[TermSettings, ...], AfterValidator(_at_least_one)]
    failed: tuple[TermSettings, ...] = ()  #: Numbers in Redis whose sum is the number of failed items
    #: Whether `count` is the number of items that remain in a queue (yes), or the number of finished items
    #: (no)
    falls: bool = False
    #: Number of all items that were added to the queue so far. tuner subtracts `count` from this number (only
    #: with `falls: yes`); None: nothing is added to the queue during a launch
    fed: TermSettings | None = None
    timeout: TimeLimit = 2.0  #: Time limit for each answer of Redis

    @field_validator("fed")
    @classmethod
    def _check_falls(cls, fed: TermSettings | None, info: ValidationInfo) -> TermSettings | None:
        if fed is not None and info.data.get("falls") is False:
            raise ValueError("belongs to a count that falls: set falls to yes")
        return fed

    @property
    def servers(self) -> Mapping[str, str]:
        """See `ProbeSettings`."""
        return {"url": self.url}

    def build(self, settings: Settings, around: Surroundings) -> RedisProbe:
        """See `ProbeSettings`."""
        probe = RedisProbe(
            around.clock,
            self.url,
            [one.term for one in self.count],
            [one.term for one in self.failed],
            self.timeout,
            around.warn,
            falls=self.falls,
            fed=None if self.fed is None else self.fed.term,
        )
        if settings.is_there_already:
            probe.check()
        return probe


@dataclass(frozen=True, slots=True)
class Term:
    """One number in Redis."""

    command: str  #: llen, hlen, zcard, scard, get, hget or smembers_hget
    key: str
    #: field of hget; of smembers_hget: field of the hashes whose keys are the members of *key*
    field: str = ""
    sign: Literal[1, -1] = 1

    def __str__(self) -> str:
        return " ".join(filter(None, [self.command, self.key, self.field]))


class RedisProbe:
    """Reads all terms in one transaction at each sample.

    Args:
        done: terms whose sum, each with its sign, is the number of finished items.
        failed: terms whose sum is the number of failed items.
        falls: *done* is the remaining work: it falls as items finish, and grows as they are fed.
        fed: number of items fed so far, if *done* falls; None: no items are fed during a launch.

    Raises:
        ConfigError: the client is not installed.
    """

    def __init__(
        self,
        clock: Clock,
        url: str,
        done: Sequence[Term],
        failed: Sequence[Term],
        timeout_s: float,
        warn: Warn,
        *,
        falls: bool = False,
        fed: Term | None = None,
    ) -> None:
        try:
            import redis  # noqa: F401  # optional dependency; fail before anything starts
        except ImportError as error:
            raise ConfigError(
                "the redis probe needs the redis client, which is not installed",
                hint="pip install 'proctuner[redis]'",
            ) from error
        self._clock = clock
        self._url = url
        self._done, self._failed = tuple(done), tuple(failed)
        self._timeout_s = timeout_s
        self._warn = warn
        self._falls, self._fed = falls, fed

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[PolledCounting]:  # noqa: ARG002  # the port's signature
        """Count during one launch, over a separate connection."""
        bound = Bound(self._timeout_s, _LARGEST_BYTES)
        client = self._client(bound)
        asked = PolledCounting(
            self._clock,
            lambda: self._counts(client, bound),
            "Redis",
            self._warn,
            most_falls=MOST_FALLS if self._are_counters else 0,
        )
        with closing(client), polling(asked) as counting:
            yield counting

    def check(self) -> None:
        """Query once, before anything is started.

        Raises:
            ConfigError: the server does not answer, or not with these numbers.
        """
        from redis import BusyLoadingError

        bound = Bound(self._timeout_s, _LARGEST_BYTES)
        with closing(self._client(bound)) as client:
            try:
                self._counts(client, bound)
            except MeasurementError as error:
                if isinstance(error.__cause__, BusyLoadingError):
                    return  # it runs, and will answer
                raise ConfigError(
                    f"the redis probe cannot count: {one_line(error.problem)}",
                    hint=hint_for(error, "Start Redis first (a hook before_study may), or correct the url."),
                ) from error

    def _client(self, bound: Bound) -> Redis:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        client = Redis.from_url(
            self._url,
            socket_timeout=self._timeout_s,
            protocol=2,  # Redis before version 6 rejects HELLO
            socket_connect_timeout=self._timeout_s,
            retry=Retry(NoBackoff(), 0),  # the next sample is the retry
        )
        pool = client.connection_pool
        pool.connection_class = _with_limits(pool.connection_class, bound)
        return client

    @property
    def _are_counters(self) -> bool:
        return not self._falls and all(
            term.command in _COUNTERS and term.sign == 1 for term in (*self._done, *self._failed)
        )

    def _counts(self, client: Redis, bound: Bound) -> Counts:
        from redis import RedisError

        terms = (*self._done, *self._failed, *([] if self._fed is None else [self._fed]))
        bound.renew()
        try:
            numbers = _numbers(client, terms)
        except RedisError as error:  # includes timeouts and lost connections
            raise MeasurementError(f"{type(error).__name__}: {error}") from error
        if self._are_counters:
            for term in terms:
                for name, n in numbers[term].items():
                    if n < 0:
                        raise MeasurementError(f"{name} is {n}: no count")
            return Counts(
                {name: n for term in self._done for name, n in numbers[term].items()},
                {name: n for term in self._failed for name, n in numbers[term].items()},
            )
        total = _sum(numbers, self._done)
        if self._falls:
            fed = 0 if self._fed is None else _sum(numbers, [self._fed])
            text = (
                "messages fed minus messages left"
                if self._fed
                else "messages that left the queue (fed is not set)"
            )
            done = {text: fed - total}
        else:
            done = {"the sum of count": total}
        return Counts(done, {"the sum of failed": _sum(numbers, self._failed)})


def _with_limits(kind: Any, bound: Bound) -> Any:
    """Return a subclass of *kind* (with or without TLS) that fails if an answer is too late or too large."""

    class Bounded(kind):  # type: ignore[misc]  # selected by the url
        def _connect(self) -> Any:
            return BoundedSocket(super()._connect(), bound)

    return Bounded


@contextmanager
def _trusting_nobody() -> Iterator[None]:
    """Convert all exceptions of the client, which trusts its server and may fail in any way."""
    from redis import RedisError

    try:
        yield
    except RedisError:
        raise
    except Exception as error:
        text = f"the answer is none of Redis: {type(error).__name__}: {error}"
        raise MeasurementError(text) from error


def _numbers(client: Redis, terms: Sequence[Term]) -> dict[Term, dict[str, int]]:
    """Return for each term its numbers by name: one, but several for the members of a set."""
    members: dict[str, list[bytes]] = {}
    for term in terms:
        if term.command == "smembers_hget":
            found: Any = client.sscan_iter(term.key, count=1000)
            with _trusting_nobody():
                members[term.key] = sorted(set(islice(found, MOST_MEMBERS + 1)))
            if not all(isinstance(member, bytes) for member in members[term.key]):
                raise MeasurementError(f"{term.key} has members that are no text")
            if len(members[term.key]) > MOST_MEMBERS:
                raise MeasurementError(f"{term.key} has more than {MOST_MEMBERS} members")
    names: list[tuple[Term, str]] = []
    with client.pipeline(transaction=True) as asked:
        for term in terms:
            if term.command == "smembers_hget":
                for member in members[term.key]:
                    asked.hget(member, term.field)
                    names.append((term, f"{term.field} of {member.decode('utf-8', 'replace')}"))
                continue
            arguments = (term.key, term.field) if term.command == "hget" else (term.key,)
            asked.execute_command(term.command.upper(), *arguments)  # type: ignore[no-untyped-call]
            names.append((term, str(term)))
        with _trusting_nobody():
            answers = asked.execute() if names else []
    numbers: dict[Term, dict[str, int]] = {term: {} for term in terms}
    for (term, name), answer in zip(names, answers, strict=True):
        if answer is None and term.command == "smembers_hget":
            continue  # that one has disappeared meanwhile
        numbers[term][name] = _number(name, answer)
    return numbers


def _number(name: str, answer: Any) -> int:
    """Return *answer* as a number: 0 for a missing item, else a whole number such as Redis' INCR accepts."""
    if answer is None:
        return 0
    if type(answer) is int:  # a bool, of RESP3, is one too
        return answer
    if isinstance(answer, bytes) and _WHOLE.fullmatch(answer) is not None:
        return int(answer)
    raise MeasurementError(f"{name} is no whole number: {repr(answer)[:_SHOWN]}")


def _sum(numbers: dict[Term, dict[str, int]], terms: Sequence[Term]) -> int:
    return sum(term.sign * n for term in terms for n in numbers[term].values())
