"""Service record of RQ: worker processes that run one job at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from tuner.core.defaults import STOP_WAIT
from tuner.services.expansion import Unclear
from tuner.services.record import Arguments, Command, Counted, Form, Grammar, QueueWords, Section, Service
from tuner.services.redis_queue import GATE_REASON, queue_counted, queue_feeder, queue_settings, unfed

_READY = {"kind": "log", "pattern": "Worker .*:? started(,| with PID)"}  # before 1.14: a comma
_STOP = {"signal": "TERM", "wait": STOP_WAIT}
_DEFAULT_PORT = 6379
_WORKERS_OF = "rq:workers:{queue}"  #: Redis set of the workers that read a queue
_POOL, _WORKER = "worker-pool", "worker"
_FORK, _SIMPLE = "rq.worker.Worker", "rq.worker.SimpleWorker"
_CLASSES = {_FORK: "fork", "rq.Worker": "fork", _SIMPLE: "simple", "rq.SimpleWorker": "simple"}
_WITHOUT_VALUE = (
    *("-b", "--burst", "-v", "--verbose", "-q", "--quiet", "-s", "--with-scheduler"),
    *("--disable-default-exception-handler", "--disable-job-desc-logging"),
)
#: -n is the number of a pool's workers, and the name of a single one: neither is for the other
_NOT_FOR_THE_OTHER = ("-n", "--num-workers", "--name")


def _rest(command: Command) -> tuple[str, ...] | None:
    """Return the words after ``worker-pool`` or ``worker``; None if it is neither."""
    for n, word in enumerate(command.words):
        if word in (_POOL, _WORKER):
            return command.words[n + 1 :]
    return None


def _form_of(command: Command) -> str | None:
    if _POOL not in command.words:
        return "programs" if _WORKER in command.words else None
    asked = command.option("-w", "--worker-class") or command.environment.get("RQ_WORKER_CLASS")
    return _CLASSES.get(asked, "own") if asked else None


def _subcommand(name: str) -> Callable[[Command], tuple[str, ...] | None]:
    """Return a function that changes the command to ``rq worker-pool`` or to ``rq worker``."""

    def words(command: Command) -> tuple[str, ...] | None:
        rest = _rest(command)
        if rest is None:
            return None
        before = command.words[: len(command.words) - len(rest)]
        if before[-1] == name:
            return command.words
        kept = replace(command, words=rest).without(*_NOT_FOR_THE_OTHER)
        return (*before[:-1], name, *kept)

    return words


def _options_and_names(command: Command) -> tuple[list[str], list[str]]:
    """Return the words after the subcommand: options with their values, and the others."""
    options, named = list[str](), list[str]()
    words = iter(_rest(command) or ())
    for word in words:
        if not word.startswith("-"):
            named.append(word)
            continue
        options.append(word)
        *_, (last, value) = command.grammar.options_of(word)
        if value is None and last not in _WITHOUT_VALUE:
            options += [value_ for value_ in [next(words, None)] if value_ is not None]
    return options, named


def _positional_words(command: Command) -> tuple[str, ...]:
    """Return the words that are neither options nor their values."""
    return tuple(_options_and_names(command)[1])


def _at_queue(command: Command, queue: str) -> QueueWords | None:
    rest = _rest(command)
    if rest is None or "--" in rest:
        return None
    before = command.words[: len(command.words) - len(rest)]
    return QueueWords((*before, *_options_and_names(command)[0], queue), {})


def _queue(command: Command) -> str | None:
    """Return the first named queue."""
    return next(iter(_positional_words(command)), None)


def _reads(command: Command) -> tuple[str, ...] | None:
    """Return the queues; RQ reads ``default`` unless its settings file names queues."""
    if _rest(command) is None:
        return None
    is_in_file = command.has("-c", "--config") or command.environment.get("RQ_CONFIG")
    return _positional_words(command) or (None if is_in_file else ("default",))


def _url(command: Command) -> str | None:
    return command.option("-u", "--url") or command.environment.get("RQ_REDIS_URL")


def _check_server(command: Command, url: str) -> None:
    """Check that RQ does not read its default server on this host while *url* names another port.

    Raises:
        Unclear: it does.
    """
    names_one = command.has("-c", "--config") or any(
        name == "RQ_CONFIG" or name.startswith("RQ_REDIS_") for name in command.environment
    )
    try:
        host, port = urlsplit(url).hostname, urlsplit(url).port or _DEFAULT_PORT
    except ValueError:  # reported with the other settings of the feeder
        return
    is_here = host in ("localhost", "127.0.0.1", "::1")
    if is_here and port != _DEFAULT_PORT and not names_one and not _url(command):
        raise Unclear(
            "url",
            f"names port {port}, but RQ uses port {_DEFAULT_PORT}, because the command names no server; add"
            " --url to the command",
        )


def _feeder(command: Command, settings: Mapping[str, str]) -> Section | None:
    _check_server(command, settings["url"])
    return queue_feeder("rq", settings)


def _logs(command: Command) -> bool:
    level = command.option("-l", "--logging-level") or "INFO"
    return level.upper() in ("INFO", "DEBUG") and not command.has("-q", "--quiet", "--log-format")


def _counters(command: Command, settings: Mapping[str, str]) -> Section:
    """Return the probe that adds up the counters of the workers of the command's queues.

    A worker that reads several of them counts once. If only the settings file names the queues, all workers
    of the database count.
    """
    queues = _reads(command)
    workers = ["rq:workers"] if queues is None else [_WORKERS_OF.format(queue=queue) for queue in queues]
    return {
        "kind": "redis",
        "url": settings["url"],
        "count": [{"smembers_hget": [key, "successful_job_count"]} for key in workers],
        "failed": [{"smembers_hget": [key, "failed_job_count"]} for key in workers],
    }


def _pool(name: str, summary: str, *flags: str) -> Form:
    return Form(
        name,
        summary,
        Arguments(flags=("--num-workers={processes}", *flags)),
        words=_subcommand(_POOL),
        ready=_READY,
        stop=_STOP,
    )


SERVICE = Service(
    name="rq",
    summary="task queue: worker processes that do one job at a time",
    page="docs/services/rq.md",
    example="rq worker-pool default",
    commands=("rq",),
    forms=(
        _pool("fork", "a pool of workers that fork for each job", f"--worker-class={_FORK}"),
        _pool(
            "simple",
            "a pool of workers that do the jobs themselves (SimpleWorker)",
            f"--worker-class={_SIMPLE}",
        ),
        _pool("own", "a pool of workers of the command's own class"),
        Form(
            "programs",
            "rq worker, a program for each worker",
            Arguments(),
            words=_subcommand(_WORKER),
            programs="each",
            ready=_READY,
            stop=_STOP,
        ),
    ),
    form_of=_form_of,
    grammar=Grammar(switches="bvqsd"),  # click
    settings=queue_settings("default", _url, _queue),
    probes=(
        Counted(
            "counters",
            "jobs done, and those that failed: each worker keeps both numbers in Redis",
            "nothing per job",
            _counters,
        ),
        queue_counted(
            "finished jobs: those fed minus those that wait or run",
            "nothing per job",
            {"llen": "rq:queue:{queue}"},  # with rq:wip it would rise, as for a moment a job is in neither
        ),
    ),
    feeder=_feeder,
    unfed=unfed("RQ"),
    reads=_reads,
    at_queue=_at_queue,
    probe_key=_WORKERS_OF,
    logs=_logs,
    refused=dict.fromkeys(("-b", "--burst"), "its workers end when nothing waits; leave it out"),
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "Its documentation: as many workers as jobs are to run in parallel; preload the modules of the jobs.",
        "A fork for each job can take longer than a short job: measure both simple and fork.",
        "Finished jobs stay in Redis for their result_ttl (500 s): mind its memory, or enqueue with 0.",
    ),
)
