"""Start commands from another program's file, adapted to this host: folders, programs, addresses."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from tuner.core.text.command_words import is_python

if TYPE_CHECKING:
    from tuner.config.start_files.started import Started
    from tuner.services.record import Service

#: files at the top of a Python project
_OF_A_PROJECT = ("*.py", "pyproject.toml", "setup.cfg", "requirements*.txt", "Pipfile", ".git")
_URL = re.compile(
    r"(?P<before>(?P<scheme>[a-z][a-z0-9]*)(?:\+[a-z0-9]+)?://(?:[^/@\s]*@)?)"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]*)(?::(?P<port>\d+))?(?=[/?#,;\s]|$)"
)
_HOST_PORT = re.compile(r"(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]*)(?::(?P<port>\d+))?")
_PORTS = {
    "redis": 6379,
    "rediss": 6379,
    "amqp": 5672,
    "pyamqp": 5672,
    "mysql": 3306,
    "mongodb": 27017,
    "postgres": 5432,
    "postgresql": 5432,
    "memcached": 11211,
    "http": 80,
    "https": 443,
}
_SOCKET = re.compile(r"(?P<option>(?:--bind=|--unix-socket=|--uds=|-b)?)(?P<unix>unix:(?://)?)?(?P<path>.+)")
#: options that name a socket in the next word, or after ``=``
_OF_SOCKETS = {
    "gunicorn": ("-b", "--bind"),
    "hypercorn": ("-b", "--bind"),
    "uvicorn": ("--uds",),
}
_OF_PORTS = ("--port", "--bind", "-b")
_PORT = re.compile(r"(?:--port=|(?:--bind|-b)=?.*:)(?P<port>[0-9]{1,5})")
#: options for files that this host may be unable to write and that a study does not need
_OF_FILES = {
    "gunicorn": ("-p", "--pid", "--error-logfile", "--log-file", "--access-logfile"),
    "celery": ("-f", "--logfile", "--pidfile"),
    "huey": ("-l", "--logfile"),
    "dramatiq": ("--pid-file", "--log-file"),
    "rq": ("--pid",),
    "hypercorn": ("-p", "--pid", "--error-logfile", "--access-logfile"),
    "uwsgi": ("--pidfile", "--logto"),
}


@dataclass(slots=True)
class Adapted:
    """A command, its environment and its folder, adapted to this host."""

    words: tuple[str, ...]
    environment: dict[str, str]
    directory: Path
    notes: list[str] = field(default_factory=list)


def adapt(started: Started, service: Service | None) -> Adapted:
    """Adapt *started* to this host; *service* is its known service, or None."""
    directory, moves, notes = _directory(started)
    words = [_on_this_host(word, moves) for word in started.words]
    environment = {name: _on_this_host(value, moves) for name, value in started.environment.items()}
    one = Adapted(tuple(words), environment, directory, notes)
    _check_path(one, is_image=started.is_image)
    _find_programs(one, service, started.words)
    if service is not None:
        _leave_out_files(one, service)
        _bind_to_host(one, service)
        listen_without_root(one, _first_port())
    _reach_containers(one, started.hosts)
    return one


def _directory(started: Started) -> tuple[Path, dict[str, Path], list[str]]:
    """Return the working directory, the folders that are elsewhere on this host, and notes for the user."""
    moves = {there: here for there, here in started.mounts.items() if not Path(there).exists()}
    wanted = started.directory
    if wanted is None:
        return started.folder, moves, []
    if not wanted.startswith("/"):
        below = started.folder / wanted
        return (below, moves, []) if below.is_dir() else (*_instead(started, wanted, moves),)
    for there in sorted(started.mounts, key=len, reverse=True):
        if wanted == there or wanted.startswith(f"{there}/"):
            here = started.mounts[there] / wanted[len(there) :].lstrip("/")
            if here.is_dir():
                return here, moves, [f"{wanted} is {_show_path(here)} on this host"]
    if Path(wanted).is_dir():
        return Path(wanted), moves, []
    return _instead(started, wanted, moves)


def _instead(
    started: Started, wanted: str, moves: dict[str, Path]
) -> tuple[Path, dict[str, Path], list[str]]:
    """Replace a folder missing on this host by the project's folder, or by one of the same name in it."""
    root = _project(started.folder)
    parts = PurePath(wanted).parts
    old, here = wanted, root
    for n in range(1, len(parts)):
        below = root.joinpath(*parts[n:])
        if root.name == parts[-1]:
            break
        if below.is_dir() and not (below / "__init__.py").exists():  # a package is not run in its own folder
            old, here = str(PurePath(*parts[:n])), below
            break
    if old not in ("/", "."):
        moves = {old: root, **moves}
    return here, moves, [f"the folder {wanted} is not on this host: {_show_path(here)} instead"]


def _project(folder: Path) -> Path:
    """Return the nearest folder, from *folder* upwards, with a Python project; without one, *folder*."""
    for one in (folder, *folder.parents[:-1]):
        if any(next(one.glob(pattern), None) is not None for pattern in _OF_A_PROJECT):
            return one
        if one in (Path.home(), Path.cwd()):
            break
    return folder


def _show_path(path: Path) -> str:
    """Return *path* as the user would write it here."""
    path = Path(os.path.normpath(path))
    if path == Path.cwd():
        return "the current one"
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _on_this_host(text: str, moves: Mapping[str, Path]) -> str:
    """Return *text* with the paths in moved folders replaced by those on this host."""
    for there, here in moves.items():
        pattern = rf"(?<![\w./-]){re.escape(there)}(?=/|:|,|$)"
        text = re.sub(pattern, os.path.normpath(here).replace("\\", "\\\\"), text)
    return text


def _check_path(one: Adapted, *, is_image: bool) -> None:
    """Leave out a PATH with folders that are missing on this host: the user's own PATH applies."""
    path = one.environment.get("PATH")
    if path is not None and (is_image or not all(map(os.path.isdir, filter(None, path.split(":"))))):
        del one.environment["PATH"]
        one.notes.append("left out PATH: its folders are not those of this host")


def _find_programs(one: Adapted, service: Service | None, written: Sequence[str]) -> None:
    """Replace a program whose path is missing on this host by its name, or by its alternative name."""
    from tuner.services.derived.numbers import at_program

    words = list(one.words)
    for n in {0, len(at_program(words)[0])}:
        if n < len(words) and service is not None and words[n] in service.commands:
            others = [name for name in service.commands if shutil.which(name)]
            if others and not shutil.which(words[n]):
                one.notes.append(f"{words[n]} is not on the PATH: {others[0]} instead")
                words[n] = others[0]
        if n >= len(words) or not words[n].startswith("/") or Path(words[n]).exists():
            continue
        name = PurePath(words[n]).name
        if shutil.which(name) is None and is_python(name):
            name = "python3"
        beside = "" if shutil.which(name) else ", which is not on the PATH either"
        one.notes.append(f"{written[n]} is not on this host: {name} instead{beside}")
        words[n] = name
    one.words = tuple(words)


def _leave_out_files(one: Adapted, service: Service) -> None:
    """Leave out options for log and pid files that cannot be written on this host."""
    from dataclasses import replace

    from tuner.services.derived.numbers import at_program
    from tuner.services.record import Command

    before, own = at_program(one.words)
    command = Command(own, {}, grammar=service.grammar)
    for name in _OF_FILES.get(service.name, ()):
        value = command.option(name)
        if value is None or value == "-" or _can_write(one.directory / value):
            continue
        command = replace(command, words=command.without(name))
        one.notes.append(f"left out {name} {value}: its folder cannot be written to on this host")
    one.words = (*before, *command.words)


def _can_write(path: Path) -> bool:
    return os.access(path if path.exists() else path.parent, os.W_OK)


def _bind_to_host(one: Adapted, service: Service) -> None:
    """Give a unix socket its full path; replace it by a port if its folder is not writable."""
    options = _OF_SOCKETS.get(service.name, ())
    words = list(one.words)
    for n, word in enumerate(words):
        after = n > 0 and words[n - 1] in options
        match = _SOCKET.fullmatch(word)
        is_one = match is not None and (match["option"] or after) and (match["unix"] or "--uds" in options)
        if match is None or not is_one or (word.startswith("-") and not match["option"]):
            continue
        path = one.directory / match["path"]
        if _can_write(path):
            words[n] = f"{match['option']}{match['unix'] or ''}{path}"
            continue
        one.notes.append(
            f"the folder of the socket {match['path']} is not on this host: 127.0.0.1:8000 instead"
        )
        if match["unix"]:
            words[n] = f"{match['option']}127.0.0.1:8000"
        else:
            words[n - 1 if after else n] = "--port"
            words[n : n + 1] = ["8000"] if after else ["--port", "8000"]
    one.words = tuple(words)


def listen_without_root(one: Adapted, first: int) -> None:
    """Move ports below *first* up by 8000: only root may use these, and containers often run as root."""
    words = list(one.words)
    for n, word in enumerate(words):
        match = _PORT.fullmatch(f"{words[n - 1]}={word}" if n and words[n - 1] in _OF_PORTS else word)
        if match is None or int(match["port"]) >= first:
            continue
        port = int(match["port"]) + 8000
        words[n] = word[: -len(match["port"])] + str(port)
        one.notes.append(f"only root may listen on port {match['port']}: {port} instead")
    one.words = tuple(words)


def _first_port() -> int:
    """Return the lowest port that this user may listen on."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    except (OSError, ValueError):
        first = 1024
    return 0 if os.geteuid() == 0 else first


def _reach_containers(one: Adapted, hosts: Mapping[str, Mapping[int, int]]) -> None:
    """Replace addresses of other containers by the ports that they publish on this host."""
    unpublished: dict[str, None] = {}

    def here(match: re.Match[str], default: int | None) -> str | None:
        host = match["host"]
        if host not in hosts:
            return None
        port = int(match["port"]) if match["port"] else default
        published = hosts[host].get(port) if port is not None else None
        if published is None and port is None and all(a == b for a, b in hosts[host].items()) and hosts[host]:
            return "127.0.0.1"
        if published is None:
            unpublished[host] = None
            return None
        return f"127.0.0.1:{published}" if match["port"] or published != default else "127.0.0.1"

    def in_url(match: re.Match[str]) -> str:
        address = here(match, _PORTS.get(match["scheme"]))
        return match[0] if address is None else match["before"] + address

    def reached(text: str) -> str:
        whole = _HOST_PORT.fullmatch(text)
        if whole is not None and (address := here(whole, None)) is not None:
            return address
        return _URL.sub(in_url, text)

    words = tuple(reached(word) if "://" in word else word for word in one.words)
    environment = {name: reached(value) for name, value in one.environment.items()}
    changed = words != one.words or environment != one.environment
    one.words, one.environment = words, environment
    if changed:
        one.notes.append("other containers are addressed by the ports that they publish on this host")
    one.notes += [
        f"{host} is the name of a container, and publishes no such port: set its address"
        for host in unpublished
    ]


def relative_to(folder: Path, directory: Path) -> str:
    """Return *directory* for a config in *folder*: relative if inside it, else absolute."""
    directory, folder = (
        Path(os.path.normpath(directory.absolute())),
        Path(os.path.normpath(folder.absolute())),
    )
    return str(directory.relative_to(folder)) if directory.is_relative_to(folder) else str(directory)


def command_of(words: Sequence[str]) -> str:
    """Return the words as one line of at most 60 characters."""
    import shlex

    text = shlex.join(words)
    return text if len(text) <= 60 else text[:57] + "..."
