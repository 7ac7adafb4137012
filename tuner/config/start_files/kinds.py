"""Which kind of file it is that starts a service, by its name and by what is in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tuner.config.start_files.compose import read_compose
from tuner.config.start_files.dockerfile import read_dockerfile
from tuner.config.start_files.dotenv import read_text
from tuner.config.start_files.procfile import read_procfile
from tuner.config.start_files.started import Source, Started
from tuner.config.start_files.supervisor_conf import read_supervisor_conf
from tuner.config.start_files.systemd_unit import read_unit
from tuner.core.errors import ConfigError

_Reader = Callable[[Source, Mapping[str, str]], list[Started]]
KINDS: dict[str, _Reader] = {
    "Procfile": read_procfile,
    "compose file": read_compose,
    "unit of systemd": read_unit,
    "config of supervisord": read_supervisor_conf,
    "Dockerfile": read_dockerfile,
}
_NAMES = (
    (re.compile(r"Procfile(\..+)?|.+\.Procfile"), "Procfile"),
    (
        re.compile(r"(Dockerfile|Containerfile)(\..+)?|.+\.(Dockerfile|Containerfile)", re.IGNORECASE),
        "Dockerfile",
    ),
    (re.compile(r".+\.service"), "unit of systemd"),
    (re.compile(r".+\.ya?ml"), "compose file"),
)
_TEXTS = (
    (
        re.compile(r"^\[(program|fcgi-program|supervisord|include):?.*\]", re.MULTILINE),
        "config of supervisord",
    ),
    (re.compile(r"^\[Service\]", re.MULTILINE), "unit of systemd"),
    (re.compile(r"^services:", re.MULTILINE), "compose file"),
    (re.compile(r"\A(\s*(#.*)?\n|\s*ARG .*\n)*\s*FROM\s+\S", re.IGNORECASE), "Dockerfile"),
    (re.compile(r"\A((#.*|[ \t]*|[A-Za-z0-9_-]+:[ \t]+\S.*)(\n|\Z))+\Z"), "Procfile"),
)
_TAKES = "--from reads a Procfile, a compose file, a .service unit, a config of supervisord, or a Dockerfile."


def kind_of(path: Path, text: str) -> str:
    """The kind of the file, one of `KINDS`.

    Raises:
        ConfigError: it is none of them.
    """
    found = [kind for pattern, kind in _NAMES if pattern.fullmatch(path.name)]
    found += [kind for pattern, kind in _TEXTS if pattern.search(text)]
    if not found:
        raise ConfigError(f"{path} starts no service that tuner could find", hint=_TAKES)
    return found[0]


def read_start_file(path: Path, environment: Mapping[str, str]) -> tuple[str, list[Started]]:
    """The kind of the file, and every process that it starts.

    ``worker@3.service`` is read from ``worker@.service`` where only that is there, as systemd does.

    Raises:
        ConfigError: it cannot be read, or with the place of what is wrong in it.
    """
    there = path
    if not path.exists() and (match := re.fullmatch(r"(.+@).+(\.service)", path.name)):
        there = path.with_name(match[1] + match[2])
    if not there.exists():
        raise ConfigError(f"--from: there is no file {path}", hint=_TAKES)
    text = read_text(there, str(there))
    if "\0" in text:
        raise ConfigError(f"{there} holds a NUL character, and is no text", hint=_TAKES)
    kind = kind_of(path, text)
    return kind, KINDS[kind](Source(str(there), text, path), environment)
