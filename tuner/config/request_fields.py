"""The fields of a config about HTTP requests: address, method, headers, rate and connections."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from tuner.config.fields import as_value_error
from tuner.core.errors import ConfigError
from tuner.core.settings.clients import parse_connections, render_connections
from tuner.core.settings.pace import Pace, Share, WithinP95, checked_rate, parse_rate, render_rate
from tuner.core.text.http_request import check_header, check_method, parse_url

NUMBER = "{process}"  #: in a URL: each process listens at an address of its own


def check_url(text: str) -> str:
    """Return *text*, the address of requests, with or without the number of a process in it."""
    try:
        parse_url(text.replace(NUMBER, "0"))
    except ConfigError as error:
        raise as_value_error(error) from error
    return text


def checked_method(text: str) -> str:
    """Return *text*, the method of requests."""
    try:
        return check_method(text)
    except ConfigError as error:
        raise as_value_error(error) from error


def _rate(value: Any) -> float | Pace:
    """``200``, ``70%``, ``p95=200ms``; as a study keeps it, a number or such a text."""
    try:
        if isinstance(value, str):
            return parse_rate(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return checked_rate(float(value))
    except ConfigError as error:
        raise as_value_error(error) from error
    raise ValueError("should be a rate, as 200, 70% or p95=200ms")


#: rate: `200` per second, `70%` of each layout's capacity, or the highest one that keeps `p95=200ms`
Rate = Annotated[float | Share | WithinP95, PlainValidator(_rate), PlainSerializer(render_rate)]


def _connections(value: Any) -> str:
    """``even``, ``fresh``, ``kept``, ``reuse: 100``; YAML reads the last one as a mapping."""
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
    """Return *headers*, by name, if a request can have them."""
    for name, value in headers.items():
        try:
            check_header(name, value)
        except ConfigError as error:
            raise as_value_error(error) from error
    return headers
