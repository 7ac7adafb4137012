"""Command of a launch that reads a queue of its own, separate from the other launches of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.core.text.command_words import parse_command
from tuner.services.expansion import before_program
from tuner.services.record import Command, Service


def command_at_queue(
    service: Service,
    command: Sequence[str],
    environment: Mapping[str, str],
    inherited: Mapping[str, str],
    queue: str,
) -> tuple[tuple[str, ...], dict[str, str]] | None:
    """Return *command* and *environment*, both as launches have them, changed to read only *queue*.

    Args:
        service: the record of the service that the command starts.
        command: with fields of a layout, as ``{threads}``.
        environment: the variables that tuner sets.
        inherited: the variables that the service has anyway, with braces escaped.
        queue: the name of a queue that only tuner fills.

    Returns:
        None: the record has no way to do this, or the command's prefix hides variables from it.
    """
    taken = parse_command(command)
    if service.at_queue is None or taken.hides_environment:
        return None
    before, words = before_program(taken, service)
    everything = {**inherited, **environment, **taken.assigned}
    looked_at = Command(words, everything, is_module=taken.is_module, grammar=service.grammar)
    found = service.at_queue(looked_at, queue)
    if found is None:
        return None
    kept = [f"{name}={value}" for name, value in taken.assigned.items() if name not in found.environment]
    assigning = ("env", *kept) if kept else ()
    return (*assigning, *before, *found.words), {**environment, **found.environment}
