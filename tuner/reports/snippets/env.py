"""Snippet as a .env file that sh and python-dotenv parse alike."""

from __future__ import annotations

import re

from tuner.core.domain.rollout import Rollout
from tuner.reports.snippets.text import (
    Unfit,
    comment,
    comment_command,
    comment_header,
    describe_limits,
    number_left_out,
    overriding,
    printable,
)

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def env(rollout: Rollout) -> str:
    """Return the variables that set the layout.

    Raises:
        Unfit: options of the command set it, or programs need their numbers, or the readers of such files
            parse a value differently.
    """
    if rollout.is_command_needed:
        raise Unfit(
            f"{rollout.service} gets its layout from its command, but such a file contains no command"
        )
    if numbers := rollout.numbered_variables:
        raise Unfit(f"{', '.join(numbers)} contains a program's number, but all programs share this file")
    if not rollout.unnumbered_environment:
        raise Unfit(f"{rollout.service} gets no settings from its environment")
    lines = [f"{name}={_value(name, value)}" for name, value in rollout.unnumbered_environment.items()]
    several = rollout.n_programs > 1
    about = comment_header(
        rollout,
        f"For the command {comment_command(rollout.own_command)}",
        *([f"Start it {rollout.n_programs} times."] if several else []),
        *overriding(rollout, "these variables"),
        f"Let it have {rollout.stop_wait_whole_s} s to stop, by SIG{rollout.stop_signal}.",
        *number_left_out(rollout),
        *([f"Give each of them its own {' and '.join(rollout.names)}."] if several and rollout.names else []),
        *describe_limits(rollout),
    )
    return comment(about) + "\n".join(lines) + "\n"


def _value(name: str, value: str) -> str:
    """Return the value in quotes that every reader parses alike.

    Single quotes hold all characters but themselves and, for dotenv, two backslashes. In double quotes, sh
    and dotenv share only the escapes of quote and backslash, and ``$`` is not allowed.
    """
    printable(value, name)
    if "${" in value:
        raise Unfit(f"{name} has ${{, which some readers of such files fill in even between quotes")
    if _PLAIN.fullmatch(value):
        return value
    if "'" not in value and "\\\\" not in value and not value.endswith("\\"):
        return f"'{value}'"
    if "$" not in value and "`" not in value and not value.endswith("\\"):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    raise Unfit(f"{name} has quotes, $ and \\ that readers of such files do not read alike")
