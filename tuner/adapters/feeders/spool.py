"""Feeder for the built-in crash processor: a spool folder that is filled once and reused by all launches."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tuner.adapters.processes.signals import ending_in_words, run_in_process_group
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError

_READY = "new"  #: the folder of a spool with the items that no worker has taken


class SpoolFeeder:
    """Keeps a spool of items, which the workers put back after they have finished them (``--endless``).

    A spool that already holds items belongs to the user, and nothing is added to it.
    """

    def __init__(self, spool: Path, fill_command: Sequence[str], user: str | None = None) -> None:
        self._ready = spool / _READY
        self._spool = spool
        self._fill_command = fill_command
        self._user = user

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:  # noqa: ARG002  # large enough for all layouts
        """Check that the spool is full; it stays afterwards, and the next layout takes the same items."""
        self.prepare()
        yield

    def prepare(self) -> None:
        """Fill the spool if it is empty.

        Raises:
            ConfigError: the folder is missing, cannot be written, or cannot be filled.
        """
        self._check()
        if self.is_dry():
            self._fill()

    def away(self) -> str:
        """Return no reason: the source is a folder."""
        return ""

    def rest(self) -> None:
        """Do nothing: nothing is sent."""

    def is_dry(self) -> bool:
        """Return whether no item waits; it reads one directory entry, however many there are."""
        try:
            with os.scandir(self._ready) as entries:
                return next(entries, None) is None
        except FileNotFoundError:
            return True

    def problem(self) -> str:
        """Return no problem: the spool is filled before a launch."""
        return ""

    def pids(self) -> frozenset[int]:
        """Return no process: the workers put items back themselves."""
        return frozenset()

    def requests(self) -> None:
        """Return None: the times of single items are unknown."""

    @property
    def pace(self) -> None:
        """None: the pace does not change."""

    @property
    def can_pause(self) -> bool:
        """False: the workers put their items back, and tuner supplies none."""
        return False

    def pause(self) -> None:
        """Raise ValueError: the feeder cannot pause."""
        raise ValueError("a spool whose workers put their items back cannot pause")

    def resume(self) -> None:
        """Do nothing: the feeder never pauses."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:  # the port's signature
        """Do nothing: the workers fetch the items themselves."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Raise NotImplementedError: the feeder has no rate."""
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
            with run_in_process_group(
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
