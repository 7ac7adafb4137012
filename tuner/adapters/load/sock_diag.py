"""Sockets of this network namespace, from the kernel's netlink interface: sock_diag(7).

The kernel looks up each connection by its addresses. /proc/net/tcp takes milliseconds of CPU, because the
kernel then searches its whole table of connections, which is large on hosts with much memory.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

_SOCK_DIAG, _BY_FAMILY, _REQUEST, _DUMP, _ERROR, _DONE = 4, 20, 0x1, 0x301, 2, 3  # netlink(7)
_HEAD, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_UNIX_ROW = struct.Struct("=BBBBIII")
_ESTABLISHED, _CLOSE_WAIT, _LISTEN = 1, 8, 10  #: states of TCP in the kernel's include/net/tcp_states.h
_SHOW_PEER, _PEER = 1 << 2, 2

# struct inet_diag_req_v2 and the start of struct inet_diag_msg: the kernel's include/uapi/linux/inet_diag.h
_TCP_REQUEST, _ANY_COOKIE = struct.Struct("=BBBxI2s2s16s16sIII"), 0xFFFFFFFF
_TCP_ROW = struct.Struct("=BBxx2s2s16s16s12x16xI")
_PORT = struct.Struct("!H")
_AT_ONCE = 64  #: lookups in one message; the answers to more may not fit into the socket's buffer
_MOST_WAIT_S = 1.0  #: the kernel answers at once


class NetlinkError(Exception):
    """The kernel does not offer these lookups, or a sandbox forbids them."""


class Ends(NamedTuple):
    """The two addresses of a TCP connection that tuner opened."""

    host: str
    port: int
    server_host: str
    server_port: int


@dataclass(frozen=True, slots=True)
class UnixRow:
    """A unix socket."""

    inode: bytes
    peer: int | None  #: inode of the socket at the other end; None: it listens


def server_inodes(connections: Sequence[Ends]) -> Iterator[tuple[Ends, bytes]]:
    """Yield the inode of the server's socket of each of *connections*, as in /proc/net/tcp.

    ``0``: the server has not accepted the connection. Connections that do not end in this network namespace
    are left out, and all if the kernel has no such lookup for TCP.

    Raises:
        NetlinkError: this host has no netlink interface for sockets.
    """
    with _netlink() as asking:
        for at in range(0, len(connections), _AT_ONCE):
            some = connections[at : at + _AT_ONCE]
            asking.send(b"".join(_message(_tcp(one), _REQUEST, n) for n, one in enumerate(some)))
            n_answers = 0
            while n_answers < len(some):
                for kind, number, row in _messages(asking.recv(1 << 16)):
                    n_answers += 1
                    if kind == _BY_FAMILY:
                        _, state, *_, inode = _TCP_ROW.unpack_from(row)
                        if state in (_ESTABLISHED, _CLOSE_WAIT):
                            yield some[number], b"%d" % inode


def listening_inodes(ports: Sequence[int]) -> set[bytes]:
    """Return the inodes of the TCP sockets that listen at *ports*.

    Raises:
        NetlinkError: as for `server_inodes`.
    """
    wanted = {_PORT.pack(port) for port in ports}
    found = set()
    for family in (socket.AF_INET, socket.AF_INET6):
        nothing = bytes(2), bytes(2), bytes(16), bytes(16), 0, _ANY_COOKIE, _ANY_COOKIE
        asked = _TCP_REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTEN, *nothing)
        for row in _dump(asked):
            _, _, port, *_, inode = _TCP_ROW.unpack_from(row)
            if port in wanted:
                found.add(b"%d" % inode)
    return found


def unix_rows() -> Iterator[UnixRow]:
    """Yield each connected or listening unix socket of this host; /proc/net/unix does not list peers.

    The end that waits to be accepted has no inode yet.

    Raises:
        NetlinkError: as for `server_inodes`.
    """
    states = 1 << _ESTABLISHED | 1 << _LISTEN
    for row in _dump(_UNIX_ROW.pack(socket.AF_UNIX, 0, 0, 0, states, 0, _SHOW_PEER) + bytes(8)):
        yield _unix_row(row)


def _tcp(one: Ends) -> bytes:
    """Return the request for the server's end of a connection."""
    family, theirs = _address(one.server_host)
    _, ours = _address(one.host)
    ports = _PORT.pack(one.server_port), _PORT.pack(one.port)
    return _TCP_REQUEST.pack(
        family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF, *ports, theirs, ours, 0, _ANY_COOKIE, _ANY_COOKIE
    )


@cache
def _address(host: str) -> tuple[int, bytes]:
    """Return the family and the bytes of an IP address, for all connections."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return family, socket.inet_pton(family, host.partition("%")[0]).ljust(16, b"\0")


@contextmanager
def _netlink() -> Iterator[socket.socket]:
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asking:
            asking.settimeout(_MOST_WAIT_S)
            asking.connect((0, 0))
            yield asking
    except OSError as error:
        raise NetlinkError(str(error)) from error


def _message(request: bytes, flags: int, number: int) -> bytes:
    return _HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, flags, number, 0) + request


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the kind, the number and the content of each message."""
    while len(data) >= _HEAD.size:
        length, kind, _, number, _ = _HEAD.unpack_from(data)
        if length < _HEAD.size:
            return
        yield kind, number, data[_HEAD.size : length]
        data = data[(length + 3) & ~3 :]


def _dump(request: bytes) -> Iterator[bytes]:
    with _netlink() as asking:
        asking.send(_message(request, _DUMP, 1))
        while True:
            for kind, _, row in _messages(asking.recv(1 << 20)):
                if kind in (_DONE, _ERROR):
                    return
                yield row


def _unix_row(row: bytes) -> UnixRow:
    """Return the socket of one message: its inode, and the inode of its peer among the attributes."""
    inode, at = b"%d" % struct.unpack_from("=I", row, 4)[0], 16
    while at + _ATTRIBUTE.size <= len(row):
        length, kind = _ATTRIBUTE.unpack_from(row, at)
        if kind == _PEER:
            return UnixRow(inode, struct.unpack_from("=I", row, at + _ATTRIBUTE.size)[0])
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return UnixRow(inode, None)
