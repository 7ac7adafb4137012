"""A search suite in a JSON file: read, and checked before anything is drawn from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.errors import ConfigError
from tuner.core.search.suite import Suite, SuiteNoise

LARGEST_BYTES = 64 * 1024 * 1024
_HINT = "docs/method/replay.md describes the format of a suite."
_NEEDED = ("layouts", "surfaces", "within", "confidence", "launch_s", "window_s", "noise")


def read_suite(path: Path) -> Suite:
    """Read and check the suite in *path*. Unknown keys are ignored, but are errors within ``noise``.

    Raises:
        ConfigError: the file is unreadable, not JSON (with line and column), or has an invalid value.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot read the suite {path}: {reason}", hint="Name a JSON file.") from error
    if len(raw) > LARGEST_BYTES:
        raise ConfigError(f"{path} is no suite: larger than {LARGEST_BYTES // 1024**2} MiB", hint=_HINT)
    return parse_suite(_decode(raw, str(path)), str(path), path.stem)


def parse_suite(text: str, file: str, name: str) -> Suite:
    """Return the suite that *text*, the content of *file*, describes; *name* is its default name."""
    try:
        values = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        at = f"{file}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{at}: not JSON: {_lower(error.msg)}", hint=_HINT) from error
    except RecursionError as error:
        raise ConfigError(f"{file}: not a suite: nested too deeply", hint=_HINT) from error
    except _Refused as error:
        raise ConfigError(f"{file}: {error}", hint=_HINT) from error
    except ValueError as error:  # an integer of thousands of digits
        raise ConfigError(f"{file}: not a suite: {error}", hint=_HINT) from error
    try:
        return _suite(values, name)
    except _Refused as error:
        raise ConfigError(f"{file}: {error}", hint=_HINT) from error


class _Refused(Exception):
    """An invalid value of a suite, with its place."""


def _suite(values: Any, name: str) -> Suite:
    if not isinstance(values, Mapping):
        raise _Refused(f"a suite is an object with {', '.join(_NEEDED)}; this is {_kind(values)}")
    for key in _NEEDED:
        if key not in values:
            near = get_close_matches(key, [*values], n=1)
            raise _Refused(f"{key} is missing" + (f"; {near[0]!r} is unknown" if near else ""))
    layouts = _layouts(values["layouts"])
    cores = values.get("cores")
    if cores is not None and (not _is_number(cores) or cores != int(cores) or cores < 1):
        raise _Refused(f"cores: should be a whole number of 1 or more, got {_show(cores)}")
    given_name = values.get("name") or name
    if not isinstance(given_name, str):
        raise _Refused(f"name: should be a text, got {_show(given_name)}")
    return Suite(
        name=given_name,
        layouts=layouts,
        surfaces=_surfaces(values["surfaces"], layouts),
        noise=_noise(values["noise"]),
        within=_number("within", values["within"], above=0, below=1),
        confidence=_number("confidence", values["confidence"], at_least=0.5, below=1),
        launch_s=_number("launch_s", values["launch_s"], at_least=0),
        window_s=_optional("window_s", values),
        cores=None if cores is None else int(cores),
        floor_windows=_optional("floor_windows", values),
        floor_hours=_optional("floor_hours", values),
        floor_at_window_s=_optional("floor_at_window_s", values),
        noise_factors=_per_layout("noise_factors", values, layouts, at_least=0, at_most=100),
        drift_factors=_per_layout("drift_factors", values, layouts, at_least=-100, at_most=100),
        trends_per_h=_per_layout("trends_per_h", values, layouts, at_least=-10, at_most=10),
    )


def _layouts(values: Any) -> tuple[Layout, ...]:
    if not isinstance(values, list) or len(values) < 2:
        raise _Refused(f"layouts: should be a list of two or more, got {_show(values)}")
    layouts: dict[Layout, int] = {}
    for index, text in enumerate(values):
        if not isinstance(text, str):
            raise _Refused(f'layouts[{index}]: should be a text as "4x6", got {_show(text)}')
        try:
            layout = parse_layout(text)
        except ConfigError as error:
            raise _Refused(f"layouts[{index}]: {error.problem}") from error
        if layout in layouts:
            raise _Refused(f"layouts[{index}]: {layout} is named twice, first in layouts[{layouts[layout]}]")
        layouts[layout] = index
    return tuple(layouts)


def _surfaces(values: Any, layouts: tuple[Layout, ...]) -> tuple[tuple[float, ...], ...]:
    return _rows("surfaces", values, layouts, above=0)


def _per_layout(
    key: str, values: Mapping[str, Any], layouts: tuple[Layout, ...], **limits: float
) -> tuple[tuple[float, ...], ...]:
    """Return one number per layout, from one list or from a list per surface (shape: rows x layouts)."""
    value = values.get(key)
    if value is None:
        return ()
    if isinstance(value, list) and value and not isinstance(value[0], list):
        value = [value]
    rows = _rows(key, value, layouts, **limits)
    if len(rows) not in (1, len(values["surfaces"])):
        raise _Refused(f"{key}: has {len(rows)} rows for {len(values['surfaces'])} surfaces")
    return rows


def _rows(
    key: str, values: Any, layouts: tuple[Layout, ...], **limits: float
) -> tuple[tuple[float, ...], ...]:
    if not isinstance(values, list) or not values:
        raise _Refused(f"{key}: should be a list of one row or more, got {_show(values)}")
    for index, row in enumerate(values):
        if not isinstance(row, list):
            raise _Refused(f"{key}[{index}]: should be a list of numbers, got {_show(row)}")
        if len(row) != len(layouts):
            raise _Refused(f"{key}[{index}]: has {len(row)} values for {len(layouts)} layouts")
    return tuple(
        tuple(_number(f"{key}[{index}][{place}]", value, **limits) for place, value in enumerate(row))
        for index, row in enumerate(values)
    )


def _noise(values: Any) -> SuiteNoise:
    if not isinstance(values, Mapping):
        raise _Refused(f"noise: should be an object, got {_show(values)}")
    known = [field.name for field in fields(SuiteNoise)]
    for key in values:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
            raise _Refused(f"noise.{key}: unknown key, {hint}")
    given = {key: value for key, value in values.items() if value is not None and value != 0}
    limits: dict[str, dict[str, float]] = {
        "drift_ar1_per_600s": {"at_least": 0, "at_most": 1},
        "sample_sd_1s": {"at_least": 0, "at_most": 100},
        "student_t_df": {"above": 2},  # below, the standard deviation is not finite
        "slow_launch_loss": {"at_least": 0, "at_most": 0.99},  # a throughput of 0 has no logarithm
        "noisy_layout_factor": {"at_least": 1, "at_most": 100},
        "outlier_loss": {"at_least": 0, "at_most": 0.99},
        "within_launch_ar1_per_600s": {"at_least": 0, "at_most": 1},
        "tide_amplitude": {"at_least": 0, "at_most": 10},
        "tide_period_s": {"at_least": 60},
        "spell_every_s": {"at_least": 1},
        "spell_length_s": {"at_least": 1},
        "spell_loss": {"at_least": 0, "at_most": 0.99},
    }
    usual: dict[str, float] = {"at_least": 0, "at_most": 1}
    noise = SuiteNoise(
        **{key: _number(f"noise.{key}", value, **limits.get(key, usual)) for key, value in given.items()}
    )
    if noise.spell_loss and not 0 < noise.spell_length_s < noise.spell_every_s:
        raise _Refused("noise.spell_loss: needs spell_length_s, and a longer spell_every_s")
    return noise


def _optional(key: str, values: Mapping[str, Any]) -> float | None:
    value = values.get(key)
    return None if value is None else _number(key, value, above=0)


def _number(
    place: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    if not _is_number(value):
        raise _Refused(f"{place}: should be a number, got {_show(value)}")
    for limit, fails, words in (
        (above, above is not None and value <= above, "above"),
        (at_least, at_least is not None and value < at_least, "at least"),
        (below, below is not None and value >= below, "below"),
        (at_most, at_most is not None and value > at_most, "at most"),
    ):
        if fails:
            raise _Refused(f"{place}: should be {words} {limit:g}, got {_show(value)}")
    return float(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise _Refused(f"{key} is set twice")
        values[key] = value
    return values


def _no_constant(text: str) -> Any:
    raise _Refused(f"{text} is no number that a suite could have")


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else _kind(value)


def _kind(value: Any) -> str:
    for types, name in ((bool, "a truth value"), (dict, "an object"), (list, "a list"), (str, "a text")):
        if isinstance(value, types):
            return name
    return "nothing" if value is None else "a number"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _decode(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise ConfigError(
            f"{name}:{line}:{column}: byte 0x{raw[error.start]:02x} is not UTF-8",
            hint="Save the file as UTF-8.",
        ) from error
