"""How the items of a script service are counted."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from tuner.config.fields import Command, LongerThanZero, Section


class MmapCounterSettings(Section):
    """Workers count themselves, through tuner.probe."""

    kind: Literal["mmap-counter"] = "mmap-counter"


class CommandProbeSettings(Section):
    """A command prints how many items were finished up to now."""

    kind: Literal["command"]
    command: Command
    timeout: LongerThanZero = 2.0  #: of each run; then it is killed, and the look is a gap


def _metric(name: str) -> str:
    if re.fullmatch(r"[^\s:|@#]{1,200}", name) is None:
        raise ValueError(f"{name!r} is no name of a metric of statsd")
    return name


MetricName = Annotated[str, AfterValidator(_metric)]


class StatsdProbeSettings(Section):
    """The service tells statsd what it does, and tuner is the statsd: at ``{TUNER_STATSD}``."""

    kind: Literal["statsd"]
    name: MetricName  #: of the counter of items done
    failed: MetricName | None = None  #: of the counter of items that failed
    failed_included: bool = False  #: the first one counts those too

    @model_validator(mode="after")
    def _included_where_there_is_something_to_include(self) -> Self:
        if self.failed_included and self.failed is None:
            raise ValueError("failed_included without failed: which counter has them?")
        return self


ProbeSettings = Annotated[
    MmapCounterSettings | CommandProbeSettings | StatsdProbeSettings, Field(discriminator="kind")
]
