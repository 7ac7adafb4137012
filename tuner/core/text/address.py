"""Where something listens: an address of this box and a port."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from tuner.core.errors import ConfigError

LOOPBACK = "127.0.0.1"
_EXAMPLE = "Examples: 127.0.0.1:9188, [::1]:9188, or 9188 for this host only."
_MOST_HOST = 253  #: characters of a name


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to listen at."""

    host: str  #: an IP address without brackets, or a name
    port: int  #: 0..65535; 0: any that is free

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port {self.port} is none: ports go from 1 to 65535")
        if not self.host or len(self.host) > _MOST_HOST or not self.host.isprintable() or " " in self.host:
            raise ConfigError(f"{self.host[:80]!r} is no address to listen at", hint=_EXAMPLE)

    @property
    def is_loopback(self) -> bool:
        """Whether only this box can get there; not of a name, which may lead anywhere."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read ``127.0.0.1:9188``, ``[::1]:9188``, ``localhost:9188``, or a port alone: of this box only.

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
    elif (
        ":" in host or not host
    ):  # an IPv6 address without brackets; or :9188, which others take for everybody
        raise ConfigError(f"{text[:80]!r} names no address to listen at", hint=_EXAMPLE)
    return listening_at(host, int(port))


def listening_at(host: str, port: int) -> Address:
    """*host* and *port* as an address; localhost is IPv4's, which every box has."""
    return Address(LOOPBACK if host == "localhost" else host, port)


# Where the scheduler of a fleet is, and whether it may be spoken to as it is asked for.

PORT = 8786  #: Dask's own
_SCHEDULER_EXAMPLE = (
    f"Example: tls://staging-1:{PORT} with --certs DIR, or tcp://127.0.0.1:{PORT} behind a tunnel."
)
_OPEN = (
    "Anyone who reaches it can run code there: encrypt it (tuner fleet certs DIR, then tls:// and --certs"
    " DIR), use 127.0.0.1 and a tunnel, or insist with --force."
)


@dataclass(frozen=True, slots=True)
class SchedulerAddress:
    """An address, and whether what goes there is encrypted."""

    address: Address
    is_encrypted: bool

    def __str__(self) -> str:
        return f"{'tls' if self.is_encrypted else 'tcp'}://{self.address}"


def parse_scheduler(text: str, *, has_certs: bool, is_forced: bool) -> SchedulerAddress:
    """Read ``tls://HOST:PORT`` or ``tcp://HOST:PORT``; without either, tls where there are certificates.

    Raises:
        ConfigError: *text* is none of these, does not fit the certificates, or is open to others.
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
    """Before anything listens or speaks there.

    Raises:
        ConfigError: anybody else could, and nobody insists.
    """
    if has_certs and not where.is_encrypted:
        raise ConfigError(
            f"{where} is not encrypted, but --certs is given", hint="Write tls://, or leave out --certs."
        )
    if not where.is_encrypted and not where.address.is_loopback and not is_forced:
        raise ConfigError(f"{where} is reachable from other hosts", hint=_OPEN)
