"""Snippet for uWSGI: a uwsgi.ini."""

from __future__ import annotations

from tuner.core.domain.rollout import Rollout
from tuner.reports.snippets.text import (
    Unfit,
    comment,
    comment_command,
    comment_header,
    describe_limits,
    overriding,
    printable,
)


def uwsgi(rollout: Rollout) -> str:
    """Return the settings of uWSGI that set the layout and let it stop without loss.

    Raises:
        Unfit: the service is not uWSGI, or such a file cannot hold a variable.
    """
    if rollout.kind != "uwsgi":
        raise Unfit(f"{rollout.service} is no uWSGI, which alone reads this file")
    lines = [f"{name} = {value}" for name, value in rollout.options.items()]
    lines += [f"env = {name}={_value(name, value)}" for name, value in rollout.environment.items()]
    about = comment_header(
        rollout,
        f"By --ini, behind your own options: {comment_command([*rollout.own_command, '--ini', 'uwsgi.ini'])}",
        *overriding(rollout, "this file where they stand behind --ini"),
        f"Let it have {rollout.stop_wait_whole_s} s to stop, by SIG{rollout.stop_signal} to its master.",
        *describe_limits(rollout),
    )
    return comment(about) + "[uwsgi]\n" + "\n".join(lines) + "\n"


def _value(name: str, value: str) -> str:
    if "$(" in value or "@(" in value or value != value.strip():
        raise Unfit(f"{name} contains $( or @(, which uWSGI replaces, or a blank at one end")
    return printable(value, name).replace("%", "%%")
