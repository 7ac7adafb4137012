"""The paths in a config: from which folder they are meant, and what has to be there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo


def with_home(path: Path) -> Path:
    """*path* with a ``~`` or ``~NAME`` in front as that user's home.

    Raises:
        ValueError: there is no such user.
    """
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: there is no home of {path.parts[0]}") from error


def from_config_folder(path: Path, info: ValidationInfo) -> Path:
    """Where *path* is meant, in a config; as it is where there is none."""
    base: Path = (info.context or {}).get("folder") or Path.cwd()
    return base / with_home(path)


#: path: an absolute path, or a path relative to the folder of the config
ConfigPath = Annotated[Path, AfterValidator(from_config_folder)]


def check_file(path: Path) -> Path:
    """*path*, where a file is; whether it can be read is told by who reads it."""
    return _there(path, "file")


def check_folder(path: Path) -> Path:
    """*path*, where a folder is."""
    return _there(path, "folder")


def check_no_folder(path: Path) -> Path:
    """*path*, where no folder is; a file may come to be there."""
    if _kind(path) == "folder":
        raise ValueError(f"{path} is a folder")
    return path


def _there(path: Path, kind: str) -> Path:
    found = _kind(path)
    if found == kind:
        return path
    raise ValueError(f"no such {kind}: {path}" if found is None else f"is no {kind}: {path}")


def _kind(path: Path) -> str | None:
    """What is at *path*: "file", "folder" or "another"; None: nothing.

    ``Path.is_file`` hides why nothing can be there: from Python 3.14 on it gives False for each OSError.

    Raises:
        ValueError: a name is too long, or a folder may not be entered.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "another"
