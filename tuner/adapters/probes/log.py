"""The probe for services that log a line for each item."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from tuner.adapters.probes.lines import FollowedLog
from tuner.adapters.probes.polled import Counts, PolledCounting, polling
from tuner.config.fields import Pattern
from tuner.config.paths import ConfigPath, check_no_folder
from tuner.config.probes import ProbeSettings
from tuner.config.surroundings import Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError
from tuner.core.messages.probes import log_cut, log_lines_long
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings

Follow = Callable[[], Sequence[FollowedLog]]


def logs_of_user(paths: Sequence[Path]) -> Sequence[FollowedLog]:
    """Logs that outlive a launch: from where they end now."""
    return [FollowedLog(path, from_end=True) for path in paths]


def logs_of_programs(paths: Sequence[Path]) -> Sequence[FollowedLog]:
    """Logs that a launch begins."""
    return [FollowedLog(path, from_end=False) for path in paths]


def _one_file_as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class LogProbeSettings(ProbeSettings):
    """The service logs a line for each item."""

    plain_keys: ClassVar[frozenset[str]] = frozenset({"pattern", "failed"})
    kind: Literal["log"]  #: Kind of probe
    pattern: Pattern  #: Pattern of a line that reports a finished item
    failed: Pattern | None = None  #: Pattern of a line that reports a failed item instead of a finished one
    #: Files with the lines; None: stdout and stderr of the programs
    files: (
        Annotated[tuple[ConfigPath, ...], Field(min_length=1), BeforeValidator(_one_file_as_list)] | None
    ) = None

    @field_validator("files")
    @classmethod
    def _are_no_folders(cls, files: Any) -> Any:
        for path in files or ():
            check_no_folder(path)
        if len(set(files or ())) < len(files or ()):
            raise ValueError("names a file twice")
        return files

    def build(self, _settings: Settings, around: Surroundings) -> LogProbe:
        """See `ProbeSettings`."""
        done = re.compile(self.pattern.encode())
        failed = None if self.failed is None else re.compile(self.failed.encode())
        files = self.files
        if files is None:
            return LogProbe(around.clock, done, failed, lambda: logs_of_programs(around.logs()), around.warn)
        return LogProbe(around.clock, done, failed, lambda: logs_of_user(files), around.warn)


class LogProbe:
    """Reads on in the logs once per look, and counts the lines that match.

    Args:
        pattern: matches the line of an item that is done, anywhere in it.
        failed: likewise, of one that failed: such a line counts as failed only; None: nothing tells them.
        follow: gives the logs of a launch: asked before it is started, and again until it gives some.
    """

    def __init__(
        self,
        clock: Clock,
        pattern: re.Pattern[bytes],
        failed: re.Pattern[bytes] | None,
        follow: Follow,
        warn: Warn,
    ) -> None:
        self._clock = clock
        self._pattern, self._failed = pattern, failed
        self._follow = follow
        self._warn = warn

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[PolledCounting]:
        """Watch one launch."""
        looked = _Looked(self._pattern, self._failed, self._follow)
        name = f"lines that match {self._pattern.pattern.decode()!r}"
        try:
            with polling(PolledCounting(self._clock, looked, name, self._warn, most_falls=0)) as counting:
                yield counting
        finally:
            for log in looked.logs:
                log.close()
                if log.n_cuts:
                    self._warn(*log_cut(layout, log.path, log.n_cuts))
                if log.n_long:
                    self._warn(*log_lines_long(layout, log.path, log.n_long))


class _Looked:
    """The logs of one launch, and how many lines of each kind were found in them."""

    def __init__(self, pattern: re.Pattern[bytes], failed: re.Pattern[bytes] | None, follow: Follow) -> None:
        self.logs = follow()
        self._follow = follow
        self._pattern, self._failed = pattern, failed
        self._n_done = self._n_failed = 0

    def __call__(self) -> Counts:
        self.logs = self.logs or self._follow()
        if not self.logs:
            raise MeasurementError("no program has been started that could log")
        done, failed = self._pattern.search, None if self._failed is None else self._failed.search
        for log in self.logs:
            for line in log.new_lines():
                if failed is not None and failed(line) is not None:
                    self._n_failed += 1
                elif done(line) is not None:
                    self._n_done += 1
        return Counts({"done": self._n_done}, {"failed": self._n_failed})
