"""Parser of a stackwalker's output: JSON with rust-minidump's fields, or Breakpad's pipe format.

Both formats result in the fields of the JSON format, so later code does not depend on the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

WalkedDump = dict[str, Any]  #: the stackwalker's JSON document

_FRAME_FIELDS = 7  # thread|frame|module|function|file|line|offset


class WalkOutputError(ValueError):
    """The output is neither of the two formats."""


def parse_walk_output(lines: Iterable[str]) -> WalkedDump:
    """Read the output of a stackwalker.

    Raises:
        WalkOutputError: the output is empty, incomplete, or in another format.
    """
    kept = [line for line in lines if line]
    if not kept:
        raise WalkOutputError("the stackwalker printed nothing")
    if kept[0].startswith("{"):
        return _parse_json("\n".join(kept))
    if kept[0].partition("|")[0] in ("OS", "CPU", "GPU", "Crash", "Module"):
        return _parse_pipe(kept)
    raise WalkOutputError(f"the stackwalker printed no JSON but {kept[0][:80]!r}")


def _parse_json(text: str) -> WalkedDump:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WalkOutputError(f"the stackwalker printed broken JSON: {error}") from error
    if not isinstance(document, dict):
        raise WalkOutputError("the stackwalker's JSON is not an object")
    return document


def _parse_pipe(lines: Iterable[str]) -> WalkedDump:
    system: dict[str, Any] = {}
    crash: dict[str, Any] = {}
    modules: list[dict[str, Any]] = []
    threads: list[dict[str, Any]] = []
    main_module = 0
    try:
        for line in lines:
            kind, *fields = line.rstrip("\n").split("|")
            if kind == "OS":
                system["os"], system["os_ver"] = fields[:2]
            elif kind == "CPU":
                system["cpu_arch"], system["cpu_info"] = fields[:2]
                system["cpu_count"] = int(fields[2] or 0)
            elif kind == "Crash":
                thread = int(fields[2]) if fields[2] else None
                crash.update(type=fields[0], address=fields[1] or None, crashing_thread=thread)
            elif kind == "Module":
                if fields[6] == "1":
                    main_module = len(modules)
                modules.append(_pipe_module(fields))
            elif kind.isdigit():
                _add_pipe_frame(threads, int(kind), fields)
    except (ValueError, IndexError) as error:
        raise WalkOutputError(f"the stackwalker's line {line[:80]!r} cannot be read: {error}") from error
    for thread_ in threads:
        thread_["frame_count"] = len(thread_["frames"])
    return {
        "status": "OK",
        "system_info": system,
        "crash_info": crash,
        "modules": modules,
        "main_module": main_module,
        "threads": threads,
        "thread_count": len(threads),
    }


def _pipe_module(fields: list[str]) -> dict[str, Any]:
    filename, version, debug_file, debug_id, base_addr, end_addr = fields[:6]
    return {
        "filename": filename,
        "version": version or None,
        "debug_file": debug_file,
        "debug_id": debug_id,
        "base_addr": base_addr,
        "end_addr": end_addr,
    }


def _add_pipe_frame(threads: list[dict[str, Any]], thread: int, fields: list[str]) -> None:
    if len(fields) != _FRAME_FIELDS - 1:
        raise ValueError(f"{len(fields) + 1} fields instead of {_FRAME_FIELDS}")
    number, module, function, file, line, offset = fields
    if thread > len(threads) + 100_000:
        raise ValueError(f"no thread {thread}")
    while len(threads) <= thread:
        threads.append({"frames": []})
    frame: dict[str, Any] = {"frame": int(number), "module": module or None, "function": function or None}
    frame.update(file=file or None, line=int(line) if line else None)
    # Breakpad's offset is relative to the most exact known place: line, function, module, or none.
    frame["module_offset" if module else "offset"] = offset
    threads[thread]["frames"].append(frame)


def crashing_frames(dump: WalkedDump) -> list[dict[str, Any]]:
    """Return the frames of the thread that crashed, innermost first; empty if it is unknown."""
    number = _mapping(dump.get("crash_info")).get("crashing_thread")
    threads = dump.get("threads")
    if not isinstance(number, int) or not isinstance(threads, list) or not 0 <= number < len(threads):
        return []
    frames = _mapping(threads[number]).get("frames")
    return [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []


def truncate_crashing_thread(dump: WalkedDump, threshold: int, tail_threshold: int) -> bool:
    """Keep only the first *threshold* and last *tail_threshold* frames; return whether any were cut."""
    frames = crashing_frames(dump)
    if len(frames) <= threshold + tail_threshold:
        return False
    thread = dump["threads"][dump["crash_info"]["crashing_thread"]]
    thread["frames"] = frames[:threshold] + frames[len(frames) - tail_threshold :]
    thread["frames_truncated"] = True
    return True


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
