"""The Pythons of this box that experiments compare."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from tuner.adapters.lab.program import packages_of
from tuner.core.errors import ConfigError

VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")  #: those that tuner runs on


def pythons_here(environment: Mapping[str, str]) -> dict[str, str]:
    """A Python of each of VERSIONS that this box has: on the PATH by its name, else pyenv's; by version."""
    found = {}
    for version in VERSIONS:
        for program in _named(version, environment):
            if _is(version, program):
                found[version] = program
                break
    return found


def _named(version: str, environment: Mapping[str, str]) -> Iterator[str]:
    on_path = shutil.which(f"python{version}", path=environment.get("PATH"))
    if on_path is not None:
        yield on_path
    root = environment.get("PYENV_ROOT") or os.path.join(environment.get("HOME", ""), ".pyenv")
    for folder in sorted(Path(root).glob(f"versions/{version}.*"), key=_patch, reverse=True):
        yield str(folder / "bin" / "python")


def _patch(folder: Path) -> tuple[int, str]:
    number = folder.name.rpartition(".")[2]
    return (int(number) if number.isdigit() else -1, folder.name)


def _is(version: str, program: str) -> bool:
    """Whether it starts (a shim may stand for nothing) and is that CPython, with a GIL."""
    try:
        reported, _ = packages_of(program, ())
    except ConfigError:
        return False
    return reported.startswith(f"CPython {version}.") and not reported.endswith("t")
