"""What a lock of this folder holds: each package with its version, its hashes and where it applies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:(?P<sha256>[0-9a-f]{64})\b")


@dataclass(frozen=True, slots=True)
class Locked:
    """One package of a lock."""

    name: str  #: as PyPI compares names: lower case, with hyphens
    version: str
    marker: str | None  #: on which Pythons and systems it is installed; None: on all
    sha256: tuple[str, ...]  #: of every file that may be installed


def read_lock(path: Path) -> tuple[Locked, ...]:
    """Read a lock; ValueError with the line where it is not one."""
    packages: list[Locked] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if pin := _PIN.fullmatch(line.strip()):
            packages.append(Locked(normalised(pin["name"]), pin["version"], pin["marker"], ()))
        elif packages and (found := _HASH.search(line)):
            last = packages.pop()
            packages.append(
                Locked(last.name, last.version, last.marker, (*last.sha256, found["sha256"])),
            )
        elif line.strip() and not line.lstrip().startswith("#"):
            raise ValueError(f"{path}:{number}: neither a pinned package nor a hash: {line.strip()}")
    return tuple(packages)


def normalised(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
