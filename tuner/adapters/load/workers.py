"""Which worker process holds which connection, by the kernel's tables of sockets."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

Peer = int  #: what both ends of a connection are known by: the client's port, or the inode of its unix socket
_SOCKET = "socket:["
_OPEN = (b"01", b"08")  #: ESTABLISHED, CLOSE_WAIT
_NOT_ACCEPTED = b"0"  #: the inode of a connection that waits in the listen queue

_SOCK_DIAG, _BY_FAMILY, _DUMP, _DONE, _ERROR = 4, 20, 0x301, 3, 2  # sock_diag(7), netlink(7)
_HEAD, _UNIX_ROW, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBIII"), struct.Struct("=HH")
_ESTABLISHED, _SHOW_PEER, _PEER = 1 << 1, 1 << 2, 2


class Workers:
    """The worker processes of one service, and the connections that each of them has accepted."""

    def __init__(self, port: int | None) -> None:
        """*port* is where the service listens; None: at a unix socket."""
        self._port = port
        self._pids: tuple[int, ...] = ()
        self._owners: dict[bytes, int] = {}  #: pid by the inode of a socket

    def holders(self, pids: Sequence[int], peers: Iterable[Peer]) -> dict[Peer, int]:
        """Which of *pids* has accepted the connection of each of *peers*; 0: none has, it waits for one.

        A connection that is not to be seen is left out: another process has it (a proxy), or the service's
        files are hidden from us.
        """
        if tuple(pids) != self._pids:
            self._pids, self._owners = tuple(pids), {}
        wanted = frozenset(peers)
        inodes = {peer: inode for peer, inode in self._inodes() if peer in wanted}
        if any(inode != _NOT_ACCEPTED and inode not in self._owners for inode in inodes.values()):
            self._owners = {inode: pid for pid in self._pids for inode in _sockets_of(pid)}
        return {
            peer: 0 if inode == _NOT_ACCEPTED else self._owners[inode]
            for peer, inode in inodes.items()
            if inode == _NOT_ACCEPTED or inode in self._owners
        }

    def _inodes(self) -> Iterator[tuple[Peer, bytes]]:
        """The client's end and the inode of the server's end of each connection to the service."""
        if self._port is None:
            yield from _unix_peers()
            return
        ending = b":%04X" % self._port
        for pid in self._pids[:1]:  # all are in one network namespace
            for table in ("tcp", "tcp6"):
                try:
                    rows = Path(f"/proc/{pid}/net/{table}").read_bytes().splitlines()[1:]
                except OSError:  # it has ended, or there is no IPv6
                    continue
                for row in rows:
                    if ending not in row:
                        continue
                    fields = row.split()
                    if fields[1].endswith(ending) and fields[3] in _OPEN:
                        yield int(fields[2].rpartition(b":")[2], 16), fields[9]


def _sockets_of(pid: int) -> Iterator[bytes]:
    """The inodes of the sockets that *pid* has open; none where it has ended, or hides them."""
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
    """What our end of *connected* is known by."""
    if connected.family == socket.AF_UNIX:
        return os.fstat(connected.fileno()).st_ino
    port: int = connected.getsockname()[1]
    return port


def _unix_peers() -> Iterator[tuple[Peer, bytes]]:
    """The inodes of both ends of each unix connection here: /proc/net/unix does not say who is whose peer.

    The end that waits to be accepted has no inode of its own yet.
    """
    request = _UNIX_ROW.pack(socket.AF_UNIX, 0, 0, 0, _ESTABLISHED, 0, _SHOW_PEER) + bytes(8)
    head = _HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, _DUMP, 1, 0)
    try:
        asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
    except OSError:  # a sandbox without it
        return
    with closing(asking):
        asking.sendto(head + request, (0, 0))
        while True:
            data = asking.recv(1 << 20)
            while len(data) >= _HEAD.size:
                length, kind, *_ = _HEAD.unpack_from(data)
                if kind in (_DONE, _ERROR) or length < _HEAD.size:
                    return
                yield from _unix_row(data[_HEAD.size : length])
                data = data[(length + 3) & ~3 :]


def _unix_row(row: bytes) -> Iterator[tuple[Peer, bytes]]:
    """One message: a socket's own inode, and among its attributes that of its peer."""
    own, at = struct.unpack_from("=I", row, 4)[0], 16
    while at + _ATTRIBUTE.size <= len(row):
        length, kind = _ATTRIBUTE.unpack_from(row, at)
        if length < _ATTRIBUTE.size:
            return
        if kind == _PEER:
            yield struct.unpack_from("=I", row, at + _ATTRIBUTE.size)[0], b"%d" % own
        at += (length + 3) & ~3


def counts_of(holders: Mapping[Peer, int], pids: Sequence[int]) -> list[int]:
    """How many connections each of *pids* has."""
    counts = dict.fromkeys(pids, 0)
    for pid in holders.values():
        if pid in counts:
            counts[pid] += 1
    return [counts[pid] for pid in pids]
