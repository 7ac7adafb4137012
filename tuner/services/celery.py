"""Service record of Celery: nodes that run tasks in a pool of processes, threads or greenlets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from tuner.core.text.command_words import parse_command
from tuner.services.expansion import Unclear
from tuner.services.record import (
    GIVEN,
    Arguments,
    Command,
    Counted,
    Form,
    Grammar,
    QueueWords,
    Section,
    Service,
    Setting,
)
from tuner.services.redis_queue import (
    ALSO_FAILED,
    DEFAULT_URL,
    GATE_REASON,
    queue_counted,
    queue_feeder,
    unfed,
)

_POOL, _CONCURRENCY = "CELERY_WORKER_POOL", "CELERY_WORKER_CONCURRENCY"
_READY = {"kind": "log", "pattern": r"\bready\.(\W|$)"}
#: the signal goes only to the node, because a pool that gets it loses its running tasks
_STOP = {"signal": "TERM", "wait": "120s", "as_group": "no"}
_PREFORK = ("prefork", "processes")
_INCLUDE = "CELERY_WORKER_INCLUDE"
_QUEUES = "CELERY_WORKER_QUEUES"  #: as -Q
_MODULE = "tuner_celery"  #: counts a node's finished tasks; the probe copies it to the folder of counters
_BEGUN = "each attempt, also failed and retried ones; finished counts only successful tasks"
#: options that tuner sets, and removes from the command: of two -P, Celery uses the first one for gevent's
#: patches, and the last one for everything else
_OURS = ("-P", "--pool", "-c", "--concurrency", "-n", "--hostname")
_NODE = "--hostname"
_UNIQUE_NODE = f"{_NODE}=tuner{{process}}@%h"


def _layout(pool: str, concurrency: str) -> Arguments:
    """Return the layout's settings; flags are used if the command states the concurrency itself."""
    return Arguments(
        {_POOL: pool, _CONCURRENCY: concurrency}, (f"--pool={pool}", f"--concurrency={concurrency}"), _OURS
    )


def _words(command: Command) -> tuple[str, ...] | None:
    if "worker" not in command.words or "multi" in command.words:
        return None  # celery multi starts daemons; the others are not workers
    return command.without(*_OURS)


def _form_of(command: Command) -> str | None:
    asked = command.value("-P", "--pool")
    return "prefork" if asked in _PREFORK else asked


def _broker(command: Command) -> str | None:
    environment = command.environment
    return (
        command.option("-b", "--broker")
        or environment.get("CELERY_BROKER_URL")
        or environment.get("BROKER_URL")
    )


def _queue(command: Command) -> str | None:
    """Return the queue that it reads; empty: it reads several."""
    named = command.value("-Q", "--queues")
    return None if not named else "" if "," in named else named


def _reads(command: Command) -> tuple[str, ...] | None:
    named = command.value("-Q", "--queues")
    return tuple(name.strip() for name in named.split(",")) if named else None


def _at_queue(command: Command, queue: str) -> QueueWords:
    """Return the words for *queue*; node names differ, too: nodes with equal names cannot be queried
    separately.
    """
    words, node = command.without("-Q", "--queues", _NODE), f"tuner{{process}}.{queue}@%h"
    if command.has(_NODE):  # a version that reads no variables
        return QueueWords((*words, f"--queues={queue}", f"{_NODE}={node}"), {})
    return QueueWords(words, {_QUEUES: queue, "CELERY_WORKER_HOSTNAME": node})


def _logs(command: Command) -> bool:
    """Return whether ``NODE ready.`` is logged where tuner reads it; Celery's default level is WARNING."""
    level = command.value("-l", "--loglevel") or ""
    return level.upper() in ("INFO", "DEBUG") and not command.has("-f", "--logfile")


def _with_url(settings: Mapping[str, str], key: str) -> dict[str, str]:
    """Return the settings with ``url``, the broker as the queue feeder names it.

    Raises:
        Unclear: the broker or the queue is missing or not supported; the error names *key*.
    """
    if "broker" not in settings:
        raise Unclear(key, "tuner needs the broker for that; set broker to its URL")
    if "queue" not in settings:
        raise Unclear(key, "tuner feeds one queue, but the command has several; set queue to one of them")
    broker = settings["broker"]
    try:
        parts = urlsplit(broker)
    except ValueError:
        raise Unclear(key, "the broker is no URL that tuner can read") from None
    if parts.scheme == "redis+socket":
        database = parse_qs(parts.query).get("virtual_host", ["0"])[0].strip("/")
        return {**settings, "url": f"unix://{parts.netloc}{parts.path}?db={database}"}
    if parts.scheme in ("amqp", "pyamqp") and parts.netloc:
        return {**settings, "url": f"amqp{broker.removeprefix(parts.scheme)}"}
    if parts.scheme not in ("redis", "rediss", "unix"):
        scheme = parts.scheme or "none"
        raise Unclear(key, f"tuner feeds queues in Redis and RabbitMQ; this broker's scheme is {scheme}")
    if not parts.netloc and not parts.path:
        return {**settings, "url": DEFAULT_URL}
    return {**settings, "url": re.sub(r"(?<=ssl_cert_reqs=)CERT_[A-Z]+", _without_cert, broker)}


def _without_cert(match: re.Match[str]) -> str:
    """Return Celery's name of a check of certificates (``CERT_NONE``) as redis-py has it (``none``)."""
    return match[0].removeprefix("CERT_").lower()


def _through(command: Command, settings: Mapping[str, str]) -> Section:
    """Return the queue probe; without a sample only Redis can be counted, by the messages left."""
    found = _with_url(settings, "probe")
    if "sample" not in settings and found["url"].startswith("amqp"):
        raise Unclear(
            "probe", "queue in RabbitMQ counts the messages that tuner feeds: set sample, or use inspect"
        )
    return _THROUGH.section(command, found)


def _feeder(_command: Command, settings: Mapping[str, str]) -> Section | None:
    return queue_feeder("celery", _with_url(settings, "sample")) if "sample" in settings else None


def _probe_section(via: str, command: Command) -> Section:
    """Return the Celery probe; it finds the nodes through the app, unless the user names the broker."""
    given = command.given.get("broker")
    return {"kind": "celery", "via": via, **({} if given is None else {"broker": given})}


def _lines(command: Command, _settings: Mapping[str, str]) -> Section:
    if command.has("-f", "--logfile"):
        raise Unclear("probe", "log reads the output of the nodes, but the command has -f: leave it out")
    return {"kind": "log", "pattern": r"Task .* succeeded in", "failed": r"Task .* raised unexpected"}


#: If tuner does not feed, running tasks (``unacked``) are not added: for a moment, a message is in neither of
#: the two, and the sum would increase again.
_THROUGH = queue_counted(
    "tasks taken out of the queue: begun, or finished where they are acknowledged late; where the user filled"
    " it, those that were fetched",
    "nothing per task",
    {"llen": "{queue}"},
)

SERVICE = Service(
    name="celery",
    summary="task queue: nodes with a pool of processes, threads or greenlets",
    page="docs/services/celery.md",
    example="celery -A proj -b redis://127.0.0.1:6379/0 worker -l INFO",
    commands=("celery",),
    forms=(
        Form(
            name="prefork",
            summary="one node, a pool of processes",
            # "processes" is prefork, too; Celery takes "prefork" for its default, and then uses the
            # worker_pool of the app
            layout=_layout("processes", "{processes}"),
            words=_words,
            programs="one",
            ready={**_READY, "count": "1"},
            stop=_STOP,
        ),
        Form(
            name="nodes",
            summary="nodes with a pool of processes each",
            layout=_layout("processes", "{threads}"),
            words=_words,
            threads="pool processes",
            programs="each",
            workers="pools",
            ready=_READY,
            stop=_STOP,
        ),
        Form(
            name="threads",
            summary="nodes with a pool of threads each",
            layout=_layout("threads", "{threads}"),
            os_threads="on-demand",
            words=_words,
            threads="threads",
            programs="each",
            ready=_READY,
            stop=_STOP,
        ),
        Form(
            name="gevent",
            summary="nodes with greenlets each",
            # with the variable alone, gevent would lack its patches: Celery reads only -P early enough
            layout=Arguments(flags=("--pool=gevent", "--concurrency={threads}"), set_by=_OURS),
            words=_words,
            threads="greenlets",
            programs="each",
            ready=_READY,
            stop=_STOP,
        ),
    ),
    form_of=_form_of,
    grammar=Grammar(switches="DEBqC", prefix="CELERY_WORKER_"),  # click
    settings=(
        Setting("broker", "its URL, if only the app contains it", _broker),
        Setting("queue", "the queue that is fed", _queue, "celery"),
        Setting("sample", "file of `tuner sample`; tuner feeds the queue with copies of its messages"),
    ),
    probes=(
        Counted(
            "finished",
            "tasks that ended well; attempts that failed or are to be retried apart",
            "6 µs of CPU per task",
            lambda _command, _settings: {"kind": "mmap-counter", "module": "celery"},
            Arguments(
                {_INCLUDE: _MODULE},
                (f"--include={GIVEN}{_MODULE}",),
                ("-I", "--include"),
                more_environment={"PYTHONPATH": "{TUNER_COUNTER_DIR}"},
            ),
        ),
        Counted(
            "inspect",
            "tasks started, as the nodes report on request",
            "no measurable cost per task; 1 to 2 ms a second in each node",
            lambda command, _settings: _probe_section("inspect", command),
            counts_too=_BEGUN,
        ),
        Counted(
            _THROUGH.name,
            _THROUGH.counts,
            _THROUGH.costs,
            _through,
            counts_too=f"{ALSO_FAILED}; finished counts only successful tasks",
        ),
        Counted(
            "events",
            "tasks that succeeded, and those that failed",
            "0.3 to 0.7 ms of CPU per task",
            lambda command, _settings: _probe_section("events", command),
            cost_warning="events cost Celery 0.3 to 0.7 ms of CPU per task: this may change the order of"
            " layouts if tasks take less than 50 ms; finished costs next to nothing",
        ),
        Counted(
            "log",
            "lines of tasks that succeeded, and of those that failed",
            "up to 0.6 ms of CPU per task where the level was not INFO",
            _lines,
            Arguments({"CELERY_WORKER_LOGLEVEL": "INFO"}, ("--loglevel=INFO",), ("-l", "--loglevel")),
            cost_warning="log needs the level INFO, up to 0.6 ms of CPU per task; finished and inspect cost"
            " nothing of that",
        ),
    ),
    feeder=_feeder,
    unfed=unfed("Celery"),
    reads=_reads,
    queue_arguments=lambda queue: Arguments({_QUEUES: queue}, (f"--queues={queue}",)),
    at_queue=_at_queue,
    joined=(_INCLUDE, "PYTHONPATH"),
    separators={_INCLUDE: ",", "PYTHONPATH": ":"},
    logs=_logs,
    names={"CELERY_WORKER_HOSTNAME": "celery{process}@%h"},
    refused={
        "--autoscale": "the number of processes would not be the layout's; leave it out",
        "--detach": "a daemon is not stopped with its launch; leave it out",
        "-D": "a daemon is not stopped with its launch; leave it out",
        "--beat": "each node would send all periodic tasks; run beat apart",
        "-B": "each node would send all periodic tasks; run beat apart",
    },
    package="celery",
    variables_since=(5,),  # click; argparse before
    always=Arguments({"CELERY_WORKER_HOSTNAME": "tuner{process}@%h"}, (_UNIQUE_NODE,)),
    measuring_only=("CELERY_WORKER_HOSTNAME", _UNIQUE_NODE),
    in_production="Each node needs a unique name: CELERY_WORKER_HOSTNAME, or -n.",
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "Its documentation: more pool processes are usually better, up to a point; several nodes may do"
        " better than one; experiment.",
        "tuner needs -l INFO to detect that nodes are ready; otherwise set warmup to auto or more than 10 s.",
        "It fetches 4 tasks for each slot of its pool at once. Compare values of --prefetch-multiplier, too.",
    ),
)


# ``celery multi start``: each of its daemons as a node in the foreground.


#: options of daemons, removed because nodes run in the foreground and tuner reads their output
_OF_DAEMONS = ("--pidfile", "--logfile", "--logdir", "--rundir", "-f")


@dataclass(frozen=True, slots=True)
class Node:
    """Settings of one of the daemons."""

    words: tuple[str, ...]
    n_nodes: int
    left_out: tuple[str, ...]


def node_of_multi(words: Sequence[str]) -> Node | None:
    """Return the command of one node; None: *words* are not ``celery multi start``.

    Options for single nodes (``-c:w1 3``) are dropped. As in Celery, a long option has its value after ``=``.
    """
    taken = parse_command(words)
    if taken.program != "celery" or "multi" not in taken.words:
        return None
    at = len(words) - len(taken.words) + taken.words.index("multi")
    rest = list(words[at + 1 :])
    if not rest or rest.pop(0) not in ("start", "restart"):
        return None
    names: list[str] = []
    options: list[str] = []
    left_out: list[str] = []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            names.append(word)
            continue
        one = [word]
        if not word.startswith("--") and rest and not rest[0].startswith("-"):
            one.append(rest.pop(0))
        name = word.partition("=")[0]
        (left_out if name in _OF_DAEMONS or ":" in name else options).extend(one)
    n_nodes = int(names[0]) if len(names) == 1 and names[0].isdecimal() else len(names)
    return Node((*words[:at], "worker", *options), max(n_nodes, 1), tuple(left_out))
