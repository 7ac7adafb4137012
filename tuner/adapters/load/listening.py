"""Where the processes of a service listen, by the kernel's tables of sockets."""

from __future__ import annotations

import os
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.load.workers import sockets_of

_LISTEN = b"0A"  #: TCP_LISTEN in the kernel's include/net/tcp_states.h
_ACCEPTS, _STREAM = 1 << 16, 1  #: __SO_ACCEPTCON, and SOCK_STREAM, as /proc/net/unix shows them
_ANYWHERE = ("0.0.0.0", "::")
_MOST_PROCESSES = 4096  #: that are looked into


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A place that accepts connections, as a client on this host reaches it."""

    host: str  #: an IP address, or the whole path of a unix socket
    port: int = 0  #: 0: a unix socket
    is_anywhere: bool = False  #: it listens at every address of the host

    def __str__(self) -> str:
        if self.host.startswith("/"):
            return f"unix:{self.host}"
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def answers_at(self, host: str, port: int) -> bool:
        """Whether a client that connects to *host* and *port* reaches it; a name is taken for one of ours."""
        if host.startswith("/") or self.host.startswith("/"):
            return os.path.realpath(host) == os.path.realpath(self.host)
        return port == self.port and (self.is_anywhere or host == self.host or not _is_ip(host))


def listening_at(pids: Iterable[int]) -> Sequence[Address]:
    """Where *pids* and the processes that they started listen; what most of them share comes first.

    Nothing is seen of the processes of another user, nor of another network namespace that we cannot enter.
    """
    everyone = _with_descendants(pids)
    places: dict[int, Address] = {}
    holders: Counter[Address] = Counter()
    seen: set[str] = set()
    for pid in everyone:
        inodes = set(map(int, sockets_of(pid)))
        if inodes and (namespace := _namespace(pid)) not in seen:
            seen.add(namespace)
            places |= _listening_sockets(pid)
        holders.update({places[inode] for inode in inodes & places.keys()})
    return sorted(holders, key=lambda one: (-holders[one], one.port == 0, one))


def _with_descendants(pids: Iterable[int]) -> list[int]:
    found = list(dict.fromkeys(pids))
    for pid in found:  # grows meanwhile
        if len(found) >= _MOST_PROCESSES:
            break
        found += [child for child in _children(pid) if child not in found]
    return found


def _children(pid: int) -> Iterator[int]:
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    except OSError:  # it ended, or the kernel has no such file
        return


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _listening_sockets(pid: int) -> dict[int, Address]:
    """Each socket that listens in the network namespace of *pid*, by its inode."""
    found: dict[int, Address] = {}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for fields in _rows(pid, table):
            if fields[3] == _LISTEN:
                address, _, port = fields[1].partition(b":")
                found[int(fields[9])] = _address(_ip(address, family), int(port, 16))
    for fields in _rows(pid, "unix"):
        is_listening = int(fields[3], 16) & _ACCEPTS and int(fields[4], 16) == _STREAM
        if is_listening and len(fields) > 7 and not fields[7].startswith(b"@"):  # @: no path
            found[int(fields[6])] = Address(_whole_path(pid, os.fsdecode(b" ".join(fields[7:]))))
    return found


def _rows(pid: int, table: str) -> Iterator[list[bytes]]:
    try:
        lines = Path(f"/proc/{pid}/net/{table}").read_bytes().splitlines()[1:]
    except OSError:  # it has ended, or there is no IPv6
        return
    yield from map(bytes.split, lines)


def _ip(written: bytes, family: socket.AddressFamily) -> str:
    """An IP address as text; the kernel writes it as numbers of 32 bits in the order of this machine."""
    words = [int(written[at : at + 8], 16) for at in range(0, len(written), 8)]
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


def _address(ip: str, port: int) -> Address:
    if ip in _ANYWHERE:  # one of IPv6 takes IPv4, too, unless it was told not to
        return Address("127.0.0.1" if ip == "0.0.0.0" or not _is_ipv6_only() else "::1", port, True)
    return Address(ip.removeprefix("::ffff:"), port)


def _is_ipv6_only() -> bool:
    """Whether sockets at ``::`` take no IPv4 on this host, unless they ask for it."""
    try:
        return Path("/proc/sys/net/ipv6/bindv6only").read_text(encoding="ascii").strip() == "1"
    except OSError:
        return False


def _whole_path(pid: int, path: str) -> str:
    """The whole path of a unix socket that *pid* may have bound by a path from its folder."""
    try:
        return path if path.startswith("/") else os.path.join(os.readlink(f"/proc/{pid}/cwd"), path)
    except OSError:
        return path


def _is_ip(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
