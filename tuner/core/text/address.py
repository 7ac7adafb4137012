"""Addresses and ports, parsed from text and from the options of a service's command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import parse_qs, unquote, urlsplit

from tuner.core.errors import ConfigError

LOOPBACK = "127.0.0.1"
_EXAMPLE = "Examples: 127.0.0.1:9188, [::1]:9188, or 9188 for this host only."
_MOST_HOST = 253  #: longest host name, characters


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to listen at."""

    host: str  #: an IP address without brackets, or a name
    port: int  #: 0..65535; 0: any free port

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port {self.port} is none: ports go from 1 to 65535")
        if not self.host or len(self.host) > _MOST_HOST or not self.host.isprintable() or " " in self.host:
            raise ConfigError(f"{self.host[:80]!r} is no address to listen at", hint=_EXAMPLE)

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can connect; False for a name, which may have any address."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read ``127.0.0.1:9188``, ``[::1]:9188``, ``localhost:9188``, or a port alone (for this host only).

    Raises:
        ConfigError: *text* is none of these.
    """
    host, colon, port = text.strip().rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5):
        raise ConfigError(f"{text[:80]!r} has no port", hint=_EXAMPLE)
    if not colon:
        return Address(LOOPBACK, int(port))
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or not host:  # IPv6 without brackets; or :9188, which usually means all interfaces
        raise ConfigError(f"{text[:80]!r} names no address to listen at", hint=_EXAMPLE)
    return listening_at(host, int(port))


def listening_at(host: str, port: int) -> Address:
    """Return *host* and *port* as an address; localhost is 127.0.0.1, which every host has."""
    return Address(LOOPBACK if host == "localhost" else host, port)


# The address of a fleet's scheduler, and the check that it is not open to other hosts.

PORT = 8786  #: Dask's default port
_SCHEDULER_EXAMPLE = (
    f"Example: tls://staging-1:{PORT} with --certs DIR, or tcp://127.0.0.1:{PORT} behind a tunnel."
)
_OPEN = (
    "Anyone who reaches it can run code there: encrypt it (tuner fleet certs DIR, then tls:// and --certs"
    " DIR), use 127.0.0.1 and a tunnel, or insist with --force."
)


@dataclass(frozen=True, slots=True)
class SchedulerAddress:
    """The address of a scheduler, and whether its connections are encrypted."""

    address: Address
    is_encrypted: bool

    def __str__(self) -> str:
        return f"{'tls' if self.is_encrypted else 'tcp'}://{self.address}"


def parse_scheduler(text: str, *, has_certs: bool, is_forced: bool) -> SchedulerAddress:
    """Read ``tls://HOST:PORT`` or ``tcp://HOST:PORT``; without a scheme, tls if there are certificates.

    Raises:
        ConfigError: *text* is none of these, contradicts the certificates, or is open to other hosts.
    """
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        scheme, rest = ("tls" if has_certs else "tcp"), scheme
    if scheme not in ("tls", "tcp"):
        raise ConfigError(f"{text[:80]!r} is no address of a scheduler", hint=_SCHEDULER_EXAMPLE)
    if not rest.rpartition(":")[0]:
        raise ConfigError(f"{text[:80]!r} names no host, or no port", hint=_SCHEDULER_EXAMPLE)
    found = SchedulerAddress(parse_address(rest), scheme == "tls")
    if found.is_encrypted and not has_certs:
        raise ConfigError(f"{found} needs certificates", hint="Name their folder: --certs DIR")
    check_open(found, has_certs=has_certs, is_forced=is_forced)
    return found


def check_open(where: SchedulerAddress, *, has_certs: bool, is_forced: bool) -> None:
    """Check that a scheduler's address is safe, before any connection.

    Raises:
        ConfigError: it is not encrypted although there are certificates, or other hosts can reach it
            unencrypted and it is not forced.
    """
    if has_certs and not where.is_encrypted:
        raise ConfigError(
            f"{where} is not encrypted, but --certs is given", hint="Write tls://, or leave out --certs."
        )
    if not where.is_encrypted and not where.address.is_loopback and not is_forced:
        raise ConfigError(f"{where} is reachable from other hosts", hint=_OPEN)


# Addresses of servers on this host in texts: the URL of a broker or a database.


#: scheme (before a +driver) -> its default port
_PORTS = {
    "redis": 6379, "rediss": 6379, "valkey": 6379, "valkeys": 6379, "amqp": 5672, "amqps": 5671,
    "pyamqp": 5672, "postgres": 5432, "postgresql": 5432, "mysql": 3306, "mariadb": 3306, "mongodb": 27017,
    "memcached": 11211, "nats": 4222,
}  # fmt: skip
_LOCALHOST = "localhost"
#: schemes for which a missing host means localhost
_AT_LOCALHOST = ("redis", "rediss", "valkey", "valkeys", "amqp", "amqps", "pyamqp")
_NEXT_BROKER = re.compile(r";(?=[a-z][a-z0-9]*(?:\+[a-z0-9]+)?://)", re.IGNORECASE)
_URL = re.compile(r"(?:--?[\w-]+=)?([a-z][a-z0-9]*(?:\+[a-z0-9]+)?://\S*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class BackendAddress:
    """A port of this host's loopback interface, or the path of a unix socket."""

    host: str = ""  #: an IP address, or "localhost"; empty: a unix socket
    port: int = 0
    path: str = ""  #: absolute path of the socket

    def __str__(self) -> str:
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def is_at(self, ip: str, port: int) -> bool:
        """Return whether a connection to this address reaches a server that listens at *ip* and *port*."""
        if port != self.port or self.path:
            return False
        listening = _ip(ip)
        if listening is None:
            return False
        if listening.is_unspecified:
            return True
        return listening.is_loopback if self.host == _LOCALHOST else listening == _ip(self.host)


def backend_addresses(words: Iterable[str]) -> tuple[BackendAddress, ...]:
    """Return the addresses on this host of URLs among *words* (also in an option: ``--broker=URL``).

    URLs of other schemes than brokers and databases, of other hosts, and invalid ones are left out.
    """
    found = (_address(url) for word in words for url in _urls(word))
    return tuple(sorted({one for one in found if one is not None}))


def _urls(word: str) -> Iterator[str]:
    """Yield the URLs in *word*, of one host each.

    Celery accepts several brokers separated by ``;``, PostgreSQL and MongoDB several hosts with commas.
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
    """A URL of a broker or a database, with its host and port."""

    host: str
    port: int
    url: str


def server_urls(words: Iterable[str]) -> tuple[ServerUrl, ...]:
    """Return the broker and database URLs among *words*, on any host.

    Unix sockets, hosts with a field to fill in (``r{process}``) and other words are left out.
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
        )  # a socket's folder may be in place of the host
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
    """Parse an IP address; an IPv4-mapped IPv6 address becomes IPv4; None: it is not one."""
    try:
        ip = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return ip if mapped is None else mapped


# The ports on which a service's command listens.


#: Options of gunicorn, hypercorn, uvicorn, granian, waitress, uWSGI and similar servers that set an address
#: to bind. All other options are assumed to name another server (a broker, statsd, metrics). ``-p`` is a port
#: in some of them and processes in others.
_BINDING = frozenset(
    (
        *("-b", "--bind", "--insecure-bind", "--quic-bind", "--port", "--listen", "--address"),
        *("--http", "--http-port", "--http-socket", "--http11-socket", "--https", "--https-socket"),
        *("--socket", "--uwsgi-socket", "--fastcgi-socket"),
    )
)
_AT = re.compile(r"(?:(?:\[[0-9a-fA-F:]+\]|[\w.*-]*):)?(\d{1,5})")  # 127.0.0.1:8000, :8000, 8000
_MOST = 65535


def bound_ports(words: Sequence[str]) -> frozenset[int]:
    """Return ports in ``--bind HOST:PORT``, ``-b:PORT``, ``--port=PORT`` and similar options."""
    return frozenset(port for _, port in _port_words(words) if 0 < port <= _MOST)


def rebind(words: Sequence[str], before: int, after: int) -> tuple[str, ...]:
    """Return the command with the port *before* replaced by *after* in options to listen."""
    changed = list(words)
    for n, port in _port_words(words):
        if port == before:
            changed[n] = words[n][: -len(str(before))] + str(after)
    return tuple(changed)


def _port_words(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the indices of words that end with a port to listen at, and the ports."""
    before = ""
    for n, word in enumerate(words):
        name, equals, value = word.partition("=")
        if before in _BINDING:
            value = word
        elif not (equals and name in _BINDING):
            value = word.removeprefix("-b") if word.startswith("-b") else ""
        if (match := _AT.fullmatch(value)) is not None:
            yield n, int(match[1])
        before = word
