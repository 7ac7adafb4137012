"""A recorded sample of messages: JSON that people may read, and cut down."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.adapters.queues.message import Message
from tuner.core.errors import ConfigError

_VERSION = 1


def write_sample(path: Path, form: str, messages: Sequence[Message]) -> None:
    """Keep *messages* in a new file that only this user reads: they hold what users sent.

    Raises:
        ConfigError: the file is there, or cannot be written.
    """
    kept = [{name: _to_json(value) for name, value in message.items()} for message in messages]
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"tuner_sample": _VERSION, "form": form, "messages": kept}, file, indent=1)
            file.write("\n")
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already", hint="Remove it, or name another with -o.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error


def read_sample(path: Path, form: str) -> list[Message]:
    """The messages of a file, which are of *form*.

    Raises:
        ConfigError: it cannot be read, is damaged, holds no message, or is of another form.
    """
    hint = "Record one: tuner sample --help."
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict) or data.get("tuner_sample") != _VERSION:
            raise ConfigError(f"{path} is no sample of messages", hint=hint)
        messages: list[Message] = [
            {name: _bytes(value) for name, value in message.items()} for message in data["messages"]
        ]
        is_of = data["form"]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", hint=hint) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no sample of messages, or damaged: {error}", hint=hint) from error
    if is_of != form:
        raise ConfigError(
            f"{path} holds messages of {is_of}, not of {form}", hint="Set form, or name another."
        )
    if not messages:
        raise ConfigError(f"{path} holds no message", hint=hint)
    return messages


def _to_json(value: bytes) -> Any:
    """Text as it is; what is none in base64, as a mapping."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return base64.b64decode(value["base64"], validate=True)
