"""Where a launch keeps its socket, configuration and logs: a private folder with a short path."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tuner.core.errors import ConfigError

#: a unix socket's path has 107 bytes, and supervisord first binds "SOCKET.PID" (7 digits at most)
_LONGEST_SOCKET = 107 - 8


def new_run_folder(root: Path | None, socket_name: str) -> Path:
    """A path, not made yet, for one launch's folder: below *root*, else TMPDIR, else where paths are short.

    Raises:
        ConfigError: nowhere can be written, or *root* is too long or cannot be written.
    """
    name = f"tuner-{secrets.token_hex(4)}"
    refused = []
    for parent in [root] if root is not None else _usual_parents():
        folder = Path(os.path.abspath(parent)) / name
        if len(os.fsencode(folder / socket_name)) > _LONGEST_SOCKET:
            refused.append(f"{parent} has too long a path for a unix socket")
        elif not os.access(folder.parent, os.W_OK | os.X_OK):
            refused.append(f"{parent} cannot be written")
        else:
            return folder
    raise ConfigError(
        f"there is no place for a launch: {'; '.join(refused)}",
        hint="Set TMPDIR to a writable folder with a path of at most 80 characters.",
    )


def _usual_parents() -> Iterator[Path]:
    yield Path(tempfile.gettempdir())
    yield from map(Path, ("/tmp", "/var/tmp"))
    if "XDG_RUNTIME_DIR" in os.environ:  # last: it is memory, and logs may be long
        yield Path(os.environ["XDG_RUNTIME_DIR"])
