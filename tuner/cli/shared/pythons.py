"""The option --python: an axis of the service, with a value for each interpreter."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.app.settings import Options

AXIS = "python"


def python_options(texts: Sequence[str] | None, simulate: Path | None, fleet: str | None) -> Options:
    """What is typed of interpreters, as settings of an axis; nothing where nothing is typed.

    Raises:
        ConfigError: one is none, or it is not this host that runs the service.
    """
    if not texts:
        return {}
    from tuner.bootstrap.parts import pythons
    from tuner.config.load import Given

    if fleet is not None:
        raise ConfigError(
            "--python names interpreters of this host, but --fleet measures on other hosts",
            hint="Name the interpreters in the config: service:"
            " {axes: {python: {NAME: {interpreter: PYTHON}, ...}}}",
        )
    if simulate is not None:
        raise ConfigError(
            "--python cannot be combined with --simulate: no service runs", hint="Leave one of them out."
        )
    return {
        ("service", "axes", AXIS, name, "interpreter"): Given(
            f"--python {words[0]}", shlex.join(word.replace("{", "{{").replace("}", "}}") for word in words)
        )
        for name, words in pythons.parse_pythons(texts).items()
    }
