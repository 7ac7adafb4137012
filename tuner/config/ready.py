"""How a config says when a launch is ready to work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from tuner.config.fields import Command, Count, LongerThanZero, Pattern, Section


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("should be a url, as http://127.0.0.1:8000/")
    _check_port(parts.netloc, lambda: parts.port)
    return text


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("should be an address, as 127.0.0.1:8000")
    return text


def _check_port(text: str, port: Any) -> None:
    try:
        port()
    except ValueError as error:
        raise ValueError(f"{text} has no port that could be: {error}") from error


Url = Annotated[str, AfterValidator(_url)]
Address = Annotated[str, AfterValidator(_address)]


class _Ready(Section):
    within: LongerThanZero = 60.0  #: Time limit, after which the launch has failed


class LogReady(_Ready):
    """The service is ready when ``count`` lines in the logs of its programs match a pattern."""

    kind: Literal["log"]  #: Kind of check
    pattern: Pattern  #: Pattern of the line
    #: Number of matching lines. processes, threads: as many as the layout has, but 1 if `programs` is `one`
    count: Count | Literal["processes", "threads"] = "processes"


class HttpReady(_Ready):
    """A URL answers."""

    kind: Literal["http"]  #: Kind of check
    url: Url  #: URL that must answer with a status below 500


class TcpReady(_Ready):
    """An address accepts connections."""

    kind: Literal["tcp"]  #: Kind of check
    address: Address  #: Address that must accept connections, HOST:PORT


class CommandReady(_Ready):
    """A command ends with exit code 0."""

    kind: Literal["command"]  #: Kind of check
    command: Command  #: Command that is tried until its exit code is 0


def with_lines_of_masters(section: Any) -> Any:
    """The *section* of a script where one line of a log is enough, unless its ``ready`` has a count.

    That is with ``programs: one``, of the service and of its variants: one program logs that it is ready.
    """
    if not isinstance(section, Mapping):
        return section
    variants = section.get("variants")
    if isinstance(variants, Mapping):
        programs = section.get("programs")
        variants = {name: _with_line(variant, programs) for name, variant in variants.items()}
        section = {**section, "variants": variants}
    return _with_line(section, None)


def _with_line(section: Any, otherwise: Any) -> Any:
    ready = section.get("ready") if isinstance(section, Mapping) else None
    is_of_master = ready is not None and section.get("programs", otherwise) == "one"
    if not is_of_master or not isinstance(ready, Mapping) or ready.get("kind") != "log":
        return section
    return {**section, "ready": {"count": 1, **ready}}


ReadySettings = Annotated[LogReady | HttpReady | TcpReady | CommandReady, Field(discriminator="kind")]
