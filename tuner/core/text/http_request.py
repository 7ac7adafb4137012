"""HTTP requests as bytes, and errors in their parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import redact

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_WITH_BODY = ("POST", "PUT", "PATCH")
LONGEST_SOCKET_BYTES = 107  #: longest path of a unix socket; 108 with the final zero, see unix(7)
_OURS = ("content-length", "transfer-encoding", "connection", "expect")


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """The destination of a request."""

    host: str  #: host name or address, or the whole path of a unix socket
    port: int
    authority: str  #: host and port in the form of the Host header
    target: str  #: path and query
    is_tls: bool = False  #: whether the connection is encrypted

    @property
    def is_loopback(self) -> bool:
        """Whether the connection stays on this host, by the text of the address."""
        return self.host.startswith("/") or is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether *host* is this host by its name or address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def parse_url(text: str) -> HttpUrl:
    """Read ``http://HOST:PORT/PATH?QUERY``, the same with ``https``, or ``http+unix://SOCKET/PATH?QUERY``.

    The slashes in the path of a socket are written as ``%2F``.

    Raises:
        ConfigError: it is not such a URL.
    """
    hint = "Write it as http://127.0.0.1:8000/path, escaped as in a browser's address line."
    shown = redact(text)  # an error may be logged
    if _VISIBLE.fullmatch(text) is None:
        raise ConfigError(f"{shown!r} is no URL", hint=hint)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{shown} is no URL: {error}", hint=hint) from error
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme == "http+unix":
        return _unix_url(text, unquote(parts.netloc), "" if parts.fragment else target)
    is_tls = parts.scheme == "https"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"{shown} is no http URL", hint=hint)
    if "@" in parts.netloc or parts.fragment:
        raise ConfigError(
            f"{shown} has a user or a fragment, which are not sent",
            hint="Use an Authorization header for a user.",
        )
    return HttpUrl(parts.hostname, port or (443 if is_tls else 80), parts.netloc, target, is_tls)


def _unix_url(text: str, socket: str, target: str) -> HttpUrl:
    if not socket.startswith("/") or not target or len(socket.encode()) > LONGEST_SOCKET_BYTES:
        raise ConfigError(
            f"{text} names no unix socket, by a whole path of {LONGEST_SOCKET_BYTES} bytes at most",
            hint="Write it as http+unix://%2Frun%2Fapp.sock/path, the slashes of the socket's path as %2F.",
        )
    return HttpUrl(socket, 0, "localhost", target)


def check_method(method: str) -> str:
    """Return *method*; ConfigError if it is not a valid method, or is CONNECT."""
    if _TOKEN.fullmatch(method) is None or method != method.upper() or method == "CONNECT":
        raise ConfigError(f"{method!r} is no method to send", hint="Write GET, POST, PUT ... in capitals.")
    return method


def check_header(name: str, value: str) -> None:
    """Raise ConfigError for a header that cannot be sent, or that tuner sets itself."""
    if _TOKEN.fullmatch(name) is None:
        raise ConfigError(f"{name!r} is no name of a header", hint="Use letters, digits and -.")
    if name.lower() in _OURS:
        raise ConfigError(f"{name} is tuner's own to set", hint="Leave it out.")
    if _VALUE.fullmatch(value) is None:
        raise ConfigError(
            f"header {name} has characters that cannot be sent", hint="Write it in one line of latin-1."
        )


def render_request(method: str, url: HttpUrl, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes of a request; *headers* may have another Host."""
    sent = {} if "host" in map(str.lower, headers) else {"Host": url.authority}
    sent |= headers
    if body or method in _WITH_BODY:
        sent["Content-Length"] = str(len(body))
    lines = [f"{method} {url.target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
