"""Facts about a study's host, software and interpreters, without environment variables or command lines."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tuner import __version__
from tuner.adapters.proc.cgroup import launch_cgroups
from tuner.adapters.proc.cores import describe_host
from tuner.core.text.command_words import is_python, parse_command

_WAIT_S = 20.0


def worker_facts(
    spawn_path_command: Sequence[str] | None,
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: str | None = None,
) -> dict[str, str]:
    """Return the known facts about the workers, by name; unknown facts are left out.

    Args:
        spawn_path_command: Prints as JSON how the worker starts its children; None: the worker has no such
            command.
        command: Command of a worker; its interpreter prints whether it has a GIL.
        environment: Variables of the worker in addition to tuner's environment.
        directory: Folder in which it runs.
    """
    spawning = _spawn_path(spawn_path_command, {**os.environ, **environment}) if spawn_path_command else {}
    facts = {**spawning, **interpreter_facts(command, environment, directory)}
    return {name: value for name, value in facts.items() if value}


def provenance(planned_cores: int | None = None) -> dict[str, str]:
    """Return the known facts about host (as `describe_host` does) and tuner, by name."""
    facts = {
        **describe_host(planned_cores=planned_cores),
        "tuner": __version__,
        "launch_cgroup": launch_cgroups().sentence,
        "os": _os_name(),
        **_hardware(),
        "machine": platform.machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "supervisor": _version_of("supervisor"),
        "user": _user(),
        "git_revision": _git_revision(),
    }
    return {name: value for name, value in facts.items() if value}


def _os_name() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return ""


def _hardware() -> dict[str, str]:
    """Return hardware facts that /proc has in a different form on each architecture."""
    import psutil  # 40 ms, only for a new study

    frequency, physical = psutil.cpu_freq(), psutil.cpu_count(logical=False)
    return {
        "physical_cores": str(physical or ""),
        "cpu_frequency": f"{frequency.current:.0f} MHz" if frequency else "",
        "swap": f"{psutil.swap_memory().total / (1 << 30):.1f} GiB",
    }


def _version_of(package: str) -> str:
    with suppress(PackageNotFoundError):
        return version(package)
    return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _git_revision() -> str:
    """Return the commit of the current folder, with a ``+`` if files differ from it."""
    revision = _answer(["git", "rev-parse", "HEAD"])
    if not revision:
        return ""
    changed = _answer(["git", "status", "--porcelain", "--untracked-files=no"])
    return f"{revision}+" if changed else revision


def _spawn_path(command: Sequence[str], environment: Mapping[str, str]) -> Mapping[str, str]:
    with suppress(ValueError):
        found = json.loads(_answer(command, environment) or "{}")
        if isinstance(found, dict):
            return {f"worker_{name}": str(value) for name, value in found.items()}
    return {}


def _answer(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a command; empty if it fails, does not exist or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=_WAIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# Interpreter of a worker's command line, and whether it has a GIL, found by running it.


_LONGEST_SHEBANG = 256  #: the kernel's limit
_LONGEST_PATH = 5000
#: _PIP_EXEC: pip's second line after #!/bin/sh, for paths with spaces or too long for the kernel
#: _SPLIT_STRING: env's option for several words in a first line, which the kernel passes as one word
_SPLIT_STRING = re.compile(r"(?:-[iv0]*S|--split-string=?)(?P<first>.*)")
_PIP_EXEC = re.compile(rb"""\'\'\'exec\' "?(?P<interpreter>[^"\n]+?)"? "\$0" "\$@"\n?""")
# Facts that the interpreter prints about itself. Without _is_gil_enabled (before 3.13, PyPy) it has a GIL.
_QUESTION = (
    "import json, platform, sys;"
    "print(json.dumps([platform.python_implementation(), platform.python_version(),"
    " getattr(sys, '_is_gil_enabled', lambda: True)()]))"
)
# Facts for its name, such as 3.13 or 3.13t.
_NAME_QUESTION = (
    "import json, platform, sys, sysconfig;"
    "print(json.dumps([platform.python_implementation(), platform.python_version(),"
    " bool(sysconfig.get_config_var('Py_GIL_DISABLED')), hasattr(sys, 'gettotalrefcount'),"
    " getattr(sys, '_is_gil_enabled', lambda: True)()]))"
)


def interpreter_names(words: Sequence[str]) -> tuple[str, str] | None:
    """Run the interpreter *words* (a Python and its options); return its short and its full name.

    Examples: ``3.13`` and ``3.13.5``; ``3.13t`` and ``3.13.5t`` if built for free threading, ``3.13t-gil`` if
    its GIL is switched on; ``pypy3.10``. None: it does not exist, or gives no answer.
    """
    try:
        implementation, version, is_free_threaded, is_debug, has_gil = ask_interpreter(
            _NAME_QUESTION, words, {}, None
        )
    except ValueError:
        return None
    kind = "" if implementation == "CPython" else str(implementation).lower()
    build = "t" * is_free_threaded + "d" * is_debug + "-gil" * (is_free_threaded and has_gil)
    short = ".".join(str(version).split(".")[:2])
    return f"{kind}{short}{build}", f"{kind}{str(version).rstrip('+')}{build}"


def interpreter_facts(
    command: Sequence[str], environment: Mapping[str, str], directory: str | None = None
) -> dict[str, str]:
    """Return ``worker_python`` (CPython 3.13.0) and ``worker_gil`` (on, off); empty if they are unknown.

    The interpreter is run like the worker: with its -X options, and *environment* in addition to tuner's
    own. A module without support for free threading may switch the GIL on later, when it is imported.

    Args:
        command: Command of the worker: an interpreter, or a script whose first line names one, possibly after
            ``env`` or a runner such as ``uv run``, whose project's Python is then used. It is searched in the
            PATH of *environment*, as in a launch.
        environment: Variables of the worker in addition to tuner's environment.
        directory: Folder in which it runs; None: tuner's current folder.
    """
    try:
        implementation, version, has_gil = ask_interpreter(_QUESTION, command, environment, directory)
    except ValueError:
        return {}
    return {"worker_python": f"{implementation} {version}", "worker_gil": "on" if has_gil else "off"}


def package_version(
    package: str, command: Sequence[str], environment: Mapping[str, str], directory: str | None
) -> tuple[int, ...]:
    """Return the numbers of *package*'s version in the Python of a worker; empty if unknown.

    The other arguments are those of `interpreter_facts`.
    """
    question = (
        "import json\ntry: from importlib.metadata import version as v\n"
        "except ImportError: from pkg_resources import require; v = lambda name: require(name)[0].version\n"
        f"print(json.dumps([v({package!r})]))"  # Python 3.7 has no importlib.metadata
    )
    try:
        (found,) = ask_interpreter(question, command, environment, directory)
    except ValueError:
        return ()
    numbers = re.match(r"\d+(?:\.\d+)*", found)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def ask_interpreter(
    question: str, command: Sequence[str], environment: Mapping[str, str], directory: str | None
) -> Sequence[Any]:
    """Run *question* in the interpreter of *command*; return its JSON output, or raise ValueError."""
    everything = {**os.environ, **environment}
    interpreter, assigned = interpreter_of(command, everything.get("PATH"), directory)
    if not interpreter:
        raise ValueError("no interpreter")
    try:
        done = subprocess.run(
            [*interpreter, "-c", question],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=everything | assigned,
            cwd=directory,
            timeout=_WAIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError("no answer") from error
    reported: Sequence[Any] = json.loads(done.stdout)
    return reported


def interpreter_of(
    command: Sequence[str], path: str | None = None, directory: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return the interpreter of *command* with its -X options (after a runner such as ``uv run``), and the
    variables that ``env`` before it sets; no words if the command names no Python.

    Args:
        path: PATH in which the command is searched; None: tuner's own.
        directory: As for ``interpreter_facts``.
    """
    taken = parse_command(command)
    assigned = dict(taken.assigned)
    path = assigned.get("PATH", path)
    if not taken.is_run:
        named = (*taken.interpreter, *taken.words)
        return _interpreter(named, path, directory), assigned
    runner = _find(taken.before[0], path, directory)
    if runner is None:
        return [], assigned
    before = [str(runner), *taken.before[1:]]
    if taken.is_module and not taken.interpreter:
        del before[-1]  # uv run -m
    return [*before, *(taken.interpreter[:1] or ["python"]), *_x_options(taken.interpreter[1:])], assigned


def _interpreter(words: Sequence[str], path: str | None, directory: str | None) -> list[str]:
    if not words:
        return []
    program = _find(words[0], path, directory)
    if program is None:
        return []
    if is_python(program.name):
        return [str(program), *_x_options(words[1:])]
    return _shebang(program, path)


def _find(word: str, path: str | None, directory: str | None) -> Path | None:
    if "/" in word:
        named = Path(directory or ".", word)
        return named if named.is_file() else None
    found = shutil.which(word, path=path)
    return None if found is None else Path(found)


def _x_options(words: Sequence[str]) -> list[str]:
    """Return the -X options before the program that Python runs."""
    found = []
    rest = iter(words)
    for word in rest:
        if word == "-X":
            found += [word, next(rest, "")]
        elif word.startswith("-X"):
            found.append(word)
        elif word == "-W":
            next(rest, "")
        elif not word.startswith("-") or word in ("-", "-c", "-m"):
            break
    return found


def _shebang(program: Path, path: str | None) -> list[str]:
    try:
        with program.open("rb") as file:
            first, second = file.readline(_LONGEST_SHEBANG), file.readline(_LONGEST_PATH)
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    if first == b"#!/bin/sh\n" and (by_pip := _PIP_EXEC.fullmatch(second)) is not None:
        return _interpreter([os.fsdecode(by_pip["interpreter"])], path, None)
    words = os.fsdecode(first[2:]).split()
    if words and Path(words[0]).name == "env":
        words = _of_env(words[1:])
    return _interpreter(words, path, None) if words and is_python(Path(words[0]).name) else []


def _of_env(words: Sequence[str]) -> list[str]:
    """Return the command that ``env`` runs, without options (``-S``, ``-vS``, ``-i``) and variables."""
    rest = list(words)
    while rest:
        word = rest[0]
        if (split := _SPLIT_STRING.fullmatch(word)) is not None:
            rest[:1] = [split["first"]] if split["first"] else []
        elif word in ("-u", "--unset", "-C", "--chdir"):
            del rest[:2]
        elif word.startswith("-") or "=" in word:
            del rest[0]
        else:
            break
    return rest


# Check that a worker's Python finds the first imports of its program, without importing them.

# For a module, its package; for a script, its imports at the top level, up to the first module that may
# change the import path: modules of the standard library and installed packages do not.
_IMPORT_QUESTION = """
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
    """Return the first import of *command* that its Python does not find, or None if none is known.

    Args:
        command: Command of the worker.
        environment: Variables of the worker in addition to tuner's environment.
        directory: Folder in which it runs; None: tuner's current folder.
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
            [*interpreter, "-c", _IMPORT_QUESTION, module, file],
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
        return None  # the launch of the worker reports the error
    return data if isinstance(data, str) else None
