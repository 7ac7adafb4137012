"""Snippet for gunicorn: a gunicorn.conf.py."""

from __future__ import annotations

from tuner.core.domain.rollout import Rollout
from tuner.reports.snippets.text import (
    Unfit,
    comment,
    comment_command,
    comment_header,
    describe_limits,
    overriding,
)


def gunicorn(rollout: Rollout) -> str:
    """Return the settings of gunicorn that set the layout.

    Raises:
        Unfit: the service is not gunicorn.
    """
    if rollout.kind != "gunicorn":
        raise Unfit(f"{rollout.service} is no gunicorn, which alone reads this file")
    own = {name: value for name, value in rollout.environment.items() if name != _CMD_ARGS}
    lines = [f"{name.replace('-', '_')} = {_literal(value)}" for name, value in rollout.options.items()]
    if own:
        lines.append(f"raw_env = {[f'{name}={value}' for name, value in own.items()]!a}")
    about = comment_header(
        rollout,
        f"As gunicorn.conf.py where it is started, or by -c: {comment_command(rollout.own_command)}",
        *overriding(rollout, "this file"),
        f"The same options in {_CMD_ARGS} override this file, too.",
        f"Let it have {rollout.stop_wait_whole_s} s to stop, and send the signal to its master alone.",
        *describe_limits(rollout),
    )
    return comment(about) + "\n".join(lines) + "\n"


_CMD_ARGS = "GUNICORN_CMD_ARGS"


def _literal(value: str) -> str:
    return value if value.isascii() and value.isdigit() else ascii(value)
