"""Mapping of connections to worker processes, from the kernel's socket tables."""

from __future__ import annotations

import os
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.load.sock_diag import Ends, NetlinkError, listening_inodes, server_inodes, unix_rows

Peer = Ends | int  #: identifies a connection: its addresses, or the inode of our unix socket
_SOCKET = "socket:["
_OPEN, _LISTENING = (b"01", b"08"), b"0A"  #: ESTABLISHED, CLOSE_WAIT; LISTEN
_NOT_ACCEPTED = b"0"  #: inode of a connection in the listen queue


class Workers:
    """The worker processes of one service, and the connections that each of them has accepted."""

    def __init__(self, ports: Sequence[int]) -> None:
        """Set up the lookup; *ports* are those the service listens at; none: a unix socket."""
        self._ports = tuple(ports)
        self._pids: tuple[int, ...] = ()
        self._is_searched = False  #: whether single connections can be looked up
        self._accepting: tuple[int, ...] = ()
        self._owners: dict[bytes, int] = {}  #: pid by inode of the socket

    @property
    def accepting(self) -> tuple[int, ...]:
        """Return the processes that accept connections, by the last lookup: a master may have other children
        (Python's resource tracker).
        """
        return self._accepting

    def holders(self, pids: Sequence[int], peers: Iterable[Peer]) -> dict[Peer, int]:
        """Return which of *pids* accepted the connection of each of *peers*; 0: it waits to be accepted.

        A connection that is not visible is left out: another process (a proxy) has it, or its owner's files
        are not readable.
        """
        if is_new := tuple(pids) != self._pids:
            self._pids = tuple(pids)
            self._is_searched = bool(self._ports) and _share_our_network(self._pids)
        inodes = self._inodes(frozenset(peers))
        if is_new or any(one != _NOT_ACCEPTED and one not in self._owners for one in inodes.values()):
            self._look_into_processes(self._listening())
        return {
            peer: 0 if inode == _NOT_ACCEPTED else self._owners[inode]
            for peer, inode in inodes.items()
            if inode == _NOT_ACCEPTED or inode in self._owners
        }

    def _inodes(self, peers: Set[Peer]) -> dict[Peer, bytes]:
        """Return the inode of the service's socket of each connection."""
        if self._is_searched:
            try:
                connections = [one for one in peers if isinstance(one, Ends)]
                found: dict[Peer, bytes] = dict(server_inodes(connections))
                if found or not peers:
                    return found
            except NetlinkError:
                self._is_searched = False
        listed, _ = self._list_sockets(peers)
        self._is_searched = self._is_searched and not listed  # the kernel has no lookup for TCP
        return listed

    def _listening(self) -> Set[bytes]:
        """Return the inodes of the service's listening sockets."""
        if self._is_searched:
            try:
                return listening_inodes(self._ports)
            except NetlinkError:
                self._is_searched = False
        _, listening = self._list_sockets(frozenset())
        return listening

    def _list_sockets(self, peers: Set[Peer]) -> tuple[dict[Peer, bytes], Set[bytes]]:
        """Return the inodes of the service's sockets, connected and listening, from lists of all sockets."""
        if not self._ports:
            try:
                rows = [*unix_rows()]
            except NetlinkError:
                return {}, set()
            of_peers: dict[Peer, bytes] = {}
            of_peers |= {row.peer: row.inode for row in rows if row.peer is not None and row.peer in peers}
            return of_peers, {row.inode for row in rows if row.peer is None}
        by_port = {one.port: one for one in peers if isinstance(one, Ends)}
        of_peers, listening = {}, set()
        for inode, state, port in self._tcp_rows():
            if state == _LISTENING:
                listening.add(inode)
            elif state in _OPEN and port in by_port:
                of_peers[by_port[port]] = inode
        return of_peers, listening

    def _look_into_processes(self, listening: Set[bytes]) -> None:
        sockets = {pid: frozenset(sockets_of(pid)) for pid in self._pids}
        self._accepting = tuple(pid for pid, own in sockets.items() if own & listening)
        self._owners = {inode: pid for pid in self._accepting for inode in sockets[pid]}

    def _tcp_rows(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the inode, the state and the port at the other end of each socket at the service's ports."""
        endings = tuple(b":%04X" % port for port in self._ports)
        for pid in self._pids[:1]:  # all are in one network namespace
            for table in ("tcp", "tcp6"):
                for fields in _rows(pid, table, with_one_of=endings):
                    if fields[1].endswith(endings):
                        yield fields[9], fields[3], int(fields[2].rpartition(b":")[2], 16)


def _share_our_network(pids: Sequence[int]) -> bool:
    """Return whether *pids* are in tuner's network namespace."""
    return bool(pids) and _namespace(pids[0]) == _namespace(os.getpid()) != ""


def sockets_of(pid: int) -> Iterator[bytes]:
    """Yield the inodes of the open sockets of *pid*; none if it has ended or is not readable."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                try:
                    target = os.readlink(entry.path)
                except OSError:  # closed meanwhile
                    continue
                if target.startswith(_SOCKET):
                    yield target[len(_SOCKET) : -1].encode()
    except OSError:
        return


def peer_of(connected: socket.socket) -> Peer:
    """Return the identity of our end of *connected*."""
    if connected.family == socket.AF_UNIX:
        return os.fstat(connected.fileno()).st_ino
    return Ends(*connected.getsockname()[:2], *connected.getpeername()[:2])


# Listening addresses of the processes of a service, from the kernel's socket tables.

_ACCEPTS, _STREAM = 1 << 16, 1  #: __SO_ACCEPTCON and SOCK_STREAM as in /proc/net/unix
_ANYWHERE = ("0.0.0.0", "::")
_MOST_PROCESSES = 4096  #: largest number of processes that are examined


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A listening address, as clients on this host reach it."""

    host: str  #: IP address, or the whole path of a unix socket
    port: int = 0  #: 0: unix socket
    is_anywhere: bool = False  #: whether it listens at every address of the host

    def __str__(self) -> str:
        if self.host.startswith("/"):
            return f"unix:{self.host}"
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def answers_at(self, host: str, port: int) -> bool:
        """Return whether a client that connects to *host* and *port* reaches it; names are taken as this
        host's.
        """
        if host.startswith("/") or self.host.startswith("/"):
            return os.path.realpath(host) == os.path.realpath(self.host)
        return port == self.port and (self.is_anywhere or host == self.host or not _is_ip(host))


def listening_at(pids: Iterable[int]) -> Sequence[Address]:
    """Return the addresses at which *pids* and their children listen, the most shared one first.

    Processes of other users, and network namespaces that tuner cannot enter, are not visible.
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
    """Return each listening socket in the network namespace of *pid*, by its inode."""
    found: dict[int, Address] = {}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for fields in _rows(pid, table):
            if fields[3] == _LISTENING:
                address, _, port = fields[1].partition(b":")
                found[int(fields[9])] = _address(_ip(address, family), int(port, 16))
    for fields in _rows(pid, "unix"):
        is_listening = int(fields[3], 16) & _ACCEPTS and int(fields[4], 16) == _STREAM
        if is_listening and len(fields) > 7 and not fields[7].startswith(b"@"):  # @: not a path
            found[int(fields[6])] = Address(_whole_path(pid, os.fsdecode(b" ".join(fields[7:]))))
    return found


def _rows(pid: int, table: str, with_one_of: Sequence[bytes] = ()) -> Iterator[list[bytes]]:
    """Yield the fields of each line of a table, only of those with one of these texts if there are any."""
    try:
        lines = Path(f"/proc/{pid}/net/{table}").read_bytes().splitlines()[1:]
    except OSError:  # it has ended, or there is no IPv6
        return
    if with_one_of:
        lines = [line for line in lines if any(text in line for text in with_one_of)]
    yield from map(bytes.split, lines)


def _ip(written: bytes, family: socket.AddressFamily) -> str:
    """Return an IP address as text; the kernel writes it as 32-bit numbers in native byte order."""
    words = [int(written[at : at + 8], 16) for at in range(0, len(written), 8)]
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


def _address(ip: str, port: int) -> Address:
    if ip in _ANYWHERE:  # an IPv6 socket accepts IPv4, too, unless set otherwise
        return Address("127.0.0.1" if ip == "0.0.0.0" or not _is_ipv6_only() else "::1", port, True)
    return Address(ip.removeprefix("::ffff:"), port)


def _is_ipv6_only() -> bool:
    """Return whether sockets at ``::`` accept no IPv4 by default on this host."""
    try:
        return Path("/proc/sys/net/ipv6/bindv6only").read_text(encoding="ascii").strip() == "1"
    except OSError:
        return False


def _whole_path(pid: int, path: str) -> str:
    """Return the absolute path of a unix socket that *pid* may have bound relative to its folder."""
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
