"""A study of a service that really runs, and somebody who kills its processes, tuner's own and its broker."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from redis import Redis

from tuner.adapters.sqlite.store import SqliteStore
from tuner.core.domain.records import LaunchRecord

from ...processes import is_running
from ...redis_server import RedisServer
from ..queue_services import SERVICES
from ..sleeping_worker import sleeping_worker
from .toll import PATIENCE_S, BrokenPromise, Toll, check_whole, kept, wait_until

MARK = "TUNER_FAULTS"  #: what all processes of a campaign are found by
PROMISE_S = 10.0  #: until nothing is left of a killed tuner
INTERRUPTED = 130
BETWEEN_S = 8.0  #: kills, at most; a launch with its two windows takes about four
STUDY = (
    "study: {strategy: all, layouts: [1x2, 2x1], window: 1s, windows_per_launch: 2, warmup: 1s, repeats: 999,"
    " warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1, max_attempts: 9}\n"
)
#: what a spoilt launch says, by who was killed while it ran: words that no other victim brings
NAMED = {
    "supervisord": ("supervisord ended", "supervisord is silent", "supervisord does not answer"),
    "guardian": ("the guardian process",),
    "worker": ("terminated by SIGKILL",),
    "feeder": ("the feeder was killed by signal 9",),
    "redis": ("ConnectionError", "restarted or flushed"),
}
_AWAY_S = 10.0  #: so long after its kill Redis may still spoil a launch: it is away, and comes back
_MOMENT_S = 1.0  #: so long others: tuner has not seen yet that its guardian is gone


@dataclass(frozen=True)
class Typist:
    """Who types `tuner ...`: the program, its environment, what Popen needs to become them."""

    program: tuple[str, ...]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    become: dict[str, Any] = field(default_factory=dict)

    def begun(self, *arguments: str | Path) -> subprocess.Popen[bytes]:
        """The command, running; its stderr goes to the file ``stderr``."""
        with (self.folder / "stderr").open("ab") as stderr:
            return subprocess.Popen(
                [*self.program, *map(str, arguments)],
                cwd=self.folder,
                env={**os.environ, **self.environment, "TMPDIR": str(self.folder), "COLUMNS": "100"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                **self.become,
            )

    def typed(self, *arguments: str | Path) -> bytes:
        """What the command prints."""
        done = subprocess.run(
            [*self.program, *map(str, arguments)],
            cwd=self.folder,
            env={**os.environ, **self.environment, "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            **self.become,
        )
        if done.returncode:
            raise BrokenPromise(f"{arguments} gave {done.returncode}: {done.stderr.decode()}")
        return done.stdout

    def last_words(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")[-600:]


class RealCampaign:
    """A study of a real service, and somebody who kills."""

    def __init__(self, typist: Typist, victims: Sequence[str], seed: int, redis: RedisServer | None = None):
        self.toll = Toll()
        self._typist, self._victims, self._redis = typist, victims, redis
        self._chance = random.Random(f"faults {seed}")
        self._guardian_killed_s = -inf
        self._killed: list[tuple[float, str]] = []  #: when, by the wall clock, and who
        self._mark = f"faults-{uuid.uuid4().hex}"
        typist.environment[MARK] = self._mark
        self._study = typist.folder / "study.tuner.db"
        self._tuner: subprocess.Popen[bytes] | None = None

    def run(self, n_kills: int) -> Toll:
        try:
            self._go_on()
            while self.toll.kills.total() < n_kills:
                self._kill_one()
            self._end()
        except BaseException:
            sys.stderr.write(f"up to then: {self.toll.told()}\n")
            raise
        finally:
            self._end_all()
        return self.toll

    def _kill_one(self) -> None:
        time.sleep(self._chance.uniform(0.0, BETWEEN_S))
        victim = self._chance.choice(self._victims)
        before: list[dict[str, Any]] = []
        while True:
            before = kept(self._study)
            with suppress(ProcessLookupError):  # it had ended: another one
                pid, at_s = self._found(victim), time.time()
                os.kill(pid, signal.SIGKILL)
                self._killed.append((at_s, victim))
                break
        self.toll.kills[victim] += 1
        if victim == "guardian":
            self._guardian_killed_s = time.monotonic()
        if victim == "redis":
            assert self._redis is not None
            self._redis.process.wait()
            time.sleep(self._chance.uniform(0.0, 2.0))
            self._redis.start()
        if victim == "tuner":
            self._see_it_gone()
            self._go_on()
        after = kept(self._study)
        if after[: len(before)] != before:
            raise BrokenPromise(f"a kill of {victim} changed finished windows")

    def _found(self, victim: str) -> int:
        """The pid of such a victim; waits until there is one."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            assert self._tuner is not None
            if self._tuner.poll() is not None:
                self._go_on()
            if victim == "tuner":
                return self._tuner.pid
            if victim == "redis" and self._redis is not None:
                return self._redis.process.pid
            if pids := [pid for pid, what in self._processes().items() if what == victim]:
                return self._chance.choice(pids)
            if time.monotonic() > deadline_s:
                raise BrokenPromise(f"there is no {victim}: {self._typist.last_words()}")
            time.sleep(0.002)

    def _processes(self) -> dict[int, str]:
        """Pid and kind of every living process of the campaign but tuner."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if f"{MARK}={self._mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found[int(entry.name)] = _kind((entry / "cmdline").read_bytes().split(b"\0"))
                except OSError:
                    continue  # ended meanwhile, or of somebody else
        if self._tuner is not None:
            found.pop(self._tuner.pid, None)
        return found

    def _go_on(self) -> None:
        if self._tuner is not None and self._tuner.poll() is not None and self._tuner.returncode >= 0:
            said = self._typist.last_words()
            if self._tuner.returncode not in (2, 3) or "Traceback" in said:
                raise BrokenPromise(f"tuner ended with {self._tuner.returncode}: {said}")
            self.toll.ended_by_itself.append(" ".join(said.splitlines()[-4:]))
            if len(self.toll.ended_by_itself) > self.toll.kills.total():
                raise BrokenPromise(f"tuner ends again and again: {said}")
        how = ["--resume", self._study.name] if self._study.exists() else ["--study", self._study.name]
        self._tuner = self._typist.begun("grid", "s.yaml", *how)
        self.toll.n_studies += how[0] == "--study"
        started = self._tuner
        wait_until(lambda: self._study.exists() or started.poll() is not None, "a study")
        if not self._study.exists():
            raise BrokenPromise(f"no study was begun: {self._typist.last_words()}")

    def _go_on_if_ended(self) -> bool:
        assert self._tuner is not None
        if self._tuner.poll() is not None:
            self._go_on()
        return False

    def _see_it_gone(self) -> None:
        assert self._tuner is not None
        began_s = time.monotonic()
        self._tuner.wait()
        wait_until(lambda: not self._processes(), f"nothing runs: {self._processes()}", PROMISE_S)
        self.toll.longest_s = max(self.toll.longest_s, round(time.monotonic() - began_s, 2))
        left = [path.name for path in self._typist.folder.glob("tuner-*")]
        if left and began_s - self._guardian_killed_s > PROMISE_S:
            raise BrokenPromise(f"folders left behind: {left}")
        self.toll.n_folders_left += len(left)
        for name in left:
            shutil.rmtree(self._typist.folder / name)

    def _end(self) -> None:
        """Ctrl-C, then the account."""
        assert self._tuner is not None
        n_before = len(kept(self._study))
        wait_until(lambda: len(kept(self._study)) > n_before or self._go_on_if_ended(), "another window")
        self._tuner.send_signal(signal.SIGINT)
        if (ended := self._tuner.wait(PATIENCE_S)) != INTERRUPTED:
            raise BrokenPromise(f"Ctrl-C gave {ended}: {self._typist.last_words()}")
        wait_until(lambda: not self._processes(), "nothing runs after Ctrl-C", PROMISE_S)
        check_whole(self._study)
        toll = self.toll
        with SqliteStore.open(self._study, read_only=True) as store:
            launches, windows = [launch for _, launch in store.launches()], store.windows()
        toll.n_windows = sum(not window.void for window in windows)
        toll.n_void = sum(bool(window.void) for window in windows)
        failed = [launch for launch in launches if launch.error is not None]
        errors = [launch.error or "" for launch in failed]
        toll.n_failed = len(errors)
        toll.n_spoilt = len(errors) + sum(launch.ended_wall_s is None for launch in launches)
        toll.unnamed = [told(launch, self._killed) for launch in failed if not is_named(launch, self._killed)]
        toll.n_named = len(errors) - len(toll.unnamed)
        if toll.n_spoilt > toll.kills.total():
            raise BrokenPromise(f"{toll.n_spoilt} launches lost to {toll.kills.total()} kills: {errors}")

    def _end_all(self) -> None:
        for pid in self._processes():
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        if self._tuner is not None and self._tuner.poll() is None:
            self._tuner.kill()
            self._tuner.wait()


def is_named(launch: LaunchRecord, killed: Sequence[tuple[float, str]]) -> bool:
    """Whether its error has words of one who was *killed* (when, who) while it ran, or shortly before."""
    victims = {who for _, who in _meanwhile(launch, killed)}
    return any(word in (launch.error or "") for who in victims for word in NAMED.get(who, ()))


def told(launch: LaunchRecord, killed: Sequence[tuple[float, str]]) -> str:
    """Its error, and who was *killed* (when, who) at which second of it: to be looked at."""
    began_s = launch.started_wall_s
    kills = [f"{who} at {at_s - began_s:.2f} s" for at_s, who in _meanwhile(launch, killed)]
    took = "cut off" if launch.ended_wall_s is None else f"{launch.ended_wall_s - began_s:.2f} s"
    return f"{launch.error} [{launch.layout}, {took}; killed: {', '.join(kills) or 'nobody'}]"


def _meanwhile(launch: LaunchRecord, killed: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Those *killed* (when, who) while it ran, or so shortly before that it felt it."""
    ended_s = inf if launch.ended_wall_s is None else launch.ended_wall_s
    return [
        (at_s, who)
        for at_s, who in killed
        if launch.started_wall_s - (_AWAY_S if who == "redis" else _MOMENT_S) <= at_s <= ended_s
    ]


def _kind(words: Sequence[bytes]) -> str:
    line = b" ".join(words)
    for part, kind in (
        (b"supervisor.supervisord", "supervisord"),
        (b"guardian_process", "guardian"),
        (b"crash-stackwalk", "stackwalker"),
        (b"exec_shim", "shim"),
        (b"worker.py", "worker"),
        (b"app.py", "worker"),
        (b"crash-processor", "worker"),
        (b"feed", "feeder"),
    ):
        if part in line:
            return kind
    return line.decode(errors="replace")


def script_study(typist: Typist) -> Sequence[str]:
    """A worker whose items only sleep."""
    (typist.folder / "worker.py").write_text(sleeping_worker("0.01"))
    (typist.folder / "s.yaml").write_text(
        f"service: {{kind: script, name: study, command: [{typist.program[0]}, worker.py]}}\n{STUDY}"
    )
    return ("tuner", "supervisord", "guardian", "worker")


def crash_study(typist: Typist) -> Sequence[str]:
    """The built-in service, whose items start stackwalkers."""
    (typist.folder / "s.yaml").write_text(f"service: {{kind: crash-processor, name: study}}\n{STUDY}")
    return ("stackwalker", "stackwalker", "worker", "tuner")


def queue_study(typist: Typist, redis: RedisServer) -> Sequence[str]:
    """A worker behind a list in Redis, which tuner fills."""
    service, folder = SERVICES["list"], typist.folder
    (folder / "app.py").write_text(service.source)
    environment = {"BROKER": redis.url, "TRUTH": os.devnull, "PYTHONPATH": "."}
    subprocess.run(
        [typist.program[0], "-c", "import app\nfor n in range(6): app.send(0.02)"],
        cwd=folder,
        env={**os.environ, **typist.environment, **environment},
        check=True,
        **typist.become,
    )
    typist.typed("sample", "--url", redis.url, "-n", "5", "-o", "sample.json")
    with closing(Redis.from_url(redis.url)) as client:
        client.flushall()
    (folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: study\n  command: [{typist.program[0]}, app.py]\n"
        f"  environment: {{BROKER: '{redis.url}', TRUTH: {os.devnull}}}\n  stop: {{wait: 5s}}\n"
        "  probe: {kind: queue, timeout: 30s}\n"
        f"  feeder: {{kind: queue, form: {service.form}, url: '{redis.url}', queue: {service.queue},"
        f" sample: sample.json, timeout: 30s}}\n{STUDY}"
    )
    return ("redis", "feeder", "worker", "tuner")
