"""What is wrong with a config, told with its place: pydantic's findings in the reader's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tuner.config.document import Document, Place
from tuner.config.fields import Misplaced

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
    for entry in error.errors(include_url=False):
        raised = entry.get("ctx", {}).get("error")
        below = raised.below if isinstance(raised, Misplaced) else ()
        loc = _loc_in(values, (*entry["loc"], *below))
        place = tuple(step for step in loc if step != "[key]")
        place = (moved or {}).get(place, place)
        unknown = entry["type"] == "extra_forbidden"
        what = message(entry) + (_near_key(model, place) if unknown else "") + _got(entry)
        given = next((given for at, given in options.items() if place[: len(at)] == at), None)
        if given is not None:
            found.setdefault(f"{given.option}: {what}", (0, 0))
            continue
        if entry["type"] == "union_tag_invalid":
            place = (*place, "kind")
        position = document.where(place, key=unknown or "[key]" in loc)
        line, column = position.rsplit(":", 2)[1:]
        told = ": ".join(filter(None, [position, ".".join(map(str, place)), what]))
        found.setdefault(told, (int(line), int(column)))
    return sorted(found, key=lambda told: found[told])


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
        tags = [word.strip().strip("'") for word in entry["ctx"]["expected_tags"].split(",")]
        return f"should be {' or '.join(map(repr, tags))}"
    if kind == "union_tag_not_found":
        return "kind is missing"
    return said.removeprefix("Value error, ").replace("Input should be", "should be")


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
    """*loc* without the steps that pydantic adds for the alternatives of a union.

    Such a step comes first within its mapping; the same word may follow as a key (a command's ``command``).
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
        if inside:
            here = here[step]
        may_be_tag = inside
        place.append(step)
    return tuple(place)


def _near_key(root: type[BaseModel], place: Place) -> str:
    model = _model_at(root, place[:-1])
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
