"""Snippet for compose: an override file."""

from __future__ import annotations

from tuner.core.domain.rollout import Rollout
from tuner.reports.snippets.containers import dollars, on_command, on_signal, with_same_program
from tuner.reports.snippets.text import comment, comment_header, describe_limits, number_left_out, slug
from tuner.reports.snippets.yaml_text import block, flow, quote_yaml


def compose(rollout: Rollout) -> str:
    """Return the override: replicas for several programs, the environment, the command if it sets the layout.

    Raises:
        Unfit: its programs need their numbers.
    """
    rollout = with_same_program(rollout, "containers of one service")
    name = slug(rollout.service)
    text = f"services:\n  {quote_yaml(name)}:\n"
    if rollout.n_programs > 1:
        text += f"    deploy:\n      replicas: {rollout.n_programs}\n"
    if rollout.is_command_needed:
        first, *rest = map(dollars, rollout.command)
        text += f"    entrypoint: {flow([first])}\n    command: {flow(rest)}\n"
    if environment := rollout.unnumbered_environment:
        told_ = {variable: dollars(value) for variable, value in environment.items()}
        text += f"    environment:\n{block(told_, 6)}"
    text += f"    stop_signal: SIG{rollout.stop_signal}\n"
    text += f"    stop_grace_period: {rollout.stop_wait_whole_s}s\n"
    about = comment_header(
        rollout,
        f"Put the name of your service in place of {name}; then docker compose -f compose.yaml -f FILE up.",
        *on_command(rollout),
        *on_signal(rollout),
        *number_left_out(rollout),
        *describe_limits(rollout),
    )
    return comment(about) + text
