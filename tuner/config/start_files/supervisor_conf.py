"""supervisord's configs: ``[program:x]`` sections, with ``%(ENV_X)s`` and the like."""

from __future__ import annotations

import configparser
import glob
import platform
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from tuner.config.start_files.dotenv import read_text
from tuner.config.start_files.shell_line import read_shell_line, shell_text
from tuner.config.start_files.started import Source, Started, Variables
from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import looks_secret

_KINDS = ("program:", "fcgi-program:")
#: options that matter to a study, and are left out
_LEFT_OUT = (
    "user",
    "umask",
    "stopsignal",
    "stopwaitsecs",
    "stopasgroup",
    "killasgroup",
    "numprocs_start",
    "socket",
)


def read_supervisor_conf(source: Source, environment: Mapping[str, str]) -> list[Started]:
    """Return the processes of a config of supervisord and of the files that it includes.

    Raises:
        ConfigError: a line is not valid in such a file; with its place.
    """
    sources = [source]
    main = _parse(source)
    if main.has_option("include", "files"):
        patterns = main.get("include", "files").replace("%(here)s", str(source.folder)).split()
        for pattern in patterns:
            for path in sorted(glob.glob(str(source.folder / pattern))):
                name = (
                    str(source.path.parent / Path(path).relative_to(source.folder))
                    if Path(path).is_relative_to(source.folder)
                    else path
                )
                sources.append(Source(name, read_text(Path(path), name), Path(path)))
    of_all: dict[str, str] = {}
    if main.has_option("supervisord", "environment"):
        here = {"here": str(source.folder)} | {f"ENV_{name}": value for name, value in environment.items()}
        at = _at(source, "supervisord", "environment")
        of_all = _pairs(_fill(main.get("supervisord", "environment"), here, at), at)
    started: list[Started] = []
    for one in sources:
        parser = main if one is source else _parse(one)
        started += [
            _parse_section(one, parser, section, source.folder, of_all, environment)
            for section in parser.sections()
            if section.startswith(_KINDS)
        ]
    return started


def _parse(source: Source) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False, inline_comment_prefixes=(";", "#"))
    try:
        parser.read_string(source.text, source.name)
    except configparser.MissingSectionHeaderError as error:
        raise ConfigError(
            f"{source.name}:{error.lineno}:1: stands before any section",
            hint="Write [program:NAME] before it.",
        ) from error
    except configparser.ParsingError as error:
        line = error.errors[0][0]
        raise ConfigError(
            f"{source.name}:{line}:1: expected KEY=VALUE", hint="Continued lines begin with blanks."
        ) from error
    except configparser.Error as error:
        raise ConfigError(
            f"{source.name}: {error}", hint="See supervisord.org/configuration.html."
        ) from error
    return parser


def _parse_section(
    source: Source,
    parser: configparser.RawConfigParser,
    section: str,
    here: Path,
    of_all: Mapping[str, str],
    environment: Mapping[str, str],
) -> Started:
    name = section.partition(":")[2].strip()
    at = _at(source, section, "command")
    known = {f"ENV_{key}": value for key, value in {**environment, **of_all}.items()}
    fields: dict[str, object] = {
        "here": str(here),
        "program_name": name,
        "group_name": name,
        "host_node_name": platform.node(),
        **known,
    }
    notes: list[str] = []

    def get(option: str) -> str | None:
        if not parser.has_option(section, option):
            return None
        return _fill(parser.get(section, option), fields, _at(source, section, option))

    try:
        copies = _whole(get("numprocs") or "1", _at(source, section, "numprocs"))
        fields |= {"process_num": _whole(get("numprocs_start") or "0", at), "numprocs": copies}
        own = _pairs(get("environment") or "", _at(source, section, "environment"))
        fields |= {f"ENV_{key}": value for key, value in own.items()}
        raw = get("command")
        if raw is None:
            raise ConfigError(f"{at}: [{section}] has no command=", hint="Add its command=.")
        try:
            words = shlex.split(raw)
        except ValueError as error:
            raise ConfigError(f"{at}: command= cannot be split: {error}", hint="Close the quote.") from error
        directory = get("directory")
        line = shell_text(words)
        if line is not None:
            variables = Variables({**of_all, **own}, environment)
            shell = read_shell_line(line, variables, lambda _: at)
            words, own = list(shell.words), {**own, **shell.environment}
            notes += [*shell.notes, *variables.notes()]
            directory = str(Path(directory or "") / shell.directory) if shell.directory else directory
    except ConfigError as error:
        return Started(name, at, folder=source.folder, error=error)
    if "%(process_num)" in parser.get(section, "command"):
        notes.append(f"%(process_num)d is {fields['process_num']}")
    if left_out := [
        f"{option}={parser.get(section, option)}"
        for option in _LEFT_OUT
        if parser.has_option(section, option)
    ]:
        notes.append(f"left out: {', '.join(left_out)}")
    used = re.findall(r"%\(ENV_(\w+)\)", parser.get(section, "command"))
    if outside := [key for key in used if key in environment and key not in {**of_all, **own}]:
        notes.append(f"taken from the environment of tuner: {', '.join(outside)}")
    return Started(
        name,
        at,
        tuple(words),
        environment={**of_all, **own},
        directory=directory,
        folder=source.folder,
        copies=copies,
        notes=tuple(notes),
        has_secret=any(map(looks_secret, used)),
    )


def _at(source: Source, section: str, option: str) -> str:
    """Return ``file:line:column`` of an option's value, or of its section if the option is missing."""
    header = re.search(rf"^\[{re.escape(section)}\]", source.text, re.MULTILINE)
    if header is None:
        return f"{source.name}:1:1"
    end = re.compile(r"^\[", re.MULTILINE).search(source.text, header.end())
    body_end = len(source.text) if end is None else end.start()
    found = re.compile(rf"^{option}[ \t]*[=:][ \t]*", re.MULTILINE | re.IGNORECASE)
    match = found.search(source.text, header.end(), body_end)
    return source.at(header.start() if match is None else match.end())


def _fill(text: str, fields: Mapping[str, object], at: str) -> str:
    """Replace ``%(NAME)s`` in *text* with the % operator of Python, like supervisord."""
    try:
        return text % fields
    except KeyError as error:
        name = str(error.args[0])
        if name.startswith("ENV_"):
            raise ConfigError(
                f"{at}: %({name})s: {name[4:]} is not set",
                hint=f"Set it before the command: {name[4:]}=... tuner init --from ...",
            ) from error
        raise ConfigError(
            f"{at}: supervisord has no %({name})s", hint="Write %% for a percent sign."
        ) from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{at}: {error}", hint="Write %% for a percent sign.") from error


def _pairs(text: str, at: str) -> dict[str, str]:
    """Parse ``KEY="value",KEY2=value2`` with the parser of supervisord."""
    from supervisor.datatypes import dict_of_key_value_pairs

    try:
        return dict(dict_of_key_value_pairs(text))
    except ValueError as error:
        raise ConfigError(
            f"{at}: environment= is no list of KEY=VALUE",
            hint='Write KEY="value",KEY2="value": quotes, commas.',
        ) from error


def _whole(text: str, at: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"{at}: expected a whole number, got {text!r}", hint="Write it in digits.")
    return int(text)
