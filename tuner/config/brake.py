"""At what a study stops by itself."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from tuner.config.fields import (
    Command,
    Duration,
    LongerThanZero,
    MaxLoad,
    Misplaced,
    Ratio,
    Section,
    as_value_error,
    nearest,
)
from tuner.core.errors import ConfigError
from tuner.core.text.sizes import parse_size

_LIMITS = ("load", "memory", "errors", "command")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def memory_limit(text: str) -> tuple[float | None, float | None]:
    """``90%`` as a share of the box, ``28G`` as bytes: one of the two, the other None.

    Raises:
        ValueError: it is neither.
    """
    if match := _SHARE.fullmatch(text.strip()):
        ratio = float(match[1]) / 100
        if not 0 < ratio < 1:
            raise ValueError(
                f"invalid share {text}: memory use is always above it or never; write a share such as 90%"
            )
        return ratio, None
    try:
        return None, parse_size(text)
    except ConfigError as error:
        raise as_value_error(error) from error


def _memory(text: str) -> str:
    memory_limit(text)
    return text


class BrakeSettings(Section):
    """Safety limits. tuner stops a launch if a limit is exceeded for the time `holds` (memory: at once)."""

    load: MaxLoad | None = None  #: Highest load average (over 1 minute) of the host
    #: Highest memory use of the host: a share, for example `90%`, or a size
    memory: Annotated[str, AfterValidator(_memory)] | None = None
    #: Highest share of failed items among the items of the last 30 s
    errors: Annotated[Ratio, Field(gt=0, lt=1)] | None = None
    #: Command that tuner runs repeatedly. Any exit code but 0 means that a limit is exceeded
    command: Command | None = None
    every: LongerThanZero | None = None  #: Time between two runs of `command`; None: 10 s
    #: Time limit of each run of `command`. tuner kills a slower run, which then counts as failed; None: 10 s
    timeout: LongerThanZero | None = None
    #: How long a limit other than `memory` must be exceeded before tuner stops the launch
    holds: Duration = 10.0
    #: Action after tuner has stopped a launch. stop: end the study; leave-out: continue without that layout
    then: Literal["stop", "leave-out"] = "stop"

    @field_validator("then", mode="before")
    @classmethod
    def _known_word(cls, value: Any) -> Any:
        known = ("stop", "leave-out")
        if value not in known:
            raise ValueError(
                f"invalid value {value}: expected {' or '.join(known)}{nearest(str(value), known)}"
            )
        return value

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if all(getattr(self, name) is None for name in _LIMITS):
            raise ValueError(f"has no limit: set {', '.join(_LIMITS[:-1])} or {_LIMITS[-1]}")
        for name in ("every", "timeout"):
            if getattr(self, name) is not None and self.command is None:
                raise Misplaced("needs command, which is missing", (name,))
        return self
