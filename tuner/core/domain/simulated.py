"""Whether a study was simulated, and the words that say so wherever its figures go."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.domain.records import StudyRecord
from tuner.core.text.figures import pluralize
from tuner.core.text.stored_config import parse_stored_config

SIMULATED = "simulated"  #: in the provenance of a simulated study: the name of its profile
SIMULATED_HOST = "a simulated box"
STREAM = "simulated_stream"  #: in the provenance: names random streams, beside the seed

_MARK = "simulated-"


def simulated_name(service: str) -> str:
    """What a simulated study of *service* is called, so that no file or runbook takes it for the real one."""
    return service if service.startswith(_MARK) else f"{_MARK}{service}"


def is_simulated(study: StudyRecord) -> bool:
    """Whether a model gave the windows of *study*, and no service ran."""
    return SIMULATED in study.provenance


def simulation_notes(study: StudyRecord) -> list[str]:
    """The sentence that stands before everything said of a simulated study; none for a real one."""
    if not is_simulated(study):
        return []
    return [simulated_sentence(study.provenance[SIMULATED], study.box_cores)]


def simulated_sentence(profile: str, cores: float) -> str:
    """The same of a box with so many *cores*."""
    on = pluralize(cores, "core")
    return f"Simulated: no service ran, a model of {profile} on {on} gave these figures."


def memory_assumed(study: StudyRecord) -> list[str]:
    """What memory the profile of a simulated study did not know, in a sentence; none: it knew all of it."""
    if not is_simulated(study):
        return []
    profile = parse_stored_config(study.config).get("simulate")
    if profile is None:  # made elsewhere: nobody says what it knew
        return []
    memory: Mapping[str, str | None] = profile.get("memory") or {}
    further = memory.get("thread") is None and any(layout.threads > 1 for layout in study.layouts)
    if memory.get("process") is None:
        beside = ", and none for further threads" if further else ""
        return [f"The profile has no memory figures, so a typical process is assumed{beside}."]
    if further:
        return ["The profile has no memory of further threads, so the memory shown does not include it."]
    return []
