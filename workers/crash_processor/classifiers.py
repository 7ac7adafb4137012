"""Classifiers of a crash by its stack, its address and its modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Frames = Sequence[Mapping[str, Any]]
Classifier = Callable[[Mapping[str, Any], Frames], object]

_PAGE = 0x1000
_NULL_ZONE = 16 * _PAGE  # a member of an object at address 0
_CANONICAL = 0x0000_7FFF_FFFF_FFFF
#: bytes that allocators and debug builds fill freed or fresh memory with
_POISON = re.compile(
    r"0x(?:[0-9a-f]{0,8})?(?:e5e5e5e5|5a5a5a5a|deadbeef|feeefeee|cdcdcdcd|a5a5a5a5)[0-9a-f]{0,8}$"
)
_INJECTED = re.compile(r"(?i)(hook|inject|overlay|antivir|guard|toolbar)")
_HARDWARE = re.compile(r"IN_PAGE_ERROR|SIGBUS|ILLEGAL_INSTRUCTION|SIGILL|MACHINE_CHECK")
_BUILD_PATH = re.compile(
    r"(?:hg|git|s3):[^:]+:(?P<path>[^:]+):|^(?:/builds?/[^/]+/[^/]+/|[A-Za-z]:[\\/]builds?[\\/])"
)


def topmost_source_file(_dump: Mapping[str, Any], frames: Frames) -> str | None:
    """Return the first source file on the stack, relative to its repository."""
    for frame in frames:
        if file := frame.get("file"):
            match = _BUILD_PATH.search(str(file))
            if match is None:
                return str(file)
            return match["path"] or str(file)[match.end() :]
    return None


def address_class(dump: Mapping[str, Any], _frames: Frames) -> str:
    """Classify the crash address: null, near null, poison, non-canonical, single bit, wild, unknown."""
    text = str(_crash_info(dump).get("address") or "").lower()
    try:
        address = int(text, 16)
    except ValueError:
        return "unknown"
    if address < _NULL_ZONE:
        return "null" if address < _PAGE else "near null"
    if _POISON.match(text):
        return "poison"
    if address > _CANONICAL:
        return "non-canonical"
    if bin(address).count("1") == 1:
        return "single bit"
    return "wild"


def exploitability(dump: Mapping[str, Any], frames: Frames) -> str:
    """Estimate the exploitability: none, low, medium or high."""
    crash_type = str(_crash_info(dump).get("type") or "")
    kind = address_class(dump, frames)
    if kind in ("null", "near null"):
        return "low" if "EXEC" in crash_type else "none"
    if "EXEC" in crash_type or (frames and not frames[0].get("module")):
        return "high"
    if kind == "poison":
        return "high"
    if "WRITE" in crash_type or "SEGV_ACCERR" in crash_type:
        return "medium"
    return "low" if "SEGV" in crash_type or "ACCESS" in crash_type else "none"


def symbol_coverage(_dump: Mapping[str, Any], frames: Frames) -> float | None:
    """Return the ratio of the crashing thread's frames that have a function name."""
    if not frames:
        return None
    return sum(1 for frame in frames if frame.get("function")) / len(frames)


def scanned_ratio(_dump: Mapping[str, Any], frames: Frames) -> float | None:
    """Return the ratio of frames that were guessed from the stack's contents."""
    if not frames:
        return None
    return sum(1 for frame in frames if frame.get("trust") == "scan") / len(frames)


def suspicious_modules(dump: Mapping[str, Any], _frames: Frames) -> list[str]:
    """Return loaded modules whose names suggest that another program injected them."""
    modules = dump.get("modules")
    names = (
        [str(module.get("filename")) for module in modules if isinstance(module, dict)]
        if isinstance(modules, list)
        else []
    )
    return sorted({name for name in names if _INJECTED.search(name)})


def recursion(_dump: Mapping[str, Any], frames: Frames) -> str | None:
    """Return the function that fills most of the stack by recursion, or None."""
    counts: dict[str, int] = {}
    for frame in frames:
        if function := frame.get("function"):
            counts[str(function)] = counts.get(str(function), 0) + 1
    if not counts:
        return None
    most = max(counts, key=lambda name: counts[name])
    return most if counts[most] >= 10 and counts[most] > len(frames) / 2 else None


def maybe_hardware(dump: Mapping[str, Any], frames: Frames) -> bool:
    """Return whether a hardware fault may be the cause."""
    return bool(_HARDWARE.search(str(_crash_info(dump).get("type") or ""))) or (
        address_class(dump, frames) == "single bit"
    )


CLASSIFIERS: Mapping[str, Classifier] = {
    function.__name__: function
    for function in (
        topmost_source_file,
        address_class,
        exploitability,
        symbol_coverage,
        scanned_ratio,
        suspicious_modules,
        recursion,
        maybe_hardware,
    )
}


def classify(dump: Mapping[str, Any], frames: Frames) -> dict[str, object]:
    """Return the result of every classifier by its name."""
    return {name: classifier(dump, frames) for name, classifier in CLASSIFIERS.items()}


def _crash_info(dump: Mapping[str, Any]) -> Mapping[str, Any]:
    info = dump.get("crash_info")
    return info if isinstance(info, dict) else {}
