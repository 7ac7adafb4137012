"""Settings that may differ in one variant of a service, and in one value of an axis."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from tuner.config.document import with_home
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
from tuner.core.domain.layout import OMP, VARIABLES, CommandChange, variants_of
from tuner.core.domain.service import OsThreads, Programs, Workers
from tuner.core.errors import ConfigError
from tuner.core.text.command_words import is_python, parse_command

# Axes with predefined changes: a list of values is enough.

KNOWN_AXES = (OMP,)
_AUTO, _DEFAULT = "auto", "default"
_MOST = 4096  #: threads of one library


def with_known_axes(axes: Any) -> Any:
    """Return *axes* with the changes for each value of the predefined axes filled in.

    Raises:
        Misplaced: a predefined axis has an invalid value.
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
    #: Time for which tuner waits after the signal. tuner then kills a worker that still runs
    wait: LongerThanZero = STOP_WAIT_S
    #: Whether tuner sends the signal to the whole process group instead of only the process that tuner
    #: started. Write `as_group: yes` if a shell starts the worker
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

    The changes of a command are made in this order, those of the first axis first. Words are appended and
    prepended after the other changes of all axes.
    """

    #: Words of the command, and the words that replace each of them
    replace: Replacements = Field(default_factory=dict)
    #: Python interpreter that runs the command; None: the interpreter of the command
    interpreter: Interpreter | None = None
    append: Words = ()  #: Arguments that tuner adds at the end of the command
    prepend: Words = ()  #: Arguments that tuner puts before the command


class CrashVariantSettings(Section):
    """These keys change the built-in service for one value of an axis."""

    #: Python interpreter that runs the service; None: the interpreter of the service
    interpreter: Interpreter | None = None
    #: Arguments that tuner puts first in the command, even before those of `service.prepend`; None: none
    prepend: Words | None = None
    #: Options of `crash-processor run`, in addition to those of the service
    options: dict[str, str] = Field(default_factory=dict)
    #: Environment variables, in addition to those of the service
    environment: Environment = Field(default_factory=dict)
    stop: StopSettings | None = None  #: None: the service's
    max_extra_threads: WholeNumber | None = None  #: None: the service's


def _in_order(axes: dict[str, dict[str, BaseModel]]) -> list[Any]:
    """Return axes as lists of pairs to keep their order, which the JSON objects of a study file lose."""
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
    BeforeValidator(_from_pairs),  # runs first: pydantic applies validators from last to first
    PlainSerializer(_in_order, return_type=list, when_used="json"),
)
#: mapping of axis to values
Axes = Annotated[dict[AxisName, dict[ValueName, ValueSettings]], *_KEPT]
#: mapping of axis to values
CrashAxes = Annotated[dict[AxisName, dict[ValueName, CrashVariantSettings]], *_KEPT]


# Variants from the axes of a service section: one for each combination of values.


_Axes = Mapping[str, Mapping[str, Section]]

_OF_SCRIPT = TypeAdapter[_Axes](Axes)
_OF_CRASH_PROCESSOR = TypeAdapter[_Axes](CrashAxes)
_COMMAND = TypeAdapter(LayoutCommand)
#: what several axes may change at once: nothing of one is lost
_ADDED = ("environment", "options", "replace", "append", "prepend")
_CHANGES = ("replace", "interpreter", "append", "prepend")
_LONGEST_SHEBANG = 256  #: as the kernel has it


def script_with_variants(section: Any, folder: Path) -> Any:
    """Return the *section* of a script with a variant for each combination of values of its axes.

    An axis with an error leaves the section unchanged: the validation of the settings reports the error.

    Args:
        section: The section of the config, not validated yet.
        folder: Base of a relative ``directory`` of the section.

    Raises:
        Misplaced: axes contradict each other, or the command.
    """
    axes = _axes_in(section, _OF_SCRIPT)
    if axes is None or _are_made(section, axes):
        return section
    try:
        command = _COMMAND.validate_python(section.get("command"))
    except ValidationError:
        return section
    if OMP in axes and (fixed := [name for name in parse_command(command).assigned if name in VARIABLES]):
        raise Misplaced(f"the command sets {fixed[0]} itself: leave it out there", ("axes", OMP))
    variants = {}
    for name, values in _variants_of(axes).items():
        reported = _join(axes, values)
        words = reported.pop("command", command)
        for axis, value in zip(axes, values, strict=True):
            change: Any = axes[axis][value]
            try:
                words = CommandChange(change.replace, change.interpreter or ()).of(
                    words, lambda word: _script(word, section, folder)
                )
            except ConfigError as error:
                raise Misplaced(error.problem, ("axes", axis, value, str(error.hint))) from error
        for axis, value in zip(axes, values, strict=True):  # later: no order of the axes hides the Python
            change = axes[axis][value]
            words = (*change.prepend, *words, *change.append)
        if words != command:
            reported["command"] = list(words)
        variants[name] = reported
    return {**section, "variants": variants}


def crash_processor_with_variants(section: Any) -> Any:
    """Return the *section* of the built-in service with the variants of its axes."""
    axes = _axes_in(section, _OF_CRASH_PROCESSOR)
    if axes is None or _are_made(section, axes):
        return section
    return {
        **section,
        "variants": {name: _join(axes, values) for name, values in _variants_of(axes).items()},
    }


def with_whole_stops(section: Any) -> Any:
    """Return *section* with the ``stop`` of each variant completed from that of the service."""
    if not isinstance(section, Mapping):
        return section
    own, variants = section.get("stop"), section.get("variants")
    if not isinstance(own, Mapping) or not isinstance(variants, Mapping):
        return section
    whole = {
        name: {**asked, "stop": {**own, **asked["stop"]}}
        for name, asked in variants.items()
        if isinstance(asked, Mapping) and isinstance(asked.get("stop"), Mapping)
    }
    return {**section, "variants": {**variants, **whole}}


def place_in_axes(axes: _Axes, variant: str, below: Sequence[str | int]) -> tuple[str | int, ...] | None:
    """Return the place in *axes* that sets *below* of a *variant*, or None if no axis sets it."""
    for axis, value in zip(axes, variants_of(axes).get(variant, ()), strict=False):
        reported = axes[axis][value].model_fields_set
        if below and below[0] in reported:
            return ("axes", axis, value, *below)
        if below and below[0] == "command" and reported & {*_CHANGES}:
            return ("axes", axis, value)
    return None


def _axes_in(section: Any, kind: TypeAdapter[Any]) -> _Axes | None:
    """Return the axes of a section; None if there are none, or if they are invalid."""
    if not isinstance(section, Mapping) or not section.get("axes"):
        return None
    try:
        axes: _Axes = kind.validate_python(section["axes"])
    except ValidationError:
        return None
    for axis, values in axes.items():
        if not values:
            raise Misplaced("names no value", ("axes", axis))
    return axes


def _variants_of(axes: _Axes) -> dict[str, tuple[str, ...]]:
    try:
        return variants_of(axes)
    except ConfigError as error:
        raise Misplaced(error.problem, ("axes",)) from error


def _are_made(section: Mapping[str, Any], axes: _Axes) -> bool:
    """Return whether the section already has the variants of its axes: a study file contains both."""
    variants = section.get("variants")
    if not variants:
        return False
    if not isinstance(variants, Mapping) or set(variants) != set(_variants_of(axes)):
        raise Misplaced("a service has axes or variants, not both: variants are one axis", ("variants",))
    return True


def _join(axes: _Axes, values: Sequence[str]) -> dict[str, Any]:
    """Merge the settings of one value per axis, without the changes of the command.

    Raises:
        Misplaced: two axes set the same setting.
    """
    data: dict[str, Any] = {}
    said_by: dict[tuple[str, str], str] = {}
    for axis, value in zip(axes, values, strict=True):
        change = axes[axis][value]
        for key in sorted(change.model_fields_set):
            asked = getattr(change, key)
            if asked is None:  # null: that of the service
                continue
            names = list(asked) if key in _ADDED and isinstance(asked, Mapping) else [""]
            for name in names if key not in _ADDED or isinstance(asked, Mapping) else []:
                first = said_by.setdefault((key, name), axis)
                if first != axis:
                    raise Misplaced(f"{first} has {name or key} too", ("axes", axis, value, key))
            if isinstance(change, ValueSettings) and key in _CHANGES:
                continue
            written = change.model_dump(mode="json", include={key}, exclude_unset=key == "stop")[key]
            if key in _ADDED and isinstance(asked, Mapping):
                data[key] = {**data.get(key, {}), **written}
            elif key in _ADDED:
                data[key] = [*written, *data.get(key, [])]  # the last axis' words come first
            else:
                data[key] = written
    return data


def _script(word: str, section: Mapping[str, Any], folder: Path) -> str | None:
    """Return the path of the Python script that the word of a command names, or None.

    Raises:
        Misplaced: the home folder in ``directory`` does not exist.
    """
    directory = section.get("directory")
    try:
        here = folder / with_home(Path(directory)) if isinstance(directory, str) else Path.cwd()
    except ValueError as error:
        raise Misplaced(str(error), ("directory",)) from error
    environment = section.get("environment")
    own = environment.get("PATH") if isinstance(environment, Mapping) else None
    found = str(here / word) if "/" in word else shutil.which(word, path=str(own or os.environ.get("PATH")))
    if found is None:
        return None
    try:
        with Path(found).open("rb") as file:
            first, second = file.readline(_LONGEST_SHEBANG), file.readline(_LONGEST_SHEBANG)
    except OSError:
        return None
    # pip's second line after #!/bin/sh, where the interpreter's path is long, is '''exec' PYTHON "$0" "$@"
    reported = second if first == b"#!/bin/sh\n" and second.startswith(b"'''exec'") else first
    named = (Path(part.strip("\"'")).name for part in reported[2:].decode("utf-8", "replace").split())
    is_script = first.startswith(b"#!") and any(is_python(name) for name in named)
    return found.replace("{", "{{").replace("}", "}}") if is_script else None


def context_folder(info: ValidationInfo) -> Path:
    """Return the folder of the config, or the current folder if there is no config."""
    found: Path | None = (info.context or {}).get("folder")
    return found or Path.cwd()
