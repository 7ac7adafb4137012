"""Requests that a file lists, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.adapters.load.order import Request
from tuner.core.errors import ConfigError
from tuner.core.text.http_request import HttpUrl, check_header, check_method, parse_url, render_request

_KEYS = {"url", "method", "headers", "body", "body_file"}
_HINT = (
    'Write an object a line, as {"url": "/search?q=tea"}; method, headers, body and body_file are optional.'
)


def read_requests(path: Path, base: HttpUrl, headers: Mapping[str, str]) -> tuple[Request, ...]:
    """The requests of *path*, in order; a URL that begins with / goes to *base*, as all of them must.

    Args:
        headers: sent with each one that does not say otherwise.

    Raises:
        ConfigError: it cannot be read, or a line is no request; says which.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the requests of {path} cannot be read: {error}", hint="Name another file."
        ) from error
    requests = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            requests.append(_request(line, path.parent, base, headers))
        except ConfigError as error:
            raise ConfigError(f"{path}:{number}: {error.problem}", hint=error.hint) from error
    if not requests:
        raise ConfigError(f"{path} holds no request", hint=_HINT)
    return tuple(requests)


def read_body(path: Path) -> bytes:
    """What *path* holds, to be sent.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the body {path} cannot be read: {error.strerror}", hint="Name another file."
        ) from error


def _request(line: str, folder: Path, base: HttpUrl, headers: Mapping[str, str]) -> Request:
    try:
        reported: Any = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}", hint=_HINT) from error
    if not isinstance(reported, dict) or not _is_well_typed(reported):
        raise ConfigError(f"no request: {line[:60]}", hint=_HINT)
    if unknown := sorted(reported.keys() - _KEYS):
        raise ConfigError(f"{', '.join(unknown)}: none of {', '.join(sorted(_KEYS))}", hint=_HINT)
    if "body" in reported and "body_file" in reported:
        raise ConfigError("body and body_file: name one", hint=_HINT)
    if reported["url"].startswith("/"):
        url = replace(base, target=parse_url(f"http://localhost{reported['url']}").target)
    else:
        url = parse_url(reported["url"])
    if (url.host, url.port, url.is_tls) != (base.host, base.port, base.is_tls):
        raise ConfigError(f"{reported['url']} goes to another service than {base.authority}", hint=_HINT)
    method = check_method(reported.get("method", "GET"))
    for name, value in reported.get("headers", {}).items():
        check_header(name, value)
    own = {name.lower() for name in reported.get("headers", {})}
    sent = {name: value for name, value in headers.items() if name.lower() not in own} | reported.get(
        "headers", {}
    )
    body = (
        read_body(folder / reported["body_file"])
        if "body_file" in reported
        else reported.get("body", "").encode()
    )
    return Request(method, render_request(method, url, sent, body))


def _is_well_typed(data: dict[str, Any]) -> bool:
    headers = data.get("headers", {})
    texts = [data.get("url"), *(data[key] for key in ("method", "body", "body_file") if key in data)]
    if not isinstance(headers, dict):
        return False
    return all(isinstance(text, str) for text in [*texts, *headers.values()])
