"""The paths in a config: from which folder they are meant, and what has to be there."""

from __future__ import annotations

from collections.abc import Callable
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
    base: Path = (info.context or {}).get("folder", Path.cwd())
    return base / with_home(path)


ConfigPath = Annotated[Path, AfterValidator(from_config_folder)]  #: path: from the folder of the config on


def check_file(path: Path) -> Path:
    """*path*, where a file is; whether it can be read is told by who reads it."""
    return _there(path, path.is_file, "file")


def check_folder(path: Path) -> Path:
    """*path*, where a folder is."""
    return _there(path, path.is_dir, "folder")


def check_no_folder(path: Path) -> Path:
    """*path*, where no folder is; a file may come to be there."""
    try:
        if path.is_dir():
            raise ValueError(f"{path} is a folder")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    return path


def _there(path: Path, is_there: Callable[[], bool], kind: str) -> Path:
    try:
        if is_there():
            return path
        is_another = path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise ValueError(f"{path}: {error.strerror}") from error
    raise ValueError(f"is no {kind}: {path}" if is_another else f"no such {kind}: {path}")
