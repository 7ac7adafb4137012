"""Service record of SAQ: each program is an event loop whose concurrency is set in its settings."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from tuner.services.record import Arguments, Command, Form, Grammar, Service
from tuner.services.redis_queue import (
    ALSO_FAILED,
    GATE_REASON,
    queue_counted,
    queue_feeder,
    queue_settings,
    redis_url_variable,
    unfed,
)

_FOLDER = Path(__file__).parent / "saq_settings"  #: holds nothing else, so that nothing else is imported
_OURS = "tuner_saq.settings"
_READY = r"tuner: the SAQ worker is ready"  #: printed by the settings in that folder
_WITH_VALUE = ("--workers", "--port", "-e", "--extra-web-settings")
_WORKERS = "--workers"
_GRAMMAR = Grammar(abbreviations=True, switches="hvq")  # argparse


def _settings_at(command: Command) -> int | None:
    """Return the position of the settings in the command; None: they are not named."""
    names = [PurePath(word).name for word in command.words]
    if "saq" not in names:
        return None
    begin = names.index("saq") + 1
    for place in range(begin, len(names)):
        word, before = command.words[place], command.words[place - 1]
        takes = place > begin and any(_GRAMMAR.stands_for(before, name) for name in _WITH_VALUE)
        if not word.startswith("-") and not takes:
            return place
    return None


def _words(command: Command) -> tuple[str, ...] | None:
    place = _settings_at(command)
    if place is None:
        return None
    before = command.environment.get("PYTHONPATH", "")
    path = f"{_FOLDER}{os.pathsep}{before}" if before else str(_FOLDER)
    words = (*command.words[:place], _OURS, *command.words[place + 1 :])
    lines = ("env", f"PYTHONPATH={path}", f"TUNER_SAQ_SETTINGS={command.words[place]}")
    # tuner itself starts a program for each process
    return (*lines, *Command(words, grammar=_GRAMMAR).without(_WORKERS))


def _production_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the original command, without tuner's settings in place of the user's."""
    data = dict(word.partition("=")[::2] for word in words[1:3])
    own = data.get("TUNER_SAQ_SETTINGS")
    return words if own is None else tuple(own if word == _OURS else word for word in words[3:])


SERVICE = Service(
    name="saq",
    summary="simple async queue on Redis: one event loop per process",
    page="docs/services/saq.md",
    example="saq app.settings",
    commands=("saq",),
    forms=(
        Form(
            name="jobs",
            summary="a program per process, each with so many jobs at once (concurrency)",
            words=_words,
            layout=Arguments(),  # concurrency is TUNER_THREADS, which each program reads anyway
            threads="jobs at once",
            programs="each",
            ready={"kind": "log", "pattern": _READY},
            stop={"signal": "TERM", "wait": "70s"},
            loses="no job: a job that needs more than 5 s to end, or than shutdown_grace_period_s, is"
            " cancelled and run again",
        ),
    ),
    grammar=_GRAMMAR,
    settings=queue_settings("default", redis_url_variable),
    probes=(
        queue_counted(
            "jobs that were finished, whether well or not",
            "nothing per item: two lengths are read once a second",
            {"zcard": "saq:{queue}:incomplete"},
            counts_too=ALSO_FAILED,
        ),
    ),
    feeder=lambda _command, settings: queue_feeder("saq", settings),
    unfed=unfed("SAQ"),
    in_production="The settings contain the number of concurrent jobs per worker: concurrency = {threads}.",
    production_words=_production_words,
    refused={
        "--check": "it looks at the health of another worker and ends; leave it out",
        "--web": "it serves its pages from the worker's event loop; run them apart",
    },
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "Its documentation names no sizes; the default of concurrency is 10.",
        "A layout 4x20 is 4 programs whose settings have concurrency = 20.",
        "Jobs share one event loop; functions that are not async run in threads, cores + 4 of them at most.",
        "A stop signal reaches only the first process of saq --workers 4: start 4 programs instead.",
    ),
)
