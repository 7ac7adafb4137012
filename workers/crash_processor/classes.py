"""Lookup of the class that an option names, by a short name or a dotted path."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from .errors import InputError
from .settings import did_you_mean

_PACKAGE = __package__ or ""

TASK_MANAGERS = {
    "single": f"{_PACKAGE}.task_manager.TaskManager",
    "threaded": f"{_PACKAGE}.threaded_task_manager.ThreadedTaskManager",
}
CRASH_SOURCES = {
    "fs": f"{_PACKAGE}.sources.fs.FileSystemCrashSource",
    "redis": f"{_PACKAGE}.sources.redis.RedisCrashSource",
}
CRASH_STORAGES = {"fs": f"{_PACKAGE}.storage.FileSystemCrashStorage"}


def find_class(option: str, text: str, short_names: Mapping[str, str]) -> Any:
    """Import and return the class that *text* names.

    Raises:
        InputError: there is no such class.
    """
    module_name, dot, class_name = short_names.get(text, text).rpartition(".")
    if not dot:
        hint = did_you_mean(text, short_names) or f"Use {', '.join(short_names)}, or a dotted path."
        raise InputError(f"--{option.replace('_', '-')}: there is no {text!r}", hint=hint)
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        raise InputError(f"--{option.replace('_', '-')}: cannot import {text!r}: {error}") from error
    except AttributeError:
        raise InputError(f"--{option.replace('_', '-')}: {module_name} has no {class_name}") from None
