"""What the study section of a config asks for by itself, where a study goes on that has one already."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from tuner.config.document import Document, Place
from tuner.config.fields import Section
from tuner.config.load import put_options
from tuner.config.problems import Given, problems
from tuner.config.study import StudySettings
from tuner.core.errors import ConfigError


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
