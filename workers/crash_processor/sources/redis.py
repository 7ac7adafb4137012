"""Queue in Redis (6.2 or newer): LMOVE takes an item from the queue into a list of the worker.

Each operation that must be atomic is one Lua script. Living workers are detected by the names of Redis's
connections: there is no heartbeat, and a killed process is detected at once. If a worker is wrongly
considered dead (its connection broke), some work is only done twice: its items are no longer in its list, so
it cannot finish them any more.
The client is redis-py, whose import takes 0.3 s of CPU, so this module is only imported if Redis is chosen.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from ..errors import InputError, SourceLostError
from ..options import Options
from ..presence import worker_name
from ..stop_event import StopEvent

try:
    import redis
    from redis import exceptions
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from .redis_address import RedisAddress
except ImportError as error:
    raise InputError(
        f"a crash source in Redis needs the package redis: {error}",
        hint="Run pip install 'proctuner[redis]'.",
    ) from error

_LOOK_FOR_DEAD_EVERY_S = 5.0
_LOOK_FOR_DEAD_IDLE_S = 1.0
#: After a start of the server, no worker counts as dead for this time, because it may not have reconnected.
_SETTLING_S = 3

_REFUSALS = (exceptions.AuthenticationError, exceptions.AuthorizationError)  # kinds of ConnectionError
_TEMPORARY = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
)
_TEMPORARY_CODES = ("BUSY", "MISCONF")  # without separate exceptions

# KEYS: the worker's list, new, workers; ARGV: the worker, which is registered in the same step as its item.
_TAKE = (
    "local id = redis.call('LMOVE', KEYS[2], KEYS[1], 'RIGHT', 'LEFT') "
    "if id then redis.call('SADD', KEYS[3], ARGV[1]) end return id"
)
_RETURN_ALL = (
    "local n = 0 while redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT') do n = n + 1 end "
    "redis.call('SREM', KEYS[3], ARGV[1]) return n"
)

# KEYS: the worker's list, new, done, dead, attempts; ARGV: the crash id. 0: the item is not in the list.
_NOT_OURS = "if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end "
_ACK = _NOT_OURS + "redis.call('HDEL', KEYS[5], ARGV[1]) redis.call('SADD', KEYS[3], ARGV[1]) return 1"
_OFFER_AGAIN = (
    _NOT_OURS + "redis.call('HDEL', KEYS[5], ARGV[1]) redis.call('LPUSH', KEYS[2], ARGV[1]) return 1"
)
_RELEASE = _NOT_OURS + "redis.call('RPUSH', KEYS[2], ARGV[1]) return 1"
_REJECT = (
    _NOT_OURS + "redis.call('HDEL', KEYS[5], ARGV[1]) redis.call('HSET', KEYS[4], ARGV[1], ARGV[2]) return 1"
)
_RETRY = (
    _NOT_OURS
    + "local n = redis.call('HINCRBY', KEYS[5], ARGV[1], 1) "
    + "if n < tonumber(ARGV[3]) then redis.call('LPUSH', KEYS[2], ARGV[1]) return 1 end "
    + "redis.call('HDEL', KEYS[5], ARGV[1]) "
    + "redis.call('HSET', KEYS[4], ARGV[1], ARGV[2] .. ' (' .. n .. ' attempts)') return 2"
)


class RedisQueue:
    """The keys of one queue, and a connection that reconnects. Calls may come from several threads."""

    def __init__(
        self, url: str, queue_name: str, *, delays_s: Sequence[float] = (), stop: StopEvent | None = None
    ) -> None:
        self.name = queue_name
        #: the random suffix distinguishes containers with equal host names and pids
        self.worker = f"{worker_name()}.{os.urandom(3).hex()}"
        self.n_connections = 0  #: connections made so far; each one after the first means that one was lost
        self._address = RedisAddress(url)
        self._delays_s = delays_s
        self._stop = stop
        self._lock = threading.Lock()  # one connection, for the life of the worker
        self._pool = self._address.pool(
            client_name=self.key(self.worker),
            redis_connect_func=self._introduce,
            protocol=2,
            decode_responses=True,
            encoding_errors="surrogateescape",  # preserves crash ids that are not UTF-8
            retry=Retry(NoBackoff(), 0),  # `call` retries after the delays
        )
        self._client: Any = redis.Redis(connection_pool=self._pool)

    @classmethod
    def from_options(cls, options: Options, stop: StopEvent | None = None) -> RedisQueue:
        """Make the queue for these options; without *stop* (a command), do not wait for an absent server."""
        delays_s = options.backoff_delays if stop is not None else ()
        return cls(options.redis_url, options.redis_queue_name, delays_s=delays_s, stop=stop)

    def key(self, *parts: str) -> str:
        """Return the name of a key of the queue."""
        return ":".join((self.name, *parts))

    def call(self, *command: object) -> Any:
        """Execute a command, on a new connection if the old one broke.

        It may be executed twice; a command that must not be is a script that detects a repetition.

        Raises:
            SourceLostError: Redis was unreachable for all of the delays, or until a stop.
            InputError: Redis refused the command.
        """
        with self._lock:
            for delay_s in self._delays_s:
                try:
                    return self._client.execute_command(*command)
                except exceptions.RedisError as error:
                    self._give_up_unless_temporary(error)
                    if self._stop is None:
                        time.sleep(delay_s)
                    elif self._stop.wait(delay_s):
                        break
            try:
                return self._client.execute_command(*command)
            except exceptions.RedisError as error:
                self._give_up_unless_temporary(error)
                raise SourceLostError(
                    f"Redis at {self._address} is out of reach: {_reason(error)}"
                ) from error

    def fill(self, crash_ids: list[str]) -> int:
        """Put ids into the queue; return the number of new ones."""
        known = set(self.call("LRANGE", self.key("new"), 0, -1))
        known.update(self.call("SMEMBERS", self.key("done")), self.call("HKEYS", self.key("dead")))
        for worker in self.call("SMEMBERS", self.key("workers")):
            known.update(self.call("LRANGE", self.key("cur", worker), 0, -1))
        new = [crash_id for crash_id in crash_ids if crash_id not in known]
        for start in range(0, len(new), 1000):
            self.call("LPUSH", self.key("new"), *new[start : start + 1000])
        return len(new)

    def status(self) -> dict[str, int]:
        """Return the numbers of items by state."""
        workers = self.call("SMEMBERS", self.key("workers"))
        return {
            "new": self.call("LLEN", self.key("new")),
            "cur": sum(self.call("LLEN", self.key("cur", worker)) for worker in workers),
            "done": self.call("SCARD", self.key("done")),
            "dead": self.call("HLEN", self.key("dead")),
        }

    def connected_workers(self) -> set[str]:
        """Return the workers of this queue that are connected to Redis."""
        prefix = self.key("")
        names = (client.get("name", "") for client in self.call("CLIENT LIST"))
        return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}

    def uptime_s(self) -> int:
        """Return the uptime of the server in seconds."""
        return int(self.call("INFO", "server")["uptime_in_seconds"])

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._pool.disconnect()

    def _introduce(self, connection: Any) -> None:
        """Log in and set the client name; called for every new connection."""
        connection.on_connect()
        self.n_connections += 1

    def _give_up_unless_temporary(self, error: exceptions.RedisError) -> None:
        is_temporary = isinstance(error, _TEMPORARY) or str(error).startswith(_TEMPORARY_CODES)
        if isinstance(error, _REFUSALS) or not is_temporary:
            raise InputError(f"Redis at {self._address} refused: {error}") from error


def _reason(error: exceptions.RedisError) -> str:
    """Return the kernel's message, if any, because redis-py adds the address, which is already shown."""
    cause = error.__context__
    return cause.strerror if isinstance(cause, OSError) and cause.strerror else str(error)


class RedisCrashSource:
    """Crash source from a queue in Redis; finished items go to the set of done ones, or back if *endless*."""

    def __init__(self, queue: RedisQueue, *, endless: bool = False, max_attempts: int = 3) -> None:
        self._queue = queue
        self._cur = queue.key("cur", queue.worker)
        self._max_attempts = max_attempts
        self._finish = _OFFER_AGAIN if endless else _ACK
        self._held: set[str] = set()
        self._n_connections_seen = 0
        self._look_for_dead_at_s = 0.0
        self._return_dead()

    @classmethod
    def from_options(cls, options: Options, stop: StopEvent) -> RedisCrashSource:
        """Make the source for these options."""
        if not (options.fs_root / "crashes").is_dir():
            raise InputError(f"{options.fs_root} is not a spool", hint="Fill one: crash-processor fill.")
        queue = RedisQueue.from_options(options, stop)
        return cls(queue, endless=options.endless, max_attempts=options.max_attempts)

    def new_crashes(self) -> tuple[str, str] | None:
        """Take the item with the longest wait."""
        if time.monotonic() >= self._look_for_dead_at_s:
            self._return_dead()
        crash_id = self._of_worker(_TAKE, self._queue.worker)
        if self._queue.n_connections != self._n_connections_seen:
            self._come_back(crash_id)
        if crash_id is None:
            idle_look_s = time.monotonic() + _LOOK_FOR_DEAD_IDLE_S
            self._look_for_dead_at_s = min(self._look_for_dead_at_s, idle_look_s)
            return None
        self._held.add(crash_id)
        return crash_id, crash_id

    def ack(self, receipt: str) -> bool:
        """Mark the item as done; return False if another worker put it back, considering this one dead."""
        return self._settle(self._finish, receipt) == 1

    def release(self, receipt: str) -> None:
        """Put the item back as the next one to be taken."""
        self._settle(_RELEASE, receipt)

    def retry(self, receipt: str, reason: str) -> bool:
        """Put the item at the end of the queue, or reject it (True)."""
        return self._settle(_RETRY, receipt, reason, self._max_attempts) == 2

    def reject(self, receipt: str, reason: str) -> None:
        """Put the item into the hash of dead letters: crash id -> reason."""
        self._settle(_REJECT, receipt, reason)

    def depth(self) -> int:
        """Return the length of the queue's list."""
        return int(self._queue.call("LLEN", self._queue.key("new")))

    def close(self) -> None:
        """Put back the items of this worker and close the connection."""
        try:
            self._of_worker(_RETURN_ALL, self._queue.worker)
        finally:
            self._queue.close()

    def _settle(self, script: str, crash_id: str, *arguments: object) -> int:
        key = self._queue.key
        keys = (self._cur, key("new"), key("done"), key("dead"), key("attempts"))
        answer = int(self._queue.call("EVAL", script, len(keys), *keys, crash_id, *arguments))
        self._held.discard(crash_id)
        return answer

    def _come_back(self, just_taken: str | None) -> None:
        """Put back items that were taken for this worker but whose reply was lost with a connection."""
        self._n_connections_seen = self._queue.n_connections
        ours = {*self._held, just_taken}
        for crash_id in self._queue.call("LRANGE", self._cur, 0, -1):
            if crash_id not in ours:
                self._settle(_RELEASE, crash_id)

    def _return_dead(self) -> None:
        """Put back the items of workers without a connection; like in `fs`, no attempt is counted."""
        self._look_for_dead_at_s = time.monotonic() + _LOOK_FOR_DEAD_EVERY_S
        # First the workers, then the connections: a worker that joins in between is not in the first list.
        workers = set(self._queue.call("SMEMBERS", self._queue.key("workers")))
        dead = workers - self._queue.connected_workers() - {self._queue.worker}
        if dead and self._queue.uptime_s() >= _SETTLING_S:
            for worker in dead:
                self._of_worker(_RETURN_ALL, worker)

    def _of_worker(self, script: str, worker: str) -> Any:
        key = self._queue.key
        keys = (key("cur", worker), key("new"), key("workers"))
        return self._queue.call("EVAL", script, len(keys), *keys, worker)
