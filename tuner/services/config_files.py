"""Options in the configuration files of services, which are read without running them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Collection, Iterator, Mapping

from tuner.services.record import FileOptions


def options_in_python(name: str, text: str, options: Mapping[str, str]) -> FileOptions | None:
    """Return the options that a Python file sets to literals; the rest counts as unclear.

    Args:
        name: name of the file, as in the command.
        text: its content.
        options: option of the command for each variable of the file.

    Returns:
        None if *text* is not Python: the service itself rejects it.
    """
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    values: dict[str, str] = {}
    unclear: set[str] = set()
    for variable, value in (pair for statement in statements for pair in _assignments(statement, options)):
        if (option := options.get(variable)) is None:
            continue
        values.pop(option, None)
        unclear.discard(option)
        try:
            literal = None if value is None else ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = None
        if value is None:
            unclear.add(option)
        elif _is_set(literal):
            values[option] = str(literal)
    return FileOptions(name, values, frozenset(unclear))


def options_in_toml(name: str, text: str, options: Mapping[str, str]) -> FileOptions | None:
    """Return the options that a TOML file sets; arguments and result as of `options_in_python`."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    values = {options[key]: str(value) for key, value in found.items() if key in options and _is_set(value)}
    return FileOptions(name, values)


def _is_set(value: object) -> bool:
    return value not in (None, False, "", {})


def _assignments(statement: ast.stmt, names: Collection[str]) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield each variable that a statement of a module assigns, with its value; None: computed by code."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.ImportFrom(names=imports):
            imported = [each.asname or each.name for each in imports]
            yield from ((name, None) for name in (names if imported == ["*"] else imported))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return
        case _:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, None
