"""Snippet for Ansible: a file of variables for existing roles and templates."""

from __future__ import annotations

import re

from tuner.core.domain.rollout import PROCESS, Rollout
from tuner.reports.snippets.text import comment, comment_header, describe_limits, slug
from tuner.reports.snippets.yaml_text import quote_key, quote_yaml


def ansible(rollout: Rollout) -> str:
    """Return a file of variables, all named after the service."""
    name = re.sub(r"\W+", "_", slug(rollout.service).lower())
    name = name if name[0].isalpha() else f"service_{name}"
    several = rollout.n_programs > 1
    environment = {**rollout.environment, **(rollout.names if several else {})}
    lines = [f"{name}_command:", *(f"  - {_text(word)}" for word in rollout.command)]
    lines.append(f"{name}_environment:{'' if environment else ' {}'}")
    lines += [f"  {quote_key(variable)}: {_text(value)}" for variable, value in environment.items()]
    lines += [
        f"{name}_programs: {rollout.n_programs}",
        f"{name}_processes: {rollout.layout.processes}",
        *([f"{name}_threads: {rollout.layout.threads}"] if rollout.layout.has_threads else []),
        f"{name}_stop_signal: {quote_yaml(rollout.stop_signal)}",
        f"{name}_stop_wait_s: {rollout.stop_wait_whole_s}",
        f"{name}_stop_as_group: {'true' if rollout.stop_as_group else 'false'}",
    ]
    number = ["process is the number of a program: loop over range(programs) with it as loop_var."]
    texts = (*rollout.command, *environment.values())
    about = comment_header(
        rollout,
        "As group_vars or vars_files; start the command once for each of programs.",
        *(number if any(PROCESS in text for text in texts) else []),
        *describe_limits(rollout),
    )
    return comment(about) + "---\n" + "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Return a string, marked unsafe if it contains Jinja syntax, or as a Jinja expression if it has a
    number.
    """
    if PROCESS in text:
        braces = re.sub(r"[{}]", lambda match: f"{{{{ '{match[0]}' }}}}", text)
        return quote_yaml(braces.replace(PROCESS, "{{ process }}"))
    return f"!unsafe {quote_yaml(text)}" if "{" in text else quote_yaml(text)
