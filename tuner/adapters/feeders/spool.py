"""Feeder for the built-in crash processor: a spool folder that is filled once and reused by all launches."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tuner.adapters.processes.signals import ending_in_words, running_in_own_group
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError

_READY = "new"  #: the folder of a spool that holds the items nobody has taken


class SpoolFeeder:
    """Keeps a spool of items that the workers put back when they have finished them (``--endless``).

    A spool that holds items already is the user's own: nothing is added to it.
    """

    def __init__(self, spool: Path, fill_command: Sequence[str], user: str | None = None) -> None:
        self._ready = spool / _READY
        self._spool = spool
        self._fill_command = fill_command
        self._user = user

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:  # noqa: ARG002  # one spool holds enough for the largest
        """See that it is full. Afterwards it stays: the next layout takes from the same items."""
        self.prepare()
        yield

    def prepare(self) -> None:
        """Fill the spool when it is empty.

        Raises:
            ConfigError: it is not there, cannot be written, or cannot be filled.
        """
        self._check()
        if self.is_dry():
            self._fill()

    def away(self) -> str:
        """It is a folder."""
        return ""

    def rest(self) -> None:
        """Nothing is sent."""

    def is_dry(self) -> bool:
        """Whether no item waits: one look at the first entry, however many there are."""
        try:
            with os.scandir(self._ready) as entries:
                return next(entries, None) is None
        except FileNotFoundError:
            return True

    def problem(self) -> str:
        """It is filled before a launch."""
        return ""

    def pids(self) -> frozenset[int]:
        """No process: the workers feed one another."""
        return frozenset()

    def requests(self) -> None:
        """How long an item took is not told."""

    @property
    def pace(self) -> None:
        """It goes on as it begins."""

    @property
    def can_pause(self) -> bool:
        """The workers put their items back, and tuner supplies none."""
        return False

    def pause(self) -> None:
        """It cannot."""
        raise ValueError("a spool whose workers put their items back cannot pause")

    def resume(self) -> None:
        """It never pauses."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:  # as the port has it
        """Whoever works finds the items."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Nobody asks for it."""
        raise NotImplementedError

    def _check(self) -> None:
        if not self._spool.is_dir():
            raise ConfigError(
                f"the spool {self._spool} does not exist", hint="Make the folder, or leave --spool out."
            )
        if self._user is None and not os.access(self._spool, os.R_OK | os.W_OK | os.X_OK):
            raise ConfigError(
                f"cannot write the spool {self._spool}",
                hint="Check its owner and permissions, or name another.",
            )

    def _fill(self) -> None:
        try:
            with running_in_own_group(
                self._fill_command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                user=self._user,
                extra_groups=[] if self._user is not None else None,
            ) as process:
                reported, complained = (
                    said.decode("utf-8", "replace").strip() for said in process.communicate()
                )
        except OSError as error:
            raise ConfigError(f"cannot run {self._fill_command[0]}: {error.strerror}") from error
        if process.returncode:
            how = f"{self._fill_command[0]} {ending_in_words(process.returncode)}"
            said = (complained or reported or how).splitlines()
            raise ConfigError(f"the spool {self._spool} cannot be filled: {said[0].removeprefix('Error: ')}")
        if self.is_dry():
            raise ConfigError(f"the spool {self._spool} is still empty after {self._fill_command[0]}")
