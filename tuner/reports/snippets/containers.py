"""Parts shared by the snippets for Kubernetes and compose: one container per program."""

from __future__ import annotations

from dataclasses import replace

from tuner.core.domain.rollout import Rollout
from tuner.reports.snippets.text import Unfit, comment_command, overriding


def with_same_program(rollout: Rollout, replicas: str) -> Rollout:
    """Return *rollout* with identical programs, because *replicas* have no numbers.

    Raises:
        Unfit: the command or a variable contains a number.
    """
    if rollout.alone_command is not None:
        rollout = replace(rollout, command=rollout.alone_command)
    if rollout.is_numbered:
        raise Unfit(f"each of its {rollout.n_programs} programs needs its number, but {replicas} have none")
    return rollout


def dollars(text: str) -> str:
    """Return *text* with ``$`` doubled, because a single ``$`` begins a variable."""
    return text.replace("$", "$$")


def on_command(rollout: Rollout) -> list[str]:
    """Return remarks on the command."""
    if rollout.is_command_needed:
        return ["It goes before the image's own: put its ENTRYPOINT first, where that is a script of yours."]
    return [
        f"The command stays unchanged; in the study it was: {comment_command(rollout.command)}",
        *overriding(rollout, "these variables"),
    ]


def on_signal(rollout: Rollout) -> list[str]:
    """Return a remark on a service that needs signals to its whole process group."""
    if not rollout.stop_as_group:
        return []
    return ["In the study its whole process group got the signal; here its first process alone does."]
