"""Procfiles (Heroku, foreman, honcho): ``NAME: COMMAND`` lines, each run by a shell."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.config.start_files.dotenv import parse_dotenv, read_text
from tuner.config.start_files.shell_line import read_shell_line
from tuner.config.start_files.started import Source, Started, Variables
from tuner.core.errors import ConfigError

_LINE = re.compile(r"(?P<name>[A-Za-z0-9_-]+):[ \t]*(?P<command>\S.*)")
_PORT = 5000  #: of the first process with foreman and honcho; each further type has 100 more
_ONCE = ("release",)  #: runs once, before the others
_USES_PORT = re.compile(r"\$\{?PORT\b")


def read_procfile(source: Source, environment: Mapping[str, str]) -> list[Started]:
    """Return the processes of a Procfile, with the ``.env`` file of its folder, like foreman and honcho.

    Raises:
        ConfigError: a line is not valid in a Procfile; with its place.
    """
    dotenv = source.folder / ".env"
    of_file: dict[str, str] = {}
    if dotenv.is_file():
        name = str(source.path.parent / ".env")
        of_file = parse_dotenv(read_text(dotenv, name), name, Variables({}, environment), expands=False)
    started: list[Started] = []
    port, offset = _PORT, 0
    for line in source.text.splitlines(keepends=True):
        begin, offset = offset, offset + len(line)
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            hint = (
                "A Procfile has a line 'NAME: COMMAND' for each process; a command cannot"
                " continue on the next."
            )
            shown = text.partition("=")[0][:40]  # the rest may be a secret
            raise source.error(begin + line.index(text[0]), f"expected NAME: COMMAND, got {shown!r}", hint)
        if any(one.name == match["name"] for one in started):
            raise source.error(begin, f"{match['name']} is there twice", "Rename one of the two.")
        at = begin + line.index(text[0]) + match.start("command")
        started.append(_parse_entry(source, match, at, of_file, environment, port))
        port += 0 if match["name"] in _ONCE else 100
    return [one for one in started if one.name not in _ONCE]


def _parse_entry(
    source: Source,
    match: re.Match[str],
    at: int,
    of_file: Mapping[str, str],
    environment: Mapping[str, str],
    port: int,
) -> Started:
    name, command = match["name"], match["command"]
    gets_port = name == "web" or _USES_PORT.search(command) is not None
    variables = Variables(dict(of_file), environment, {"PORT": str(port)} if gets_port else {})
    own: dict[str, str] = dict(of_file)
    try:
        line = read_shell_line(command, variables, lambda offset: source.at(at + offset))
    except ConfigError as error:
        return Started(name, source.at(at), folder=source.folder, error=error)
    notes = list(line.notes)
    if gets_port and "PORT" not in of_file:
        own["PORT"] = variables.get("PORT") or str(port)
    notes += variables.notes()
    return Started(
        name,
        source.at(at),
        line.words,
        environment={**own, **line.environment},
        directory=line.directory,
        folder=source.folder,
        notes=tuple(notes),
        has_secret=variables.used_secrets(),
    )
