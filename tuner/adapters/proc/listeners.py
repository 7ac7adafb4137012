"""Processes on this host that listen at the addresses of servers in a config."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tuner.core.messages.host import backend_found
from tuner.core.text.address import BackendAddress
from tuner.ports import Warn

_PEER = struct.Struct("3i")  #: pid, uid and gid, as in SO_PEERCRED
_PATIENCE_S = 1.0
#: programs that forward to a server elsewhere, which cannot be found by the address
_FORWARDERS = ("docker-proxy", "rootlessport", "ssh", "kubectl", "socat")


@dataclass(frozen=True, slots=True)
class Listener:
    """A process that listens; pid 0 and an empty name if the kernel hides the owner of the socket."""

    pid: int
    program: str


def listener_at(address: BackendAddress) -> Listener | None:
    """Return the process that listens at a port of this host, or None. No connection is made."""
    import psutil  # 40 ms

    for one in psutil.net_connections("tcp"):
        if one.status == psutil.CONN_LISTEN and one.laddr and address.is_at(one.laddr.ip, one.laddr.port):
            return Listener(one.pid or 0, _program(one.pid) if one.pid else "")
    return None


class Listeners:
    """Search for the processes that listen at *addresses*; *warn* reports each of them once.

    Hidden processes are left out: those in another container, or of another user unless tuner is root. So are
    this process, its ancestors (a shell that forwards a port), and init, which listens for services that it
    starts later.
    """

    def __init__(self, addresses: Sequence[BackendAddress], warn: Warn) -> None:
        self._addresses = addresses
        self._warn = warn
        self._reported: set[tuple[BackendAddress, str]] = set()

    def pids(self) -> frozenset[int]:
        """Return the current listeners. It takes some milliseconds, more with a thousand processes."""
        spared = _ancestor_pids() if self._addresses else frozenset[int]()
        found = {pid: address for address, pid in self._find_pids() if pid not in spared}
        for pid, address in found.items():
            name = _program(pid)
            if name and (address, name) not in self._reported:
                self._reported.add((address, name))
                self._warn(*backend_found(name, pid, f"{address}", forwards=name in _FORWARDERS))
        return frozenset(found)

    def _find_pids(self) -> Iterator[tuple[BackendAddress, int]]:
        ports = [address for address in self._addresses if not address.path]
        for address in self._addresses:
            if address.path and (pid := _listening_at_socket(address.path)):
                yield address, pid
        if not ports:
            return
        import psutil  # 40 ms, and most studies have no such address

        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.pid is not None and one.laddr:
                for address in ports:
                    if address.is_at(one.laddr.ip, one.laddr.port):
                        yield address, one.pid


def _listening_at_socket(path: str) -> int | None:
    """Return the pid that listens at a unix socket, by connecting: the kernel's path may differ."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as asking:
        asking.settimeout(_PATIENCE_S)
        try:
            asking.connect(path)
            reported = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        except (OSError, ValueError):  # no process listens, or it is not a path
            return None
    pid: int = _PEER.unpack(reported)[0]
    return pid or None  # 0: it is in another container


def _ancestor_pids() -> frozenset[int]:
    """Return the pids of this process, its ancestors, and init."""
    line, pid = {1}, os.getpid()
    while pid > 1 and pid not in line:
        line.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:  # it has ended
            break
    return frozenset(line)


def _program(pid: int) -> str:
    """Return the program name of *pid*, as printed by `top`; empty if it has ended."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
