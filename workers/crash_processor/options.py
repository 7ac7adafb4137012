"""All options: name (Socorro's if it had one), default, parser of its text, and help.

The same name is an option (``--number-of-threads``), a key of the configuration file (``number_of_threads``)
and an environment variable (``CRASH_PROCESSOR_NUMBER_OF_THREADS``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .spawn import STARTS

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_MOST_THREADS = 10_000  # limits the memory for a mistyped number
_LONGEST_S = 500 * 3600.0  # poll(2) supports at most 24 days
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class Option:
    """One option; ``parse`` raises ValueError with a description of valid values."""

    def __init__(
        self, default: object, parse: Callable[[str], object], help_text: str, *, is_flag: bool
    ) -> None:
        self.name = ""
        self.default = default
        self.parse = parse
        self.help = help_text
        self.is_flag = is_flag  #: whether the option may be given without a value

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


def _option(default: object, parse: Callable[[str], object], help_text: str) -> Any:
    """Declare an attribute of ``Options``: an Option on the class, its value on an instance."""
    return Option(default, parse, help_text, is_flag=parse is _boolean)


def _text(text: str) -> str:
    return text


def _optional_text(text: str) -> str | None:
    return text or None


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("true", "yes", "on", "1"):
        return True
    if lowered in ("false", "no", "off", "0"):
        return False
    raise ValueError("true or false")


def _whole(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if number < minimum:
            raise ValueError(f"a whole number of {minimum} or more")
        if maximum is not None and number > maximum:
            raise ValueError(f"a whole number of at most {maximum}")
        return number

    return parse


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("a whole number") from None


def _seconds(text: str) -> float:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError("a time in seconds, or as 500ms, 30s, 2m")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > _LONGEST_S:
        raise ValueError("a time of at most 500h")
    return seconds


def _positive_seconds(text: str) -> float:
    seconds = _seconds(text)
    if seconds <= 0:
        raise ValueError("a time of more than 0 seconds")
    return seconds


def _milliseconds(text: str) -> float:
    stripped = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        _seconds(f"{stripped}ms")  # raises if it is too long
        return float(stripped)
    if _DURATION.fullmatch(stripped):
        return _seconds(stripped) * 1000
    raise ValueError("milliseconds, 0 or more")


def _delays(text: str) -> tuple[float, ...]:
    return tuple(_seconds(part) for part in text.replace(",", " ").split())


def _path(text: str) -> Path:
    if not text:
        raise ValueError("a path")
    return Path(text)


def _optional_path(text: str) -> Path | None:
    return Path(text) if text else None


def _paths(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _spawn_path(text: str) -> str:
    if text not in STARTS:
        raise ValueError(" or ".join(STARTS))
    return text


def _parse_kept(text: str) -> int | None:
    if text.strip().lower() == "all":
        return None
    try:
        return _whole(1)(text)
    except ValueError:
        raise ValueError("a whole number of 1 or more, or all") from None


class Options:
    """The options of one run. Times are seconds unless the name says ``_ms``."""

    fs_root: Path = _option(Path("crashes"), _path, "folder of the spool: queue, crashes, symbols, results")
    number_of_threads: int = _option(4, _whole(1, _MOST_THREADS), "worker threads")
    producer_consumer_class: str = _option(
        "auto",
        _text,
        "task manager: single, threaded, auto (single for one thread, else threaded), or a dotted path",
    )
    maximum_queue_size: int = _option(8, _whole(1), "items that wait between the source and the threads")
    idle_delay: float = _option(0.5, _positive_seconds, "how long to wait when there is nothing to do")
    quit_on_empty_queue: bool = _option(False, _boolean, "end when there is nothing to do")
    endless: bool = _option(False, _boolean, "offer finished items again instead of keeping them done")
    new_crash_source_class: str = _option("fs", _text, "where work comes from: fs, redis, or a dotted path")
    redis_url: str = _option(
        "redis://127.0.0.1:6379/0",
        _text,
        "redis:// or rediss://[user:password@]host:port/db, or unix:///path/to/socket",
    )
    redis_queue_name: str = _option("crash-processor", _text, "first part of the names of all keys in Redis")
    crashstorage_class: str = _option("fs", _text, "where crashes and results are kept: fs, or a dotted path")
    dump_field: str = _option("upload_file_minidump", _text, "name of the dump among a crash's files")
    temporary_file_system_storage_path: Path | None = _option(
        None, _optional_path, "folder for dumps while they are processed (default: below fs_root)"
    )
    keep_results: int | None = _option(1000, _parse_kept, "saved results to keep, the newest ones; or all")
    minidump_stackwalk_pathname: str | None = _option(
        None,
        _optional_text,
        "the stackwalker (default: the crash-stackwalk that came along, or is on the PATH)",
    )
    stackwalk_command_line: str | None = _option(
        None, _optional_text, "how to call it: an argument list with fields such as {dump_file_pathname}"
    )
    processor_symbols_pathname_list: tuple[str, ...] | None = _option(
        None, _paths, "symbol folders, separated by commas (default: fs_root/symbols)"
    )
    symbol_cache_path: str = _option("", _text, "for command lines that name {symbol_cache_path}")
    stackwalk_passes: int = _option(
        1, _whole(1), "how often the stackwalker walks each dump: its share of an item"
    )
    spawn_path: str = _option(
        "vfork",
        _spawn_path,
        "how a child starts: vfork, or posix_spawn, which holds the GIL until the child runs its program",
    )
    kill_timeout: float = _option(30.0, _positive_seconds, "kill a stackwalker that runs longer")
    crashing_thread_frame_threshold: int = _option(100, _whole(1), "frames of the crashing thread to keep")
    crashing_thread_tail_frame_threshold: int = _option(
        10, _whole(0), "of those beyond, how many outermost to keep"
    )
    backoff_delays: tuple[float, ...] = _option(
        (0.1, 0.5, 1.0, 2.0, 5.0), _delays, "waits between attempts when storage or source fail, as 0.1,1,5"
    )
    max_attempts: int = _option(3, _whole(1), "failed attempts after which an item becomes a dead letter")
    graceful_timeout: float = _option(30.0, _seconds, "time for unfinished items when stopping")
    python_cost_ms: float = _option(
        0.0, _milliseconds, "CPU per item to reach in Python, by repeating real passes"
    )
    fetch_delay_ms: float = _option(0.0, _milliseconds, "mean wait when fetching: a remote store (lognormal)")
    save_delay_ms: float = _option(0.0, _milliseconds, "mean wait when saving: a remote store (lognormal)")
    seed: int = _option(0, _integer, "for the waits and the order of items")

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - OPTIONS.keys()
        if unknown:
            raise TypeError(f"no such option: {', '.join(sorted(unknown))}")
        for name, option in OPTIONS.items():
            setattr(self, name, values.get(name, option.default))


OPTIONS: dict[str, Option] = {
    name: value for name, value in vars(Options).items() if isinstance(value, Option)
}
