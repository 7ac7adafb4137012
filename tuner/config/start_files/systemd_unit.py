"""systemd's units: ``ExecStart=`` as systemd.syntax(7), systemd.service(5) and systemd.unit(5) have it."""

from __future__ import annotations

import glob
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuner.config.start_files.dotenv import name_after, parse_environment_file, read_text
from tuner.config.start_files.shell_line import read_shell_line, shell_text
from tuner.config.start_files.started import Joined, Source, Started, Variables, Where, fixed_place
from tuner.core.errors import ConfigError

_ESCAPE = re.compile(
    r"\\(?:(?P<one>[abfnrtv\\\"'s])|x(?P<hex>[0-9a-fA-F]{2})|(?P<octal>[0-7]{3})"
    r"|u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8}))"
)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_PREFIXES = "@-:+!|"
_OF_ONE_HOST = "aAbBdDmMowW"  #: specifiers of an image, a boot, or of credentials
#: directives that do not change measurements
_OF_NO_MATTER = re.compile(
    r"Type|Restart.*|StartLimit.*|Standard(Output|Error|Input)|Syslog.*|Log.*|PIDFile|ExecReload|ExecStop.*"
    r"|ExecStartPost|NotifyAccess|RemainAfterExit|Timeout(Start)?Sec|WatchdogSec|OOM.*|UMask|SuccessExitStatus"
    r"|GuessMainPID|Kill.*|SendSIG.*|FinalKillSignal|Slice|Delegate"
)
#: directives whose values are short, and no secrets
_SHORT = re.compile(r"Type|User|Group|Limit.*|Nice|CPU.*|Memory.*|Tasks.*|.*Directory")
_HINT = "See man systemd.syntax for its quotes, man systemd.unit for its specifiers."


@dataclass(slots=True)
class _Unit:
    commands: list[Joined] = field(default_factory=list)
    environment: list[Joined] = field(default_factory=list)
    files: list[Joined] = field(default_factory=list)
    directory: Joined | None = None
    others: dict[str, str] = field(default_factory=dict)
    is_of_user: bool = False  #: the manager is a user's


def read_unit(source: Source, _environment_here: Mapping[str, str]) -> list[Started]:
    """Return the processes of a unit; they do not inherit tuner's environment.

    Raises:
        ConfigError: a line is not valid, or there is no ``ExecStart=``; with the place.
    """
    unit = _unit(source)
    if not unit.commands:
        raise ConfigError(
            f"{source.name}:1:1: the unit has no ExecStart= in [Service]",
            hint="Name the .service file that starts the program.",
        )
    name = re.sub(r"\.service$", "", source.path.name)
    several = len(unit.commands) > 1
    return [
        _parse_unit(source, unit, command, f"{name}-{n}" if several else name)
        for n, command in enumerate(unit.commands, start=1)
    ]


def _unit(source: Source) -> _Unit:
    unit = _Unit()
    section = ""
    for line in _lines(source):
        if line.text.startswith("["):
            if not line.text.endswith("]"):
                raise source.error(line.offsets[0], "the section's ] is missing", "Write [Service].")
            section = line.text[1:-1]
            continue
        key, equals, _ = line.text.partition("=")
        if not equals:
            raise source.error(line.offsets[0], "expected KEY=VALUE", _HINT)  # it may be a secret
        if not section:
            raise source.error(
                line.offsets[0], f"{key.strip()}= stands before any section", "Write [Service] first."
            )
        value = line.part(len(key) + 1)
        if section == "Install" and "default.target" in value.text:
            unit.is_of_user = True
        if section == "Service":
            _put(unit, key.strip(), value)
    return unit


def _put(unit: _Unit, key: str, value: Joined) -> None:
    """Add a directive to *unit*; an empty value resets the earlier values."""
    lists = {"ExecStart": unit.commands, "Environment": unit.environment, "EnvironmentFile": unit.files}
    if key in lists:
        if value.text:
            lists[key].append(value)
        else:
            lists[key].clear()
    elif key == "WorkingDirectory":
        unit.directory = value if value.text else None
    elif not value.text:
        unit.others.pop(key, None)
    elif _OF_NO_MATTER.fullmatch(key) is None or value.text == "forking":
        unit.others[key] = value.text


def _lines(source: Source) -> Iterator[Joined]:
    """Yield lines that are not comments; a backslash at a line end joins the next line with a blank."""
    characters: list[str] = []
    offsets: list[int] = []
    at = 0
    for line in source.text.splitlines(keepends=True):
        begin, at = at, at + len(line)
        text = line.rstrip("\r\n")
        if text.lstrip()[:1] in ("#", ";") or (not text.strip() and not characters):
            continue
        goes_on = text.endswith("\\")
        characters += text[:-1] + " " if goes_on else text
        offsets += range(begin, begin + len(text))
        if not goes_on:
            yield Joined("".join(characters), [*offsets, begin + len(text)]).part(0)
            characters, offsets = [], []
    if characters:
        yield Joined("".join(characters), [*offsets, at]).part(0)


def _parse_unit(source: Source, unit: _Unit, command: Joined, name: str) -> Started:
    at = source.at(command.offsets[0])
    specifiers = _Specifiers(source, unit.is_of_user)
    notes: list[str] = []
    try:
        own = _environment(source, unit, specifiers, notes)
        variables = Variables(dict(own), {})
        words = _words(command, variables, specifiers, command.where(source))
        line = shell_text(words)
        directory = _directory(source, unit, specifiers)
        if line is not None:
            shell = read_shell_line(line, variables, lambda _: at)
            words, own = list(shell.words), {**own, **shell.environment}
            notes += shell.notes
            directory = str(Path(directory) / shell.directory) if shell.directory else directory
    except ConfigError as error:
        return Started(name, at, folder=source.folder, error=error)
    notes += specifiers.notes
    notes += variables.notes()
    if unit.others:
        kept = [f"{key}={value if _SHORT.fullmatch(key) else '...'}" for key, value in unit.others.items()]
        notes.append(f"left out: {', '.join(kept)}")
    return Started(
        name,
        at,
        tuple(words),
        environment=own,
        directory=directory,
        folder=source.folder,
        notes=tuple(notes),
        has_secret=variables.used_secrets(),
    )


def _environment(source: Source, unit: _Unit, specifiers: _Specifiers, notes: list[str]) -> dict[str, str]:
    """Return the variables of the unit; those of its environment files override the others."""
    found: dict[str, str] = {}
    for line in unit.environment:
        for word in _split(line, line.where(source)):
            name, equals, value = word.text.partition("=")
            if not equals or name_after(name, 0) != name:
                raise ConfigError(
                    f"{source.at(word.offsets[0])}: expected NAME=VALUE in Environment=, got {name[:40]!r}",
                    hint='Put quotes around the whole: Environment="NAME=a value".',
                )
            found[name] = specifiers.filled(value, source.at(word.offsets[0]))
    for line in unit.files:
        pattern = specifiers.filled(line.text.removeprefix("-"), source.at(line.offsets[0]))
        paths = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
        for path in paths:
            if Path(path).is_file():
                found |= parse_environment_file(read_text(Path(path), path), path)
            elif not line.text.startswith("-"):
                notes.append(f"EnvironmentFile={path} is not on this host, and was not read")
    return found


def _directory(source: Source, unit: _Unit, specifiers: _Specifiers) -> str:
    if unit.directory is None:
        return "/"
    text = unit.directory.text.removeprefix("-").strip("\"'")
    return str(Path.home()) if text == "~" else specifiers.filled(text, source.at(unit.directory.offsets[0]))


def _words(command: Joined, variables: Variables, specifiers: _Specifiers, where: Where) -> list[str]:
    """Return the words of a command line, with variables replaced."""
    prefixes = re.match(rf"[{re.escape(_PREFIXES)}]*", command.text)
    n_prefixes = prefixes.end() if prefixes else 0
    words: list[str] = []
    for n, word in enumerate(_split(command.part(n_prefixes), where)):
        place = word.offsets[0]
        if word.text == ";":
            break  # a second program: only in units of the type oneshot
        text = ";" if word.text == "\\;" else specifiers.filled(word.text, where(_index(command, place)))
        if n == 0 or ":" in command.text[:n_prefixes]:
            words.append(text)
        elif len(text) > 1 and text[0] == "$" and text[1] not in "{$":  # systemd uses the whole rest as name
            words += _unquoted_words(variables.get(text[1:]) or "", where(_index(command, place)))
        else:
            words.append(_fill(text, variables))
    if "@" in command.text[:n_prefixes] and len(words) > 1:
        del words[1]  # argv[0] of the program
    if not words:
        raise ConfigError(f"{where(0)}: ExecStart= names no program", hint=_HINT)
    return words


def _unquoted_words(text: str, where: str) -> list[str]:
    return [word.text for word in _split(Joined(text, range(len(text) + 1)), fixed_place(where))]


def _index(command: Joined, offset: int) -> int:
    return list(command.offsets).index(offset)


def _fill(text: str, variables: Variables) -> str:
    """Replace ``${NAME}`` by its value and ``$$`` by a dollar sign, but not ``$NAME`` within a word."""
    return re.sub(
        r"\$(?:\$|\{([A-Za-z_]\w*)\})",
        lambda match: "$" if match[1] is None else variables.get(match[1]) or "",
        text,
        flags=re.ASCII,
    )


def _split(line: Joined, where: Where) -> Iterator[Joined]:
    """Yield the words of a line, with quotes and escapes of systemd.syntax(7)."""
    text, at = line.text, 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        begin, quote, done = at, "", []
        while at < len(text) and (quote or not text[at].isspace()):
            if text[at] == quote:
                quote = ""
                at += 1
            elif not quote and text[at] in "'\"":
                quote = text[at]
                at += 1
            elif text[at] == "\\" and text[at : at + 2] != "\\;":
                match = _ESCAPE.match(text, at)
                if match is None:
                    done.append("\\")  # systemd warns, and uses it literally
                    at += 1
                    continue
                done.append(_escape(match))
                at = match.end()
            else:
                done.append(text[at])
                at += 1
        if quote:
            raise ConfigError(f"{where(begin)}: the quote is not closed", hint=_HINT)
        yield Joined("".join(done), line.offsets[begin : at + 1])


def _escape(match: re.Match[str]) -> str:
    if match["one"] is not None:
        return _ESCAPED.get(match["one"], match["one"])
    code = next(match[name] for name in ("hex", "four", "eight", "octal") if match[name] is not None)
    number = int(code, 8 if match["octal"] is not None else 16)
    is_character = number <= sys.maxunicode and not 0xD800 <= number <= 0xDFFF
    return chr(number) if is_character else match[0]  # as written, like any invalid escape


class _Specifiers:
    """Values of the specifiers (``%`` and a letter) in a unit."""

    def __init__(self, source: Source, is_of_user: bool) -> None:
        name = source.path.name
        stem = name.rpartition(".")[0] or name
        prefix, is_template, instance = stem.partition("@")
        self.notes: list[str] = []
        self._instance_is_missing = bool(is_template) and not instance
        instance = instance or ("1" if is_template else "")
        host = socket.gethostname()
        home = Path.home() if is_of_user else Path("/root")
        user = home.name
        roots = (
            (
                home / ".config",
                home / ".cache",
                home / ".config",
                home / ".config/log",
                f"/run/user/{os.getuid()}",
            )
            if is_of_user
            else ("/var/lib", "/var/cache", "/etc", "/var/log", "/run")
        )
        self._values = {
            "%": "%",
            "n": name,
            "N": stem,
            "p": prefix,
            "P": _unescape(prefix),
            "i": instance,
            "I": _unescape(instance),
            "f": "/" + _unescape(instance or prefix),
            "j": prefix.rpartition("-")[2],
            "J": _unescape(prefix.rpartition("-")[2]),
            "H": host,
            "l": host.partition(".")[0],
            "q": host,
            "v": os.uname().release,
            "h": str(home),
            "u": user,
            "g": user,
            "s": "/bin/sh",
            "T": "/tmp",
            "V": "/var/tmp",
            "U": str(os.getuid() if is_of_user else 0),
            "G": str(os.getgid() if is_of_user else 0),
            **{letter: str(root) for letter, root in zip("SCELt", roots, strict=True)},
            "y": str(source.path.absolute()),
            "Y": str(source.folder),
        }

    def filled(self, text: str, where: str) -> str:
        """Replace the specifiers in *text*; raise ConfigError for one that only systemd can replace."""

        def value(match: re.Match[str]) -> str:
            letter = match[1]
            if letter in ("i", "I") and self._instance_is_missing and not self.notes:
                self.notes.append("%i is 1: name an instance as NAME@INSTANCE.service")
            if letter and letter in _OF_ONE_HOST:
                raise ConfigError(
                    f"{where}: tuner cannot fill in the specifier %{letter}",
                    hint="Write its value; %% is a percent sign.",
                )
            return self._values.get(letter, match[0])  # systemd leaves unknown specifiers unchanged, too

        return re.sub(r"%(.?)", value, text, flags=re.DOTALL)


def _unescape(name: str) -> str:
    """Unescape a unit's name: ``-`` is a slash, ``\\x2d`` a dash (systemd-escape(1))."""
    return re.sub(
        r"-|\\x([0-9a-f]{2})", lambda match: "/" if match[0] == "-" else chr(int(match[1], 16)), name
    )
