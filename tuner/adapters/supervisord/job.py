"""What the exec shim is told: one program to become, written as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import tuner

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from tuner.adapters.supervisord.exec_shim import main; main(sys.argv[2])"
)
#: names in the environment that carry the launch itself and are not for workers
INTERNAL = ("TUNER_PARENT_PID", "TUNER_SHIM")


@dataclass(frozen=True, slots=True)
class User:
    """Whom a program runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A program and everything about its start; the shim adds *environment* to what it inherits."""

    process: int  #: its number in the layout, from 0; -1 for supervisord
    program: str  #: absolute path of what is executed
    argv: tuple[str, ...]
    directory: str
    output: str  #: file that stdout and stderr are appended to
    environment: Mapping[str, str]
    without: tuple[str, ...] = ()  #: names taken out of the environment
    status: str | None = None  #: named pipe that hears "about to run" and failures, a JSON line each
    death_signal: int = 15  #: sent by the kernel when the parent dies
    umask: int = 0o022
    limits: tuple[tuple[int, int, int], ...] = ()  #: (resource, soft, hard)
    cpus: tuple[int, ...] | None = None  #: cores it may use; None: all that tuner may
    user: User | None = None  #: None: tuner's own
    own_session: bool = False
    starts_shims: bool = False  #: its children are shims, which check that it is their parent

    def write(self, path: Path) -> None:
        """Put it where only this user can read it: environments hold secrets."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)


def shim_command(*arguments: str) -> list[str]:
    """The command line of the shim: a module, which Python has compiled; a script would take 2 ms more.

    ``-I -S``: no PYTHON* variables of the user, no site-packages.
    """
    return [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(tuner.__file__).parent.parent), *arguments]
