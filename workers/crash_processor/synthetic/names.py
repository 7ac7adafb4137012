"""Plausible names of functions, files and modules of a fictional browser."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

_NAMESPACES = ("dom", "layout", "gfx", "script::vm", "script::gc", "net", "cache", "media", "storage",
               "ipc", "style", "widget", "a11y", "base")  # fmt: skip
_CLASSES = ("Element", "Document", "Box", "Surface", "Context", "Channel", "Socket", "Decoder", "Track",
            "Index", "Table", "Queue", "Worker", "Message", "Rule", "Selector", "Window", "Event",
            "Range", "Heap", "Zone", "Compositor", "Pipeline", "Loader")  # fmt: skip
_VERBS = ("Get", "Set", "Update", "Reflow", "Paint", "Flush", "Open", "Close", "Read", "Write", "Append",
          "Remove", "Resolve", "Dispatch", "Visit", "Trace", "Encode", "Decode", "Parse", "Match",
          "Lookup", "Insert")  # fmt: skip
_NOUNS = ("Node", "Frame", "Child", "Buffer", "Header", "Pixel", "Entry", "Key", "Value", "Slot", "Line",
          "Chunk", "Packet", "Listener", "Style", "Layer", "Glyph", "Shape", "Cell", "Token")  # fmt: skip
_PARAMETERS = ("()", "(int)", "(unsigned int, bool)", "(char const*)", "(void*, unsigned long)",
               "(std::span<unsigned char const>)", "(base::RefPtr<dom::Node> const&)",
               "(std::function<void (int)>&&)")  # fmt: skip
_TEMPLATES = (
    "int",
    "char",
    "unsigned long",
    "dom::Node*",
    "base::RefPtr<layout::Box>",
    "std::pair<int, bool>",
)
_DIRECTORIES = ("dom/base", "layout/generic", "gfx/2d", "script/vm", "script/gc", "net/http", "net/socket",
                "media/codec", "storage/index", "ipc/glue", "style/rules", "widget/common")  # fmt: skip

#: functions that compilers inline everywhere
INLINED = (
    "base::RefPtr<dom::Node>::operator->() const",
    "std::min<unsigned long>(unsigned long const&, unsigned long const&)",
    "base::Span<unsigned char>::operator[](unsigned long) const",
    "core::option::Option<T>::unwrap",
)


def function_name(random: Random, number: int) -> str:
    """Return a function name in demangled form; different *number*s result in mostly different names."""
    bits = random.getrandbits(32)
    namespace = _NAMESPACES[bits % 14]
    cls = _CLASSES[(bits >> 4) % 24]
    verb = _VERBS[(bits >> 9) % 22]
    noun = _NOUNS[(bits >> 14) % 20]
    parameters = _PARAMETERS[(bits >> 19) & 7]
    style = (bits >> 22) & 15
    if style == 0:
        argument = _TEMPLATES[(bits >> 26) % 6]
        return f"void {namespace}::{verb}{noun}s<{argument}, {number}ul>{parameters}"
    if style == 1:
        return f"{namespace}::{cls.lower()}::{verb.lower()}_{noun.lower()}_{number:x}"
    if style == 2:
        return f"{namespace}::{cls}::operator()(int)::{{lambda(void*)#{number}}}::operator()(void*) const"
    return f"{namespace}::{cls}::{verb}{noun}{number:X}{parameters}"


def source_files(random: Random, n_files: int) -> Iterator[str]:
    """Yield paths of source files as a build host records them."""
    for number in range(n_files):
        directory = random.choice(_DIRECTORIES)
        stem = random.choice(_CLASSES) + random.choice(("", "Impl", "Base", "Utils"))
        suffix = random.choice(("cpp", "cpp", "cpp", "h", "rs"))
        yield f"/builds/worker/waterwolf/{directory}/{stem}{number}.{suffix}"
