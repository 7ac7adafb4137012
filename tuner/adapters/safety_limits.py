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
RECOVERS_WITHIN_S = 60.0  #: a queue is purged by then, memory is given back; see `Braking` for the load
WORTH_A_WORD_S = 5.0  #: of waiting for that


class LimitsBrake:
    """The port ``Brake``.

    Args:
        limits: what must not be passed.
        leaves_out: a layout that passes one is left out, and the study goes on.
        look: gives the box as it is now.
        warn: gets a slug and a text: ``still-over``.
        command: asked beside; None: there is none.
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
        """Look at one launch, from before it starts."""
        asking = nullcontext(None) if self._command is None else self._command.asking(facts)
        with asking as asked:
            self._watched = LaunchBrake(self._clock, Braking(self._limits), self._look, asked)
            try:
                yield self._watched
            finally:
                self._watched = None

    def check(self) -> None:
        """Look once more at the launch that is being started, if there is one; cheap when called often.

        Raises:
            Braked: a limit is passed.
        """
        if self._watched is not None:
            self._watched.check_while_starting()

    def still_over(self, facts: Mapping[str, str], stopped: Callable[[], bool]) -> str | None:
        """See whether the box recovers while nothing runs."""
        with self.watching(facts) as watched:
            began_s, reported = self._clock.monotonic_s(), False
            while (over := watched.over()) and not stopped():
                waited_s = self._clock.monotonic_s() - began_s
                if waited_s >= RECOVERS_WITHIN_S and watched.is_answered:
                    over = watched.over()  # it may have answered since it was asked
                    break
                if waited_s >= WORTH_A_WORD_S and not reported:
                    reported = True
                    self._warn(*still_over(over, RECOVERS_WITHIN_S))
                self._clock.sleep_until(self._clock.monotonic_s() + LOOKS_EVERY_S)
        return over


class LaunchBrake:
    """The brake while one launch runs."""

    def __init__(
        self, clock: Clock, braking: Braking, look: Callable[[], BoxNow], asked: AskedCommand | None
    ) -> None:
        self._clock, self._braking, self._look, self._asked = clock, braking, look, asked
        self._next_s = float("-inf")  #: of a look while it starts

    def passed(self, reading: Reading | None) -> str | None:
        """Look, and say what has passed its limit."""
        items = None if reading is None else (reading.n_done_total, reading.n_failed_total)
        answer = None if self._asked is None else self._asked.answer()
        return self._braking.look(self._clock.monotonic_s(), self._look(), items, answer)

    def check_while_starting(self) -> None:
        """At most once a second, whoever asks how often."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOKS_EVERY_S
        if why := self.passed(None):
            raise Braked(f"while it started: {why}")

    @property
    def is_answered(self) -> bool:
        """Whether the command has ended once, or there is none."""
        return self._asked is None or self._asked.answer() is not None

    def over(self) -> str | None:
        """What is over a limit, however short; a command that has not answered yet counts as that."""
        self.passed(None)
        if not self.is_answered:
            return self._braking.over or "the command of the safety limits has not answered"
        return self._braking.over


def read_box(proc: Path) -> BoxNow:
    """Read load and memory from /proc: of the whole box, whatever container we are in.

    Raises:
        ConfigError: they are not there.
    """
    load, memory = read_once(f"{proc}/loadavg"), read_once(f"{proc}/meminfo")
    if not load or not memory:
        raise ConfigError(f"{proc} has no load and memory", hint="Safety limits need Linux' /proc.")
    kib = {line.split()[0]: int(line.split()[1]) for line in memory.splitlines() if line}
    if b"MemAvailable:" not in kib:
        raise ConfigError(f"{proc}/meminfo has no MemAvailable", hint="It needs Linux 3.14 or later.")
    total, available = kib[b"MemTotal:"] * 1024, kib[b"MemAvailable:"] * 1024
    return BoxNow(float(load.split()[0]), total - available, total)
