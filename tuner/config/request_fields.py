"""Config fields about other programs: HTTP requests, and addresses of brokers."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, PlainSerializer, PlainValidator

from tuner.config.fields import as_value_error
from tuner.core.domain.load import (
    Pace,
    Share,
    WithinP95,
    checked_rate,
    parse_connections,
    parse_rate,
    render_connections,
    render_rate,
)
from tuner.core.errors import ConfigError
from tuner.core.text.http_request import check_header, check_method, parse_url

NUMBER = "{process}"  #: in a URL: each process listens at another address


def check_url(text: str) -> str:
    """Return *text* if it is a valid URL, with or without the placeholder for a process number."""
    try:
        parse_url(text.replace(NUMBER, "0"))
    except ConfigError as error:
        raise as_value_error(error) from error
    return text


def checked_method(text: str) -> str:
    """Return *text* if it is a valid HTTP method."""
    try:
        return check_method(text)
    except ConfigError as error:
        raise as_value_error(error) from error


def _rate(value: Any) -> float | Pace:
    """Parse ``200``, ``70%`` or ``p95=200ms``, or a rate from a study file (a number or such a text)."""
    try:
        if isinstance(value, str):
            return parse_rate(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return checked_rate(float(value))
    except ConfigError as error:
        raise as_value_error(error) from error
    raise ValueError("should be a rate, as 200, 70% or p95=200ms")


#: rate: requests per second (`200`), a share of each layout's capacity (`70%`), or the highest rate at which
#: the p95 latency is within a limit (`p95=200ms`)
Rate = Annotated[float | Share | WithinP95, PlainValidator(_rate), PlainSerializer(render_rate)]


def _connections(value: Any) -> str:
    """Normalize ``even``, ``fresh``, ``kept`` or ``reuse: 100``; YAML reads the last one as a mapping."""
    if isinstance(value, dict) and [*value] == ["reuse"]:
        value = f"reuse: {value['reuse']}"
    if not isinstance(value, str):
        raise ValueError("should be even, fresh, kept or reuse: N")
    try:
        return render_connections(parse_connections(value))
    except ConfigError as error:
        raise as_value_error(error) from error


ConnectionsText = Annotated[str, PlainValidator(_connections)]


def checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return *headers*, by name, if they are valid in a request."""
    for name, value in headers.items():
        try:
            check_header(name, value)
        except ConfigError as error:
            raise as_value_error(error) from error
    return headers


# Broker URLs in a config.


#: parameters of redis-py for its TLS
_TLS = r"ssl_(?:cert_reqs=(?:none|optional|required)|(?:ca_certs|certfile|keyfile)=[^\s?#&]+)"
_REDIS_URL = re.compile(
    rf"redis://[^\s/?#]+(/[0-9]*)?|rediss://[^\s/?#]+(/[0-9]*)?(\?{_TLS}(&{_TLS})*)?"
    r"|unix://([^\s/?#]*@)?/[^\s?#]+(\?db=[0-9]+)?"
)


def check_redis_url(url: str) -> str:
    """Return *url* if it is a URL of Redis, else raise ConfigError.

    A URL with TLS may have redis-py's parameters ``ssl_cert_reqs`` (none, optional, required),
    ``ssl_ca_certs``, ``ssl_certfile`` and ``ssl_keyfile``.
    """
    known = _REDIS_URL.fullmatch(url) is not None
    try:
        known = known and urlsplit(url).port != 0
    except ValueError:  # the port, or the host
        known = False
    if not known:
        raise ConfigError("should be redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH?db=DB")
    return url


def _redis_url(url: str) -> str:
    try:
        return check_redis_url(url)
    except ConfigError as error:
        raise as_value_error(error) from error


#: url of Redis: `redis://HOST:PORT/DB`, `rediss://HOST:PORT/DB` (TLS; `?ssl_cert_reqs=none` accepts any
#: certificate, `?ssl_ca_certs=FILE` those of an authority) or `unix:///PATH?db=DB`
RedisUrl = Annotated[str, AfterValidator(_redis_url)]


def check_broker_url(url: str) -> str:
    """Return *url* if it is a URL of Redis or RabbitMQ, else raise ConfigError."""
    if not url.startswith("amqp"):
        try:
            return check_redis_url(url)
        except ConfigError as error:
            known = url.startswith(("redis:", "rediss:", "unix:"))
            raise error if known else ConfigError(f"{error.problem}, or amqp://HOST:PORT/VHOST") from error
    try:
        parts = urlsplit(url)
        known = parts.scheme == "amqp" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port
        known = False
    if not known or re.search(r"[\s?#]", url) is not None or parts.netloc.count("@") > 1:
        raise ConfigError(
            "should be amqp://USER:PASSWORD@HOST:PORT/VHOST with every / @ : # of a name or password as"
            " %2F %40 %3A %23"
        )
    return url


def _broker_url(url: str) -> str:
    try:
        return check_broker_url(url)
    except ConfigError as error:
        raise as_value_error(error) from error


#: url of a broker: a URL of Redis, or `amqp://USER:PASSWORD@HOST:PORT/VHOST`
BrokerUrl = Annotated[str, AfterValidator(_broker_url)]
