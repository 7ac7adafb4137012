"""Sources of options: command line, else environment, else file, else profile, else default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .errors import InputError
from .options import OPTIONS, Options
from .profiles import PROFILES

ENVIRONMENT_PREFIX = "CRASH_PROCESSOR_"
PROFILE = "profile"


class Given(NamedTuple):
    """An option's text, and its place for errors."""

    text: str
    origin: str  #: source of the value for errors: ``--seed``, ``crash.yaml:3:1: seed``


def resolve(
    command_line: Mapping[str, Given], environment: Mapping[str, str], config: Path | None = None
) -> Options:
    """Merge all sources and parse every value.

    Raises:
        InputError: an unknown name, or an invalid value, with its place.
    """
    layers: list[Mapping[str, Given]] = [command_line, _from_environment(environment)]
    if config is not None:
        layers.append(_from_file(config))
    given: dict[str, Given] = {}
    for layer in reversed(layers):
        given.update(layer)
    profile = given.pop(PROFILE, None)
    if profile is not None:
        given = {**_from_profile(profile), **given}
    return Options(**{name: parse_option(name, value) for name, value in given.items()})


def parse_option(name: str, given: Given) -> Any:
    """Return the value of one option.

    Raises:
        InputError: its text is invalid.
    """
    try:
        return OPTIONS[name].parse(given.text)
    except ValueError as error:
        raise InputError(f"{given.origin}: {given.text!r} is not {error}") from None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the most similar known name, or None."""
    from difflib import get_close_matches  # only needed for mistyped names

    close = get_close_matches(name, list(known), n=1)
    return f"Did you mean {close[0]}?" if close else None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    given = {}
    for variable, text in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            if name in OPTIONS or name == PROFILE:
                given[name] = Given(text, variable)
            elif name != "config" and (hint := did_you_mean(name, OPTIONS)):
                # Other programs may set variables with this prefix (Kubernetes for ports of services), so
                # only a name that is similar to an option is an error.
                close = f"{ENVIRONMENT_PREFIX}{hint.split()[-1].rstrip('?').upper()}"
                raise InputError(
                    f"environment variable {variable}: no such option", hint=f"Did you mean {close}?"
                )
    return given


def _from_profile(profile: Given) -> dict[str, Given]:
    values = PROFILES.get(profile.text)
    if values is None:
        hint = did_you_mean(profile.text, PROFILES) or f"There is: {', '.join(PROFILES)}."
        raise InputError(f"{profile.origin}: there is no profile {profile.text!r}", hint=hint)
    return {name: Given(text, f"profile {profile.text}: {name}") for name, text in values.items()}


def _from_file(path: Path) -> dict[str, Given]:
    import yaml  # 15 ms of start-up, only needed for a file

    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path} does not hold options", hint="Write one per line, as number_of_threads: 4.")
    given = {}
    for key, value in root.value:
        origin = f"{path}:{key.start_mark.line + 1}:{key.start_mark.column + 1}: {key.value}"
        name = str(key.value).replace("-", "_")
        if name not in OPTIONS and name != PROFILE:
            raise InputError(f"{origin}: no such option", hint=did_you_mean(name, [*OPTIONS, PROFILE]))
        if name in given:
            raise InputError(f"{origin}: given twice")
        given[name] = Given(_text_of(value, origin), origin)
    return given


def _text_of(node: Any, origin: str) -> str:
    """Return a scalar as written (YAML would convert some texts to numbers), or a list joined by commas."""
    if node.id == "scalar":
        return "" if node.tag == "tag:yaml.org,2002:null" else str(node.value)
    if node.id == "sequence" and all(item.id == "scalar" for item in node.value):
        return ",".join(str(item.value) for item in node.value)
    raise InputError(f"{origin}: a value or a list of values is wanted")
