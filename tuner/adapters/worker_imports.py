"""Whether a worker's Python finds what its program imports first: asked, without an import of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from tuner.adapters.worker_interpreter import interpreter_of
from tuner.core.text.command_words import parse_command

_WAIT_S = 20.0
# Of a module its package; of a script what it imports at its top level, up to the first module that may
# change where Python looks: one of the standard library or among installed packages does not.
_QUESTION = """
import ast, importlib.util, json, os, sys
module, file = sys.argv[1:3]
if file:
    sys.path[0] = os.path.dirname(os.path.realpath(file))
    with open(file, "rb") as opened:
        text = opened.read(1000000)
    body = [] if b"sys.path" in text or b"site." in text else ast.parse(text).body
else:
    body = ast.parse("import " + module).body
names = []
for one in body:
    if isinstance(one, ast.Import):
        names += [alias.name for alias in one.names]
    elif isinstance(one, ast.ImportFrom) and not one.level:
        names.append(one.module)
missing = None
for name in (name.partition(".")[0] for name in names):
    if name in sys.builtin_module_names or name in getattr(sys, "stdlib_module_names", ()):
        continue
    found = importlib.util.find_spec(name)
    if found is None:
        missing = name
    if found is None or "-packages" not in str(found.origin):
        break
print(json.dumps(missing))
"""


def missing_import(
    command: Sequence[str], environment: Mapping[str, str], directory: str | None
) -> str | None:
    """The package that *command* imports first and its Python has not; None: none is known to be missing.

    Args:
        command: the worker's words.
        environment: what the worker finds beside tuner's own environment.
        directory: where it runs; None: tuner's current folder.
    """
    everything = {**os.environ, **environment}
    taken = parse_command(command)
    interpreter, assigned = interpreter_of(command, everything.get("PATH"), directory)
    everything |= assigned
    if not interpreter or taken.is_run or not taken.words:
        return None
    module = taken.words[0] if taken.is_module else ""
    file = "" if taken.is_module else taken.words[0]
    if file and not taken.interpreter:
        file = shutil.which(file, path=everything.get("PATH")) or ""
    if not module.replace(".", "").isidentifier() and not file:
        return None
    try:
        done = subprocess.run(
            [*interpreter, "-c", _QUESTION, module, file],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=everything,
            cwd=directory,
            timeout=_WAIT_S,
            check=False,
        )
        data = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None  # whatever is wrong, the worker's launch will tell it
    return data if isinstance(data, str) else None
