"""How the items of a script service are counted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tuner.config.fields import Command, LongerThanZero, Section


class MmapCounterSettings(Section):
    """Workers count themselves, through tuner.probe."""

    kind: Literal["mmap-counter"] = "mmap-counter"


class CommandProbeSettings(Section):
    """A command prints how many items were finished up to now."""

    kind: Literal["command"]
    command: Command
    timeout: LongerThanZero = 2.0  #: of each run; then it is killed, and the look is a gap


ProbeSettings = Annotated[MmapCounterSettings | CommandProbeSettings, Field(discriminator="kind")]
