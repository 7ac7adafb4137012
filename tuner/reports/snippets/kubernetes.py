"""A strategic merge patch for a Deployment."""

from __future__ import annotations

from tuner.core.domain.rollout import Rollout
from tuner.reports.snippets.containers import alike, dollars, on_command, on_signal
from tuner.reports.snippets.text import comment, limits_told, number_left_out, slug, told
from tuner.reports.snippets.yaml_text import flow, quoted


def kubernetes(rollout: Rollout) -> str:
    """The patch: replicas for several programs, the environment, the command where it says the layout.

    Raises:
        Unfit: its programs are told their numbers.
    """
    rollout = alike(rollout, "pods of a Deployment")
    name = slug(rollout.service).lower().replace("_", "-").strip("-") or "service"
    several = rollout.n_programs > 1
    text = (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {quoted(name)}\nspec:\n"
        + (f"  replicas: {rollout.n_programs}\n" if several else "")
        + "  template:\n    spec:\n"
        + f"      terminationGracePeriodSeconds: {rollout.stop_wait_whole_s}\n"
        + f"      containers:\n        - name: {quoted(name)}\n"
    )
    if rollout.is_command_needed:
        first, *rest = map(dollars, rollout.command)
        text += f"          command: {flow([first])}\n          args: {flow(rest)}\n"
    if environment := rollout.unnumbered_environment:
        text += "          env:\n"
        for variable, value in environment.items():
            text += f"            - name: {quoted(variable)}\n              value: {quoted(dollars(value))}\n"
    about = told(
        rollout,
        f"Put the names of your Deployment and its container in place of {name}, both; then kubectl patch"
        " deployment NAME --patch-file FILE.",
        *(["Each pod is one of its programs."] if several else []),
        *on_command(rollout),
        *_on_stop(rollout),
        *number_left_out(rollout),
        *limits_told(rollout),
    )
    return comment(about) + text


def _on_stop(rollout: Rollout) -> list[str]:
    if rollout.stop_signal == "TERM":
        return on_signal(rollout)
    signal = f"SIG{rollout.stop_signal}"
    return [f"Stop it with {signal}. Kubernetes sends the signal that the image names: STOPSIGNAL {signal}."]
