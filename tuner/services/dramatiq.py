"""Service record of dramatiq: a master that starts worker processes with threads or greenlets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePath

from tuner.core.defaults import STOP_WAIT
from tuner.services.record import Arguments, Command, Form, Grammar, QueueWords, Service
from tuner.services.redis_queue import (
    GATE_REASON,
    queue_counted,
    queue_feeder,
    queue_settings,
    redis_url_variable,
    unfed,
)

_LAYOUT = Arguments(flags=("--processes={processes}", "--threads={threads}"))
_READY = {"kind": "log", "pattern": "Worker process is ready for action"}
_STOP = {"signal": "TERM", "wait": STOP_WAIT}  # a second TERM, as a whole group gets, kills running tasks
_PROGRAMS = ("dramatiq", "dramatiq-gevent")
_FOLDER = Path(__file__).parent / "dramatiq_queue"  #: holds nothing else, so that nothing else is imported
_MODULE = "tuner_dramatiq"  #: declares a queue that no actor of the application has
_QUEUES = ("-Q", "--queues")
_WITHOUT_VALUE = ("-v", "--verbose", "--skip-logging", "--use-spawn", "--watch-use-polling")


def _program(command: Command) -> int | None:
    """Return the position of dramatiq's program in the words; None: it is run as a module."""
    words = command.words
    places = (n for n, word in enumerate(words) if PurePath(word).name in _PROGRAMS)
    place = next(places, None)
    is_module = place is not None and (
        words[place - 1 : place] == ("-m",) or (command.is_module and not place)
    )
    return None if is_module else place


def _form_of(command: Command) -> str | None:
    place = _program(command)
    return "gevent" if place is not None and command.words[place].endswith("-gevent") else None


def _started_as(program: str) -> Callable[[Command], tuple[str, ...] | None]:
    """Return a function that replaces dramatiq's program by the other *program*, in the same folder."""

    def words(command: Command) -> tuple[str, ...] | None:
        place = _program(command)
        if place is None:  # python -m dramatiq is the one with threads
            return command.words if program == "dramatiq" else None
        named = command.words[place]
        own = named.removesuffix(PurePath(named).name) + program
        return (*command.words[:place], own, *command.words[place + 1 :])

    return words


def _split_queues(command: Command) -> tuple[list[str], list[str]]:
    """Return the words without ``-Q`` and its values, and these values; a later ``-Q`` replaces an earlier
    one.
    """
    kept, named = list[str](), list[str]()
    words = list(command.words)
    end = words.index("--") if "--" in words else len(words)
    is_ours = False
    for word in words[:end]:
        if word.startswith("-"):
            written, value = next(iter(command.grammar.options_of(word)), (word, None))
            if is_ours := any(command.grammar.stands_for(written, name) for name in _QUEUES):
                named = [value] if value else []
        if not is_ours:
            kept.append(word)
        elif not word.startswith("-"):
            named.append(word)
    return [*kept, *words[end:]], named


def _application_at(words: list[str], begin: int) -> int | None:
    """Return the position of the module with the broker, from *begin* on; None: unclear because of options
    with several values.
    """
    place = begin
    while place < len(words) and words[place].startswith("-"):
        if words[place] in ("-P", "--path"):
            return words.index("--") + 1 if "--" in words[place:-1] else None
        if words[place] == "--":
            return place + 1 if place + 1 < len(words) else None
        has_value = words[place] not in _WITHOUT_VALUE and "=" not in words[place]
        place += 2 if has_value else 1
    return place if place < len(words) else None


def _at_queue(command: Command, queue: str) -> QueueWords | None:
    """Return the words for *queue*; one more module, after the user's, declares it, as dramatiq requires."""
    words, _ = _split_queues(command)
    program = next((n for n, word in enumerate(words) if PurePath(word).name in _PROGRAMS), None)
    application = None if program is None else _application_at(words, program + 1)
    if application is None:
        return None
    before = command.environment.get("PYTHONPATH", "")
    environment = {
        "PYTHONPATH": f"{_FOLDER}{os.pathsep}{before}" if before else str(_FOLDER),
        "TUNER_DRAMATIQ_BROKER": words[application],
        "TUNER_DRAMATIQ_QUEUE": queue,
    }
    declaring = [*words[: application + 1], _MODULE, *words[application + 1 :]]
    end = declaring.index("--") if "--" in declaring else len(declaring)
    return QueueWords((*declaring[:end], f"--queues={queue}", *declaring[end:]), environment)


def _reads(command: Command) -> tuple[str, ...] | None:
    """Return the words after the last ``-Q``, up to the next option."""
    return tuple(_split_queues(command)[1]) or None


def _queue(command: Command) -> str | None:
    """Return the first queue that it reads."""
    return next(iter(_reads(command) or ()), None)


SERVICE = Service(
    name="dramatiq",
    summary="task queue: processes with threads or greenlets, its queue in Redis or RabbitMQ",
    page="docs/services/dramatiq.md",
    example="dramatiq app",
    commands=_PROGRAMS,
    forms=(
        Form(
            "threads",
            "processes with threads",
            _LAYOUT,
            "threads",
            words=_started_as("dramatiq"),
            os_threads="at-start",
            ready=_READY,
            stop=_STOP,
        ),
        Form(
            "gevent",
            "processes with greenlets (dramatiq-gevent)",
            _LAYOUT,
            "greenlets",
            words=_started_as("dramatiq-gevent"),
            ready=_READY,
            stop=_STOP,
        ),
    ),
    form_of=_form_of,
    grammar=Grammar(abbreviations=True, switches="hv"),  # argparse
    settings=queue_settings("default", redis_url_variable, _queue),
    probes=(
        queue_counted(
            "finished messages: dramatiq removes them from Redis",
            "nothing per message",
            {"hlen": "dramatiq:{queue}.msgs"},
        ),
    ),
    feeder=lambda _command, settings: queue_feeder("dramatiq", settings),
    unfed=unfed("dramatiq"),
    reads=_reads,
    at_queue=_at_queue,
    poll_interval_s=1.0,  # worker_timeout
    logs=lambda command: not command.has("--log-file", "--skip-logging"),
    refused={"--watch": "it watches files and restarts workers; leave it out"},
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "Its defaults are a process per core and 8 threads in each; its users call both arbitrary.",
        "A process has more OS threads than the layout: some fetch messages, some schedule delayed ones.",
        "Only one queue is fed and counted: -Q restricts a worker to it.",
    ),
)
