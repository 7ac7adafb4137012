"""What may be different in one variant of a service, and in one value of an axis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PlainSerializer

from tuner.config.fields import (
    Environment,
    FieldWord,
    LayoutCommand,
    LongerThanZero,
    Misplaced,
    Section,
    SignalName,
    WholeNumber,
    nearest,
    split_words,
)
from tuner.config.kinds import AnyReady
from tuner.core.defaults import STOP_WAIT_S
from tuner.core.domain.axes import OMP, VARIABLES
from tuner.core.domain.service import OsThreads, Programs, Workers
from tuner.core.text.command_words import is_python

# Axes that tuner knows by their names: a list of values is enough, the rest is filled in.

KNOWN_AXES = (OMP,)
_AUTO, _DEFAULT = "auto", "default"
_MOST = 4096  #: threads of one library


def with_known_axes(axes: Any) -> Any:
    """The *axes* as they were written, with what each value of a known one changes.

    Raises:
        Misplaced: a known axis has a value that it cannot have.
    """
    if not isinstance(axes, Mapping):
        return axes
    return {axis: _filled_in(axis, values) for axis, values in axes.items()}


def _filled_in(axis: str, values: Any) -> Any:
    listed = values.split(",") if isinstance(values, str) else values
    if axis not in KNOWN_AXES or not isinstance(listed, list):
        return values
    names = [str(value).strip() for value in listed]
    for name in names:
        if names.count(name) > 1:
            raise Misplaced(f"{name} is named twice", (axis,))
    return {name: _of_omp(name) for name in names}


def _of_omp(value: str) -> dict[str, Any]:
    if value == _DEFAULT:
        return {}
    if value == _AUTO:
        return {"environment": dict.fromkeys(VARIABLES, "{cores_per_process}")}
    if not value.isdecimal() or not 1 <= int(value) <= _MOST:
        near = nearest(value, [_AUTO, _DEFAULT])
        raise Misplaced(
            f"invalid value {value!r}: expected a number of threads from 1 to {_MOST}, {_AUTO} or"
            f" {_DEFAULT}{near}",
            (OMP,),
        )
    return {"environment": dict.fromkeys(VARIABLES, str(int(value)))}


_LONGEST_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} should be letters, digits and . _ - only: it names variants")
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"{name[:12]}... has {len(name)} letters, and {_LONGEST_NAME} is the most")
    return name


def _python(command: tuple[str, ...]) -> tuple[str, ...]:
    if not is_python(PurePath(command[0]).name):
        raise ValueError(f"{command[0]} is no Python by its name, as python3.13")
    return command


AxisName = Annotated[str, AfterValidator(_name)]  #: name: at most 64 letters, digits and `. _ -`
ValueName = Annotated[str, AfterValidator(_name)]  #: name: at most 64 letters, digits and `. _ -`
#: words: a list of words, or one text that tuner splits into words like a shell. The words may contain the
#: placeholders of a command
Words = Annotated[tuple[FieldWord, ...], BeforeValidator(split_words)]
#: interpreter: a Python interpreter, with or without options: `python3.13`, `[python3.13, -X, dev]`
Interpreter = Annotated[LayoutCommand, AfterValidator(_python)]


class StopSettings(Section):
    """How tuner stops a worker process."""

    signal: SignalName = "TERM"  #: Signal that tuner sends to stop a worker
    #: Time after the signal in which a worker must stop. tuner kills a worker that takes longer
    wait: LongerThanZero = STOP_WAIT_S
    #: Whether tuner sends the signal to the whole process group instead of only the process that tuner
    #: started. Set yes if a shell starts the worker
    as_group: bool = False


class VariantSettings(Section):
    """Changes of the service in one variant."""

    command: LayoutCommand | None = None  #: None: the service's
    #: Environment variables, in addition to those of the service
    environment: Environment = Field(default_factory=dict)
    threads: bool | None = None  #: None: the service's
    programs: Programs | None = None  #: None: the service's
    workers: Workers | None = None  #: None: the service's
    event_loop: bool | None = None  #: None: the service's
    ready: AnyReady | None = None  #: None: the service's
    stop: StopSettings | None = None  #: None: the service's
    max_extra_threads: WholeNumber | None = None  #: None: the service's
    os_threads: OsThreads | None = None  #: None: the service's


Replacements = dict[FieldWord, FieldWord]  #: mapping of words to new words


class ValueSettings(VariantSettings):
    """Changes of the service for one value of an axis.

    The changes of a command are made in this order, those of the first axis first; what is put behind and
    before it comes after the other changes of all axes.
    """

    #: Words of the command to replace, and the new words for each of them
    replace: Replacements = Field(default_factory=dict)
    #: Python interpreter that runs the command; None: the interpreter of the command
    interpreter: Interpreter | None = None
    append: Words = ()  #: Arguments that tuner adds at the end of the command
    prepend: Words = ()  #: Arguments that tuner puts before the command


class CrashVariantSettings(Section):
    """Changes of the built-in service for one value of an axis."""

    #: Python interpreter that runs the service; None: the interpreter of the service
    interpreter: Interpreter | None = None
    #: Arguments that tuner puts before the `prepend` arguments of the service; None: none
    prepend: Words | None = None
    #: Options of `crash-processor run`, in addition to those of the service
    options: dict[str, str] = Field(default_factory=dict)
    #: Environment variables, in addition to those of the service
    environment: Environment = Field(default_factory=dict)
    stop: StopSettings | None = None  #: None: the service's
    max_extra_threads: WholeNumber | None = None  #: None: the service's


def _in_order(axes: dict[str, dict[str, BaseModel]]) -> list[Any]:
    """As a study keeps axes: its objects have no order, and others are compared with the first value."""
    return [
        [axis, [[value, change.model_dump(mode="json")] for value, change in values.items()]]
        for axis, values in axes.items()
    ]


def _from_pairs(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    try:
        return {axis: dict(values) for axis, values in value}
    except (TypeError, ValueError):
        return value


_KEPT = (
    BeforeValidator(with_known_axes),
    BeforeValidator(_from_pairs),  # done first: the last one that is named
    PlainSerializer(_in_order, return_type=list, when_used="json"),
)
#: mapping, or for the axis `omp` a list
Axes = Annotated[dict[AxisName, dict[ValueName, ValueSettings]], *_KEPT]
#: mapping, or for the axis `omp` a list
CrashAxes = Annotated[dict[AxisName, dict[ValueName, CrashVariantSettings]], *_KEPT]
