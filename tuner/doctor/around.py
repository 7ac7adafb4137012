"""Ports and servers around a service: which processes listen, which servers answer."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from tuner.adapters.proc.listeners import listener_at
from tuner.adapters.ready.http import HttpAnswer
from tuner.adapters.ready.tcp import TcpAnswer
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.address import BackendAddress

_LOCALHOST = "localhost"


def local_address(host: str, port: int) -> BackendAddress | None:
    """Return the address on this host for *host* and *port*; None if they are elsewhere, or unknown."""
    if host == _LOCALHOST:
        return BackendAddress(_LOCALHOST, port)
    try:
        ip = ip_address(host)
    except ValueError:
        return None
    if ip.is_loopback or ip.is_unspecified or str(ip) in _host_addresses():
        return BackendAddress(str(ip), port)
    return None


def who_listens(address: BackendAddress) -> str:
    """Return the program that listens at *address*, with its pid if visible; empty if none listens."""
    found = listener_at(address)
    if found is None:
        return ""
    return f"{found.program} (process {found.pid})" if found.program else "somebody"


def problem_of(ask: Callable[[], None]) -> str:
    """Return the error message of a server's client, or an empty text if the server answers."""
    return trouble_of(ask)[0]


def trouble_of(ask: Callable[[], None]) -> tuple[str, str]:
    """Return the error message and a remedy for a server that refuses; both empty if there is none."""
    from tuner.adapters.probes.sql import hint_of
    from tuner.adapters.queues.forms.message import BrokerError
    from tuner.adapters.queues.queue import hint_for

    try:
        ask()
    except (BrokerError, MeasurementError, ConfigError) as error:
        text = error.problem if isinstance(error, ConfigError | MeasurementError) else str(error)
        return text.strip().partition("\n")[0], hint_for(error, "") or hint_of(text)
    return "", ""


def ask_redis(url: str, timeout_s: float) -> None:
    """Send PING to Redis. Raise BrokerError if there is no answer, ConfigError without a client library."""
    from tuner.adapters.queues.redis_queue import asking, connect_redis

    client = connect_redis(url, timeout_s)
    try:
        with asking(url):
            client.ping()
    finally:
        client.close()


def ask_rabbitmq(url: str, timeout_s: float) -> None:
    """Connect to RabbitMQ and open a channel. Raise BrokerError or ConfigError like `ask_redis`."""
    from tuner.adapters.queues.rabbitmq_link import Link

    link = Link(url, timeout_s)
    try:
        with link.asking():
            link.reach()
    finally:
        link.close()


def ask_postgres(url: str, timeout_s: float) -> None:
    """Run ``select 1``. Raise MeasurementError without an answer, ConfigError without a client library."""
    from tuner.adapters.probes.postgres_database import PostgresDatabase, check_postgres_url

    check_postgres_url(url)
    with PostgresDatabase(url, timeout_s) as database:
        database.rows("select 1")


def ask_sqlite(file: Path) -> None:
    """Open a database file for reading. Raise MeasurementError if this fails."""
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise MeasurementError(f"{file}: {error.strerror}") from error


def ask_tcp(host: str, port: int) -> None:
    """Connect and disconnect. Raise MeasurementError if the connection is not accepted."""
    if problem := TcpAnswer(host, port).lacks(()):
        raise MeasurementError(problem)


def ask_http(url: str) -> None:
    """Send a GET request, like a probe. Raise MeasurementError without an answer, or for a status >= 500."""
    if problem := HttpAnswer(url).lacks(()):
        raise MeasurementError(problem)


def shown_server(url: str) -> str:
    """Return *url* without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _host_addresses() -> frozenset[str]:
    import psutil

    return frozenset(
        one.address.partition("%")[0] for found in psutil.net_if_addrs().values() for one in found
    )
