"""From a YAML file and the command line's options to settings, or to every error with its place."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tuner.config.document import Document, Place, read_document
from tuner.config.problems import Given, message, problems
from tuner.config.redaction import HIDDEN, redacted
from tuner.config.settings import OF_STRATEGY, Settings
from tuner.core.errors import ConfigError

__all__ = ["Given", "canonical_json", "load_settings", "settings_of_study"]

_GRID, _LAYOUTS = ("study", "grid"), ("study", "layouts")  #: an option for one replaces either of the config
_STRATEGY = ("study", "strategy")  #: an option for it leaves out what the config says for another one


def load_settings(
    path: Path | None, options: Mapping[Place, Given], *, without: Collection[str] = ()
) -> Settings:
    """The settings of the config at *path* (None: the built-in service's) with *options* in their places.

    Sections *without* are as if the config did not have them.

    Raises:
        ConfigError: with every error, each as ``file:line:column: path: what (got ...)``.
    """
    document = read_document(path) if path is not None else Document("settings", {})
    values = {name: deepcopy(value) for name, value in document.values.items() if name not in without}
    for place, given in options.items():
        _put(values, place, given.text)
    for one, other in ((_GRID, _LAYOUTS), (_LAYOUTS, _GRID)):
        if one in options and other not in options:  # both typed is a mistake, and told as one
            _drop(values, other)
    if _STRATEGY in options:
        for strategy, names in OF_STRATEGY.items():
            for place in (("study", name) for name in names if strategy != options[_STRATEGY].text):
                if place not in options:
                    _drop(values, place)
    if isinstance(values.get("service"), dict):
        values["service"].setdefault(
            "kind", "script" if "command" in values["service"] else "crash-processor"
        )
    folder = path.resolve().parent if path is not None else Path.cwd()
    try:
        return Settings.model_validate(values, context={"folder": folder})
    except ValidationError as error:
        found = problems(error, document, values, options, Settings)
        raise ConfigError("\n".join(found), hint=_hint(path, values, len(found))) from error


def canonical_json(settings: Settings) -> str:
    """The settings as a study keeps them: sorted, compact, secrets left out."""
    return json.dumps(redacted(settings.model_dump(mode="json")), sort_keys=True, separators=(",", ":"))


def settings_of_study(canonical: str, name: str) -> Settings:
    """The settings that ``canonical_json`` kept in the study file called *name*.

    Raises:
        ConfigError: secrets were left out, so the config has to be read again; or they are not settings.
    """
    if HIDDEN in canonical:
        raise ConfigError(
            f"{name} does not hold the secrets of its config",
            hint=f"Name the config again: tuner grid CONFIG --resume {name}",
        )
    try:
        return Settings.model_validate_json(canonical)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"the settings in {name} do not hold here: {place}: {message(first)}",
            hint=f"Name a config that does: tuner grid CONFIG --resume {name}",
        ) from error


def _put(values: dict[str, Any], place: Place, text: str) -> None:
    for step in place[:-1]:
        below = values.setdefault(str(step), {})
        if not isinstance(below, dict):
            return  # the config is wrong there, and the settings will say so
        values = below
    values[str(place[-1])] = text


def _drop(values: dict[str, Any], place: Place) -> None:
    here: Any = values
    for step in place[:-1]:
        here = here.get(step) if isinstance(here, dict) else None
    if isinstance(here, dict):
        here.pop(place[-1], None)


def _hint(path: Path | None, values: Mapping[str, Any], n_problems: int) -> str | None:
    if path is None:
        return "tuner grid --help lists the options."
    if "demands" in values:
        return f"This is a profile: tuner grid --simulate {path} plays it."
    return None if n_problems == 1 else f"{n_problems} things to put right in {path}."
