"""Settings of an older study with the defaults of those that the tuner of its time did not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from tuner.config.feeders import FeederSettings, with_clients
from tuner.config.fields import Section
from tuner.config.settings import Settings
from tuner.core.domain.stored_config import StoredConfig


def fill_defaults(config: StoredConfig) -> StoredConfig:
    """Return *config* with what it does not name as it is by default.

    Nothing is checked: a file that is not here any more, or a secret that was left out, does no harm.
    """
    return StoredConfig.of_sections(_filled(Settings, config.sections)) if config.sections else config


def _filled(model: type[BaseModel], kept: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(with_clients(kept, is_kept=True) if issubclass(model, FeederSettings) else kept)
    for name, field in model.model_fields.items():
        if name not in found:
            # What must be told has no default; a section that is not there (a simulated one's) has none
            if model is not Settings and not field.is_required():
                found[name] = to_jsonable_python(field.get_default(call_default_factory=True))
        elif isinstance(found[name], dict) and (inner := _model_of(field.annotation, found[name])):
            found[name] = _filled(inner, found[name])
    return found


def _model_of(annotation: Any, kept: Mapping[str, Any]) -> type[BaseModel] | None:
    """The one that *kept* is of, by its kind or its names; None: it is a mapping, or nobody knows."""
    models = _models_in(annotation, kept.get("kind"))
    if len(models) > 1 and "kind" in kept:
        models = [model for model in models if kept["kind"] in _kinds(model)]
    if len(models) > 1:
        models = [model for model in models if set(kept) <= set(model.model_fields)]
    return models[0] if len(models) == 1 else None


def _kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(model.model_fields["kind"].annotation) if "kind" in model.model_fields else ()


def _models_in(annotation: Any, kind: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [*annotation.alternatives(kind)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is dict:  # its names are the user's own
        return []
    return [model for part in get_args(annotation) for model in _models_in(part, kind)]
