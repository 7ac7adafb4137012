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

#: settings without an option at the time when files did not record the command line: only a
#: config set them
SET_BY_CONFIG_ALONE = frozenset(
    f"study.{name}" for name in ("warmup_cap", "warm_cache", "memory_pressure_limit")
)


def fill_defaults(config: StoredConfig) -> StoredConfig:
    """Return *config* with the default of each setting that it lacks.

    The values are not checked, so a file that was deleted or a secret that was left out is no error.
    """
    return StoredConfig.of_sections(_with_defaults(Settings, config.sections)) if config.sections else config


def _with_defaults(model: type[BaseModel], kept: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(with_clients(kept, is_kept=True) if issubclass(model, FeederSettings) else kept)
    for name, field in model.model_fields.items():
        if name not in found:
            # Required settings and absent sections (of a simulated study) have no default
            if model is not Settings and not field.is_required():
                found[name] = to_jsonable_python(field.get_default(call_default_factory=True))
        elif isinstance(found[name], dict) and (inner := _model_of(field.annotation, found[name])):
            found[name] = _with_defaults(inner, found[name])
    if found.get("gate", "") is None:  # a study file contains a gate only if it was set
        del found["gate"]
    return found


def _model_of(annotation: Any, kept: Mapping[str, Any]) -> type[BaseModel] | None:
    """Return the model of *kept* by its kind or keys; None if it is a plain mapping or ambiguous."""
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
    if get_origin(annotation) is dict:  # the user chooses its keys
        return []
    return [model for part in get_args(annotation) for model in _models_in(part, kind)]


def keep_backends(asked: Settings, kept: Mapping[str, Any]) -> Settings:
    """Return *asked* without backends if the stored settings *kept* have none: tuner detected none then."""
    if kept.get("backends") == [] and asked.backends is None:
        return asked.model_copy(update={"backends": ()})
    return asked


def keep_load(values: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Copy the load of the stored settings *kept* into *values* where these set none: tuner may have
    determined its clients."""
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
    """Copy the stored number of ready lines into *now* if this sets none: the default has changed."""
    if not isinstance(now, dict) or not isinstance(was, Mapping):
        return
    ready, before = now.get("ready"), was.get("ready")
    if isinstance(ready, dict) and isinstance(before, Mapping) and "count" in before:
        ready.setdefault("count", before["count"])
    variants, earlier = now.get("variants"), was.get("variants")
    if isinstance(variants, dict) and isinstance(earlier, Mapping):
        for name, variant in variants.items():
            keep_ready_counts(variant, earlier.get(name))


#: keys of a probe with the items that it counts
_COUNTED = ("count", "failed", "query")


def keep_counted_items(now: Any, was: Any) -> None:
    """Copy into *now* which items the stored service *was* counts, if both have the same record and probe.

    A study counts the same items to its end, although a newer record may count others (of fewer queues).
    """
    if not isinstance(now, dict) or not isinstance(was, Mapping) or not now.get("record"):
        return
    probe, before = now.get("probe"), was.get("probe")
    if not isinstance(probe, dict) or not isinstance(before, Mapping):
        return
    if (now["record"], probe.get("kind")) == (was.get("record"), before.get("kind")):
        probe |= {name: deepcopy(before[name]) for name in _COUNTED if name in before and name in probe}


# Overrides from the study section of a config when a study is continued.


class _Alone(Section):
    """Study section alone: whether its settings suit the service was checked when the study began."""

    study: StudySettings


def study_overrides(document: Document, options: Mapping[Place, Given]) -> dict[str, Any]:
    """Return the settings of the study section of *document*, in the form of a study file.

    Settings that *options* replace are left out: those given at the start of the study, and those given now.

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
