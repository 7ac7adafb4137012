"""Safety limits on a real host: readings of /proc and of the user's command, compared with the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tuner.adapters.proc.process_tree import read_once
from tuner.adapters.processes.repeated_command import AskedCommand, RepeatedCommand
from tuner.core.domain.safety_limits import BoxNow, Braked, BrakeLimits, Braking
from tuner.core.domain.window import Reading
from tuner.core.errors import ConfigError
from tuner.core.messages.host import still_over
from tuner.ports import Clock

LOOKS_EVERY_S = 1.0
#: time for the host to recover: a queue is purged and memory is returned; see `Braking` for the load
RECOVERS_WITHIN_S = 60.0
WORTH_A_WORD_S = 5.0  #: wait after which a warning is printed


class LimitsBrake:
    """Safety limits; implements the port ``Brake``.

    Args:
        limits: The limits.
        leaves_out: Whether the study continues without a layout that exceeds a limit.
        look: Returns the current load and memory of the host.
        warn: Receives a slug (``still-over``) and a text.
        command: The user's command that checks a limit, or None.
    """

    def __init__(
        self,
        clock: Clock,
        limits: BrakeLimits,
        *,
        leaves_out: bool,
        look: Callable[[], BoxNow],
        warn: Callable[[str, str], None],
        command: RepeatedCommand | None = None,
    ) -> None:
        self._clock, self._limits, self._look, self._command = clock, limits, look, command
        self._warn = warn
        self.leaves_out = leaves_out
        self._watched: LaunchBrake | None = None

    @contextmanager
    def watching(self, facts: Mapping[str, str]) -> Iterator[LaunchBrake]:
        """Check the limits of one launch, from before its start."""
        asking = nullcontext(None) if self._command is None else self._command.asking(facts)
        with asking as asked:
            self._watched = LaunchBrake(self._clock, Braking(self._limits), self._look, asked)
            try:
                yield self._watched
            finally:
                self._watched = None

    def check(self) -> None:
        """Check the limits of the launch that is being started, if any; cheap if called often.

        Raises:
            Braked: a limit is exceeded.
        """
        if self._watched is not None:
            self._watched.check_while_starting()

    def still_over(self, facts: Mapping[str, str], stopped: Callable[[], bool]) -> str | None:
        """Wait until the host recovers while nothing runs; return the exceeded limit, or None."""
        with self.watching(facts) as watched:
            began_s, reported = self._clock.monotonic_s(), False
            while (over := watched.over()) and not stopped():
                waited_s = self._clock.monotonic_s() - began_s
                if waited_s >= RECOVERS_WITHIN_S and watched.is_answered:
                    over = watched.over()  # the command may have answered since
                    break
                if waited_s >= WORTH_A_WORD_S and not reported:
                    reported = True
                    self._warn(*still_over(over, RECOVERS_WITHIN_S))
                self._clock.sleep_until(self._clock.monotonic_s() + LOOKS_EVERY_S)
        return over


class LaunchBrake:
    """Safety limits of one launch."""

    def __init__(
        self, clock: Clock, braking: Braking, look: Callable[[], BoxNow], asked: AskedCommand | None
    ) -> None:
        self._clock, self._braking, self._look, self._asked = clock, braking, look, asked
        self._next_s = float("-inf")  #: time of the next check during a start

    def passed(self, reading: Reading | None) -> str | None:
        """Check the limits; return a description of an exceeded one, or None."""
        items = None if reading is None else (reading.n_done_total, reading.n_failed_total)
        answer = None if self._asked is None else self._asked.answer()
        return self._braking.look(self._clock.monotonic_s(), self._look(), items, answer)

    def check_while_starting(self) -> None:
        """Check the limits at most once per second; raise Braked if one is exceeded."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOKS_EVERY_S
        if why := self.passed(None):
            raise Braked(f"while it started: {why}")

    @property
    def is_answered(self) -> bool:
        """Whether the command has ended once, or there is no command."""
        return self._asked is None or self._asked.answer() is not None

    def over(self) -> str | None:
        """Return the limit that is exceeded now, for any time; a command without an answer counts as one."""
        self.passed(None)
        if not self.is_answered:
            return self._braking.over or "the command of the safety limits has not answered"
        return self._braking.over


def read_box(proc: Path) -> BoxNow:
    """Read load and memory of the whole host from /proc, also in a container.

    Raises:
        ConfigError: /proc does not contain them.
    """
    load, memory = read_once(f"{proc}/loadavg"), read_once(f"{proc}/meminfo")
    if not load or not memory:
        raise ConfigError(f"{proc} has no load and memory", hint="Safety limits need Linux' /proc.")
    kib = {line.split()[0]: int(line.split()[1]) for line in memory.splitlines() if line}
    if b"MemAvailable:" not in kib:
        raise ConfigError(f"{proc}/meminfo has no MemAvailable", hint="It needs Linux 3.14 or later.")
    total, available = kib[b"MemTotal:"] * 1024, kib[b"MemAvailable:"] * 1024
    return BoxNow(float(load.split()[0]), total - available, total)
