"""The command of a launch that stays started beside others: a separate queue, open connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tuner.core.text.command_words import CommandWords, parse_command
from tuner.services.expansion import before_program
from tuner.services.record import Command, Service

Changed = tuple[tuple[str, ...], dict[str, str]]  #: a command, and the variables that tuner sets


class _Parts(NamedTuple):
    taken: CommandWords
    before: tuple[str, ...]  #: words before the program
    command: Command  #: of the service, with all its variables


def _parts_of(
    service: Service, command: Sequence[str], environment: Mapping[str, str], inherited: Mapping[str, str]
) -> _Parts:
    taken = parse_command(command)
    before, words = before_program(taken, service)
    everything = {**inherited, **environment, **taken.assigned}
    parsed = Command(words, everything, is_module=taken.is_module, grammar=service.grammar)
    return _Parts(taken, before, parsed)


def command_at_queue(
    service: Service,
    command: Sequence[str],
    environment: Mapping[str, str],
    inherited: Mapping[str, str],
    queue: str,
) -> Changed | None:
    """Return *command* and *environment*, both as launches have them, changed to read only *queue*.

    Args:
        service: the record of the service that the command starts.
        command: with fields of a layout, such as ``{threads}``.
        environment: the variables that tuner sets.
        inherited: the variables that the service has anyway, with braces escaped.
        queue: the name of a queue that only tuner fills.

    Returns:
        None: the record has no way to do this, or the command's prefix hides variables from it.
    """
    taken, before, parsed = _parts_of(service, command, environment, inherited)
    if service.at_queue is None or taken.hides_environment:
        return None
    if (found := service.at_queue(parsed, queue)) is None:
        return None
    kept = [f"{name}={value}" for name, value in taken.assigned.items() if name not in found.environment]
    assigning = ("env", *kept) if kept else ()
    return (*assigning, *before, *found.words), {**environment, **found.environment}


def command_keeping_connections(
    service: Service,
    command: Sequence[str],
    environment: Mapping[str, str],
    inherited: Mapping[str, str],
) -> Changed | None:
    """Return *command* and *environment* of an HTTP server that keeps the connections of idle clients open.

    The arguments are those of `command_at_queue`.

    Returns:
        None: the server keeps them anyway, or the command or a variable sets how long it keeps them.
    """
    taken, _, parsed = _parts_of(service, command, environment, inherited)
    added = service.idle_connections
    if added is None or parsed.value(*added.set_by) is not None:
        return None
    if not added.environment or taken.hides_environment:
        n_before = len(command) - len(parsed.words)
        at = parsed.words.index("--") if "--" in parsed.words else len(parsed.words)  # no options behind it
        return (*command[: n_before + at], *added.flags, *command[n_before + at :]), {**environment}
    changed = {**environment}
    for name, value in added.environment.items():
        known = parsed.environment.get(name, "") if name in service.joined else ""
        changed[name] = f"{known}{service.separator(name)}{value}" if known else value
    return tuple(command), changed
