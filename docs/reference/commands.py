"""The page of every command and option, from what the command line itself is made of."""

from __future__ import annotations

import re
from typing import Any

from typer.main import get_command

from tuner.cli import COMMANDS, Command

_INTRO = """\
# Commands

`tuner --help` lists the commands, `tuner COMMAND --help` says what stands here. An option of the command line
goes before the [config](config.md); a TIME is `30s`, `10m` or `1h30m`, a SHARE `2%` or `0.02`, a SIZE `512M`
or `8G`, a layout `4x6` (4 processes of 6 threads), `8x-` (8 that have no threads to choose) or `4x6@NAME` (of
a variant). What a command ends with: [exit codes](exit-codes.md).

`tuner --install-completion` makes TAB complete commands, options, their words and the layouts of a study, in
bash, zsh and fish; `tuner --show-completion bash` prints the script instead.

On a terminal too narrow for a table its columns come in parts, one below the other. Into a pipe or a file a
table goes as it is.
"""


def render_commands() -> str:
    """Every command: what it is for, an example, its arguments and options."""
    index = "| command | |\n|---|---|\n" + "".join(
        f"| [{one.name}](#tuner-{one.name}) | {_cell(one.summary)} |\n" for one in COMMANDS
    )
    return "\n".join([_INTRO, index, *map(_command, COMMANDS)])


def _command(command: Command) -> str:
    runner: Any = get_command(command.load())
    paragraphs = [text for text in (runner.help or "").split("\n\n") if text.strip()]
    examples = [text.removeprefix("Example: ") for text in paragraphs if text.startswith("Example: ")]
    told = [_prose(text) for text in paragraphs if not text.startswith("Example: ")]
    arguments = [one for one in runner.params if one.param_type_name == "argument"]
    options = [one for one in runner.params if one.param_type_name == "option" and not one.hidden]
    words = ["tuner", command.name, *(_usage(one) for one in arguments), "[OPTIONS]"]
    if any("--command" in one.opts for one in options):
        words.append("[-- COMMAND ...]")
    parts = [f"## tuner {command.name}\n", *(f"{text}\n" for text in told)]
    parts.append("```text\n" + "\n".join([" ".join(words), *examples]) + "\n```\n")
    parts.append(_table([("", arguments), *_panels(options)]))
    return "\n".join(parts)


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _panels(options: list[Any]) -> list[tuple[str, list[Any]]]:
    """By the panels of the help, in its order."""
    found: dict[str, list[Any]] = {}
    for option in options:
        found.setdefault(getattr(option, "rich_help_panel", None) or "", []).append(option)
    return list(found.items())


def _table(groups: list[tuple[str, list[Any]]]) -> str:
    rows = []
    for panel, members in groups:
        if members and panel:
            rows.append(f"| **{_cell(panel)}** | |\n")
        for one in members:
            names = (
                f"`{one.metavar or one.name.upper()}`"
                if one.param_type_name == "argument"
                else ", ".join(f"`{name}{_value(one)}`" for name in one.opts)
            )
            rows.append(f"| {names.replace('|', chr(92) + '|')} | {_cell(one.help or '')}{_default(one)} |\n")
    return "| | |\n|---|---|\n" + "".join(rows)


def _value(option: Any) -> str:
    return f" {option.metavar}" if option.metavar else ""


def _default(one: Any) -> str:
    """Where the words do not tell it."""
    value = one.default
    if not isinstance(value, int | float | str) or isinstance(value, bool) or "default" in (one.help or ""):
        return ""
    return f" Default: `{value}`." if str(value) else ""


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _prose(text: str) -> str:
    """*text* as Markdown that says just that."""
    parts = [part if n % 2 else _bare(part) for n, part in enumerate(text.split("`"))]
    return "`".join(parts)


def _bare(text: str) -> str:
    """Text outside of backticks: nothing of it is markup, and options are set as code."""
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", text.replace("<", "&lt;"))
