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
    nearest,
    said,
)
from tuner.core.errors import ConfigError
from tuner.core.sizes import parse_size

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
            raise ValueError(f"{text} of the memory can never be passed, or always is; write a share as 90%")
        return ratio, None
    try:
        return None, parse_size(text)
    except ConfigError as error:
        raise said(error) from error


def _memory(text: str) -> str:
    memory_limit(text)
    return text


class BrakeSettings(Section):
    """Limits at which a launch is stopped; what is over one has to stay so for *holds*, memory excepted."""

    load: MaxLoad | None = None  #: load average of one minute
    memory: Annotated[str, AfterValidator(_memory)] | None = None  #: in use on the box: a share, or bytes
    errors: Annotated[Ratio, Field(gt=0, lt=1)] | None = None  #: failed items of all, within half a minute
    command: Command | None = None  #: run again and again; exits with 0 to go on
    every: LongerThanZero | None = None  #: from one run of it to the next; None: 10 s
    timeout: LongerThanZero | None = None  #: of each run; then it is killed, and has said no; None: 10 s
    holds: Duration = 10.0  #: for so long something has to be over its limit; memory: at once
    then: Literal["stop", "leave-out"] = "stop"  #: the study ends; or goes on without that layout

    @field_validator("then", mode="before")
    @classmethod
    def _known_word(cls, value: Any) -> Any:
        known = ("stop", "leave-out")
        if value not in known:
            raise ValueError(f"{value} is none of {', '.join(known)}{nearest(str(value), known)}")
        return value

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if all(getattr(self, name) is None for name in _LIMITS):
            raise ValueError(f"names no limit: write {', '.join(_LIMITS[:-1])} or {_LIMITS[-1]}")
        for name in ("every", "timeout"):
            if getattr(self, name) is not None and self.command is None:
                raise Misplaced("belongs to a command, and there is none", (name,))
        return self
