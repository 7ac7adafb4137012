"""Talks to a supervisord over its unix socket: with a timeout, one connection per call, nothing left open.

The transport that comes with supervisor has no timeout, leaks its socket, and after one failed connect only
ever raises CannotSendRequest; hence this one.
"""

from __future__ import annotations

import http.client
import socket
import xmlrpc.client
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

CALL_TIMEOUT_S = 10.0  #: answers take milliseconds, some 100 ms while it starts 24 workers


class SupervisordRpc:
    """The calls a launch needs. Each raises OSError when supervisord cannot be reached or does not answer."""

    def __init__(self, socket_path: Path, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._path = socket_path
        self.timeout_s = timeout_s

    def states(self) -> dict[str, tuple[str, int]]:
        """Process name -> its state by name and its pid, 0 when it has none."""
        processes = self._call("supervisor.getAllProcessInfo")
        return {process["name"]: (process["statename"], process["pid"]) for process in processes}

    def stop_group(self, name: str) -> None:
        """Send every process of the group its stop signal; returns before they have ended."""
        self._call("supervisor.stopProcessGroup", name, False)

    def shutdown(self) -> None:
        """End supervisord; what still runs is stopped first."""
        self._call("supervisor.shutdown")

    def _call(self, method: str, *arguments: str | bool) -> Any:
        body = xmlrpc.client.dumps(arguments, method).encode()
        connection = _UnixConnection(self._path, self.timeout_s)
        try:
            connection.request("POST", "/RPC2", body, {"Content-Type": "text/xml", "Connection": "close"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise ConnectionError(f"supervisord answered {method} with status {answer.status}")
            return xmlrpc.client.loads(text)[0][0]
        except (http.client.HTTPException, xmlrpc.client.Error, ExpatError) as error:
            raise ConnectionError(f"supervisord did not answer {method}: {error}") from error
        finally:
            connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(str(self._path))
        except BaseException:
            self.close()
            raise
