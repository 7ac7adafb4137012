"""Where on this box a server listens that a text names: the URL of a broker or a database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import parse_qs, unquote, urlsplit

#: schemes (before a +driver) -> the port that stands for none
_PORTS = {
    "redis": 6379, "rediss": 6379, "valkey": 6379, "valkeys": 6379, "amqp": 5672, "amqps": 5671,
    "pyamqp": 5672, "postgres": 5432, "postgresql": 5432, "mysql": 3306, "mariadb": 3306, "mongodb": 27017,
    "memcached": 11211, "nats": 4222,
}  # fmt: skip
_LOCALHOST = "localhost"
_AT_LOCALHOST = ("redis", "rediss", "valkey", "valkeys", "amqp", "amqps", "pyamqp")  #: when no host is named
_NEXT_BROKER = re.compile(r";(?=[a-z][a-z0-9]*(?:\+[a-z0-9]+)?://)", re.IGNORECASE)
_URL = re.compile(r"(?:--?[\w-]+=)?([a-z][a-z0-9]*(?:\+[a-z0-9]+)?://\S*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class BackendAddress:
    """A port of this box's loopback, or the path of a unix socket."""

    host: str = ""  #: an IP address, or "localhost"; empty: a unix socket
    port: int = 0
    path: str = ""  #: of the socket, from the root on

    def __str__(self) -> str:
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def is_at(self, ip: str, port: int) -> bool:
        """Whether a connection to this address gets to who listens at *ip* and *port*."""
        if port != self.port or self.path:
            return False
        listening = _ip(ip)
        if listening is None:
            return False
        if listening.is_unspecified:
            return True
        return listening.is_loopback if self.host == _LOCALHOST else listening == _ip(self.host)


def backend_addresses(words: Iterable[str]) -> tuple[BackendAddress, ...]:
    """Those of the URLs among *words* (whole ones, or an option's ``--broker=URL``) that lead to this box.

    What is of no broker or database that we know, lies elsewhere, or cannot be understood is left out.
    """
    found = (_address(url) for word in words for url in _urls(word))
    return tuple(sorted({one for one in found if one is not None}))


def _urls(word: str) -> Iterator[str]:
    """The URLs in *word*, of one host each.

    Celery takes several brokers with ``;`` between them, PostgreSQL and MongoDB several hosts with commas.
    """
    if (match := _URL.fullmatch(word.strip())) is None:
        return
    for url in _NEXT_BROKER.split(match[1]):
        scheme, mark, rest = url.partition("://")
        authority = re.match(r"[^/?#]*", rest)
        assert authority is not None  # it may be empty
        user, at, hosts = authority[0].rpartition("@")
        for host in hosts.split(","):
            yield f"{scheme}{mark}{user}{at}{host}{rest[authority.end() :]}"


@dataclass(frozen=True, slots=True, order=True)
class ServerUrl:
    """A URL of a broker or a database, and where it leads."""

    host: str
    port: int
    url: str


def server_urls(words: Iterable[str]) -> tuple[ServerUrl, ...]:
    """Those among *words*, wherever they lie.

    Unix sockets, hosts with a field still to be filled in (``r{process}``) and what is none are left out.
    """
    found = set()
    for url in (url for word in words for url in _urls(word)):
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            continue
        scheme = parts.scheme.partition("+")[0]
        if host and "{" not in host and scheme in _PORTS:
            found.add(ServerUrl(host, port or _PORTS[scheme], url))
    return tuple(sorted(found))


def _address(url: str) -> BackendAddress | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        asked = parse_qs(parts.query)
    except ValueError:
        return None
    scheme, _, driver = parts.scheme.partition("+")
    if scheme == "unix" or driver == "socket":
        path = unquote(parts.path)
        return BackendAddress(path=path) if path.startswith("/") else None
    if scheme not in _PORTS:
        return None
    number = port or _PORTS[scheme]
    if scheme.startswith("postgres"):
        encoded = unquote(
            parts.netloc.rpartition("@")[2].partition(":")[0]
        )  # a socket's folder may stand in the host's place
        folder = asked.get("host", [encoded])[0]
        if folder.startswith("/"):
            number = int(reported) if (reported := asked.get("port", [""])[0]).isdecimal() else number
            return BackendAddress(path=f"{folder}/.s.PGSQL.{number}")
    if not host and scheme in _AT_LOCALHOST and driver != "socket":
        host = _LOCALHOST
    if host == _LOCALHOST:
        return BackendAddress(host, number)
    ip = _ip(host or "")
    return BackendAddress(str(ip), number) if ip is not None and ip.is_loopback else None


def _ip(text: str) -> IPv4Address | IPv6Address | None:
    """The address; IPv4's where it is written as IPv6's."""
    try:
        ip = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return ip if mapped is None else mapped
