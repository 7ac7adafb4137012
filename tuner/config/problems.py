"""Errors of a config with their places: pydantic's findings in tuner's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tuner.config.document import Document, Place, path_of
from tuner.config.fields import Misplaced, Section, nearest
from tuner.core.text.safe_text import escape_unprintable

_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Given:
    """A value from the command line, which replaces that of the config."""

    option: str  #: "--cores"
    text: str


def problems(
    error: ValidationError,
    document: Document,
    values: Mapping[str, Any],
    options: Mapping[Place, Given],
    model: type[BaseModel],
    moved: Mapping[Place, Place] | None = None,
) -> list[str]:
    """Return each error as ``file:line:column: path: problem (got ...)``, in the order of the file.

    Args:
        error: Result of validating *values* with *model*.
        document: The file, with the positions of its values.
        values: Values of the file, overridden by *options*.
        options: Command-line options; an error in one names the option.
        model: The model with the known keys, to suggest one for a misspelt key.
        moved: Places of converted values -> their places in the file.
    """
    found: dict[str, tuple[int, int]] = {}  # message -> line and column, to sort by the order of the file
    entries = error.errors(include_url=False)
    for loc, alike in _by_value(values, entries):
        entry = alike[0]
        if entry["type"] == "too_short" and any(_is_below(other["loc"], entry["loc"]) for other in entries):
            continue  # the list has elements, and their own errors are reported
        place = tuple(step for step in loc if step != "[key]")
        place = (moved or {}).get(place, place)
        unknown = entry["type"] == "extra_forbidden"
        near = _near_key(model, values, place) if unknown else ""
        what = escape_unprintable(_any_of(alike) + near + _describe_input(entry))
        given = next((given for at, given in options.items() if place[: len(at)] == at), None)
        if given is not None:
            found.setdefault(f"{given.option}: {what}", (0, 0))
            continue
        if entry["type"] == "union_tag_invalid":
            place = (*place, "kind")
        position = document.where(place, key=unknown or "[key]" in loc)
        line, column = position.rsplit(":", 2)[1:]
        text = ": ".join(filter(None, [position, path_of(place), what]))
        found.setdefault(text, (int(line), int(column)))
    return sorted(found, key=lambda text: found[text])


def _by_value(
    values: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> list[tuple[Place, list[Mapping[str, Any]]]]:
    """Return the entries grouped by place: those of all alternatives of a union for one value together."""
    found: list[tuple[Place, list[Mapping[str, Any]]]] = []
    together: dict[Place, list[Mapping[str, Any]]] = {}
    for entry in entries:
        raised = entry.get("ctx", {}).get("error")
        below = raised.below if isinstance(raised, Misplaced) else ()
        loc, is_alternative = _loc_in(values, (*entry["loc"], *below))
        if is_alternative and loc in together:
            together[loc].append(entry)
            continue
        found.append((loc, [entry]))
        if is_alternative:
            together[loc] = found[-1][1]
    return found


def _any_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Join the expectations of alternative *entries*: "should be a whole number, or 'auto'"."""
    first, *others = dict.fromkeys(message(entry) for entry in entries)
    return ", or ".join([first, *(other.removeprefix("should be ") for other in others)])


def _is_below(inner: Place, outer: Place) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def message(entry: Mapping[str, Any]) -> str:
    """Return the error message for one value, without its place."""
    kind, said = entry["type"], str(entry["msg"])
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
        tag = str(entry["ctx"]["tag"])
        tags = [word.strip().strip("'") for word in entry["ctx"]["expected_tags"].split(",")]
        return f"{tag} is none of {', '.join(tags)}{nearest(tag, tags)}"
    if kind == "union_tag_not_found":
        return "kind is missing"
    return said.removeprefix("Value error, ").replace("Input should be", "should be")


def _describe_input(entry: Mapping[str, Any]) -> str:
    """Return " (got VALUE)", or an empty text if the message has the value or the value may be secret."""
    value = entry["input"]
    if entry["type"] in (
        "missing",
        "extra_forbidden",
        "value_error",
        "assertion_error",
        "union_tag_not_found",
        "union_tag_invalid",
    ):
        return ""
    if any(step in ("environment", "options") for step in entry["loc"]):
        return ""
    if isinstance(value, Mapping):
        return " (got a mapping)"
    shown = "nothing" if value is None else repr(value)
    return f" (got {shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + '...'})"


def _loc_in(values: Any, loc: Sequence[str | int]) -> tuple[Place, bool]:
    """Return *loc* without pydantic's steps for alternatives of a union, and whether it ended in such a step.

    The ``kind`` of a mapping is its first step; the same word may follow as a key (``command`` in a
    ``command``). The step of an alternative without ``kind`` is the last, because a text has no keys.
    """
    place: list[str | int] = []
    here = values
    may_be_tag = False
    for step in loc:
        if may_be_tag and isinstance(here, Mapping) and step == here.get("kind"):
            may_be_tag = False
            continue
        inside = isinstance(here, Mapping) and step in here
        inside = inside or (isinstance(here, list) and isinstance(step, int) and step < len(here))
        if not inside and may_be_tag and _is_alternative(here, step):
            return tuple(place), True
        if inside:
            here = here[step]
        may_be_tag = inside
        place.append(step)
    return tuple(place), False


def _is_alternative(here: Any, step: str | int) -> bool:
    """Return whether *step* is pydantic's name of a type, as ``literal['auto']``, and not a key of *here*."""
    if not isinstance(step, str) or step == "[key]":
        return False
    return not isinstance(here, Mapping) or "[" in step


def _near_key(root: type[BaseModel], values: Any, place: Place) -> str:
    models = _models_at(root, values, place[:-1])
    # of several alternatives, a misspelt key most likely belongs to the one with the most keys
    keys = max((list(model.model_fields) for model in models), key=len, default=[])
    near = get_close_matches(str(place[-1]), keys, n=1)
    return f", did you mean {near[0]}?" if near else ""


def _models_at(root: type[BaseModel], values: Any, place: Place) -> list[type[BaseModel]]:
    """Return the models allowed at *place*; if *values* have a ``kind``, only the model of this kind."""
    models: list[type[BaseModel]] = [root]
    types: list[Any] = [root]
    for step in place:
        types = [below for one in types for below in _below(one, step)]
        values = _value_below(values, step)
        models = [model for one in types for model in _models_in(one)]
        named = [model for model in models if _is_kind(model, values)]
        if named:
            types, models = list(named), named
    return models


def _below(annotation: Any, step: str | int) -> list[Any]:
    """Return the types allowed at *step* within a value of the type *annotation*."""
    if _is_model(annotation):
        field = annotation.model_fields.get(str(step))
        return [] if field is None else [field.annotation]
    parts = get_args(annotation)
    if get_origin(annotation) is dict:
        return [parts[1]]
    if get_origin(annotation) in (list, tuple):
        return [parts[0]]
    return [below for part in parts for below in _below(part, step)]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if _is_model(annotation):
        return [*annotation.alternatives()] if issubclass(annotation, Section) else [annotation]
    if get_origin(annotation) in (dict, list, tuple):
        return []
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_kind(model: type[BaseModel], value: Any) -> bool:
    kind = model.model_fields.get("kind")
    return kind is not None and isinstance(value, Mapping) and value.get("kind") in get_args(kind.annotation)


def _value_below(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return None
