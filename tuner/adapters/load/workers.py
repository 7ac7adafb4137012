"""Which worker process holds which connection, by the kernel's tables of sockets."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

Peer = int  #: what both ends of a connection are known by: the client's port, or the inode of its unix socket
_SOCKET = "socket:["
_OPEN, _LISTENING = (b"01", b"08"), b"0A"  #: ESTABLISHED, CLOSE_WAIT; LISTEN
_NOT_ACCEPTED = b"0"  #: the inode of a connection that waits in the listen queue

_SOCK_DIAG, _BY_FAMILY, _DUMP, _DONE, _ERROR = 4, 20, 0x301, 3, 2  # sock_diag(7), netlink(7)
_HEAD, _UNIX_ROW, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBIII"), struct.Struct("=HH")
_STATES = 1 << 1 | 1 << 10  #: ESTABLISHED, LISTEN
_SHOW_PEER, _PEER = 1 << 2, 2


@dataclass(frozen=True, slots=True)
class _Row:
    """A socket of the service's end."""

    inode: bytes
    peer: Peer | None  #: None: it listens


class Workers:
    """The worker processes of one service, and the connections that each of them has accepted."""

    def __init__(self, ports: Sequence[int]) -> None:
        """*ports* are where the service listens; none: at a unix socket."""
        self._endings = tuple(b":%04X" % port for port in ports)
        self._pids: tuple[int, ...] = ()
        self._accepting: tuple[int, ...] = ()
        self._owners: dict[bytes, int] = {}  #: pid by the inode of a socket

    @property
    def accepting(self) -> tuple[int, ...]:
        """Those of the processes that accept connections, by the last look: a master may have other children
        (Python's resource tracker)."""
        return self._accepting

    def holders(self, pids: Sequence[int], peers: Iterable[Peer]) -> dict[Peer, int]:
        """Which of *pids* has accepted the connection of each of *peers*; 0: none has, it waits for one.

        A connection that is not to be seen is left out: another process has it (a proxy), or the service's
        files are hidden from us.
        """
        is_new = tuple(pids) != self._pids
        self._pids = tuple(pids)
        wanted, rows = frozenset(peers), [*self._rows()]
        inodes = {row.peer: row.inode for row in rows if row.peer is not None and row.peer in wanted}
        if is_new or any(one != _NOT_ACCEPTED and one not in self._owners for one in inodes.values()):
            self._look_into_processes({row.inode for row in rows if row.peer is None})
        return {
            peer: 0 if inode == _NOT_ACCEPTED else self._owners[inode]
            for peer, inode in inodes.items()
            if inode == _NOT_ACCEPTED or inode in self._owners
        }

    def _look_into_processes(self, listening: Set[bytes]) -> None:
        sockets = {pid: frozenset(sockets_of(pid)) for pid in self._pids}
        self._accepting = tuple(pid for pid, own in sockets.items() if own & listening)
        self._owners = {inode: pid for pid in self._accepting for inode in sockets[pid]}

    def _rows(self) -> Iterator[_Row]:
        """The sockets of the service's end of each connection, and those that it listens at."""
        if not self._endings:
            yield from _unix_rows()
            return
        for pid in self._pids[:1]:  # all are in one network namespace
            for table in ("tcp", "tcp6"):
                try:
                    rows = Path(f"/proc/{pid}/net/{table}").read_bytes().splitlines()[1:]
                except OSError:  # it has ended, or there is no IPv6
                    continue
                for row in rows:
                    if not any(ending in row for ending in self._endings):
                        continue
                    fields = row.split()
                    if not fields[1].endswith(self._endings):
                        continue
                    if fields[3] == _LISTENING:
                        yield _Row(fields[9], None)
                    elif fields[3] in _OPEN:
                        yield _Row(fields[9], int(fields[2].rpartition(b":")[2], 16))


def sockets_of(pid: int) -> Iterator[bytes]:
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


def _unix_rows() -> Iterator[_Row]:
    """Each unix socket here that is connected or listens: /proc/net/unix does not say who is whose peer.

    The end that waits to be accepted has no inode of its own yet.
    """
    request = _UNIX_ROW.pack(socket.AF_UNIX, 0, 0, 0, _STATES, 0, _SHOW_PEER) + bytes(8)
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
                yield _unix_row(data[_HEAD.size : length])
                data = data[(length + 3) & ~3 :]


def _unix_row(row: bytes) -> _Row:
    """One message: a socket's own inode, and among its attributes that of its peer."""
    inode, at = b"%d" % struct.unpack_from("=I", row, 4)[0], 16
    while at + _ATTRIBUTE.size <= len(row):
        length, kind = _ATTRIBUTE.unpack_from(row, at)
        if kind == _PEER:
            return _Row(inode, struct.unpack_from("=I", row, at + _ATTRIBUTE.size)[0])
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return _Row(inode, None)
