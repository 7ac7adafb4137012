"""The page of every command and option, from what the command line itself is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from typer.main import get_command

from tuner.cli import COMMANDS, Command

_INTRO = """\
# Commands

`tuner --help` lists the commands. `tuner COMMAND --help` prints the options of a command. An option
overrides the same key of the [config](config.md). Each command ends with an [exit code](exit-codes.md).
You can leave out an argument in brackets, such as `[CONFIG]`. Most commands have `--json`, which
prints [JSON](../json.md).

- Write a TIME as `30s`, `10m` or `1h30m`, a SHARE as `2%` or `0.02`, and a SIZE as `512M` or `8G`.
- Write a layout as PxT, for example `4x6` for 4 processes with 6 threads each. `8x-` means 8 processes
  of a service that has no setting for threads. A [variant](../words.md) is one of several ways to run
  the service. `4x6@NAME` is the layout 4x6 of the variant NAME.

After `tuner --install-completion`, the TAB key completes commands, options and layouts.
"""


#: command -> its guide, which has the paragraphs of the help after the first
_GUIDES = {
    "plan": "plan.md#tuner-plan-how-long-will-it-take",
    "aa": "plan.md#tuner-aa-what-is-only-noise",
    "check": "plan.md#tuner-check-is-it-still-right",
    "watch": "watch.md",
    "rank": "ranking.md",
    "export": "runbook.md",
    "report": "report.md",
    "serve": "serve.md",
    "explain": "explain.md",
    "compare": "compare.md",
    "calibrate": "predict.md#measure-the-demands",
    "replay": "method/replay.md",
    "lab": "lab/README.md",
    "predict": "predict.md",
    "sample": "queues.md",
    "doctor": "doctor.md",
    "fleet": "fleet.md",
    "box": "fleet.md",
    "grid": "how-to.md",
    "services": "services/README.md",
}
_FIRST = ("grid", "rank")  #: their sections have every option; others link to theirs


def render_commands() -> str:
    """Every command: its purpose, an example, its arguments and options."""
    runners: dict[str, Any] = {one.name: get_command(one.load()) for one in COMMANDS}
    homes: dict[_Meaning, str] = {}
    for name in dict.fromkeys([*_FIRST, *runners]):
        for option in _options(runners[name]):
            homes.setdefault(_meaning(option), name)
    sections = [_command(one, runners[one.name], homes) for one in COMMANDS]
    return "\n".join([_INTRO, *sections])


_Meaning = tuple[tuple[str, ...], str, str]


def _meaning(option: Any) -> _Meaning:
    """Return what two commands share if they have the same option."""
    return tuple(option.opts), _value(option), f"{option.help}{_default(option)}"


def _options(runner: Any) -> list[Any]:
    return [one for one in runner.params if one.param_type_name == "option" and not one.hidden]


def _command(command: Command, runner: Any, homes: Mapping[_Meaning, str]) -> str:
    paragraphs = [text for text in (runner.help or "").split("\n\n") if text.strip()]
    examples = [text.removeprefix("Example: ") for text in paragraphs if text.startswith("Example: ")]
    reported = [_prose(text) for text in paragraphs if not text.startswith("Example: ")]
    if guide := _GUIDES.get(command.name):
        reported = [
            f"{reported[0]} ([guide](../{guide}))",
            *(one for one in reported[1:] if "A CHANGE" in one),
        ]
    arguments = [one for one in runner.params if one.param_type_name == "argument"]
    options = _options(runner)
    parts = [f"## tuner {command.name}\n", *(f"{text}\n" for text in reported)]
    parts.append("```text\n" + "\n".join(examples) + "\n```\n")
    own = [one for one in options if homes[_meaning(one)] == command.name]
    if arguments or own:
        parts += _lists([("", arguments), *_panels(own)])
    elsewhere: dict[str, list[str]] = {}
    for one in options:
        if one not in own and one.opts[0] != "--json":
            elsewhere.setdefault(homes[_meaning(one)], []).append(f"`{one.opts[0]}`")
    for home, names in elsewhere.items():
        parts.append(f"See [tuner {home}](#tuner-{home}) for {', '.join(names)}.\n")
    return "\n".join(parts)


def _panels(options: list[Any]) -> list[tuple[str, list[Any]]]:
    """By the panels of the help, in its order."""
    found: dict[str, list[Any]] = {}
    for option in options:
        found.setdefault(getattr(option, "rich_help_panel", None) or "", []).append(option)
    return list(found.items())


def _lists(groups: list[tuple[str, list[Any]]]) -> Iterator[str]:
    """Yield one list for each panel, its title in front of it."""
    for panel, members in groups:
        if members and panel:
            yield f"**{_prose(panel)}**\n"
        if members:
            yield "".join(_entry(one) for one in members)


def _entry(one: Any) -> str:
    names = (
        f"`{_argument(one)}`"
        if one.param_type_name == "argument"
        else ", ".join(f"`{name}{_value(one)}`" for name in one.opts)
    )
    return f"- {names}: {_prose(one.help or '')}{_default(one)}\n"


def _argument(one: Any) -> str:
    """Return the name of an argument, in brackets if it may be left out."""
    name = str(one.metavar or one.name.upper())
    return name if one.required or name.startswith("[") else f"[{name}]"


def _value(option: Any) -> str:
    return f" {option.metavar}" if option.metavar else ""


def _default(one: Any) -> str:
    """Return the default, if the help does not contain it."""
    value = one.default
    if not isinstance(value, int | float | str) or isinstance(value, bool) or "default" in (one.help or ""):
        return ""
    return f" Default: `{value}`." if str(value) else ""


def _prose(text: str) -> str:
    """*text* as Markdown that says just that."""
    parts = [part if n % 2 else _bare(part) for n, part in enumerate(text.split("`"))]
    return "`".join(parts)


def _bare(text: str) -> str:
    """Text outside of backticks: nothing of it is markup, and options are set as code."""
    return re.sub(
        r"(?<![\w-])(--[a-z][a-z0-9-]*(?: (?:all|auto|list|json|race|0)\b)?)",
        r"`\1`",
        text.replace("<", "&lt;"),
    )
