"""One bad entry in a list of a dump costs that entry, is counted on stderr, and changes nothing else."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tuner_workers.crash_processor.synthetic import minidump
from tuner_workers.crash_processor.synthetic.minidump import (
    MODULE_LIST,
    Dump,
    ExceptionRecord,
    LoadedModule,
    Memory,
    System,
    Thread,
    amd64_context,
    write_minidump,
)

from ...wording import Wording, key_of, wording
from .conftest import APP, LIB, MODULE_SIZE, STACK, Walker, frame_line, scene_module, write_symbols

pytestmark = pytest.mark.integration

PLUGIN = 0x480000  #: between app and lib; its entry is the bad one
PLUGIN_ID, LIB_ID = UUID(int=2), UUID(int=1)
OUTSIDE = 0x7FFF_FFF0
UNLOADED_MODULES, THREAD_NAMES = 14, 24
SYSTEM_INFO, THREAD_LIST, MEMORY_LIST, EXCEPTION, MEMORY64_LIST = 7, 3, 5, 6, 9
MAPS, LIMITS = 0x47670009, 0x4D7A0003
LONE_LOW, LONE_HIGH = b"\0\xdc", b"\0\xd8"
MODULE_BYTES, NAME_AT, CODE_VIEW_AT = 108, 20, 76


class Editor:
    """A dump whose fields are changed in place; what is added goes to its end."""

    def __init__(self, dump: Dump | bytes) -> None:
        self.data = bytearray(dump if isinstance(dump, bytes) else write_minidump(dump))

    def directory(self) -> list[tuple[int, int, int]]:
        """Type, size and place of each stream."""
        n_streams, at = struct.unpack_from("<II", self.data, 8)
        return [struct.unpack_from("<III", self.data, at + 12 * i) for i in range(n_streams)]

    def stream(self, kind: int) -> int:
        """Where the stream of a type begins."""
        return next(rva for type_, _, rva in self.directory() if type_ == kind)

    def set32(self, at: int, value: int) -> None:
        struct.pack_into("<I", self.data, at, value)

    def get32(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.data, at)[0])

    def put(self, blob: bytes) -> int:
        self.data += bytes(-len(self.data) % 4)
        at = len(self.data)
        self.data += blob
        return at

    def put_string(self, text: str | bytes) -> int:
        units = text.encode("utf-16-le") if isinstance(text, str) else text
        return self.put(struct.pack("<I", len(units)) + units)

    def add_stream(self, kind: int, blob: bytes) -> None:
        self.add_entry(kind, len(blob), self.put(blob))

    def add_entry(self, kind: int, size: int, rva: int) -> None:
        """Add one entry to the directory, which moves to the end of the file."""
        entries = [*self.directory(), (kind, size, rva)]
        at = self.put(b"".join(struct.pack("<III", *entry) for entry in entries))
        struct.pack_into("<II", self.data, 8, len(entries), at)

    def set_name(self, at: int, name: bytes | str | int) -> None:
        """Change the place of a name: to a new one, or to a place outside the file."""
        self.set32(at, name if isinstance(name, int) else self.put_string(name))

    @property
    def bytes(self) -> bytes:
        return bytes(self.data)


@dataclass(frozen=True)
class Answer:
    """What the program printed about a dump."""

    json: dict[str, Any]
    warnings: list[str]

    def frames(self, thread: int = 0) -> list[str]:
        return [frame_line(frame) for frame in self.json["threads"][thread]["frames"]]

    def modules(self) -> list[str]:
        return [module["filename"] for module in self.json["modules"]]

    def without(self, *keys: str) -> dict[str, Any]:
        return {key: value for key, value in self.json.items() if key not in keys}


Read = Callable[[Editor | bytes], Answer]


@pytest.fixture
def read(our_walker: Walker) -> Read:
    """Reads a dump, which must succeed; symbols are those that the test wrote."""

    def answer(dump: Editor | bytes) -> Answer:
        path = our_walker.folder / "scene.dmp"
        path.write_bytes(dump.bytes if isinstance(dump, Editor) else dump)
        done = our_walker.run(path, our_walker.folder)
        assert done.returncode == 0, done.stderr
        return Answer(json.loads(done.stdout), done.stderr.decode().splitlines())

    return answer


@pytest.fixture
def warned(our_walker: Walker) -> Callable[[Wording], str]:
    """The line that the program prints about one kind of unreadable things."""

    def line(what: Wording) -> str:
        return f"WARNING {our_walker.folder / 'scene.dmp'}: " + what

    return line


def stack_of(*words: int, thread: int = 1) -> Memory:
    return Memory(STACK + 0x10000 * thread, struct.pack(f"<{len(words)}Q", *words))


def thread_of(thread_id: int, rip: int = APP + 0x10, words: Sequence[int] = (7, LIB + 0x150, 0)) -> Thread:
    stack = stack_of(*words, thread=thread_id)
    return Thread(thread_id, stack, amd64_context({"rip": rip, "rsp": stack.start}))


def plugin() -> LoadedModule:
    return LoadedModule("/opt/plugin", PLUGIN, MODULE_SIZE, minidump.rsds(PLUGIN_ID, 0, "plugin"))


def three_modules(system: System | None = None) -> Editor:
    """A thread in app, called by plugin, called by lib."""
    words = (7, PLUGIN + 0x1020, 7, LIB + 0x150, 0)
    modules = [scene_module("app", APP), plugin(), scene_module("lib", LIB, LIB_ID)]
    return Editor(Dump(system or System(), [thread_of(1, words=words)], modules))


def plugin_entry(dump: Editor) -> int:
    return dump.stream(MODULE_LIST) + 4 + MODULE_BYTES


BAD_NAMES: dict[str, tuple[bytes | int, str]] = {
    "lone low surrogate": (b"p\0" + LONE_LOW + b"q\0", "p�q"),
    "lone high surrogate": (b"p\0" + LONE_HIGH + b"q\0", "p�q"),
    "high surrogate at the end": (b"p\0" + LONE_HIGH, "p�"),
    "two high surrogates": (LONE_HIGH + LONE_HIGH + LONE_LOW, "�\U00010000"),
    "half a unit": (b"p\0q", "p�"),
    "outside the file": (OUTSIDE, ""),
    "no place": (0, ""),
}


@pytest.mark.parametrize(("name", "as_read"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_module_whose_name_cannot_be_read_keeps_its_place_and_its_symbols(
    read: Read, warned: Callable[[Wording], str], our_walker: Walker, name: bytes | int, as_read: str
) -> None:
    write_symbols(our_walker.folder, "app", "FUNC 0 100 0 main_loop\n")
    write_symbols(our_walker.folder, "plugin", "FUNC 1000 100 0 in_plugin\n", PLUGIN_ID)
    good, bad = three_modules(), three_modules()
    bad.set_name(plugin_entry(bad) + NAME_AT, name)

    whole, answer = read(good), read(bad)

    assert whole.warnings == []
    assert whole.frames() == [
        "context app+0x10 main_loop",
        "scan plugin+0x101f in_plugin",
        "scan lib+0x14f ?",
    ]
    assert answer.modules() == ["app", as_read, "lib"]
    assert answer.frames() == [line.replace("plugin+", f"{as_read}+") for line in whole.frames()]
    assert [module["debug_id"] for module in answer.json["modules"]] == [
        module["debug_id"] for module in whole.json["modules"]
    ]
    assert [module["loaded_symbols"] for module in answer.json["modules"]] == [True, True, False]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-module-name"))]


def test_a_module_name_of_a_length_outside_the_file_is_empty(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    bad = three_modules()
    bad.set32(bad.get32(plugin_entry(bad) + NAME_AT), 0x7FFF_FFFE)

    answer = read(bad)

    assert answer.modules() == ["app", "", "lib"]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-module-name"))]


def test_a_length_that_takes_a_large_part_of_a_large_dump_is_no_name(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    bad = three_modules()
    bad.set_name(plugin_entry(bad) + NAME_AT, bytes(2_000_000))

    answer = read(bad)

    assert answer.modules() == ["app", "", "lib"]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-module-name"))]


def test_unreadable_things_of_one_kind_share_a_line(read: Read, warned: Callable[[Wording], str]) -> None:
    bad = three_modules()
    bad.set_name(plugin_entry(bad) + NAME_AT, OUTSIDE)
    bad.set_name(plugin_entry(bad) + MODULE_BYTES + NAME_AT, LONE_LOW)
    bad.set32(plugin_entry(bad) + CODE_VIEW_AT + 4, OUTSIDE)

    answer = read(bad)

    assert answer.modules() == ["app", "", "�"]
    assert answer.warnings == [
        warned(wording("crash-processor.unreadable-module-names", n=2)),
        warned(wording("crash-processor.unreadable-module-id")),
    ]


@pytest.mark.parametrize("harm", ["outside the file", "too short"])
@pytest.mark.parametrize("platform", [minidump.LINUX, minidump.WINDOWS], ids=["linux", "windows"])
def test_a_module_whose_id_cannot_be_read_keeps_its_name(
    read: Read, warned: Callable[[Wording], str], harm: str, platform: int
) -> None:
    good, bad = three_modules(System(platform)), three_modules(System(platform))
    at = plugin_entry(bad) + CODE_VIEW_AT
    bad.set32(*((at + 4, OUTSIDE) if harm == "outside the file" else (at, 8)))

    whole, answer = read(good), read(bad)

    assert answer.frames() == whole.frames()
    assert [module["debug_id"] for module in answer.json["modules"]] == [
        whole.json["modules"][0]["debug_id"], "0" * 33, whole.json["modules"][2]["debug_id"]
    ]  # fmt: skip
    if platform == minidump.WINDOWS:  # made of the entry's own numbers
        assert answer.json["modules"][1]["code_id"] == whole.json["modules"][1]["code_id"]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-module-id"))]


@pytest.mark.parametrize(("base", "size"), [(PLUGIN, 0), (2**64 - 16, MODULE_SIZE)], ids=["no size", "wraps"])
def test_a_module_without_a_place_is_left_out(
    read: Read, warned: Callable[[Wording], str], base: int, size: int
) -> None:
    bad = three_modules()
    struct.pack_into("<QI", bad.data, plugin_entry(bad), base, size)

    answer = read(bad)

    assert answer.modules() == ["app", "lib"]
    assert answer.frames() == ["context app+0x10 ?", "scan lib+0x14f ?"]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-module"))]


LISTS = {
    MODULE_LIST: wording("crash-processor.unreadable-module-list"),
    UNLOADED_MODULES: wording("crash-processor.unreadable-unloaded-list"),
    THREAD_NAMES: wording("crash-processor.unreadable-thread-name-list"),
    MEMORY_LIST: wording("crash-processor.unreadable-memory-list"),
}


@pytest.mark.parametrize(("kind", "what"), LISTS.items(), ids=key_of)
def test_a_list_of_another_length_than_its_count_is_reported(
    read: Read, warned: Callable[[Wording], str], kind: int, what: Wording
) -> None:
    dump = three_modules()
    if kind in (UNLOADED_MODULES, THREAD_NAMES):
        dump.add_stream(kind, bytes(8) + b"\1\0\0\0")
    else:
        dump.set32(dump.stream(kind), 1000)

    answer = read(dump)

    assert answer.frames()[0] == ("context 0x400010" if kind == MODULE_LIST else "context app+0x10 ?")
    assert answer.warnings == [warned(what)]


def with_unloaded(*entries: tuple[int, int, bytes | str | int]) -> Editor:
    """A thread stands where three modules lay once."""
    dump = Editor(Dump(System(), [thread_of(1, 0x900010)], [scene_module("lib", LIB)]))
    places = [name if isinstance(name, int) else dump.put_string(name) for _, _, name in entries]
    listed = struct.pack("<III", 12, 24, len(entries))
    for (base, size, _), place in zip(entries, places, strict=True):
        listed += struct.pack("<QIIII", base, size, 0, 5, place)
    dump.add_stream(UNLOADED_MODULES, listed)
    return dump


@pytest.mark.parametrize(("name", "as_read"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_an_unloaded_module_whose_name_cannot_be_read_keeps_its_place(
    read: Read, warned: Callable[[Wording], str], name: bytes | int, as_read: str
) -> None:
    before, after = (0x800000, 0x1000, "before.so"), (0x900000, 0x1000, "after.so")

    answer = read(with_unloaded(before, (0x880000, 0x1000, name), after))

    listed = answer.json["unloaded_modules"]
    assert [entry["filename"] for entry in listed] == ["before.so", as_read, "after.so"]
    assert listed[1]["base_addr"] == "0x0000000000880000"
    assert answer.json["threads"][0]["frames"][0]["unloaded_modules"][0]["module"] == "after.so"
    assert answer.warnings == [warned(wording("crash-processor.unreadable-unloaded-name"))]


@pytest.mark.parametrize(("base", "size"), [(0x880000, 0), (2**64 - 16, 0x1000)], ids=["no size", "wraps"])
def test_an_unloaded_module_without_a_place_is_left_out(
    read: Read, warned: Callable[[Wording], str], base: int, size: int
) -> None:
    dump = with_unloaded(
        (0x800000, 0x1000, "before.so"), (base, size, "x.so"), (0x900000, 0x1000, "after.so")
    )

    answer = read(dump)

    assert [entry["filename"] for entry in answer.json["unloaded_modules"]] == ["before.so", "after.so"]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-unloaded"))]


@pytest.mark.parametrize(("name", "as_read"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_thread_name_that_cannot_be_read_leaves_the_others(
    read: Read, warned: Callable[[Wording], str], name: bytes | int, as_read: str
) -> None:
    dump = Editor(Dump(System(), [thread_of(1), thread_of(2), thread_of(3)], [scene_module("lib", LIB)]))
    names: list[str | bytes | int] = ["first", name, "third"]
    places = [one if isinstance(one, int) else dump.put_string(one) for one in names]
    entries = b"".join(struct.pack("<IQ", i + 1, place) for i, place in enumerate(places))
    dump.add_stream(THREAD_NAMES, struct.pack("<I", 3) + entries)

    answer = read(dump)

    found = [thread["thread_name"] for thread in answer.json["threads"]]
    assert found == ["first", as_read or None, "third"]
    assert answer.warnings == (
        [warned(wording("crash-processor.unreadable-thread-name"))] if name != 0 else []
    )  # 0: it has none


def two_threads(exception: ExceptionRecord | None = None) -> Editor:
    modules = [scene_module("app", APP), scene_module("lib", LIB)]
    return Editor(Dump(System(), [thread_of(1), thread_of(2)], modules, exception))


@pytest.mark.parametrize("harm", ["outside the file", "too short", "another CPU's"])
def test_a_thread_whose_context_cannot_be_read_has_no_frames(
    read: Read, warned: Callable[[Wording], str], harm: str
) -> None:
    dump = two_threads()
    at = dump.stream(THREAD_LIST) + 4 + 40
    if harm == "another CPU's":
        dump.set32(dump.get32(at + 4) + 48, 0x400000)
    else:
        dump.set32(*((at + 4, OUTSIDE) if harm == "outside the file" else (at, 100)))

    answer = read(dump)

    assert [answer.frames(0), answer.frames(1)] == [[], ["context app+0x10 ?", "scan lib+0x14f ?"]]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-context"))]


def test_an_exception_whose_context_cannot_be_read_is_walked_from_the_threads_own(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    context = amd64_context({"rip": APP + 0x99, "rsp": STACK + 0x10000})
    dump = two_threads(ExceptionRecord(1, 11, 1, 0, context=context))
    dump.set32(dump.stream(EXCEPTION) + 164, OUTSIDE)

    answer = read(dump)

    assert answer.json["crash_info"]["crashing_thread"] == 0
    assert answer.frames() == ["context app+0x10 ?", "scan lib+0x14f ?"]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-context"))]


def test_a_thread_whose_stack_cannot_be_read_leaves_the_others(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    good, bad = two_threads(), two_threads()
    bad.set32(bad.stream(THREAD_LIST) + 4 + 36, OUTSIDE)

    whole, answer = read(good), read(bad)

    assert answer.json == whole.json  # the list of memory has the stack as well
    assert answer.warnings == [warned(wording("crash-processor.unreadable-stack"))]


def without_stacks(dump: Editor, n_threads: int = 2) -> Editor:
    """Stacks that only the list of memory has."""
    for i in range(n_threads):
        struct.pack_into("<II", dump.data, dump.stream(THREAD_LIST) + 4 + 48 * i + 32, 0, 0)
    return dump


@pytest.mark.parametrize("harm", ["outside the file", "wraps"])
def test_a_memory_region_that_cannot_be_read_leaves_the_others(
    read: Read, warned: Callable[[Wording], str], harm: str
) -> None:
    dump = without_stacks(two_threads())
    at = dump.stream(MEMORY_LIST) + 4
    if harm == "wraps":
        struct.pack_into("<Q", dump.data, at, 2**64 - 8)
    else:
        dump.set32(at + 12, OUTSIDE)

    answer = read(dump)

    assert [answer.frames(0), answer.frames(1)] == [
        ["context app+0x10 ?"], ["context app+0x10 ?", "scan lib+0x14f ?"]
    ]  # fmt: skip
    assert answer.warnings == [warned(wording("crash-processor.unreadable-memory"))]


N_FULL = 5
WHOLE_STACK = ["context app+0x10 ?", "scan lib+0x14f ?"]
NO_STACK = ["context app+0x10 ?"]


def full_dump() -> Editor:
    """Five threads, whose stacks lie one after the other at the end of the file."""
    threads = [thread_of(n, words=[7, LIB + 0x150, *[0] * n]) for n in range(1, N_FULL + 1)]
    modules = [scene_module("app", APP), scene_module("lib", LIB)]
    return Editor(Dump(System(), threads, modules, full_memory=True))


def set_size64(dump: Editor, i: int, size: int) -> None:
    struct.pack_into("<Q", dump.data, dump.stream(MEMORY64_LIST) + 16 + 16 * i + 8, size)


def stacks(answer: Answer) -> list[bool]:
    """Which threads were walked on their stack; the others have their first frame alone."""
    found = [answer.frames(i) for i in range(N_FULL)]
    assert all(frames in (WHOLE_STACK, NO_STACK) for frames in found), found
    return [frames == WHOLE_STACK for frames in found]


@pytest.mark.parametrize("i", range(N_FULL))
@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 2**40, 0x20000], ids=hex)
def test_a_wrong_size_in_the_list_of_full_memory_costs_that_region_alone(
    read: Read, warned: Callable[[Wording], str], i: int, size: int
) -> None:
    good, bad = full_dump(), full_dump()
    set_size64(bad, i, size)

    whole, answer = read(good), read(bad)

    assert (stacks(whole), whole.warnings) == ([True] * N_FULL, [])
    assert stacks(answer) == [n != i for n in range(N_FULL)]
    assert answer.without("threads") == whole.without("threads")
    assert answer.warnings == [warned(wording("crash-processor.unreadable-memory"))]


def test_behind_two_wrong_sizes_no_region_can_be_found(read: Read, warned: Callable[[Wording], str]) -> None:
    bad = full_dump()
    set_size64(bad, 2, 2**40)
    set_size64(bad, 4, 2**41)

    answer = read(bad)

    assert stacks(answer) == [True, True, False, False, False]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-memories", n=3))]


def test_a_wrong_size_is_not_made_good_by_a_file_that_continues_behind_the_memory(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    bad = full_dump()
    set_size64(bad, 2, 2**40)
    bad.data += bytes(0x10001)  # more than lies between the regions, and not round

    answer = read(bad)

    assert stacks(answer) == [True, True, False, False, False]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-memories", n=3))]


def test_of_a_full_dump_that_was_cut_off_the_memory_that_is_there_is_used(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    dump = full_dump().bytes

    answer = read(dump[: -8 * (2 + 5) - 8])  # the last stack, and a word of the one before

    assert stacks(answer) == [True, True, True, False, False]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-memories", n=2))]


def test_a_region_of_full_memory_that_wraps_around_costs_itself_alone(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    bad = full_dump()
    struct.pack_into("<Q", bad.data, bad.stream(MEMORY64_LIST) + 16 + 16 * 2, 2**64 - 8)

    answer = read(bad)

    assert stacks(answer) == [True, True, False, True, True]
    assert answer.warnings == [warned(wording("crash-processor.unreadable-memory"))]


def test_what_the_list_of_full_memory_lacks_the_other_list_may_have(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    bad = full_dump()
    set_size64(bad, 2, 2**40)
    stack = stack_of(7, LIB + 0x150, 0, thread=3)
    place = bad.put(stack.data)
    bad.add_stream(MEMORY_LIST, struct.pack("<IQII", 1, stack.start, len(stack.data), place))

    answer = read(bad)

    assert stacks(answer)[:3] == [True, True, True]
    assert len(answer.warnings) == 1


@pytest.mark.parametrize(("size", "rva"), [(4, OUTSIDE), (0xFFFF_FFF0, 64)], ids=["place", "size"])
def test_a_stream_outside_the_file_does_not_hide_a_good_one_of_its_type(
    read: Read, warned: Callable[[Wording], str], size: int, rva: int
) -> None:
    good, bad = three_modules(), three_modules()
    bad.add_entry(MODULE_LIST, size, rva)

    whole, answer = read(good), read(bad)

    assert answer.json == whole.json
    assert answer.warnings == [warned(wording("crash-processor.unreadable-stream"))]


def test_an_entry_of_the_directory_that_is_not_in_use_may_hold_anything(read: Read) -> None:
    dump = three_modules()
    dump.add_entry(0, OUTSIDE, OUTSIDE)

    assert read(dump).warnings == []


def test_an_exception_stream_that_is_too_short_is_reported(
    read: Read, warned: Callable[[Wording], str]
) -> None:
    dump = two_threads()
    dump.add_stream(EXCEPTION, bytes(100))

    answer = read(dump)

    assert answer.json["crash_info"]["type"] is None
    assert answer.warnings == [warned(wording("crash-processor.unreadable-stream"))]


@pytest.mark.parametrize("name", [b"1\0" + LONE_LOW, OUTSIDE], ids=["replaced", "outside the file"])
def test_a_system_version_that_cannot_be_read_leaves_the_numbers(
    read: Read, warned: Callable[[Wording], str], name: bytes | int
) -> None:
    dump = three_modules(System(minidump.WINDOWS, version=(10, 0, 22631), service_pack="Service Pack 1"))
    dump.set_name(dump.stream(SYSTEM_INFO) + 24, name)

    answer = read(dump)

    assert answer.json["system_info"]["os_ver"] == ("10.0.22631" if name == OUTSIDE else "10.0.22631 1�")
    assert answer.warnings == [warned(wording("crash-processor.unreadable-system-version"))]


MAPPING = b"00400000-00404000 r-xp 00000000 08:01 12 /bin/a\n"


@pytest.mark.parametrize(
    "bad", [b"004", b"00400000-0040", b"\xff\xfe\n", b"00400000-00404000 r?xp 00000000 08:01 12\n"]
)
def test_a_line_that_is_no_mapping_is_not_counted_as_one(
    read: Read, warned: Callable[[Wording], str], bad: bytes
) -> None:
    dump = two_threads()
    cut_off = not bad.endswith(b"\n")
    dump.add_stream(MAPS, MAPPING * 2 + (b"" if cut_off else bad) + MAPPING + (bad if cut_off else b""))

    answer = read(dump)

    assert answer.json["linux_memory_map_count"] == 3
    assert answer.warnings == [warned(wording("crash-processor.unreadable-mapping"))]


@pytest.mark.parametrize("bad", [b"Max cpu time\n", b"Max cpu time  12x  unlimited  seconds\n"])
def test_a_limit_that_cannot_be_read_leaves_the_others(
    read: Read, warned: Callable[[Wording], str], bad: bytes
) -> None:
    dump = two_threads()
    header, files, size = (
        b"Limit  Soft  Hard  Units\n",
        b"Max open files  1024  4096  files\n",
        b"Max size  1  unlimited  bytes\n",
    )
    dump.add_stream(LIMITS, header + files + bad + size)

    answer = read(dump)

    limits = {limit["name"]: limit["hard"] for limit in answer.json["proc_limits"]["limits"]}
    assert limits["Max open files"] == 4096
    assert limits["Max size"] == "unlimited"
    assert answer.warnings == [warned(wording("crash-processor.unreadable-limit"))]


def test_more_passes_count_once(our_walker: Walker, warned: Callable[[Wording], str]) -> None:
    bad = three_modules()
    bad.set_name(plugin_entry(bad) + NAME_AT, OUTSIDE)
    path = our_walker.folder / "scene.dmp"
    path.write_bytes(bad.bytes)

    done = subprocess.run(
        [our_walker.program, "--passes", "5", path], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr.splitlines() == [warned(wording("crash-processor.unreadable-module-name"))]


CASES = {"good": "lib.dll", "surr": "�ib.dll", "surr2": "lib.dl�", "rva": ""}


@pytest.mark.parametrize(("name", "second"), CASES.items())
def test_the_dumps_of_a_reported_fault(shared_data: Path, our_walker: Walker, name: str, second: str) -> None:
    case = shared_data / "cases" / "dump-one-bad-module-name"
    dump = case / f"{name}.dmp"

    done = our_walker.run(dump, case / "symbols")

    answer = json.loads(done.stdout)
    assert [module["filename"] for module in answer["modules"]] == ["app.exe", second]
    assert answer["modules"][1]["base_addr"] == "0x0000000000500000"
    frame = answer["threads"][0]["frames"][0]
    assert (frame["module"], frame["function"]) == ("app.exe", "main_loop()")
    assert done.returncode == 0
    assert done.stderr.decode().splitlines() == (
        [] if name == "good" else [f"WARNING {dump}: " + wording("crash-processor.unreadable-module-name")]
    )
