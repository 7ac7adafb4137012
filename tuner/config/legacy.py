"""Settings of older studies in today's terms, and the settings of a study that is continued."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from tuner.config.document import Document, Place
from tuner.config.feeders import OF_LOAD, FeederSettings, with_clients
from tuner.config.fields import Section
from tuner.config.load import Given, put_options
from tuner.config.problems import problems
from tuner.config.settings import Settings
from tuner.config.study import StudySettings
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import ConfigError

#: settings of a study that no command had an option for when files did not record what was typed: only a
#: config set them
SET_BY_CONFIG_ALONE = frozenset(
    f"study.{name}" for name in ("warmup_cap", "warm_cache", "memory_pressure_limit")
)


def fill_defaults(config: StoredConfig) -> StoredConfig:
    """Return *config* with the default of each setting that it lacks.

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
    if found.get("gate", "") is None:  # a study does not keep a gate that nobody set
        del found["gate"]
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


def keep_backends(asked: Settings, kept: Mapping[str, Any]) -> Settings:
    """Return *asked* without backends where the settings *kept* had none: tuner did not look for any then."""
    if kept.get("backends") == [] and asked.backends is None:
        return asked.model_copy(update={"backends": ()})
    return asked


def keep_load(values: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Keep the load that a study was begun with, unless *values* ask for another: its clients may have been
    found."""
    section, service = values.get("service"), kept.get("service")
    if not isinstance(section, dict) or not isinstance(service, dict):
        return
    was, now = with_clients(service.get("feeder"), is_kept=True), section.get("feeder")
    if not isinstance(was, dict) or not isinstance(now, dict) or now.get("kind") != "http":
        return
    now = section["feeder"] = with_clients(now, is_kept=False)
    for name in OF_LOAD:
        if was.get(name) is not None:
            now.setdefault(name, was[name])


def keep_ready_counts(now: Any, was: Any) -> None:
    """Keep how many lines a study waited for, unless *now* gives a number: the default has changed."""
    if not isinstance(now, dict) or not isinstance(was, Mapping):
        return
    ready, before = now.get("ready"), was.get("ready")
    if isinstance(ready, dict) and isinstance(before, Mapping) and "count" in before:
        ready.setdefault("count", before["count"])
    variants, earlier = now.get("variants"), was.get("variants")
    if isinstance(variants, dict) and isinstance(earlier, Mapping):
        for name, variant in variants.items():
            keep_ready_counts(variant, earlier.get(name))


# What the study section of a config asks for by itself, where a study goes on that has one already.


class _Alone(Section):
    """Whether a service can have it so is not asked: if the study was begun with it, that was."""

    study: StudySettings


def study_overrides(document: Document, options: Mapping[Place, Given]) -> dict[str, Any]:
    """The settings that the study section of *document* names, as a study keeps them.

    Without those that *options* take the place of: the ones the study was begun with, and those typed now.

    Raises:
        ConfigError: with every error, each with its place.
    """
    if "study" not in document.values:
        return {}
    options = {place: given for place, given in options.items() if place[0] == "study"}
    values = {"study": deepcopy(document.values["study"])}
    put_options(values, options)
    try:
        study = _Alone.model_validate(values).study
    except ValidationError as error:
        found = problems(error, document, values, options, _Alone)
        hint = None if len(found) == 1 else f"{len(found)} things to put right in {document.name}."
        raise ConfigError("\n".join(found), hint=hint) from error
    named = {name for name in values["study"] if ("study", name) not in options}
    return {name: value for name, value in study.model_dump(mode="json").items() if name in named}
