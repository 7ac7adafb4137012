"""The types of values in a config, with their error messages."""

from __future__ import annotations

import re
import resource
import signal
import string
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)

from tuner.core.domain.layout import ANY, Layout, parse_layout, parse_layouts
from tuner.core.domain.limits import Quantity
from tuner.core.domain.records import Objective, parse_objective
from tuner.core.domain.safety_limits import parse_limit
from tuner.core.errors import ConfigError
from tuner.core.text.command_words import split_command
from tuner.core.text.figures import parse_duration, render_exact_duration

FILLED_IN = (
    "processes",
    "threads",
    "process",
    "variant",
    "cores",
    "cores_per_process",
)  #: the fields of a command, see ServiceSpec
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Section(BaseModel):
    """A mapping of the config: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    @classmethod
    def alternatives(cls, _kind: object = None) -> list[type[Section]]:
        """Return the classes that a field of this type may hold: this one, unless it has kinds."""
        return [cls]


def as_value_error(problem: ConfigError) -> ValueError:
    """Convert a ConfigError of the core to a ValueError, which pydantic collects."""
    return ValueError(f"{problem.problem}. {problem.hint}" if problem.hint else problem.problem)


class Misplaced(ValueError):
    """An error in a part of a section, found by a check of the whole section."""

    def __init__(self, problem: str, below: tuple[str | int, ...]) -> None:
        """Make the error; *below* is the path from the section to the part."""
        super().__init__(problem)
        self.below = below


def nearest(word: str, known: Sequence[str]) -> str:
    """Return ``; did you mean X?``, or an empty text if no known word is similar."""
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _duration(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError("should be a duration, as 30s, 10m or 1h30m")
    try:
        return parse_duration(value)
    except ConfigError as error:
        raise as_value_error(error) from error


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("should be longer than 0")
    return seconds


def _within_poll(seconds: float) -> float:
    if seconds > _LONGEST_LIMIT_S:
        raise ValueError("should be at most 24d")
    return seconds


#: poll(2) takes a time limit in milliseconds, of 31 bits: 24.8 days
_LONGEST_LIMIT_S = 24 * 86400.0

#: duration or 0: a duration, or `0s`
Duration = Annotated[
    float,
    BeforeValidator(_duration),
    PlainSerializer(render_exact_duration, return_type=str, when_used="always"),
]
#: duration: a time above 0 with its units: `500ms`, `30s`, `10m`, `1h30m`
LongerThanZero = Annotated[Duration, AfterValidator(_positive)]
#: duration of at most 24d: a time above 0 and at most `24d`
TimeLimit = Annotated[LongerThanZero, AfterValidator(_within_poll)]


_PERCENT = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)\s*(?P<percent>%?)")


def _ratio(value: Any) -> Any:
    """Parse ``2%``, ``2 %`` or ``0.02``; return a number of a study file unchanged."""
    if not isinstance(value, str):
        return value
    match = _PERCENT.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"should be a share, as 2% or 0.02 (got {value!r})")
    number = float(match["number"])
    if match["percent"]:
        return float(f"{number / 100:.12g}")  # 5% is exactly 0.05, despite the rounding of the division
    if number >= 1:
        raise ValueError(f"{value} is no share; write {value}% if that is meant")
    return number


Ratio = Annotated[float, BeforeValidator(_ratio)]  #: share: `2%`, or `0.02`


def _limit_of(name: Quantity) -> BeforeValidator:
    """Return a parser for ``20`` (load), ``8G`` (memory) or ``2s`` (p95); numbers of a study file pass."""

    def limit(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse_limit(name, value).at_most
        except ConfigError as error:
            raise as_value_error(error) from error

    return BeforeValidator(limit)


LARGEST_FIGURE = 10**15  #: that a study's file may hold; one with a larger figure is not believed when read
#: load average: a number above 0
MaxLoad = Annotated[float, Field(gt=0, le=LARGEST_FIGURE), _limit_of("load")]
#: size: a number of bytes with a decimal or binary unit: `512M`, `8G`, `1.5GiB`
MaxMemory = Annotated[float, Field(gt=0, le=LARGEST_FIGURE), _limit_of("memory_bytes")]
MaxP95 = Annotated[float, Field(gt=0), _limit_of("p95_s")]  #: duration


def _objective(value: Any) -> Any:
    try:
        return parse_objective(value) if isinstance(value, str) else value
    except ConfigError as error:
        raise as_value_error(error) from error


ObjectiveName = Annotated[Objective, BeforeValidator(_objective)]  #: `throughput` or `throughput-per-cpu`


def _number(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"0\d+", value.strip()):
        raise ValueError(f"YAML reads {value} as an octal number; write {value.lstrip('0') or '0'}")
    return value


_LARGEST_INTEGER = 2**63 - 1  #: of a study's file, and of the kernel's limits
#: count: an integer of at least 1
Count = Annotated[int, Field(ge=1, le=_LARGEST_INTEGER), BeforeValidator(_number)]
#: integer: an integer of at least 0
WholeNumber = Annotated[int, Field(ge=0, le=_LARGEST_INTEGER), BeforeValidator(_number)]


def _layout(value: Any) -> Layout:
    if isinstance(value, Layout):
        return value
    if not isinstance(value, str):
        raise ValueError("should be a layout, as 4x6")
    try:
        return parse_layout(value)
    except ConfigError as error:
        raise as_value_error(error) from error


OneLayout = Annotated[Layout, BeforeValidator(_layout), PlainSerializer(str, return_type=str)]


def _split_layouts(value: Any) -> Any:
    """Split a text with several layouts: 24x1,4x6."""
    if not isinstance(value, str):
        return value
    try:
        return parse_layouts(value)
    except ConfigError as error:
        raise as_value_error(error) from error


def _no_twins(layouts: tuple[Layout, ...]) -> tuple[Layout, ...]:
    for layout in layouts:
        if layouts.count(layout) > 1:
            raise ValueError(f"layout {layout} is named twice")
    return layouts


#: layouts: a list of [layouts](../words.md), or one text with commas: `4x6,8x-,4x6@NAME`
Layouts = Annotated[
    tuple[OneLayout, ...], Field(min_length=1), BeforeValidator(_split_layouts), AfterValidator(_no_twins)
]


def _variant(name: str) -> str:
    if _VARIANT.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no name of a variant: letters, digits and . _ + - only")
    return name


VariantName = Annotated[str, AfterValidator(_variant)]  #: name: letters, digits and `. _ + -`


def _variant_pattern(name: str) -> str:
    return name if ANY in name.split("+") and _variant(name.replace(ANY, "0")) else _variant(name)


#: name: letters, digits and `. _ + -`; `*` stands for each value of an axis: `3.13+*`
VariantPattern = Annotated[str, AfterValidator(_variant_pattern)]


def _split_names(value: Any) -> Any:
    """Split a text with several names: prefork,threads."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _no_variant_twice(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"variant {name} is named twice")
    return names


#: names: a list of names, or one text with commas: `prefork,threads`. In a name such as `3.13+*`, the `*`
#: stands for every value of an axis
Variants = Annotated[
    tuple[VariantPattern, ...],
    Field(min_length=1),
    BeforeValidator(_split_names),
    AfterValidator(_no_variant_twice),
]


def check_fields(text: str) -> str:
    """Return *text*; reject each ``{field}`` that tuner does not replace in commands."""
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"a brace stands alone in {text!r}; write {{{{ and }}}} for braces") from error
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if name not in FILLED_IN and not _is_filled_in_by_a_probe(name):
            known = ", ".join(f"{{{field}}}" for field in FILLED_IN)
            near = nearest(name, FILLED_IN)
            raise ValueError(f"{{{name}}} is none of {known}; write {{{{ and }}}} for braces{near}")
        if spec or conversion:
            raise ValueError(f"{{{name}}} accepts no format")
    return text


def _is_filled_in_by_a_probe(name: str) -> bool:
    from tuner.config.kinds import fillers

    return name.startswith("TUNER_") and bool(fillers(name))


def fields_in(text: str) -> set[str]:
    """Return the names of the fields in a text that `check_fields` accepted."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def split_words(value: Any) -> Any:
    """Split a command that is one text as a shell does; no shell runs it."""
    return split_command(value) if isinstance(value, str) else value


def _text(value: Any) -> Any:
    if isinstance(value, Mapping) and len(value) == 1:
        raise ValueError(f'YAML reads this as a mapping; quote it: "{{{next(iter(value))}}}"')
    return "" if value is None else value


def _has_a_first_word(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command or not command[0]:
        raise ValueError("names no program")
    if any("\0" in word for word in command):
        raise ValueError("holds a NUL character")
    return command


Word = Annotated[str, BeforeValidator(_text)]  #: text
#: text with placeholders: a text in which tuner replaces `{processes}`, `{threads}`, `{process}`,
#: `{variant}`, `{cores}` and `{cores_per_process}`
FieldWord = Annotated[Word, AfterValidator(check_fields)]
#: command: a list of words, or one text that tuner splits into words like a shell. tuner runs the command
#: without a shell
Command = Annotated[tuple[Word, ...], BeforeValidator(split_words), AfterValidator(_has_a_first_word)]
#: command with placeholders: a command in which tuner replaces `{processes}`, `{threads}`, `{process}`,
#: `{variant}`, `{cores}` and `{cores_per_process}`
LayoutCommand = Annotated[
    tuple[FieldWord, ...], BeforeValidator(split_words), AfterValidator(_has_a_first_word)
]


def _one_command_as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


#: commands: one command as a text, or a list of commands
Commands = Annotated[tuple[Command, ...], BeforeValidator(_one_command_as_list)]


def _name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise ValueError("should be letters, digits and . _ - only, 64 at most: it names files and marks")
    return value


Name = Annotated[str, AfterValidator(_name)]  #: name: at most 64 letters, digits and `. _ -`


def check_variable(name: str) -> str:
    """Return *name*; reject invalid names of environment variables, and variables that tuner sets."""
    if _VARIABLE.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no name for an environment variable")
    if name.startswith("TUNER_"):
        raise ValueError(f"{name} is tuner's own to set")
    return name


def _pattern(text: str) -> str:
    try:
        re.compile(text.encode())
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return text


#: regular expression: a regular expression in the syntax of Python, which may match anywhere in a line
Pattern = Annotated[str, AfterValidator(_pattern)]
Variable = Annotated[str, AfterValidator(check_variable)]
#: variables: a mapping of names to texts, which may contain the placeholders of a command
Environment = Mapping[Variable, FieldWord]


def _signal(value: Any) -> Any:
    name = str(value).upper().removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__:
        raise ValueError(f"{value} is no signal{nearest(name, [s.name[3:] for s in signal.Signals])}")
    return name


SignalName = Annotated[str, BeforeValidator(_signal)]  #: signal: the name of a signal, for example `TERM`


def _limit(name: str) -> str:
    known = [limit[7:].lower() for limit in dir(resource) if limit.startswith("RLIMIT_")]
    if name not in known:
        raise ValueError(f"{name} is none of {', '.join(known)}{nearest(name, known)}")
    return name


#: resource: the name of a resource limit, for example `nofile`, `nproc` or `as`
LimitName = Annotated[str, AfterValidator(_limit)]
