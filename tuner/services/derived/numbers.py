"""Current numbers of processes and threads, parsed from a service's command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.core.domain.layout import Layout
from tuner.core.text.command_words import parse_command
from tuner.services.record import Command, Service

_WEB = "WEB_CONCURRENCY"


@dataclass(frozen=True, slots=True)
class _Named:
    """Options and variables for the numbers of a service; a default of None is known only at run time."""

    processes: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()  #: of processes, or of *workers*
    workers: tuple[str, ...] = ()  #: of threads in forms that have threads, else of processes
    n_processes: int | None = 1
    n_threads: int | None = 1


_NAMED = {
    "celery": _Named(
        workers=("-c", "--concurrency"), variables=("CELERY_WORKER_CONCURRENCY",), n_threads=None
    ),
    "dramatiq": _Named(("-p", "--processes"), ("-t", "--threads"), n_processes=None, n_threads=8),
    "fastapi": _Named(("--workers",), (), (_WEB,)),
    "granian": _Named(("--workers",), ("--blocking-threads", "--runtime-threads"), ("GRANIAN_WORKERS",)),
    "gunicorn": _Named(("-w", "--workers"), ("--threads",), (_WEB,)),
    "huey": _Named(workers=("-w", "--workers")),
    "hypercorn": _Named(("-w", "--workers")),
    "procrastinate": _Named(threads=("-c", "--concurrency")),
    "rq": _Named(("-n", "--num-workers")),
    "taskiq": _Named(("-w", "--workers"), ("--max-async-tasks",), n_processes=2, n_threads=100),
    "uvicorn": _Named(("--workers",), (), (_WEB, "UVICORN_WORKERS")),
    "uwsgi": _Named(("-p", "--processes", "--workers"), ("--threads",)),
    "waitress": _Named(threads=("--threads",), n_threads=4),
}


@dataclass(frozen=True, slots=True)
class WithoutNumbers:
    """A command without the numbers that a study varies."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    layout: Layout | None  #: layout with these numbers; None: it depends on the host
    removed: tuple[str, ...]  #: as they are written: ``-w 4``


def at_program(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prefix that starts a program, and the program with its arguments, empty if it is part of
    a word.
    """
    own = parse_command(words).words
    n = len(words) - len(own)
    return (tuple(words[:n]), own) if tuple(words[n:]) == own else (tuple(words), ())


def without_numbers(
    service: Service, words: Sequence[str], environment: Mapping[str, str], copies: int = 1
) -> WithoutNumbers:
    """Return the command *words* without its numbers of processes and threads.

    Args:
        service: the service that the command starts.
        words: the whole command line.
        environment: of the command alone; inherited variables stay.
        copies: how many copies of the command are started together.
    """
    named = _NAMED.get(service.name, _Named())
    before, own = at_program(words)
    command = Command(own, environment, grammar=service.grammar)
    asked = service.form_of(command)
    form = service.form(asked or service.forms[0].name)
    has_threads = form is not None and bool(form.threads)
    if service.name == "rq" and "worker-pool" not in own:
        named = _Named()
    removed: list[str] = []
    left = command

    def number(options: tuple[str, ...], default: int | None) -> int | None:
        nonlocal left
        text = command.option(*options) if options else None
        if text is None:
            return default
        shorter = replace(left, words=left.without(*options))
        if service.form_of(shorter) == asked:  # gunicorn's sync workers have threads only with --threads
            left = shorter
            removed.append(f"{_written_name(command, options)} {text}")
        return int(text) if text.isdecimal() and int(text) else None

    kept = dict(environment)
    of_variables = [kept.pop(name) for name in named.variables if name in kept]
    removed += [f"{name}={environment[name]}" for name in named.variables if name in environment]
    said = int(of_variables[0]) if of_variables and of_variables[0].isdecimal() else None
    workers = number(named.workers, None) or said
    processes = number(named.processes, said or named.n_processes)
    threads = number(named.threads, named.n_threads)
    if named.workers:
        one = workers if workers is not None else (None if removed else named.n_threads)
        processes, threads = (1, one) if has_threads else (one, 1)
    layout = None
    if processes is not None and (threads is not None or not has_threads):
        layout = Layout(processes * copies, (threads or 1) if has_threads else 1, has_threads=has_threads)
    return WithoutNumbers((*before, *left.words), kept, layout, tuple(removed))


def _written_name(command: Command, options: tuple[str, ...]) -> str:
    """Return the name by which an option is written."""
    return next((name for name in options if command.has(name)), options[0])


#: a name that is one worker's own, which a layout of several cannot share
_NAMES = {"rq": ("-n", "--name")}
#: refused options that take a value
_VALUED = frozenset(("--autoscale", "--watch", "-g", "--graceful-signal"))


def remove_refused(service: Service, words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the command without the options that prevent a measurement, and these options with reasons."""
    before, own = at_program(words)
    left = Command(own, {}, grammar=service.grammar)
    removed: list[str] = []
    for name, why in service.refused.items():
        if name in _VALUED and left.has(name):
            left = replace(left, words=left.without(name))
        elif name not in _VALUED and name in left.words:
            left = replace(left, words=tuple(word for word in left.words if word != name))
        else:
            continue
        removed.append(f"{name}: {why.partition(';')[0]}")
    names = _NAMES.get(service.name, ())
    if names and left.has(*names):
        removed.append(f"{_written_name(left, names)}: several workers cannot share a name")
        left = replace(left, words=left.without(*names))
    return (*before, *left.words), tuple(removed)
