"""Snippet for Kubernetes: a strategic merge patch of a Deployment."""

from __future__ import annotations

from tuner.core.domain.rollout import Rollout
from tuner.reports.snippets.containers import dollars, on_command, on_signal, with_same_program
from tuner.reports.snippets.text import comment, comment_header, describe_limits, number_left_out, slug
from tuner.reports.snippets.yaml_text import flow, quote_yaml


def kubernetes(rollout: Rollout) -> str:
    """Return the patch: replicas for several programs, the environment, the command if it sets the layout.

    Raises:
        Unfit: its programs need their numbers.
    """
    rollout = with_same_program(rollout, "pods of a Deployment")
    name = slug(rollout.service).lower().replace("_", "-").strip("-") or "service"
    several = rollout.n_programs > 1
    text = (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {quote_yaml(name)}\nspec:\n"
        + (f"  replicas: {rollout.n_programs}\n" if several else "")
        + "  template:\n    spec:\n"
        + f"      terminationGracePeriodSeconds: {rollout.stop_wait_whole_s}\n"
        + f"      containers:\n        - name: {quote_yaml(name)}\n"
    )
    if rollout.is_command_needed:
        first, *rest = map(dollars, rollout.command)
        text += f"          command: {flow([first])}\n          args: {flow(rest)}\n"
    if environment := rollout.unnumbered_environment:
        text += "          env:\n"
        for variable, value in environment.items():
            text += (
                f"            - name: {quote_yaml(variable)}\n              value: "
                f"{quote_yaml(dollars(value))}\n"
            )
    about = comment_header(
        rollout,
        f"Put the names of your Deployment and its container in place of {name}, both; then kubectl patch"
        " deployment NAME --patch-file FILE.",
        *(["Each pod is one of its programs."] if several else []),
        *on_command(rollout),
        *_on_stop(rollout),
        *number_left_out(rollout),
        *describe_limits(rollout),
    )
    return comment(about) + text


def _on_stop(rollout: Rollout) -> list[str]:
    if rollout.stop_signal == "TERM":
        return on_signal(rollout)
    signal = f"SIG{rollout.stop_signal}"
    return [f"Stop it with {signal}. Kubernetes sends the signal that the image names: STOPSIGNAL {signal}."]
