"""Folders that live for a while: a launch's private one with a short path, and a study's scratch."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.adapters.supervisord.guardian_process import remove_tree
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
        f"no folder can hold the files of a launch: {'; '.join(refused)}",
        hint="Set TMPDIR to a writable folder with a path of at most 80 characters.",
    )


def new_scratch_path(root: Path) -> Path:
    """A path below *root*, not made yet, so that the guardian can be told of it first."""
    return root / f"tuner-{secrets.token_hex(4)}"


@contextmanager
def scratch_folder(folder: Path, mode: int, owner: tuple[int, int] | None = None) -> Iterator[None]:
    """Make *folder* for the ``with`` block; *owner* is a user and group id, when not tuner's own.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        folder.mkdir(0o700)
    except OSError as error:
        raise ConfigError(
            f"cannot make the folder {folder}: {error.strerror}",
            hint="Make room there, or set TMPDIR to another folder.",
        ) from error
    try:
        folder.chmod(mode)  # whatever the umask
        if owner is not None:
            os.chown(folder, *owner)
        yield
    finally:
        remove_tree(str(folder))


def _usual_parents() -> Iterator[Path]:
    yield Path(tempfile.gettempdir())
    yield from map(Path, ("/tmp", "/var/tmp"))
    if "XDG_RUNTIME_DIR" in os.environ:  # last: it is memory, and logs may be long
        yield Path(os.environ["XDG_RUNTIME_DIR"])
