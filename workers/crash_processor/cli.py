"""The command ``crash-processor``: run, fill, status, spawn-path."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from .errors import InputError, ProcessorError
from .options import OPTIONS, Option, Options
from .profiles import PROFILES
from .settings import Given, did_you_mean, resolve

_NUMBER = re.compile(r"-\d+")
_MOST = 10**9  # more than fits on a disk
_QUEUES = ("fs", "redis")  # supported by fill and status
_SPOOL_OPTIONS = ("fs_root", "new_crash_source_class", "redis_url", "redis_queue_name", "dump_field")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process.

    Exit code 0: done, or stopped cleanly. 2: bad input or environment, with an error in one line. 1: a bug,
    with its traceback.
    """
    _open_missing_streams()
    try:
        sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))
    except ProcessorError as error:
        hint = f" {error.hint}" if error.hint else ""
        sys.stderr.write(f"Error: {_one_line(error.problem)}.{hint}\n")
        sys.exit(error.exit_code)


def _open_missing_streams() -> None:
    """Open /dev/null for missing standard streams, so that later files do not get their numbers."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as we live


def _print_result(text: str) -> None:
    """Write and flush *text* to stdout.

    Raises:
        InputError: writing failed, except for a closed pipe.
    """
    if sys.stdout is None:
        raise InputError("cannot print the result: stdout is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # prevents an error at exit
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"cannot print the result: {error.strerror}") from error


def _run(arguments: list[str]) -> int:
    arguments = [_with_dashes(argument) for argument in arguments]
    parsed = _parser(arguments).parse_args(arguments)
    command: Any = parsed.run_command
    command(parsed)
    return 0


class _Parser(argparse.ArgumentParser):
    """Argument parser with errors in one line, like all errors of this program."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments: "):
            message = f"unexpected argument {message.split()[2]!r}"
        raise InputError(message, hint=f"See {self.prog} --help.")

    def refuse_unknown(self, arguments: Sequence[str]) -> None:
        """Raise InputError for an unknown option, because argparse reports missing options first."""
        for argument in arguments:
            name = argument.partition("=")[0]
            is_option = name.startswith("-") and name != "--" and not _NUMBER.fullmatch(name)
            if is_option and name not in self._option_string_actions:
                hint = did_you_mean(name, self._option_string_actions) or f"See {self.prog} --help."
                raise InputError(f"unknown option {name}", hint=hint)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="crash-processor", description="Processes crashes, one stackwalker per dump.", allow_abbrev=False
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    run = commands.add_parser("run", help="process the dumps of a spool", allow_abbrev=False)
    run.set_defaults(run_command=_run_processor)
    run.add_argument("--config", metavar="FILE", help="YAML or JSON file with any of these options as keys")
    run.add_argument("--profile", metavar="NAME", help=f"named set of options: {', '.join(PROFILES)}")
    _add_options(run, OPTIONS)

    fill = commands.add_parser("fill", help="put crashes into a spool", allow_abbrev=False)
    fill.set_defaults(run_command=_fill)
    kind = fill.add_mutually_exclusive_group(required=True)
    kind.add_argument("--dumps", metavar="DIR", help="take the *.dmp and *.dump files below DIR")
    kind.add_argument("--synthetic", metavar="N", help="make N crashes of a made-up product")
    fill.add_argument("--symbols", metavar="DIR", help="symbol store for --dumps")
    fill.add_argument("--copies", metavar="N", default="1", help="crashes to make of each dump (default: 1)")
    fill.add_argument(
        "--seed", metavar="N", default="0", help="for --synthetic: same seed, same crashes (default: 0)"
    )
    fill.add_argument(
        "--symbols-bytes", metavar="N", default="560000", help="size of the largest synthetic symbol file"
    )
    _add_options(fill, _SPOOL_OPTIONS)

    status = commands.add_parser("status", help="how many items stand where", allow_abbrev=False)
    status.set_defaults(run_command=_status)
    status.add_argument("--json", action="store_true", help="print JSON")
    _add_options(status, _SPOOL_OPTIONS)

    spawn = commands.add_parser("spawn-path", help="how this interpreter starts children", allow_abbrev=False)
    spawn.set_defaults(run_command=_spawn_path)
    spawn.add_argument("--json", action="store_true", help="print JSON")
    _add_options(spawn, ("spawn_path",))
    by_name = {"run": run, "fill": fill, "status": status, "spawn-path": spawn}
    if arguments and arguments[0] in by_name:
        by_name[arguments[0]].refuse_unknown(arguments[1:])
    return parser


def _add_options(parser: argparse.ArgumentParser, names: Any) -> None:
    for name in names:
        option: Option = OPTIONS[name]
        how: dict[str, Any] = {"nargs": "?", "const": "true"} if option.is_flag else {}
        parser.add_argument(_flag(name), dest=f"option_{name}", metavar="VALUE", help=_help(option), **how)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _help(option: Option) -> str:
    default = option.default
    if default is None or default == "" or option.is_flag:
        return option.help.replace("%", "%%")
    shown = ",".join(f"{part:g}" for part in default) if isinstance(default, tuple) else default
    return f"{option.help} (default: {shown})".replace("%", "%%")


def _with_dashes(argument: str) -> str:
    """Convert ``--number_of_threads=4`` to ``--number-of-threads=4``."""
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else argument


def _given_options(parsed: argparse.Namespace) -> dict[str, Given]:
    given = {
        name: Given(text, _flag(name))
        for name in OPTIONS
        if (text := getattr(parsed, f"option_{name}", None)) is not None
    }
    if getattr(parsed, "profile", None) is not None:
        given["profile"] = Given(parsed.profile, "--profile")
    return given


def _run_processor(parsed: argparse.Namespace) -> None:
    from .run import run  # imported only when needed, because 24 processes start at once

    config = parsed.config or os.environ.get("CRASH_PROCESSOR_CONFIG")
    run(resolve(_given_options(parsed), os.environ, Path(config) if config else None))


def _fill(parsed: argparse.Namespace) -> None:
    from . import fill

    options = _queue_options(parsed)
    root = options.fs_root
    if parsed.dumps is not None:
        dumps = fill.find_dumps(Path(parsed.dumps))
        found = fill.dump_crashes(dumps, _count("--copies", parsed.copies))
        if parsed.symbols is not None:
            fill.link_symbols(root, Path(parsed.symbols))
    elif parsed.symbols is not None:
        raise InputError("--symbols goes with --dumps: synthetic crashes bring their own symbols")
    else:
        n, symbols_bytes = (
            _count("--synthetic", parsed.synthetic),
            _count("--symbols-bytes", parsed.symbols_bytes),
        )
        try:
            seed = int(parsed.seed)
        except ValueError:
            raise InputError(f"--seed: {parsed.seed!r} is not a whole number") from None
        found = fill.synthetic_crashes(root, n, seed=seed, symbols_bytes=symbols_bytes)
    enqueue = _redis(options).fill if options.new_crash_source_class == "redis" else fill.enqueue_files(root)
    filled = fill.fill(root, found, dump_field=options.dump_field, enqueue=enqueue)
    _print_result(f"{filled.n_new} items added to {root}, {filled.n_known} were there already\n")


def _status(parsed: argparse.Namespace) -> None:
    from .spool import is_spool, spool_status, storage_status

    options = _queue_options(parsed)
    if not is_spool(options.fs_root):
        raise InputError(f"{options.fs_root} is not a spool", hint="Fill one: crash-processor fill.")
    if options.new_crash_source_class == "redis":
        status = {**_redis(options).status(), **storage_status(options.fs_root)}
    else:
        status = spool_status(options.fs_root)
    _print(status, as_json=parsed.json)


def _queue_options(parsed: argparse.Namespace) -> Options:
    options = resolve(_given_options(parsed), os.environ)
    name = options.new_crash_source_class
    if name not in _QUEUES:
        hint = did_you_mean(name, _QUEUES) or f"Use {' or '.join(_QUEUES)}; only run takes a dotted path."
        raise InputError(f"--new-crash-source-class: this command does not know {name!r}", hint=hint)
    return options


def _redis(options: Options) -> Any:
    from .sources.redis import RedisQueue

    return RedisQueue.from_options(options)


def _spawn_path(parsed: argparse.Namespace) -> None:
    from .spawn_path import spawn_path

    asked = resolve(_given_options(parsed), os.environ).spawn_path
    facts = spawn_path(asked)
    if facts["holds_the_gil"]:
        cure = "Use --spawn-path vfork" if asked == "posix_spawn" else "Use CPython 3.11.4 or newer"
        sys.stderr.write(
            f"Warning: spawn-holds-gil: {facts['interpreter']} holds the GIL while it starts a child: "
            f"threads of a process wait for each other. {cure}, or more processes.\n"
        )
    _print(facts, as_json=parsed.json)


def _print(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        _print_result(json.dumps(facts) + "\n")
    else:
        width = max(len(name) for name in facts)
        _print_result("".join(f"{name:{width}}  {value}\n" for name, value in facts.items()))


def _count(option: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{option}: {text!r} is not a whole number of 1 or more")
    if int(text) > _MOST:
        raise InputError(f"{option}: {text} is more than {_MOST}")
    return int(text)


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
