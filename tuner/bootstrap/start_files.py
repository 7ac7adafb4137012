"""A config from the file with which another program starts a service."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.config.start_files.compose import read_compose
from tuner.config.start_files.dockerfile import read_dockerfile
from tuner.config.start_files.dotenv import read_text
from tuner.config.start_files.procfile import read_procfile
from tuner.config.start_files.started import Source, Started
from tuner.config.start_files.supervisor_conf import read_supervisor_conf
from tuner.config.start_files.systemd_unit import read_unit
from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import redact

if TYPE_CHECKING:
    from tuner.bootstrap.on_this_host import Adapted
    from tuner.services.record import Service


@dataclass(frozen=True, slots=True)
class WrittenConfig:
    """The text of a config, with notes for its reader."""

    text: str
    origin: str  #: ``file:line:column, NAME``
    notes: tuple[str, ...]  #: one line each
    is_secret: bool  #: whether it contains a value that looks like a secret


def config_from_file(source: str, kind: str | None, given: Mapping[str, str], folder: Path) -> WrittenConfig:
    """Return a commented config for a process that a file starts.

    Args:
        source: the file, or ``FILE:NAME`` if it starts several processes.
        kind: the service of the process; None: it is recognized by its command.
        given: settings of the service that the user set.
        folder: the folder of the config, at which its relative paths begin.

    Raises:
        ConfigError: the file cannot be read, several processes match, or the command needs a feature that
            tuner lacks.
    """
    from tuner.bootstrap.configs import render_config_for
    from tuner.bootstrap.on_this_host import adapt, relative_to
    from tuner.core.text.safe_text import escape_unprintable
    from tuner.services.catalogue import known_services
    from tuner.services.running import escape_fields

    file, started, notes = _choose_process(source, kind)
    service = _recognise(started) if kind is None else known_services().get(kind)
    one = adapt(started, service)
    notes += [*started.notes, *one.notes]
    if service is None:
        notes.append("not recognized as a supported service, so it is written as a script; see --service")
    else:
        _remove_tuner_settings(one, service, started.copies, notes)
    if started.copies > 1:
        notes.append(f"the file starts {started.copies} of it: in a study the layout sets this number")
    notes = [escape_unprintable(redact(note)) for note in notes]
    _check_no_shell_words(started, one.words)
    words = tuple(map(escape_fields, one.words))
    environment = {name: escape_fields(value) for name, value in one.environment.items()}
    section: dict[str, Any] = {"directory": str(one.directory), "environment": environment}
    text = render_config_for(words, kind, given, section, f"{file}:{started.name}")
    own = {"probe", *(setting.name for setting in (service.settings if service is not None else ()))}
    further = {key: value for key, value in given.items() if key not in own}
    shown = {**section, "directory": relative_to(folder, one.directory), **further}
    text = _with_section(text, {key: value for key, value in shown.items() if value})
    text = "".join(f"# {line}\n" for line in (f"From {started.at}, {started.name}:", *_items(notes))) + text
    is_secret = started.has_secret or redact(environment) != environment
    origin = f"{started.at}, {started.name}"
    return WrittenConfig(text, origin, tuple(notes), is_secret or redact(words) != list(words))


def _remove_tuner_settings(one: Adapted, service: Service, copies: int, notes: list[str]) -> None:
    """Remove from a command the options and variables that a study sets or does not support."""
    from tuner.config.start_files.started import COMPUTED
    from tuner.services.derived.numbers import remove_refused, without_numbers

    numbers = without_numbers(service, one.words, one.environment, copies)
    one.words, refused = remove_refused(service, numbers.words)
    one.environment = dict(numbers.environment)
    if numbers.removed:
        what = ", ".join(text.replace(COMPUTED, "") for text in numbers.removed)
        notes.append(f"left out the numbers that a study varies: {what}")
    notes += [f"left out {text}" for text in refused]
    notes += _remove_tuner_variables(one.environment, service)
    if numbers.layout is not None:
        notes.append(
            f"today's layout is {numbers.layout}: compare with tuner rank STUDY --current {numbers.layout}"
        )


def _with_section(text: str, section: Mapping[str, Any]) -> str:
    """Insert further keys of the service below the command of a config."""
    import yaml

    block = yaml.safe_dump(dict(section), sort_keys=False, width=10_000, allow_unicode=True)
    lines = "".join(f"  {line}\n" for line in block.splitlines())
    return re.sub(r"^  command: .*\n", lambda match: match[0] + lines, text, count=1, flags=re.MULTILINE)


def _items(notes: Sequence[str]) -> list[str]:
    return [f"- {note}" for note in notes]


def _choose_process(source: str, kind: str | None) -> tuple[str, Started, list[str]]:
    """Return the file, the chosen process, and notes on the choice.

    Raises:
        ConfigError: there is no such process, several match, or its command cannot be used.
    """

    file, name = source, ""
    if not os.path.lexists(source) and ":" in source:
        file, _, name = source.rpartition(":")
    kind_of_file, processes = read_start_file(Path(file), os.environ)
    processes = [_in_the_foreground(one) for one in processes]
    if not processes:
        raise ConfigError(
            f"{file}: this {kind_of_file} starts no process whose command it names",
            hint="Name the command: tuner init -- COMMAND",
        )
    if name:
        named = [one for one in processes if one.name == name]
        if not named:
            known = ", ".join(one.name for one in processes)
            raise ConfigError(
                f"{file} has no process {name!r}; it has {known}",
                hint=f"Example: --from {file}:{processes[0].name}",
            )
    else:
        named = [one for one in processes if not one.by_name_only]
    known_ones = [one for one in named if kind is not None or _recognise(one) is not None]
    if not name and len(known_ones) == 1:
        named = known_ones
    if len(named) != 1:
        raise _several(file, named or processes, len(known_ones))
    (one,) = named
    if one.error is not None:
        raise one.error
    others = [other.name for other in processes if other is not one and not other.by_name_only]
    notes = [] if name or not others else [f"left out the other processes of the file: {', '.join(others)}"]
    return file, _without_entrypoint(one, notes), notes


def _in_the_foreground(one: Started) -> Started:
    """Return the foreground command of a node that ``celery multi`` would start as a daemon."""
    from tuner.services.celery import node_of_multi

    node = node_of_multi(one.words)
    if node is None:
        return one
    notes = [f"celery multi starts {node.n_nodes} daemons: tuner starts such a node in the foreground"]
    notes += [f"left out {' '.join(node.left_out)}"] if node.left_out else []
    return replace(one, words=node.words, copies=one.copies * node.n_nodes, notes=(*one.notes, *notes))


def _several(file: str, processes: Sequence[Started], n_known: int) -> ConfigError:
    """Return the error that lists the processes of *file* and asks the user to choose one."""
    from tuner.bootstrap.on_this_host import command_of

    width = max(len(one.name) for one in processes)
    lines = []
    for one in processes:
        service = _recognise(one)
        what = service.name if service is not None else "unknown" if one.error is None else "unreadable"
        shown = command_of(redact(list(one.words))) if one.error is None else one.error.problem
        lines.append(f"  {one.name:{width}}  {what:10}  {shown}".rstrip())
    known = f"{n_known} of them supported services" if n_known else "none of them a supported service"
    first = next((one for one in processes if _recognise(one) is not None), processes[0])
    return ConfigError(
        "\n".join([f"{file} starts {len(processes)} processes, {known}: which one?", *lines]),
        hint=f"Name it: tuner init --from {file}:{first.name}",
    )


def _recognise(one: Started) -> Service | None:
    """Return the known service of a process, with or without its image's entrypoint; None: unknown."""
    return _known_service(one.words) or (
        _known_service(one.words[one.n_entrypoint :]) if one.n_entrypoint else None
    )


def _known_service(words: Sequence[str]) -> Service | None:
    """Return the service that *words* start; None: unknown, or not a worker (such as ``celery beat``)."""
    from tuner.core.text.command_words import parse_command
    from tuner.services.catalogue import recognise
    from tuner.services.record import Command

    service = recognise(words)
    if service is None:
        return None
    taken = parse_command(words)
    command = Command(taken.words, {}, is_module=taken.is_module, grammar=service.grammar)
    return service if any(form.words(command) is not None for form in service.forms) else None


def _without_entrypoint(one: Started, notes: list[str]) -> Started:
    """Leave out an image's entrypoint that hides the service's command."""
    from tuner.bootstrap.on_this_host import command_of

    n = one.n_entrypoint
    if not n or _known_service(one.words) is not None or _known_service(one.words[n:]) is None:
        return one
    notes.append(f"left out the entrypoint, which runs before the command: {command_of(one.words[:n])}")
    return replace(one, words=one.words[n:])


def _remove_tuner_variables(environment: dict[str, str], service: Service) -> list[str]:
    """Remove from *environment* the variables that tuner sets, and return a note on them."""
    ours = {name for form in service.forms for name in form.layout.environment} | set(
        service.always.environment
    )
    for counted in service.probes:
        ours |= {*counted.arguments.environment, *counted.arguments.more_environment}
    ours -= set(service.joined)
    found = [name for name in environment if name in ours or name.startswith("TUNER_")]
    for name in found:
        del environment[name]
    return [f"left out {', '.join(found)}, which tuner sets"] if found else []


def _check_no_shell_words(started: Started, words: Sequence[str]) -> None:
    """Refuse a word that only a shell can compute."""
    from tuner.config.start_files.started import COMPUTED

    for word in words:
        if COMPUTED in word:
            what = word.replace(COMPUTED, "")
            raise ConfigError(
                f"{started.at}: {what} needs a shell, but tuner starts programs without one",
                hint="Write the value into the file, or type the command: tuner init -- COMMAND",
            )


# The kind of a file that starts a service, detected by its name and content.


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
    """Return the kind of the file, one of `KINDS`.

    Raises:
        ConfigError: it has none of these kinds.
    """
    found = [kind for pattern, kind in _NAMES if pattern.fullmatch(path.name)]
    found += [kind for pattern, kind in _TEXTS if pattern.search(text)]
    if not found:
        raise ConfigError(f"{path} starts no service that tuner could find", hint=_TAKES)
    return found[0]


def read_start_file(path: Path, environment: Mapping[str, str]) -> tuple[str, list[Started]]:
    """Return the kind of the file, and every process that it starts.

    ``worker@3.service`` is read from ``worker@.service`` if only that exists, as in systemd.

    Raises:
        ConfigError: the file cannot be read, or is invalid (with the place of the error).
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
