"""Address of a Redis server: the URL of ``--redis-url``, parsed and checked."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from redis import ConnectionPool, RedisError
from redis.connection import parse_url

from ..errors import InputError

_TIMEOUT_S = 5.0
_FORMS = "redis://host:port/db nor rediss://host:port/db nor unix:///path?db=n"


class RedisAddress:
    """Parsed URL; ``str()`` of it does not contain the password.

    All forms may have ``user:password@`` before the host or path, and settings of redis-py's connections
    after a question mark (``?ssl_ca_certs=/etc/ca.pem``).

    Raises:
        InputError: redis-py does not accept the URL.
    """

    def __init__(self, url: str) -> None:
        shown = re.sub("//.*@", "//***@", url)
        try:
            self._settings: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
            database = urlsplit(url).path.strip("/")
        except ValueError as error:
            raise InputError(f"--redis-url: {shown!r} is neither {_FORMS}: {error}") from None
        if url.startswith("unix:"):
            self._shown = str(self._settings.get("path", ""))
            if not self._shown:
                raise InputError(f"--redis-url: {shown!r} names no socket")
        else:
            self._shown = f"{self._settings.get('host', 'localhost')}:{self._settings.get('port', 6379)}"
            if database and not database.isdecimal():  # redis-py would use database 0
                raise InputError(f"--redis-url: {database!r} is not a database number")
        try:
            pool = self.pool()
            pool.connection_class(**pool.connection_kwargs)  # without connecting yet
        except (TypeError, ValueError, RedisError) as error:
            raise InputError(f"--redis-url: {shown!r} has a setting that is none: {error}") from None

    def pool(self, **settings: Any) -> ConnectionPool:
        """Make a connection pool with these settings, which the URL cannot change."""
        timeouts = {"socket_timeout": _TIMEOUT_S, "socket_connect_timeout": _TIMEOUT_S}
        return ConnectionPool(**{**timeouts, **self._settings, **settings})

    def __str__(self) -> str:
        return self._shown
