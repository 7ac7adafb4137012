"""Axes that tuner knows by their names: a list of values is enough, the rest is filled in.

``omp`` is the number of threads that numeric libraries start: a number, ``auto`` for the cores that each
worker process of a layout has for itself, or ``default`` for what the service has without the axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.config.fields import Misplaced, nearest
from tuner.core.domain.computing import OMP, VARIABLES

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
