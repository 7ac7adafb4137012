"""The page of public interfaces, from the code: a change of one shows in the difference of the page."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tuner.adapters.sqlite.study_file import SCHEMA_VERSION
from tuner.cli import COMMANDS
from tuner.core.errors import EXIT_CODES
from tuner.probe import counter
from tuner.services import record
from tuner.services.catalogue import GROUP

SCHEMAS = Path(__file__).resolve().parents[1] / "schema"
_INTRO = """\
# Public interfaces

See [Versions](../stability.md) for the rules by which tuner may change the names and formats on this page
and on the linked pages. Other interfaces may change at any time. Of the Python modules, only
`tuner.probe.counter` and `tuner.services.record` are public.
"""
_HEADER = (
    "magic, the bytes `tunercnt`",
    "version",
    "pid",
    "start time",
    "number of slots in use",
    "size of a slot in bytes",
)
_SLOT = (
    "number of finished items",
    "number of failed items",
    "CPU time of the Python code, ns",
    "CPU time of child processes, ns",
    "waiting time, ns",
)


def render_public() -> str:
    """Commands, exit codes, JSON, files, the counter, Python."""
    sections = (
        ("Commands", _commands()),
        ("Exit codes", _exit_codes()),
        ("JSON", _json()),
        ("The study file", _study_file()),
        ("The counter's file", _counter_file()),
        ("tuner.probe.counter", _module(counter)),
        ("tuner.services.record", _record()),
        ("On other pages", _elsewhere()),
    )
    return _INTRO + "".join(f"\n## {title}\n\n{text}" for title, text in sections)


def _commands() -> str:
    names = ", ".join(one.name for one in COMMANDS)
    return (
        "The programs are `tuner`, `proctuner` (the same program) and `crash-processor`.\n"
        f"`tuner` has these commands ([options](commands.md)): {names}.\n"
    )


def _exit_codes() -> str:
    return (
        f"The exit codes are {', '.join(str(one.code) for one in EXIT_CODES)} ([meaning](exit-codes.md)).\n"
    )


def _json() -> str:
    rows = []
    for path in sorted(SCHEMAS.glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        version = schema["properties"]["schema_version"]["const"]
        rows.append(f"[{path.name.partition('.')[0]}](../schema/{path.name}) {version}")
    return f"The [JSON output](../json.md) has schemas with these versions: {', '.join(rows)}.\n"


def _study_file() -> str:
    return (
        "A study file is an SQLite database. The format of the file has version "
        f"{SCHEMA_VERSION} (`PRAGMA user_version`).\n"
        "tuner also reads files of older versions.\n"
        "`tuner/adapters/sqlite/schema.sql` describes the tables, columns and units.\n"
    )


def _counter_file() -> str:
    version, suffix, variable = counter.VERSION, counter.SUFFIX, counter.DIRECTORY_VARIABLE
    header = [(8 * word, text) for word, text in enumerate(_HEADER)]
    slot = [(8 * word, text) for word, text in enumerate(_SLOT)]
    return (
        f"Each worker process counts its items in a file `*{suffix}` in the folder `{variable}`.\n"
        f"The format of these files has version {version}: a header of {counter._HEADER_BYTES} bytes, then "
        f"slots of {counter._SLOT_BYTES} bytes, one for each thread.\n"
        "All numbers in the file are unsigned 64-bit integers in the machine's byte order.\n\n"
        + "".join(f"- byte {byte} of the header: {text}\n" for byte, text in header)
        + "".join(f"- byte {byte} of a slot: {text}\n" for byte, text in slot)
    )


def _module(module: Any) -> str:
    return "".join(f"    {line}\n" for line in sorted(_members(module)))


def _members(module: Any) -> Iterator[str]:
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", module.__name__) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield f"{name}{inspect.signature(value)}"
        elif inspect.isclass(value):
            yield from _class(name, value)
        elif isinstance(value, str | int) and name.isupper():
            yield f"{name} = {value!r}"


def _class(name: str, value: type) -> Iterator[str]:
    fields: Iterable[str] = getattr(value, "_fields", ()) or getattr(value, "__annotations__", ())
    yield f"{name}({', '.join(fields)})" if hasattr(value, "_fields") else name
    if not hasattr(value, "_fields"):
        yield from (f"{name}.{field}" for field in fields if not field.startswith("_"))
    yield from _methods(name, value)


def _methods(name: str, value: type) -> Iterator[str]:
    for part, method in vars(value).items():
        if inspect.isfunction(method) and not part.startswith("_"):
            yield f"{name}.{part}{inspect.signature(method)}"


#: where the classes are that the module of records has
_OF_RECORDS = (record.__name__, "tuner.services.record")


def _record() -> str:
    classes = [
        value
        for value in vars(record).values()
        if dataclasses.is_dataclass(value) and isinstance(value, type) and value.__module__ in _OF_RECORDS
    ]
    lines = [
        f"    {line}\n"
        for one in classes
        for line in (
            f"{one.__name__}({', '.join(field.name for field in dataclasses.fields(one))})",
            *_methods(one.__name__, one),
        )
    ]
    return (
        f"A package can add services to tuner, with entry points in the group `{GROUP}`.\n"
        "Pass the fields of these classes as keyword arguments.\n\n" + "".join(lines)
    )


def _elsewhere() -> str:
    return (
        "Other pages describe more public interfaces: keys of a [config](config.md), short names of\n"
        "[messages](../messages.md), names and labels of [metrics](../metrics.md), fields of the [JSON\n"
        "output](../json.md), comments in a [runbook](../runbook.md), and [profiles](../simulate.md).\n"
    )
