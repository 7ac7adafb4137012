"""Files of NAME=VALUE lines, like systemd's EnvironmentFile=."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from tuner.core.errors import ConfigError

LARGEST_BYTES = 256 * 1024  #: of one file, as of a config
_BLANK = " \t"
_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[^= \t]*)[ \t]*=[ \t]*(?P<value>.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(
    r"""(?P<quote>['"])(?P<inside>(?:\\.|(?!(?P=quote)).)*)(?P=quote)[ \t]*(?P<rest>.*)""", re.DOTALL
)
_ESCAPE = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}


def read_environment_file(path: Path) -> dict[str, str]:
    """Return the variables of the file; the last value of a name wins.

    Blank lines and lines that begin with ``#`` are skipped; ``export`` is allowed; a value may have
    single quotes (taken literally) or double quotes (with ``\\n \\t \\" \\\\ \\$`` and a backquote); nothing
    is expanded. An unquoted value ends before a blank and ``#``: the value of ``P=abc #def`` is ``abc``,
    but ``abc #def`` for systemd and ``docker run``. Lines end with LF or CR LF, and a value cannot continue
    on the next line.

    Raises:
        ConfigError: the file is unreadable, or lines are not NAME=VALUE. The error lists all these lines,
            but shows no values and no invalid names, because the line may be part of a secret key.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would block until its writer writes
            raise ConfigError(f"{path} is no file of variables", hint="Name a file of NAME=VALUE lines.")
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            raise ConfigError(f"{path} is no file of variables: larger than {LARGEST_BYTES // 1024} KiB")
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8", hint="Save the file as UTF-8.") from error
    except OSError as error:
        raise ConfigError(f"cannot read the environment file {path}: {error.strerror}") from error
    variables: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r").strip(_BLANK)
        if not line or line.startswith("#"):
            continue
        try:
            name, value = parse_line(line)
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
        else:
            variables[name] = value
    if problems:
        raise ConfigError("\n".join(problems), hint="Write NAME=VALUE lines; quote a value with blanks or #.")
    return variables


def parse_line(line: str) -> tuple[str, str]:
    """Return the name and value of one line; raise ValueError with a message that omits the value."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("no = in the line")
    name, raw = match["name"], match["value"]
    if _NAME.fullmatch(name) is None:
        raise ValueError("the text before the = is not a name of an environment variable")
    if name.startswith("TUNER_"):
        raise ValueError(f"{name} is tuner's own to set")
    if "\0" in raw:
        raise ValueError(f"{name}: holds a NUL character")
    if raw[:1] not in ("'", '"'):
        return name, re.sub(r"[ \t]+#.*", "", raw, flags=re.DOTALL).strip(_BLANK)
    quoted = _QUOTED.fullmatch(raw)
    if quoted is None:
        raise ValueError(f"{name}: the quote is not closed")
    if quoted["rest"] and not quoted["rest"].startswith("#"):
        raise ValueError(f"{name}: something follows the closing quote")
    inside = quoted["inside"]
    if quoted["quote"] == '"':
        inside = re.sub(r"\\(.)", lambda found: _ESCAPE.get(found[1], f"\\{found[1]}"), inside)
    return name, inside
