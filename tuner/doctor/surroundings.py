"""Checks of the programs, servers, queues and interpreters that a config names."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.adapters.provenance import ask_interpreter
from tuner.core.domain.layout import VARIABLES, Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError
from tuner.core.text.command_words import parse_command
from tuner.core.text.figures import pluralize
from tuner.doctor.limits import named_places
from tuner.doctor.service import InterpreterSeen, QueueSeen, ServerSeen, ToolSeen

if TYPE_CHECKING:
    from tuner.config.service import CrashProcessorSettings
    from tuner.config.settings import Settings

_ACCEPTS = "accepts connections"
_NOT_YET = "does not answer yet; the study has to start it"
_ANSWER_S = 5.0  #: time limit for the answer of one server


@dataclass(frozen=True, slots=True)
class _Asked:
    """A server that tuner itself queries."""

    key: str  #: key in the config
    url: str
    ask: Callable[[], None]  #: sends a request that changes nothing
    answer: str = "answers"


def check_tools(settings: Settings, spec: ServiceSpec, cores: int) -> Iterator[ToolSeen]:
    """Check the programs of every launch: supervisord, the service, the crash processor's stackwalker."""
    from importlib.metadata import PackageNotFoundError, version

    from tuner.adapters.supervisord.startup import WorkerJobs

    try:
        yield ToolSeen("supervisord", f"supervisor {version('supervisor')}", "", "")
    except PackageNotFoundError:
        yield ToolSeen("supervisord", "", "supervisor is not installed", "pip install supervisor")
    problem = None
    for one in spec.each_variant:
        try:
            WorkerJobs(one, cores, cpus=None, marker="").check()
        except ConfigError as error:
            problem = problem or error
    if problem is None:
        yield ToolSeen("command", f"{spec.name}: {spec.each_variant[0].command[0]}", "", "")
    else:
        yield ToolSeen("command", "", problem.problem, problem.hint or "Correct the config.")
    service = settings.service
    if service.kind != "crash-processor":
        return
    if "stackwalk_command_line" not in service.options:
        yield _stackwalker(service)
    if service.dumps is not None:
        yield _dumps(service.dumps)


def _stackwalker(service: CrashProcessorSettings) -> ToolSeen:
    from tuner.services.crash_processor import find_stackwalker

    found = find_stackwalker(service.options)
    if found is not None:
        return ToolSeen("stackwalker", str(found), "", "")
    problem = "the crash processor's stackwalker is not there, or cannot be run"
    return ToolSeen(
        "stackwalker", "", problem, "Install tuner again: pip install --force-reinstall proctuner"
    )


def _dumps(folder: Path) -> ToolSeen:
    from tuner.services.crash_processor import dumps_in

    n_dumps = sum(path.is_file() for path in dumps_in(folder))
    if n_dumps:
        return ToolSeen("dumps", f"{pluralize(n_dumps, 'dump')} below {folder}", "", "")
    problem = f"no dump below {folder}" if folder.is_dir() else f"no folder {folder}"
    return ToolSeen("dumps", "", problem, "Correct `dumps` in the config; dumps are named *.dmp or *.dump.")


def query_servers(settings: Settings, spec: ServiceSpec) -> Iterator[ServerSeen]:
    """Query each server once: first those that tuner uses, then those that only the service uses."""
    from tuner.core.text.address import server_urls
    from tuner.doctor.around import ask_tcp, local_address, problem_of, shown_server, trouble_of

    by_hook = bool(settings.hooks.before_study or settings.hooks.before_launch)
    alike: dict[Hashable, list[_Asked]] = {}
    for asked in _words_of_tuner(settings):
        alike.setdefault(next(iter(_places_of(asked.url)), asked.url), []).append(asked)
    met = {place for each in alike.values() for asked in each for place in _places_of(asked.url)}
    for each in alike.values():  # the same server may accept one password and not the other
        troubles = {url: trouble_of(ask) for url, ask in {asked.url: asked.ask for asked in each}.items()}
        named = [asked for asked in each if troubles[asked.url][0]] or each
        first, (problem, cure) = named[0], troubles[named[0].url]
        keys = ", ".join(dict.fromkeys(asked.key for asked in named))
        where = shown_server(first.url)
        yield ServerSeen(where, keys, problem, first.answer, by_hook, needed_by_tuner=True, cure=cure)
    for place in named_places(settings):  # ports of this host are checked elsewhere, without a connection
        if local_address(place.host, place.port) is None and (place.host, place.port) not in met:
            met.add((place.host, place.port))
            problem = problem_of(partial(ask_tcp, place.host, place.port))
            where = f"{place.host}:{place.port}"
            yield ServerSeen(where, place.key, problem, _ACCEPTS, by_hook, needed_by_tuner=False)
    for where, key, ask in _pages(settings):
        text = _NOT_YET if problem_of(ask) else "answers"
        yield ServerSeen(where, key, "", text, by_hook, needed_by_tuner=False)
    for one in spec.each_variant:
        for key, words in _words_of_service(one):
            for server in server_urls(words):
                if (server.host, server.port) not in met:
                    met.add((server.host, server.port))
                    problem = problem_of(partial(ask_tcp, server.host, server.port))
                    where = shown_server(server.url)
                    yield ServerSeen(where, key, problem, _ACCEPTS, by_hook, needed_by_tuner=False)


def _pages(settings: Settings) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Yield address, key and check of each page that probes read from the service or another program."""
    from tuner.doctor.around import ask_http, ask_tcp

    service = settings.service
    for key, probe in service.probes.items() if service.kind == "script" else ():
        for name, address in probe.pages.items():
            if address.startswith("http:"):
                yield address, f"service.{key}.{name}", partial(ask_http, address)
            else:
                host, _, port = address.rpartition(":")
                yield address, f"service.{key}.{name}", partial(ask_tcp, host.strip("[]"), int(port))


def _words_of_service(spec: ServiceSpec) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the command words and environment values of the service, with their config keys."""
    yield "service.command", spec.command
    yield "service.environment", tuple(spec.environment.values())


def _places_of(url: str) -> set[tuple[str, int]]:
    """Return (host, port) of the servers in *url*; empty for a URL without them."""
    from tuner.core.text.address import server_urls

    return {(one.host, one.port) for one in server_urls([url])}


def _words_of_tuner(settings: Settings) -> Iterator[_Asked]:
    """Yield the servers that the feeder and the probes query."""
    service = settings.service
    if service.kind != "script":
        return
    for key, url in service.feeder.servers.items():
        yield from _server_of(f"service.feeder.{key}", url)
    for key, probe in service.probes.items():
        for name, url in probe.servers.items():
            yield from _server_of(f"service.{key}.{name}", url)


def _server_of(key: str, url: str) -> Iterator[_Asked]:
    """Yield the server of *url* if its kind is known."""
    from tuner.doctor.around import ask_postgres, ask_rabbitmq, ask_redis, ask_sqlite

    if url.startswith("amqp:"):
        yield _Asked(key, url, partial(ask_rabbitmq, url, _ANSWER_S))
    elif url.startswith(("redis:", "rediss:", "unix:")):
        yield _Asked(key, url, partial(ask_redis, url, _ANSWER_S))
    elif url.startswith(("postgresql:", "postgres:")):
        yield _Asked(key, url, partial(ask_postgres, url, _ANSWER_S))
    elif url.startswith("sqlite:///"):
        yield _Asked(key, url, partial(ask_sqlite, Path(url.removeprefix("sqlite:///"))))


# Check of the queue that a study would feed.


def query_queue(settings: Settings) -> Iterator[QueueSeen]:
    """Yield whether the queue can be fed; nothing if its server does not answer (a finding of its check)."""
    from tuner.adapters.feeders.queue import QueueFeederSettings
    from tuner.adapters.queues.brokers import open_queue
    from tuner.adapters.queues.forms.message import BrokerError
    from tuner.adapters.queues.queue import Claim

    service = settings.service
    if service.kind != "script" or not isinstance(fed := service.feeder, QueueFeederSettings):
        return
    queue = open_queue(fed.url, fed.form, fed.queue, Claim("", "", ""), fed.timeout)
    try:
        queue.look_free()
    except BrokerError:
        return
    except ConfigError as error:
        yield QueueSeen(queue.where, error.problem, error.hint or "")
    else:
        yield QueueSeen(queue.where, "", "")
    finally:
        queue.close()


# Properties of the Python interpreter of each variant's workers.


#: packages that start threads
_NUMERIC_PACKAGES = ("numpy", "scipy", "sklearn", "numexpr", "torch", "onnxruntime")
# Version and build of the interpreter. Since 3.13, subprocess uses posix_spawn where this can close the
# other files; otherwise, and in older versions, it uses vfork where available. Since 3.14 there is no
# _USE_VFORK: vfork is always used.
_BUILD_QUESTION = (
    "import importlib.util, json, platform, subprocess, sys;"
    "has = lambda name: bool(getattr(subprocess, name, False));"
    "print(json.dumps([platform.python_implementation(), platform.python_version(),"
    " getattr(sys, '_is_gil_enabled', lambda: True)(), hasattr(sys, 'gettotalrefcount'),"
    " has('_USE_POSIX_SPAWN') and has('_HAVE_POSIX_SPAWN_CLOSEFROM'),"
    " has('_USE_VFORK') or sys.version_info >= (3, 14),"
    f" [name for name in {_NUMERIC_PACKAGES!r} if importlib.util.find_spec(name)]]))"
)


def read_interpreters(
    settings: Settings, spec: ServiceSpec, layouts: Sequence[Layout]
) -> Iterator[tuple[str, InterpreterSeen]]:
    """Yield variant and interpreter; variants with the same command and environment only once."""
    from tuner.adapters.provenance import worker_facts

    met = set()
    for variant in dict.fromkeys(layout.variant for layout in layouts):
        alone = Layout(1, 1, variant)
        own = spec.of(alone)
        command, reported = own.command_line(alone, 0, 1), own.environment_of(alone, 0, 1)
        key = (command, *sorted((name, text) for name, text in reported.items() if name != "TUNER_VARIANT"))
        if key in met:
            continue
        met.add(key)
        seen = read_interpreter(command, reported, own.directory)
        service = settings.service_in(variant)
        if service.kind == "crash-processor":
            seen = replace(seen, starts_children=True, numeric_packages=())
            if not service.interpreter:  # the built-in command is installed, and reports its spawn path
                from tuner.services.crash_processor import spawn_path_command, started_by

                words = spawn_path_command(started_by((), Path()), service.options)
                facts = worker_facts([word.format() for word in words], (), reported)
                seen = replace(seen, spawn_path=facts.get("worker_path", seen.spawn_path))
        yield variant, seen


def read_interpreter(
    command: Sequence[str], environment: Mapping[str, str], directory: str | None = None
) -> InterpreterSeen:
    """Return version and build of the interpreter of *command*, the default way in which its `subprocess`

    starts a child, and the importable packages that start threads.
    The arguments are those of `interpreter_facts`.
    """
    try:
        answer = ask_interpreter(_BUILD_QUESTION, command, environment, directory)
        implementation, version, has_gil, is_debug, spawns, vforks, packages = answer
    except ValueError:
        return InterpreterSeen()
    return InterpreterSeen(
        version=f"{implementation} {version}",
        gil="on" if has_gil else "off",
        is_debug=is_debug,
        spawn_path="posix_spawn" if spawns else "vfork+exec" if vforks else "fork+exec",
        numeric_packages=tuple(packages),
        set_variables=_numbers_of_threads({**os.environ, **environment, **parse_command(command).assigned}),
    )


def _numbers_of_threads(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in VARIABLES if environment.get(name)}
