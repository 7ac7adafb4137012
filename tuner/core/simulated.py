"""Whether a study was simulated, and the words that say so wherever its figures go."""

from __future__ import annotations

from tuner.core.figures import counted
from tuner.core.records import StudyRecord

SIMULATED = "simulated"  #: in the provenance of a simulated study: the name of its profile


_MARK = "simulated-"


def simulated_name(service: str) -> str:
    """What a simulated study of *service* is called, so that no file or runbook takes it for the real one."""
    return service if service.startswith(_MARK) else f"{_MARK}{service}"


def is_simulated(study: StudyRecord) -> bool:
    """Whether a model gave the windows of *study*, and no service ran."""
    return SIMULATED in study.provenance


def simulated_told(study: StudyRecord) -> list[str]:
    """The sentence that stands before everything said of a simulated study; none for a real one."""
    if not is_simulated(study):
        return []
    return [simulated_sentence(study.provenance[SIMULATED], study.box_cores)]


def simulated_sentence(profile: str, cores: float) -> str:
    """The same of a box with so many *cores*."""
    on = counted(cores, "core")
    return f"Simulated: no service ran, a model of {profile} on {on} gave these figures."
