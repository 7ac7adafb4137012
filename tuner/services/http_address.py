"""Parts shared by records of HTTP servers: the listening address from options, the feeder, the probe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote

from tuner.services.record import Command, Counted, Section, Setting

_ANYWHERE = ("", "*", "0.0.0.0", "[::]", "::")
CLIENTS = Setting("clients", "clients of the load generator; default: as many as load the service fully")
BY_GENERATOR = Counted(
    "generator",
    "good answers that the load generator got",
    "nothing",
    lambda _command, _settings: {"kind": "generator"},
)

GATE_REASON = "tuner sends all its requests, and can stop sending while connections stay open."


def url_setting(
    find: Callable[[Command], str | None],
    default: str | None = None,
    needed: str = "listens where tuner cannot send to",
) -> Setting:
    """Return the setting of the URL, which *find* extracts from a command; *needed*: the text if it is
    unknown.
    """
    return Setting("url", "where tuner's load generator sends its requests", find, default, needed)


def url_of(host: str | None, port: str | None, *, is_tls: bool = False) -> str | None:
    """Return the URL of a server at *port* on this host; None if the port is invalid."""
    if not port or not port.isdecimal():
        return None
    name = "127.0.0.1" if host is None or host in _ANYWHERE else host
    scheme = "https" if is_tls else "http"
    return f"{scheme}://{f'[{name}]' if ':' in name and not name.startswith('[') else name}:{port}/"


def url_of_address(address: str, *, is_tls: bool = False) -> str | None:
    """Return the URL of ``HOST:PORT``, ``:PORT``, or the absolute path of a unix socket; None for other
    texts, and for a unix socket with TLS.
    """
    if address.startswith("/"):
        return None if is_tls else url_of_socket(address)
    host, _, port = address.rpartition(":")
    return url_of(host, port, is_tls=is_tls)


def url_of_socket(path: str) -> str | None:
    """Return the URL of a unix socket; None for a path that depends on the server's folder."""
    return f"http+unix://{quote(path, safe='')}/" if path.startswith("/") else None


def http_feeder(command: Command, settings: Mapping[str, str]) -> Section:
    """Return a feeder that sends requests to the setting ``url`` with ``clients`` clients.

    A URL that the user did not write is replaced by the address at which the service's processes listen,
    because a configuration file, a variable or code may set another address than the command.
    """
    found = {} if "url" in command.given else {"find_address": "yes"}
    return {**feeder_at(settings), **found}


def feeder_at(settings: Mapping[str, str]) -> Section:
    """Return the same feeder, fixed to the setting ``url``."""
    keys = ("url", "clients")
    return {"kind": "http", **{name: settings[name] for name in keys if name in settings}}
