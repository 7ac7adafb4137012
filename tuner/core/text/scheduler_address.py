"""Where the scheduler of a fleet is, and whether it may be spoken to as it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.errors import ConfigError
from tuner.core.text.address import Address, parse_address

PORT = 8786  #: Dask's own
_EXAMPLE = f"As tls://staging-1:{PORT} with --certs DIR, or tcp://127.0.0.1:{PORT} behind a tunnel."
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
        raise ConfigError(f"{text[:80]!r} is no address of a scheduler", hint=_EXAMPLE)
    if not rest.rpartition(":")[0]:
        raise ConfigError(f"{text[:80]!r} names no host, or no port", hint=_EXAMPLE)
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
