"""From a YAML file and the command line's options to settings, or to every error with its place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tuner.config.document import Document, Place, read_document
from tuner.config.redaction import HIDDEN, redacted
from tuner.config.settings import OF_STRATEGY, Settings
from tuner.core.errors import ConfigError

_LONGEST_SHOWN = 60
_GRID, _LAYOUTS = ("study", "grid"), ("study", "layouts")  #: an option for one replaces either of the config
_STRATEGY = ("study", "strategy")  #: an option for it leaves out what the config says for another one


@dataclass(frozen=True, slots=True)
class Given:
    """A value from the command line, which takes the place of the config's."""

    option: str  #: "--cores"
    text: str


def load_settings(path: Path | None, options: Mapping[Place, Given]) -> Settings:
    """The settings of the config at *path* (None: the built-in service's) with *options* in their places.

    Raises:
        ConfigError: with every error, each as ``file:line:column: path: what (got ...)``.
    """
    document = read_document(path) if path is not None else Document("settings", {})
    values = deepcopy(dict(document.values))
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
        problems = _problems(error, document, values, options)
        raise ConfigError("\n".join(problems), hint=_hint(path, len(problems))) from error


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
            f"the settings in {name} do not hold here: {place}: {_message(first)}",
            hint=f"Name a config that does: tuner grid CONFIG --resume {name}",
        ) from error


def _problems(
    error: ValidationError, document: Document, values: Mapping[str, Any], options: Mapping[Place, Given]
) -> list[str]:
    found: dict[str, tuple[int, int]] = {}  # the message -> where it stands, to tell them in the file's order
    for entry in error.errors(include_url=False):
        loc = _loc_in(values, entry["loc"])
        place = tuple(step for step in loc if step != "[key]")
        unknown = entry["type"] == "extra_forbidden"
        what = _message(entry) + (_near_key(place) if unknown else "") + _got(entry)
        given = next((given for at, given in options.items() if place[: len(at)] == at), None)
        if given is not None:
            found.setdefault(f"{given.option}: {what}", (0, 0))
            continue
        if entry["type"] == "union_tag_invalid":
            place = (*place, "kind")
        position = document.where(place, key=unknown or "[key]" in loc)
        line, column = position.rsplit(":", 2)[1:]
        message = ": ".join(filter(None, [position, ".".join(map(str, place)), what]))
        found.setdefault(message, (int(line), int(column)))
    return sorted(found, key=lambda message: found[message])


def _message(entry: Mapping[str, Any]) -> str:
    kind, message = entry["type"], str(entry["msg"])
    known = {
        "extra_forbidden": "unknown key",
        "missing": "is missing",
        "int_parsing": "should be a whole number",
        "int_type": "should be a whole number",
        "float_parsing": "should be a number",
        "float_type": "should be a number",
        "bool_parsing": "should be yes or no",
        "bool_type": "should be yes or no",
        "string_type": "should be a text",
        "tuple_type": "should be a list",
        "list_type": "should be a list",
        "dict_type": "should be a mapping",
        "mapping_type": "should be a mapping",
        "model_type": "should be a mapping",
        "model_attributes_type": "should be a mapping",
        "too_short": "should name at least one",
    }
    if kind in known:
        return known[kind]
    if kind == "union_tag_invalid":
        tags = [word.strip().strip("'") for word in entry["ctx"]["expected_tags"].split(",")]
        return f"should be {' or '.join(map(repr, tags))}"
    if kind == "union_tag_not_found":
        return "kind is missing"
    return message.removeprefix("Value error, ").replace("Input should be", "should be")


def _got(entry: Mapping[str, Any]) -> str:
    """What was found there, unless the message says it already or it may be secret."""
    value = entry["input"]
    if entry["type"] in (
        "missing",
        "extra_forbidden",
        "value_error",
        "assertion_error",
        "union_tag_not_found",
    ):
        return ""
    if entry["type"] == "union_tag_invalid":
        value = entry["ctx"]["tag"]
    if any(step in ("environment", "options") for step in entry["loc"]):
        return ""
    if isinstance(value, Mapping):
        return " (got a mapping)"
    shown = "nothing" if value is None else repr(value)
    return f" (got {shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + '...'})"


def _loc_in(values: Any, loc: Sequence[str | int]) -> Place:
    """*loc* without the steps that pydantic adds for the alternatives of a union."""
    place: list[str | int] = []
    here = values
    for step in loc:
        inside = isinstance(here, Mapping) and step in here
        inside = inside or (isinstance(here, list) and isinstance(step, int) and step < len(here))
        if inside:
            here = here[step]
        elif isinstance(here, Mapping) and step == here.get("kind"):
            continue
        place.append(step)
    return tuple(place)


def _near_key(place: Place) -> str:
    model = _model_at(Settings, place[:-1])
    near = get_close_matches(str(place[-1]), list(model.model_fields) if model else [], n=1)
    return f", did you mean {near[0]}?" if near else ""


def _model_at(model: type[BaseModel], place: Place) -> type[BaseModel] | None:
    for step in place:
        field = model.model_fields.get(str(step))
        if field is None:
            return None
        models = _models_in(field.annotation)
        if not models:
            return None
        # of alternatives, the one with most keys is the likeliest source of a misspelt one
        model = max(models, key=lambda candidate: len(candidate.model_fields))
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


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


def _hint(path: Path | None, n_problems: int) -> str | None:
    if path is None:
        return "tuner grid --help lists the options."
    return None if n_problems == 1 else f"{n_problems} things to put right in {path}."
