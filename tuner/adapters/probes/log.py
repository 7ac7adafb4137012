"""Probe that counts the log lines of a service which match a pattern."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from tuner.adapters.probes.polled import Counts, PolledCounting, polling
from tuner.config.document import ConfigPath, check_no_folder
from tuner.config.fields import Pattern
from tuner.config.kinds import ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError
from tuner.core.messages.service import log_cut, log_lines_long
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings

# Reader of lines appended to a log, whose file may be renamed, truncated, replaced or partly freed.

_AT_A_TIME_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 16  #: the rest of a longer line is ignored
MOST_AT_A_LOOK_BYTES = 1 << 30  #: about a second of work; a large hole in a file would take hours to read
_TAIL_BYTES = 64  #: last bytes read, which are compared with the file to detect that it was rewritten


class FollowedLog:
    """One log, found by its path, read from its beginning or from its present end.

    The file is kept open, so that lines written after a rename are not lost. It is read along with the file
    that took its place, until that is replaced, too. Memory use is bounded for any content of the file.
    """

    def __init__(self, path: Path, *, from_end: bool) -> None:
        """Open the log; *from_end*: skip present contents. A file that appears later is read from its
        beginning.
        """
        self.path = path
        self.n_cuts = 0  #: number of times the file lost text, so that lines may be missing
        self.n_long = 0  #: lines of which only the first 64 KiB were returned
        self._files: list[_OpenLog] = []  #: the file at the path, and the one before it
        if from_end:
            with suppress(OSError, MeasurementError):  # it may appear with the launch
                self._follow_path()
                self._files[-1].skip()

    def new_lines(self) -> Iterator[bytes]:
        """Yield the lines completed since the last call, the first 64 KiB of each, without line ends.

        Raises:
            MeasurementError: the file is missing and never existed; it cannot be read, or is not a
                regular file; or more than 1 GiB is unread: the next call continues.
        """
        try:
            self._follow_path()
            for file in self._files:
                yield from file.new_lines()
                self.n_cuts += file.was_cut
                self.n_long += file.n_long
        except OSError as error:
            raise MeasurementError(f"{self.path} cannot be read: {error.strerror}") from error
        if n_bytes := sum(file.n_left_bytes for file in self._files):
            raise MeasurementError(f"{self.path} holds {n_bytes >> 20} MiB that were not read yet")
        while len(self._files) > 2:
            self._files.pop(0).close()

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()
        self._files.clear()

    def _follow_path(self) -> None:
        """Open the file that is at the path now, unless it is already open."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            if self._files:
                return  # renamed, and the next one does not exist yet
            raise
        if self._files and self._files[-1].is_it(found):
            return
        if not stat.S_ISREG(found.st_mode):  # opening a device may have side effects
            raise MeasurementError(f"{self.path} is no file that lines are added to")
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # replaced by a pipe meanwhile
            os.close(descriptor)
            raise MeasurementError(f"{self.path} is no file that lines are added to")
        self._files.append(_OpenLog(descriptor))


class _OpenLog:
    """An open file and the position reached in it."""

    def __init__(self, descriptor: int) -> None:
        #: whether the last read found the file truncated, or its beginning freed beyond the read position
        self.was_cut = False
        self.n_long = 0  #: lines that were cut in the last read
        self.n_left_bytes = 0  #: bytes that the last read left, because they were too many
        self._descriptor = descriptor
        self._offset = 0
        self._tail = b""  #: bytes before the offset
        self._line = b""  #: beginning of the line that has not ended yet

    def is_it(self, found: os.stat_result) -> bool:
        return os.path.samestat(os.fstat(self._descriptor), found)

    def skip(self) -> None:
        """Go to the end; a partial line there counts when it is completed."""
        self._offset = os.fstat(self._descriptor).st_size
        self._tail = self._before(self._offset, _TAIL_BYTES)

    def new_lines(self) -> Iterator[bytes]:
        self.was_cut, self.n_long = False, 0
        if self._begins_anew():
            self._go_on_at(0)
        self._pass_hole()
        size = os.fstat(self._descriptor).st_size  # a writer that is faster than this loop must not hold it
        ends = min(size, self._offset + MOST_AT_A_LOOK_BYTES)
        self.n_left_bytes = size - ends if size > ends else 0
        while self._offset < ends:
            part = os.pread(self._descriptor, min(_AT_A_TIME_BYTES, ends - self._offset), self._offset)
            if not part:
                return  # truncated while reading; detected at the next call
            if self._pass_hole():
                continue  # freed while reading: this part may contain zeros
            self._offset += len(part)
            self._tail = (self._tail + part)[-_TAIL_BYTES:]
            *ended, rest = part.split(b"\n")
            for line in ended:
                whole = (self._line + line).removesuffix(b"\r")
                self.n_long += len(whole) > LONGEST_LINE_BYTES
                yield whole[:LONGEST_LINE_BYTES]
                self._line = b""
            self._line = (self._line + rest)[: LONGEST_LINE_BYTES + 2]  # two more bytes show a longer line

    def close(self) -> None:
        os.close(self._descriptor)

    def _begins_anew(self) -> bool:
        """Return whether the file is shorter than before, or has other text before the position.

        It may have grown beyond the old end meanwhile. Text that was freed (made a hole) is not compared.
        """
        n_bytes = min(len(self._tail), max(0, self._offset - self._first_data()))
        is_shorter = os.fstat(self._descriptor).st_size < self._offset
        return is_shorter or not self._tail.endswith(self._before(self._offset, n_bytes))

    def _pass_hole(self) -> bool:
        """Go to the first text if the beginning of the file was freed beyond the position; return whether
        it was.

        The remaining part of a line there is read as a line.
        """
        first = self._first_data()
        if first <= self._offset:
            return False
        self._go_on_at(first)
        return True

    def _go_on_at(self, offset: int) -> None:
        self.was_cut = True
        self._offset, self._tail, self._line = offset, b"", b""

    def _first_data(self) -> int:
        """Return the position of the first data that is not a hole; the size of the file if there is none."""
        try:
            return os.lseek(self._descriptor, 0, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return os.fstat(self._descriptor).st_size
            return 0  # this file system does not support holes

    def _before(self, offset: int, n_bytes: int) -> bytes:
        begin = max(0, offset - n_bytes)
        return os.pread(self._descriptor, offset - begin, begin)


Follow = Callable[[], Sequence[FollowedLog]]


def logs_of_user(paths: Sequence[Path]) -> Sequence[FollowedLog]:
    """Return logs that outlive a launch, read from their present end."""
    return [FollowedLog(path, from_end=True) for path in paths]


def logs_of_programs(paths: Sequence[Path]) -> Sequence[FollowedLog]:
    """Return logs that a launch creates, read from their beginning."""
    return [FollowedLog(path, from_end=False) for path in paths]


def _one_file_as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class LogProbeSettings(ProbeSettings):
    """tuner counts the log lines of the service that match a pattern."""

    plain_keys: ClassVar[frozenset[str]] = frozenset({"pattern", "failed"})
    kind: Literal["log"]  #: Kind of probe
    pattern: Pattern  #: Pattern that matches the line that the service logs for each finished item
    failed: Pattern | None = None  #: Pattern that matches the line that the service logs for each failed item
    #: Log files in which tuner searches for the patterns; None: stdout and stderr of the service
    files: (
        Annotated[tuple[ConfigPath, ...], Field(min_length=1), BeforeValidator(_one_file_as_list)] | None
    ) = None

    @field_validator("files")
    @classmethod
    def _check_no_folders(cls, files: Any) -> Any:
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
    """Reads new lines of the logs at each sample, and counts those that match.

    Args:
        pattern: matches the line of a finished item, anywhere in it.
        failed: matches the line of a failed item, which then counts only as failed; None: unknown.
        follow: returns the logs of a launch: called before its start, and again until it returns some.
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
        """Count during one launch."""
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
    """The logs of one launch, and the number of lines of each kind in them."""

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
