"""Files of /proc that are read again and again, kept open while this process has few open files."""

from __future__ import annotations

import errno
import os
import resource

#: share of the limit of open files (``ulimit -n``) from which no further file is kept open; the rest is for
#: files that must be open: logs, sockets, the study. Several launches may be resident, and share the limit.
MOST_OPEN_RATIO = 0.5
TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)


class SampledFile:
    """A file that is read from its beginning each time, at twice the cost if it is not kept open."""

    __slots__ = ("_file", "_path")

    def __init__(self, path: str, *, keep: bool = True) -> None:
        """Open *path* if *keep*, unless it cannot be opened or too many files are open."""
        self._path = path
        self._file = _keep_open(path) if keep else None

    @property
    def is_kept(self) -> bool:
        """Whether the file is kept open."""
        return self._file is not None

    def read(self, n_bytes: int) -> bytes:
        """Return the first *n_bytes* of the file.

        Raises:
            OSError: it cannot be read, because its process has ended or for another reason.
        """
        if self._file is not None:
            return os.pread(self._file, n_bytes, 0)
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, n_bytes)
        finally:
            os.close(file)

    def close(self) -> None:
        """Close the file if it was kept open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _keep_open(path: str) -> int | None:
    """Open *path*; None if it cannot be opened, or is not to be kept open.

    A new file gets the lowest free number. So if its number is half the limit, half of all files are open.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and file >= MOST_OPEN_RATIO * soft:
        os.close(file)
        return None
    return file
