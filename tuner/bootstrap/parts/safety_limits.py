"""The brake that a config asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.adapters.safety_limits import LimitsBrake
    from tuner.config.settings import BrakeSettings

EVERY_S = TIMEOUT_S = 10.0  #: of its command, when nobody says otherwise


def brake_of(asked: BrakeSettings | None, clock: Clock, warn: Warn) -> LimitsBrake | None:
    """The brake that *asked* describes; None: there is none.

    Raises:
        ConfigError: its command is missing, or this box does not tell its load and memory.
    """
    if asked is None:
        return None
    from tuner.adapters.processes.repeated_command import RepeatedCommand
    from tuner.adapters.safety_limits import LimitsBrake, read_box
    from tuner.config.settings import memory_limit
    from tuner.core.settings.safety_limits import BrakeLimits

    ratio, size = (None, None) if asked.memory is None else memory_limit(asked.memory)
    command = None
    if asked.command is not None:
        command = RepeatedCommand(clock, asked.command, asked.every or EVERY_S, asked.timeout or TIMEOUT_S)
    proc = Path("/proc")
    read_box(proc)
    return LimitsBrake(
        clock,
        BrakeLimits(asked.load, ratio, size, asked.errors, asked.holds),
        leaves_out=asked.then == "leave-out",
        look=lambda: read_box(proc),
        warn=warn,
        command=command,
    )
