"""The addresses of brokers in a config."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from tuner.config.fields import as_value_error
from tuner.core.errors import ConfigError


def check_redis_url(url: str) -> str:
    """*url*, when it is one of Redis; ConfigError when it is none."""
    known = re.fullmatch(r"rediss?://[^\s/?#]+(/[0-9]*)?|unix:///[^\s?#]+(\?db=[0-9]+)?", url) is not None
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


#: url of Redis: `redis://HOST:PORT/DB`, `rediss://HOST:PORT/DB` or `unix:///PATH?db=DB`
RedisUrl = Annotated[str, AfterValidator(_redis_url)]


def check_broker_url(url: str) -> str:
    """*url*, when it is one of Redis or of RabbitMQ; ConfigError when it is none."""
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
