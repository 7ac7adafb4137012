"""The command line of the stackwalker."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import InputError
from .settings import did_you_mean

STACKWALKER = "crash-stackwalk"
#: Fields allowed in ``stackwalk_command_line``. Each gives one argument, the pathname list one per path.
FIELDS = (
    "minidump_stackwalk_pathname",
    "dump_file_pathname",
    "processor_symbols_pathname_list",
    "symbol_cache_path",
    "kill_timeout",
    "stackwalk_passes",
)
_OWN_OPTIONS = "--cpu-limit {kill_timeout} --passes {stackwalk_passes} "  # only of this stackwalker
DEFAULT_COMMAND_LINE = (
    "{minidump_stackwalk_pathname} --json %s{dump_file_pathname} {processor_symbols_pathname_list}"
)
_FIELD = re.compile(r"\{(\w*)\}|\$(\w+)")


def find_stackwalker(pathname: str | None) -> str:
    """Return the stackwalker: *pathname*, or the built-in one in this interpreter's folder or on the PATH.

    Raises:
        InputError: there is none, or it is not executable.
    """
    if pathname is not None:
        found = shutil.which(pathname)
        if found is None:
            named = Path(pathname)
            problem = "is not executable" if named.exists() else "does not exist"
            problem = "is a folder" if named.is_dir() else problem
            raise InputError(
                f"the stackwalker {pathname!r} {problem}", hint="See --minidump-stackwalk-pathname."
            )
        return str(Path(found).absolute())
    beside = [str(Path(sys.executable).parent), str(Path(sys.argv[0]).absolute().parent)]
    for path in (os.pathsep.join(beside), None):
        found = shutil.which(STACKWALKER, path=path)
        if found is not None:
            return found
    raise InputError(
        f"no stackwalker: there is no {STACKWALKER} on the PATH",
        hint="Install the package, or name one with --minidump-stackwalk-pathname.",
    )


class StackwalkCommand:
    """A template of an argument list, which is run without a shell.

    Fields are written ``{name}`` or, as in 2014, ``$name``.

    Raises:
        InputError: the template has an unknown field, or cannot be split into arguments.
    """

    def __init__(
        self,
        template: str | None,
        *,
        stackwalker: str,
        symbols: Sequence[str],
        symbol_cache: str = "",
        kill_timeout_s: float = 0,
        passes: int = 1,
    ) -> None:
        if template is None:
            is_ours = Path(stackwalker).name == STACKWALKER
            template = DEFAULT_COMMAND_LINE % (_OWN_OPTIONS if is_ours else "")
            if passes > 1 and not is_ours:
                raise InputError(
                    f"--stackwalk-passes {passes}: only {STACKWALKER} supports passes, not {stackwalker}",
                    hint="Write them into --stackwalk-command-line, with {stackwalk_passes}.",
                )
        self._values = {
            "minidump_stackwalk_pathname": stackwalker,
            "symbol_cache_path": symbol_cache,
            "kill_timeout": str(math.ceil(kill_timeout_s)),
            "stackwalk_passes": str(passes),
        }
        self._symbols = list(symbols)
        try:
            self._parts = shlex.split(template)
        except ValueError as error:
            raise InputError(
                f"stackwalk_command_line {template!r} cannot be split into arguments: {error}"
            ) from error
        for part in self._parts:
            for match in _FIELD.finditer(part):
                _check_field(_name(match), template)
        if not self._parts:
            raise InputError("stackwalk_command_line is empty")

    def arguments(self, dump: Path) -> list[str]:
        """Return the argument list for one dump."""
        values = {**self._values, "dump_file_pathname": str(dump)}
        arguments: list[str] = []
        for part in self._parts:
            if part in ("{processor_symbols_pathname_list}", "$processor_symbols_pathname_list"):
                arguments += self._symbols
            else:
                arguments.append(_FIELD.sub(lambda match: self._value(match, values), part))
        return arguments

    def _value(self, match: re.Match[str], values: dict[str, str]) -> str:
        name = _name(match)
        return " ".join(self._symbols) if name == "processor_symbols_pathname_list" else values[name]


def _name(match: re.Match[str]) -> str:
    return match[2] if match[1] is None else match[1]


def _check_field(name: str, template: str) -> None:
    if name not in FIELDS:
        hint = did_you_mean(name, FIELDS) or f"Known: {', '.join(FIELDS)}."
        raise InputError(f"stackwalk_command_line {template!r} names the unknown field {name!r}", hint=hint)
