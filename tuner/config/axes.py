"""From the axes of a service section to its variants: one for each choice of values."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError, ValidationInfo

from tuner.config.document import with_home
from tuner.config.fields import LayoutCommand, Misplaced, Section
from tuner.config.variants import Axes, CrashAxes, ValueSettings
from tuner.core.domain.axes import OMP, VARIABLES, CommandChange, variants_of
from tuner.core.errors import ConfigError
from tuner.core.text.command_words import is_python, parse_command

_Axes = Mapping[str, Mapping[str, Section]]

_OF_SCRIPT = TypeAdapter[_Axes](Axes)
_OF_CRASH_PROCESSOR = TypeAdapter[_Axes](CrashAxes)
_COMMAND = TypeAdapter(LayoutCommand)
#: what several axes may change at once: nothing of one is lost
_ADDED = ("environment", "options", "replace", "append", "prepend")
_CHANGES = ("replace", "interpreter", "append", "prepend")
_LONGEST_SHEBANG = 256  #: as the kernel has it


def script_with_variants(section: Any, folder: Path) -> Any:
    """The *section* of a script with the variants that its axes make, where it has axes.

    What is wrong with an axis by itself is left for the settings to tell.

    Args:
        section: as it was written; anything.
        folder: where a command's relative path begins, when the section names no directory.

    Raises:
        Misplaced: axes do not go together, or not with the command.
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
    """The same of the built-in worker's."""
    axes = _axes_in(section, _OF_CRASH_PROCESSOR)
    if axes is None or _are_made(section, axes):
        return section
    return {
        **section,
        "variants": {name: _join(axes, values) for name, values in _variants_of(axes).items()},
    }


def with_whole_stops(section: Any) -> Any:
    """The *section* with what its variants leave out of their ``stop`` as in its own."""
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


def blamed(axes: _Axes, variant: str, below: Sequence[str | int]) -> tuple[str | int, ...] | None:
    """Where in *axes* stands what is at *below* of a *variant* that they make; None: in no axis."""
    for axis, value in zip(axes, variants_of(axes).get(variant, ()), strict=False):
        reported = axes[axis][value].model_fields_set
        if below and below[0] in reported:
            return ("axes", axis, value, *below)
        if below and below[0] == "command" and reported & {*_CHANGES}:
            return ("axes", axis, value)
    return None


def _axes_in(section: Any, kind: TypeAdapter[Any]) -> _Axes | None:
    """The axes of a section; None: it has none, or they are wrong by themselves."""
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
    """Whether a section has its variants already: a study keeps both."""
    variants = section.get("variants")
    if not variants:
        return False
    if not isinstance(variants, Mapping) or set(variants) != set(_variants_of(axes)):
        raise Misplaced("a service has axes or variants, not both: variants are one axis", ("variants",))
    return True


def _join(axes: _Axes, values: Sequence[str]) -> dict[str, Any]:
    """What one value of each axis says together, but for the changes of the command.

    Raises:
        Misplaced: two say it of the same.
    """
    data: dict[str, Any] = {}
    said_by: dict[tuple[str, str], str] = {}
    for axis, value in zip(axes, values, strict=True):
        change = axes[axis][value]
        for key in sorted(change.model_fields_set):
            asked = getattr(change, key)
            if asked is None:  # null: the service's
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
    """The file of a Python script that a command names; None: there is none.

    Raises:
        Misplaced: there is no such directory to look in.
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
    """The folder of the config that is read; the current one where there is none."""
    found: Path | None = (info.context or {}).get("folder")
    return found or Path.cwd()
