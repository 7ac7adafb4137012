"""Ready check that passes when an address accepts connections."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from tuner.config.kinds import ReadySettings
from tuner.core.domain.layout import Layout

_ANSWER_S = 5.0  #: time limit for a connection


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("should be an address, as 127.0.0.1:8000")
    return text


Address = Annotated[str, AfterValidator(_address)]


class TcpReady(ReadySettings):
    """The service is ready when an address accepts connections."""

    condition: ClassVar[str] = "address"
    kind: Literal["tcp"]  #: Kind of check
    address: Address  #: Address of the service, HOST:PORT

    @property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """See `ReadySettings`."""
        return {"address": self._host_and_port}

    def build(self, _layout: Layout, _directory: Path | None) -> TcpAnswer:
        """See `ReadySettings`."""
        return TcpAnswer(*self._host_and_port)

    @property
    def _host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class TcpAnswer:
    """Passes when an address accepts connections."""

    host: str
    port: int

    def lacks(self, logs: Sequence[Path]) -> str:  # noqa: ARG002, D102
        try:
            socket.create_connection((self.host, self.port), timeout=_ANSWER_S).close()
        except OSError as error:
            return f"nobody listens at {self.host}:{self.port}: {error}"
        return ""
