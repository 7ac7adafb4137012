"""Settings from a YAML file and command-line options, or all errors with their places."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tuner.config.document import Document, Place, path_of, read_document
from tuner.config.feeders import OF_LOAD
from tuner.config.fields import Misplaced
from tuner.config.problems import Given, message, problems
from tuner.config.settings import Settings
from tuner.config.study import OF_STRATEGY
from tuner.core.errors import ConfigError, OptionsError
from tuner.core.text.safe_text import HIDDEN, escape_unprintable, redact

__all__ = [
    "Given",
    "canonical_json",
    "load_settings",
    "names_service",
    "put_options",
    "settings_of_study",
]

_GRID, _LAYOUTS = ("study", "grid"), ("study", "layouts")  #: an option for one replaces either of the config
_AXES = ("service", "axes")  #: options for values of an axis replace all values that the config has of it
#: options for them need a feeder that sends requests
_OF_LOAD: tuple[Place, ...] = tuple(("service", "feeder", name) for name in OF_LOAD)
_STRATEGY = ("study", "strategy")  #: an option for this one removes the config's value for another one


#: makes of a config's service section, and of the variants that are named, the section of a kind that
#: settings know; Misplaced when it cannot
ServiceReader = Callable[[Mapping[str, Any], Sequence[str] | None], Mapping[str, Any]]
DocumentLook = Callable[[Document], None]  #: at a config, before anything is made of it


def load_settings(
    path: Path | None,
    options: Mapping[Place, Given],
    *,
    without: Collection[str] = (),
    service: ServiceReader | None = None,
    kept: Mapping[str, Any] | None = None,
    look: DocumentLook | None = None,
) -> Settings:
    """Return the settings of the config at *path* (None: built-in service), overridden by *options*.

    Args:
        path: The config file.
        options: Command-line options, by their places in the config.
        without: Sections of the config to ignore.
        service: Converter for the service section of the config; None: no conversion.
        kept: Stored settings of a continued study. Their study section replaces that of the config; their
            load (rate, clients, connections) applies unless another is given; all of them apply if no
            service is given.
        look: Called with the config, if there is one.

    Raises:
        ConfigError: with all errors, each as ``file:line:column: path: problem (got ...)``.
        OptionsError: the same, if there is no config.
    """
    document = read_document(path) if path is not None else Document("settings", {})
    if look is not None and path is not None:
        look(document)
    if "service" in without:
        _check_one_service(document)
    values = {name: deepcopy(value) for name, value in document.values.items() if name not in without}
    if kept is not None:
        is_all = path is None and not any(names_service(place) for place in options)
        values = {**values, **deepcopy({name: kept[name] for name in (kept if is_all else ("study",))})}
    put_options(values, options)
    moved: dict[Place, Place] = {}
    asks_for_no_probe = False
    if isinstance(values.get("service"), dict):
        asks_for_no_probe = not isinstance(values["service"].get("probe"), Mapping)
        if service is not None:
            asked, values["service"] = values["service"], _read_service(service, values, document, options)
            moved = _moved_places(asked, values["service"])
        values["service"].setdefault(
            "kind", "script" if "command" in values["service"] else "crash-processor"
        )
    for place in _OF_LOAD:
        if place in options:  # a known service may have got its feeder in this conversion
            _check_http_feeder(values, options[place])
            _put(values, place, options[place].text)
    if kept is not None:
        from tuner.config.legacy import keep_counted_items, keep_load, keep_ready_counts

        keep_load(values, kept)
        if asks_for_no_probe:
            keep_counted_items(values.get("service"), kept.get("service"))
        keep_ready_counts(values.get("service"), kept.get("service"))
    folder = path.resolve().parent if path is not None else Path.cwd()
    try:
        return Settings.model_validate(values, context={"folder": folder})
    except ValidationError as error:
        found = problems(error, document, values, options, Settings, moved)
        if path is None:
            raise OptionsError("\n".join(found)) from error
        raise ConfigError("\n".join(found), hint=_hint(path, values, len(found))) from error


def put_options(values: dict[str, Any], options: Mapping[Place, Given]) -> None:
    """Write *options* (without those of the load) into *values*; remove the settings that they replace."""
    for axis in {place[:3] for place in options if place[:2] == _AXES}:
        _drop(values, axis)
    for place, given in options.items():
        if place not in _OF_LOAD:
            _put(values, place, given.text)
    for one, other in ((_GRID, _LAYOUTS), (_LAYOUTS, _GRID)):
        if one in options and other not in options:  # if both options are given, a later check reports it
            _drop(values, other)
    if _STRATEGY in options:
        for strategy, names in OF_STRATEGY.items():
            for place in (("study", name) for name in names if strategy != options[_STRATEGY].text):
                if place not in options:
                    _drop(values, place)


def _check_one_service(document: Document) -> None:
    """Raise ConfigError if the service has variants, because a profile describes a single service."""
    section = document.values.get("service")
    for key in ("axes", "variants"):
        if isinstance(section, Mapping) and section.get(key):
            where = document.where(("service", key), key=True)
            raise ConfigError(
                f"{where}: service.{key}: a profile has no variants",
                hint="Simulate each with its own profile, from a config without them.",
            )


def _read_service(
    reader: ServiceReader, values: Mapping[str, Any], document: Document, options: Mapping[Place, Given]
) -> dict[str, Any]:
    try:
        return dict(reader(values["service"], _named_variants(values.get("study"))))
    except Misplaced as error:
        place = error.below if error.below[:1] == ("study",) else ("service", *error.below)
        given = options.get(place)
        where = f"{document.where(place)}: {path_of(place)}" if given is None else given.option
        raise ConfigError(f"{where}: {escape_unprintable(str(error))}") from error


def _moved_places(asked: Mapping[str, Any], section: Mapping[str, Any]) -> dict[Place, Place]:
    """Map each place in the converted *section* to the place of its text in the original, *asked*."""
    settings = {
        value: name for name, value in asked.items() if name not in section and isinstance(value, str)
    }

    def walk(value: Any, place: Place) -> Iterator[tuple[Place, Place]]:
        if isinstance(value, Mapping):
            for name, below in value.items():
                yield from walk(below, (*place, name))
        elif isinstance(value, str) and value in settings:
            yield place, ("service", settings[value])

    return dict(walk(section, ("service",)))


def _named_variants(study: Any) -> list[str] | None:
    """Return the variants named in a study section, under ``variants`` or in layouts; None if none are."""
    if not isinstance(study, Mapping):
        return None
    if study.get("variants") is not None:
        return _names(study["variants"])
    layouts = [layout.partition("@") for layout in _names(study.get("layouts") or [])]
    return list(dict.fromkeys(variant for _, _, variant in layouts if variant)) or None


def _names(asked: Any) -> list[str]:
    names = asked.split(",") if isinstance(asked, str) else asked
    return [str(name).strip() for name in names] if isinstance(names, list) else []


def canonical_json(settings: Settings) -> str:
    """Return the settings as JSON for the study file: sorted, compact, without secrets."""
    whole = settings.model_dump(mode="json")
    if whole["service"]["gate"] is None:  # then the text is the same as from a tuner without gates
        del whole["service"]["gate"]
    kept = redact(whole)
    for key in ("probe", "cross_check"):
        asked, probe = whole["service"].get(key) or {}, getattr(settings.service, key)
        for name in probe.plain_keys & asked.keys() if asked else ():
            if isinstance(asked[name], str):
                kept["service"][key][name] = asked[name]
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def settings_of_study(canonical: str, name: str) -> Settings:
    """Return the settings from the text that ``canonical_json`` wrote into the study file *name*.

    Raises:
        ConfigError: the text lacks secrets, so the config has to be read again; or it has invalid settings.
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
        raise ConfigError(
            f"the settings in {name} do not hold here: {path_of(first['loc'])}:"
            f" {escape_unprintable(message(first))}",
            hint=f"Name a config that does: tuner grid CONFIG --resume {name}",
        ) from error


def _check_http_feeder(values: Mapping[str, Any], given: Given) -> None:
    here: Any = values
    for step in ("service", "feeder", "kind"):
        here = here.get(step) if isinstance(here, dict) else None
    if here != "http":
        raise ConfigError(
            f"{given.option}: the service's feeder is not http, and no other one sends requests",
            hint="Give the service a feeder, as feeder: {kind: http, url: ...}",
        )


def names_service(place: Place) -> bool:
    """Return whether an option for *place* selects the measured service; options for its load do not."""
    return place[0] == "service" and place not in _OF_LOAD


def _put(values: dict[str, Any], place: Place, text: str) -> None:
    for step in place[:-1]:
        below = values.setdefault(str(step), {})
        if not isinstance(below, dict):
            return  # the config is wrong there; the validation of the settings reports it
        values = below
    values[str(place[-1])] = text


def _drop(values: dict[str, Any], place: Place) -> None:
    here: Any = values
    for step in place[:-1]:
        here = here.get(step) if isinstance(here, dict) else None
    if isinstance(here, dict):
        here.pop(place[-1], None)


def _hint(path: Path, values: Mapping[str, Any], n_problems: int) -> str | None:
    if "demands" in values:
        return f"This is a profile: tuner grid --simulate {path} plays it."
    return None if n_problems == 1 else f"{n_problems} things to put right in {path}."
