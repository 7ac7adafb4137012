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
    """A value from the command line, which takes the place of the config's."""

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
    """Each as ``file:line:column: path: what (got ...)``, in the file's order.

    Args:
        error: what *model* said of *values*.
        document: the file, which knows where its values stand.
        values: those of the file with *options* in their places.
        options: from the command line; what is wrong with one is told of the option.
        model: whose keys a misspelt one may have meant.
        moved: places of values that were put elsewhere than they are told -> where they are told.
    """
    found: dict[str, tuple[int, int]] = {}  # the message -> where it stands, to tell them in the file's order
    entries = error.errors(include_url=False)
    for loc, alike in _by_value(values, entries):
        entry = alike[0]
        if entry["type"] == "too_short" and any(_is_below(other["loc"], entry["loc"]) for other in entries):
            continue  # it names some, and what is wrong with those is told
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
    """Each entry with its place; what the alternatives of a union each say of one value is together."""
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
    """What a value should be, where each of *entries* would do: "should be a whole number, or 'auto'"."""
    first, *others = dict.fromkeys(message(entry) for entry in entries)
    return ", or ".join([first, *(other.removeprefix("should be ") for other in others)])


def _is_below(inner: Place, outer: Place) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def message(entry: Mapping[str, Any]) -> str:
    """What is wrong with one value, without its place."""
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
    """What was found there, unless the message says it already or it may be secret."""
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
    """*loc* without the steps that pydantic adds for the alternatives of a union; whether it ended in one.

    The ``kind`` of a mapping comes first within it; the same word may follow as a key (a command's
    ``command``). Alternatives that no ``kind`` tells apart come last: nothing has a key below a text.
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
    """Whether *step* is pydantic's word for a type, as ``literal['auto']``, and no key of what is *here*."""
    if not isinstance(step, str) or step == "[key]":
        return False
    return not isinstance(here, Mapping) or "[" in step


def _near_key(root: type[BaseModel], values: Any, place: Place) -> str:
    models = _models_at(root, values, place[:-1])
    # of alternatives, the one with most keys is the likeliest source of a misspelt one
    keys = max((list(model.model_fields) for model in models), key=len, default=[])
    near = get_close_matches(str(place[-1]), keys, n=1)
    return f", did you mean {near[0]}?" if near else ""


def _models_at(root: type[BaseModel], values: Any, place: Place) -> list[type[BaseModel]]:
    """What may stand at *place*; of alternatives that a ``kind`` tells apart, the one that *values* name."""
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
    """The types of what stands at *step* within a value of this type."""
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
