"""The error of a program that ends at its start because it does not know an option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

from tuner.adapters.processes.log_tail import beginning_of
from tuner.adapters.provenance import package_version
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError
from tuner.core.text.usage_errors import rejected_option

_COMMAND = "command"


def usage_error(
    spec: ServiceSpec,
    variants: Sequence[ServiceSpec],
    how: str,
    logs: Sequence[Path],
    known: Callable[[Sequence[str]], str],
) -> ConfigError | None:
    """Return the error that ends a study: no layout would start. None: the program ended otherwise.

    Args:
        spec: the service that ended.
        variants: services of the study; another one may have no such option, and start.
        how: how it ended ("exit status 2").
        logs: files with its output.
        known: returns the name of the known service of a command, or "".
    """
    option = rejected_option(how, "\n".join(beginning_of(log) for log in logs))
    if option is None or len({_place_of(one, option) for one in variants}) > 1:
        return None
    name = known(spec.command)
    version = package_version(name, spec.command, spec.environment, spec.directory) if name else ()
    program = " ".join([name or PurePath(spec.command[0]).name, ".".join(map(str, version))]).strip()
    found = _place_of(spec, option)
    named = option if found in ("", _COMMAND) else f"{option} in {found}"
    return ConfigError(
        f"{program} does not know the option {named}, so no layout can start",
        hint=f"Remove the option, or install a version of {name or 'the program'} that has it (see --help).",
    )


def _place_of(spec: ServiceSpec, option: str) -> str:
    """Return the variable that contains *option*, or "command"; "" if tuner does not find it."""
    if any(word.startswith(option) for word in spec.command):
        return _COMMAND
    names = [name for name, value in spec.environment.items() if option in value.replace("=", " ").split()]
    return names[0] if names else ""
