"""Service record of waitress: one WSGI process with a thread pool; each process has its own address."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from tuner.services.http_address import (
    BY_GENERATOR,
    CLIENTS,
    GATE_REASON,
    feeder_at,
    url_of_address,
    url_of_socket,
    url_setting,
)
from tuner.services.record import Arguments, Command, Form, Grammar, Section, Service

_PORT = "8080"
_NUMBER = "{process}"
#: Where the processes listen while they are measured: 6100 to 6109, then 61010 to 61099, beyond the ports
#: that Linux takes for clients. waitress has no option by which several processes share one address
_OURS = f"127.0.0.1:610{_NUMBER}"
_LISTEN = ("--listen", "--host", "--port", "--unix-socket")
_OWN = "TUNER_WAITRESS_ADDRESS"  #: a variable that keeps these words for the snippets
_SHORTEST = len("--po")  #: of their beginnings that it takes for them


def _is_numbered(command: Command) -> bool:
    """Return whether the command itself gives each process an address of its own."""
    return any(_NUMBER in (command.option(name) or "") for name in _LISTEN)


def _words(command: Command) -> tuple[str, ...]:
    """Return the words with an address for each process; options stand before the application, the last
    word.
    """
    words = command.words
    lines: tuple[str, ...] = ()
    if not _is_numbered(command):
        kept, own = _split_addresses(words[:-1])
        words = (*kept, f"--listen={_OURS}", words[-1])
        lines = ("env", f"{_OWN}={shlex.join(own)}") if own else ()
    return (*lines, *(words if "--" in words else (*words[:-1], "--", words[-1])))


def _split_addresses(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return *words* without the addresses, and the addresses."""
    kept, own = [], []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if not any(option.startswith(name) and len(name) >= _SHORTEST for option in _LISTEN):
            kept.append(word)
        else:
            own += [word] if equals else [word, next(rest, "")]
    return tuple(kept), tuple(own)


def _production_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without the variable that holds the user's address."""
    return words[2:] if words[0] == "env" and words[1].startswith(f"{_OWN}=") else words


def _alone_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command with the user's own address."""
    kept = _production_words(words)
    own = shlex.split(words[1].partition("=")[2]) if len(kept) < len(words) else ()
    return tuple(each for word in kept for each in (own if word == f"--listen={_OURS}" else (word,)))


def _url(command: Command) -> str | None:
    """Return the URL of the processes of a numbered command; None: tuner selects the addresses."""
    if not _is_numbered(command):
        return None
    if (socket := command.option("--unix-socket")) is not None:
        return url_of_socket(socket.replace(_NUMBER, "0")) and f"http+unix://{socket.replace('/', '%2F')}/"
    address = command.option("--listen") or f"{command.option('--host') or ''}:{command.option('--port')}"
    found = url_of_address(address.replace(_NUMBER, "0"))
    if found is None:
        return ""
    return f"{found.rpartition(':')[0]}:{address.rpartition(':')[2]}/"


def _feeder(command: Command, settings: Mapping[str, str]) -> Section:
    """Return a feeder that sends requests to all processes in turn."""
    url = settings["url"]
    if not _is_numbered(command):
        parts = urlsplit(url)
        url = urlunsplit(("http", _OURS, parts.path or "/", parts.query, ""))
    return feeder_at({**settings, "url": url})


SERVICE = Service(
    name="waitress",
    summary="WSGI server: one process with a pool of threads",
    page="docs/services/waitress.md",
    example="waitress-serve app:app",
    commands=("waitress-serve", "waitress"),
    forms=(
        Form(
            name="threads",
            summary="one program per process, each with its own pool of threads and its own address",
            layout=Arguments(flags=("--threads={threads}",)),
            words=_words,
            threads="threads",
            programs="each",
            os_threads="at-start",
            ready={"kind": "log", "pattern": "Serving on "},
            stop={"signal": "INT", "wait": "30s"},  # at a SIGTERM it ends at once and drops current requests
            loses="requests that wait for a thread, and those that need more than 5 s to end",
        ),
    ),
    grammar=Grammar(abbreviations=True),  # getopt
    settings=(
        url_setting(_url, f"http://127.0.0.1:{_PORT}/", "tuner cannot send requests to its bind address"),
        CLIENTS,
    ),
    probes=(BY_GENERATOR,),
    feeder=_feeder,
    in_production="Several processes on one host need an address each, here ports 6100, 6101 and so on, and a"
    " proxy before them.",
    production_words=_production_words,
    alone_words=_alone_words,
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "Its documentation: it runs one process; several of them need a proxy that shares requests out.",
        "It has 4 threads by default (--threads), and one more that reads and writes.",
        "Each process accepts 100 connections (--connection-limit); further ones wait.",
        "TERM ends it at once. Stop it with INT in production: running requests then have 5 s to finish.",
    ),
)
