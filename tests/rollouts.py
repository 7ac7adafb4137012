"""Layouts as production would start them, of studies that were never made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.config.load import canonical_json
from tuner.config.settings import Settings
from tuner.core.domain.layout import parse_layout
from tuner.core.domain.rollout import Rollout
from tuner.services.catalogue import known_services, recognise
from tuner.services.derived.rollouts import rollout_of
from tuner.services.expansion import expand_service

#: what stands in no command of a sane person, and in one of the next
HOSTILE = (
    "plain",
    "two words",
    " blanks at ends ",
    "100% %i %(x)s %%",
    "$HOME ${HOME} $(id) $$ `id`",
    "it's",
    'say "hi"',
    """'both' and "both" """,
    "'quoted'",
    "a ;b #c",
    "a;b#c",
    "back\\slash \\\\ \\n \\",
    "{braces} {{ jinja }} {% x %}",
    "~ * ? [a] <b> | & ! = : , -",
    "yes",
    "0123",
    "1:30",
    "- item",
    "ä 語 🐍",
    "",
    "tab\tand\nline",
    "esc\x1b[31m\x7f",
    "nel\x85 ls\u2028 bom\ufeff nbsp\u00a0",
    "nothing: here # no comment",
    "!unsafe",
    ";",
    "#",
    "@(file) $(VAR)",
)


def script(words: Sequence[str], **more: Any) -> dict[str, Any]:
    """The service section of a script, as a config has it."""
    return {"kind": "script", "name": "work", "command": list(words), **more}


def rolled_out(
    command: str | Sequence[str],
    layout: str,
    *,
    variants: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    **more: Any,
) -> Rollout:
    """What a study of *command* would have put into production in *layout*."""
    import shlex

    words = tuple(shlex.split(command) if isinstance(command, str) else command)
    service = recognise(words)
    asked = {"command": list(words), "environment": dict(environment or {}), **more}
    if service is None:
        section: Mapping[str, Any] = {**script(words), **asked}
    else:
        section = expand_service(service, asked, {}, variants)
        section = {name: value for name, value in section.items() if name != "kind"} | {"kind": "script"}
    kept = json.loads(canonical_json(Settings.model_validate({"service": section})))["service"]
    return rollout_of(kept, parse_layout(layout), 2, known_services())
