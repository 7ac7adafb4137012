"""Ready check that passes when a URL answers."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator

from tuner.adapters.load.answer import FinalResponse
from tuner.adapters.load.first_answer import tls_context
from tuner.config.kinds import ReadySettings
from tuner.core.domain.layout import Layout
from tuner.core.text.http_request import is_loopback

_ANSWER_S = 5.0  #: time limit for one answer of the service
_NO_ANSWER = 500  #: lowest status with which a server reports that it cannot answer


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("should be a url, as http://127.0.0.1:8000/")
    _check_port(parts.netloc, lambda: parts.port)
    return text


def _check_port(text: str, port: Any) -> None:
    try:
        port()
    except ValueError as error:
        raise ValueError(f"{text} has no port that could be: {error}") from error


Url = Annotated[str, AfterValidator(_url)]


class HttpReady(ReadySettings):
    """The service is ready when a URL answers."""

    condition: ClassVar[str] = "url"
    kind: Literal["http"]  #: Kind of check
    url: Url  #: URL that tuner requests until the status of the answer is below 500

    @property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """See `ReadySettings`."""
        parts = urlsplit(self.url)
        default = 443 if parts.scheme == "https" else 80
        return {"url": (parts.hostname or "", parts.port or default)}

    def build(self, _layout: Layout, _directory: Path | None) -> HttpAnswer:
        """See `ReadySettings`."""
        return HttpAnswer(self.url)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Passes when a URL answers with any status below 500."""

    url: str

    def lacks(self, logs: Sequence[Path]) -> str:  # noqa: ARG002, D102
        parts = urlsplit(self.url)
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
        connection.response_class = FinalResponse
        try:
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return f"{self.url} does not answer: {error or type(error).__name__}"
        finally:
            connection.close()
        return f"{self.url} answers with status {status}" if status >= _NO_ANSWER else ""

    @staticmethod
    def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
        context = tls_context(checks_certificate=not is_loopback(host))
        return http.client.HTTPSConnection(host, port, timeout=_ANSWER_S, context=context)
