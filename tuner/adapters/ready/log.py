"""Ready check that passes when enough log lines match a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from tuner.config.fields import Count, Pattern
from tuner.config.kinds import ReadySettings
from tuner.core.domain.layout import Layout

_LOG_BYTES = 1 << 20  #: bytes read at a time
_LONGEST_LINE = 1 << 16  #: longest part of a line; a longer line is searched in parts


class LogReady(ReadySettings):
    """The service is ready when enough lines of its log match a pattern."""

    condition: ClassVar[str] = "pattern"
    kind: Literal["log"]  #: Kind of check
    pattern: Pattern  #: Pattern that matches the log lines for which tuner waits
    #: Number of matching log lines for which tuner waits. `processes` and `threads` stand for the numbers of
    #: the layout. With `programs: one`, the default of `count` is 1
    count: Count | Literal["processes", "threads"] = "processes"

    def build(self, layout: Layout, _directory: Path | None) -> LogLines:
        """See `ReadySettings`."""
        counts = {"processes": layout.processes, "threads": layout.threads}
        count = self.count if isinstance(self.count, int) else counts[self.count]
        return LogLines(re.compile(self.pattern.encode()), count)


@dataclass(slots=True)
class LogLines:
    """Passes when enough lines of the programs' logs match a pattern."""

    pattern: re.Pattern[bytes]
    count: int
    _n_found: int = 0
    _offsets: dict[Path, int] = field(default_factory=dict)

    def lacks(self, logs: Sequence[Path]) -> str:  # noqa: D102
        for path in logs:
            self._read_on(path)
        if self._n_found >= self.count:
            return ""
        return (
            f"{self._n_found} of {self.count} lines are logged that match {self.pattern.pattern.decode()!r}"
        )

    def _read_on(self, path: Path) -> None:
        """Count matching lines among those completed since the last call."""
        offset = self._offsets.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                part = file.read(_LOG_BYTES)
        except FileNotFoundError:
            return
        *lines, rest = part.split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines.append(rest)
            rest = b""
        ended = (line.removesuffix(b"\r") for line in lines)
        self._n_found += sum(self.pattern.search(line) is not None for line in ended)
        self._offsets[path] = offset + len(part) - len(rest)
