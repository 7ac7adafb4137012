"""Signature of a crash: one line that is equal for crashes of the same cause.

From the frames of the crashing thread, innermost first, parts that differ between crashes are removed.
Irrelevant frames are skipped, frames with too little information are kept as a prefix, and the first other
frame ends the signature. The lists of frames come from experience with a product; these are for common C, C++
and Rust.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_LENGTH = 255
_MAX_FRAMES = 10  # of a signature; more frames do not distinguish crashes better
_MAX_NORMALIZED = 40  # frames used, because a recursion has thousands

_SENTINELS = frozenset(
    ("_purecall", "base::CrashNow", "RaiseException")
)  # frames inside of these are ignored

_IRRELEVANT = re.compile(
    "|".join(
        (
            r"@0x[0-9a-f]{2,}", r"_?_?(kill|raise|abort|pthread_kill|assert_fail)", r"gsignal", r"__GI_.*",
            r"RtlFailFast", r"RtlRaiseException", r"RaiseException", r"KiUserExceptionDispatcher",
            r"std::panicking::.*", r"core::panicking::.*", r"rust_begin_unwind", r"core::\w+::\w+_failed",
            r"core::ops::function::.*", r"alloc::boxed::.*", r"__rust_.*", r"base::CrashNow",
            r"(base|mozilla)::.*Assert.*", r"__cxxabiv1::.*", r"__cxa_.*", r"std::terminate", r"_Unwind_.*",
        )
    )
)  # fmt: skip

_PREFIX = re.compile(
    "|".join(
        (
            r"_?_?mem(cpy|move|set|cmp|chr)\w*", r"_platform_mem\w+", r"str(len|cpy|cmp|chr|dup|str)\w*",
            r"(m|c|re)alloc", r"free", r"je_.*", r"arena_\w+", r"operator (new|delete)(\[\])?", r"Rtl\w+",
            r"Nt\w+", r"Zw\w+", r"(base|std)::\w*(Alloc|Ptr|_ptr)\w*(<T>)?(::.*)?",
            r".*::Release", r".*::AddRef", r"std::.*", r"core::.*", r"alloc::.*", r"@0x0", r"__?pthread_\w+",
            r"pthread_\w+", r"__futex_\w+", r"poll",
            r"mach_msg\w*", r"__psynch_\w+", r"[^@]+\.(dll|so|dylib|pdb)[.\d]*@0x[0-9a-f]+",
            r".*::~?RefPtr.*",
        )
    )
)  # fmt: skip

_WITH_LINE_NUMBERS = re.compile(r"js::Interpret|script::vm::Interpret|main")
_TRIMMED_MODULE = re.compile(r"(?P<module>[^@|\s]+)@0x[0-9a-f]+")

_HASH = re.compile(r"::h[0-9a-f]{16}$")
_SPACE = re.compile(r"(?<=[,*&()])\s+|\s+(?=[,*&()])|\s{2,}")
_CONST = re.compile(r"\s+(?:const|volatile|noexcept)$")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
_KEEP_ANGLES = ("operator<", "operator>", "operator->", "operator<<", "operator>>", "<name omitted>")


def normalize_function(function: str) -> str:
    """Return a function's name without arguments, template arguments, return type and compiler's hash.

    >>> normalize_function("void ns::Set<int, 3ul>::Add(int const&) const")
    'ns::Set<T>::Add'
    """
    name = _HASH.sub("", function.strip())
    name = _CONST.sub("", name)
    name = _collapse(name, "(", ")", "", keep=("operator()", "(anonymous namespace)"))
    name = _CONST.sub("", name)
    name = _collapse(name, "<", ">", "<T>", keep=_KEEP_ANGLES)
    name = _without_return_type(name)
    return _SPACE.sub("", name).strip()


def _collapse(text: str, opening: str, closing: str, replacement: str, keep: Sequence[str]) -> str:
    """Replace each outermost *opening* ... *closing* by *replacement*, except in the words of *keep*."""
    if opening not in text:
        return text
    parts: list[str] = []
    depth = position = 0
    while position < len(text):
        if depth == 0 and (kept := _kept_at(text, position, keep)):
            parts.append(kept)
            position += len(kept)
            continue
        character = text[position]
        if character == opening:
            if depth == 0:
                parts.append(replacement)
            depth += 1
        elif character == closing and depth > 0:
            depth -= 1
        elif depth == 0:
            parts.append(character)
        position += 1
    return "".join(parts)


def _kept_at(text: str, position: int, keep: Sequence[str]) -> str:
    for word in keep:
        if text.startswith(word, position):
            return word
    return ""


def _without_return_type(name: str) -> str:
    """Return the text after the last blank that is not in a name such as ``operator new``."""
    if "operator" in name or "(anonymous namespace)" in name or name.startswith("<"):
        head, marker, tail = name.partition("operator")
        return head.rpartition(" ")[2] + marker + tail if marker else name
    return name.rpartition(" ")[2]


def normalize_frame(frame: Mapping[str, Any]) -> str:
    """Return a frame's text: function, else file and line, else module and offset, else address."""
    function = frame.get("function")
    if function:
        name = normalize_function(str(function))
        if _WITH_LINE_NUMBERS.fullmatch(name) and frame.get("line") is not None:
            return f"{name}:{frame['line']}"
        return name
    file, line = frame.get("file"), frame.get("line")
    if file and line is not None:
        return f"{_base_name(str(file))}#{line}"
    module = frame.get("module")
    if module:
        return f"{_base_name(str(module))}@{_short_hex(frame.get('module_offset'))}"
    return f"@{_short_hex(frame.get('offset'))}"


def _base_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _short_hex(value: object) -> str:
    try:
        return hex(int(str(value), 16))
    except ValueError:
        return "0x0"


def frames_signature(frames: Sequence[Mapping[str, Any]]) -> str:
    """Return the signature from the stack alone; empty without frames."""
    names = [normalize_frame(frame) for frame in frames[:_MAX_NORMALIZED]]
    for index, name in enumerate(names):
        if name in _SENTINELS:
            names = names[index:]
            break
    parts: list[str] = []
    for name in names:
        if _IRRELEVANT.fullmatch(name):
            continue
        if not parts or _trim_module(parts[-1]) != _trim_module(name):
            parts.append(name)
        if not _PREFIX.fullmatch(name) or len(parts) >= _MAX_FRAMES:
            break
    return " | ".join(_joined_modules(parts) or names[:1])


def _trim_module(name: str) -> str:
    match = _TRIMMED_MODULE.fullmatch(name)
    return match["module"] if match else name


def _joined_modules(parts: Sequence[str]) -> list[str]:
    """Remove the offsets of inner frames without symbols, which differ with every build of a module."""
    return [_trim_module(part) for part in parts[:-1]] + list(parts[-1:])


def crash_signature(
    frames: Sequence[Mapping[str, Any]], processed: Mapping[str, Any], crash_type: str
) -> tuple[str, list[str]]:
    """Return the complete signature, and notes about its computation.

    Args:
        frames: Frames of the crashing thread, innermost first.
        processed: Fields from the rules on the raw crash.
        crash_type: Reason of the crash from the stackwalker.
    """
    notes: list[str] = []
    signature = frames_signature(frames)
    if not signature:
        signature = "EMPTY: no frame data available" if crash_type else "EMPTY: no crashing thread identified"
        notes.append("no signature from the stack")
    for prefix in _prefixes(processed, signature, crash_type):
        signature = f"{prefix} | {signature}"
    if len(signature) > MAX_LENGTH:
        signature = signature[: MAX_LENGTH - 3] + "..."
        notes.append("signature truncated")
    return signature, notes


def _prefixes(processed: Mapping[str, Any], signature: str, crash_type: str) -> list[str]:
    """Return the prefixes of a signature, from the inside out."""
    prefixes = []
    size = processed.get("oom_allocation_size")
    if size is not None:
        # 256 KiB: smaller allocations can fail only because memory is already exhausted
        prefixes.append("OOM | small" if size <= 256 * 1024 else "OOM | large")
    elif "oom" in signature.lower().split("::")[-1].split(" ") or "AllocOrDie" in signature:
        prefixes.append("OOM | unknown")
    if processed.get("abort_message"):
        prefixes.append(f"Abort | {_without_numbers(str(processed['abort_message']), 80)}")
    if "STACK_OVERFLOW" in crash_type:
        prefixes.append("stackoverflow")
    if processed.get("async_shutdown_timeout"):
        prefixes.append(
            f"AsyncShutdownTimeout | {_without_numbers(str(processed['async_shutdown_timeout']), 80)}"
        )
    if processed.get("ipc_channel_error"):
        prefixes.append(f"IPCError | {_without_numbers(str(processed['ipc_channel_error']), 100)}")
    if processed.get("hang_type"):
        prefixes.append(str(processed["hang_type"]))
    return prefixes


def _without_numbers(text: str, length: int) -> str:
    return _NUMBER.sub("N", " ".join(text.split()))[:length]
