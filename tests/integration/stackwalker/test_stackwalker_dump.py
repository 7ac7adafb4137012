"""The other streams of a dump: threads, exception, system, memory, and who asked for the dump."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from tuner_workers.crash_processor.synthetic import minidump
from tuner_workers.crash_processor.synthetic.minidump import (
    Dump,
    ExceptionRecord,
    Memory,
    System,
    Thread,
    amd64_context,
    write_minidump,
)

from .conftest import LIB, STACK, Walker, frame_line, scene_module, write_symbols

pytestmark = pytest.mark.integration

FOUND = LIB + 0x150


def thread(thread_id: int, rip: int = LIB + 0x10, words: tuple[int, ...] = (7, FOUND, 0)) -> Thread:
    start = STACK + 0x10000 * thread_id
    data = struct.pack(f"<{len(words)}Q", *words)
    return Thread(thread_id, Memory(start, data), amd64_context({"rip": rip, "rsp": start}))


def dump_of(*threads: Thread, **more: Any) -> Dump:
    return Dump(System(), threads, [scene_module("lib", LIB)], **more)


def frames(answer: dict[str, Any], index: int = 0) -> list[str]:
    return [frame_line(frame) for frame in answer["threads"][index]["frames"]]


def test_the_crashed_thread_is_walked_from_the_exceptions_context(walker: Walker) -> None:
    context = amd64_context({"rip": LIB + 0x99, "rsp": STACK + 0x20000})
    exception = ExceptionRecord(2, 11, 1, 0x1234, context=context)

    answer = walker.json(write_minidump(dump_of(thread(1), thread(2), exception=exception)))

    assert answer["crash_info"]["crashing_thread"] == 1
    assert answer["crash_info"]["address"] == "0x0000000000001234"
    assert frames(answer, 0) == ["context lib+0x10 ?", "scan lib+0x14f ?"]
    assert frames(answer, 1) == ["context lib+0x99 ?", "scan lib+0x14f ?"]


def test_without_a_context_in_the_exception_the_threads_own_serves(walker: Walker) -> None:
    answer = walker.json(write_minidump(dump_of(thread(1), exception=ExceptionRecord(1, 11, 1, 0))))

    assert frames(answer) == ["context lib+0x10 ?", "scan lib+0x14f ?"]


def test_an_exception_of_an_unknown_thread_crashes_none(walker: Walker) -> None:
    context = amd64_context({"rip": LIB + 0x99, "rsp": STACK})
    answer = walker.json(
        write_minidump(dump_of(thread(1), exception=ExceptionRecord(9, 11, 1, 0, context=context)))
    )

    assert answer["crash_info"]["crashing_thread"] is None
    assert answer["crash_info"]["type"] == "SIGSEGV / SEGV_MAPERR"
    assert frames(answer)[0] == "context lib+0x10 ?"


def test_a_dump_without_exception_names_no_crash(walker: Walker) -> None:
    answer = walker.json(write_minidump(dump_of(thread(1), thread(2))))

    assert {key: answer["crash_info"][key] for key in ("type", "address", "crashing_thread")} == {
        "type": None,
        "address": None,
        "crashing_thread": None,
    }


def test_without_exception_the_thread_that_requested_the_dump_is_named(walker: Walker) -> None:
    answer = walker.json(write_minidump(dump_of(thread(1), thread(2), breakpad=(None, 2))))

    assert answer["crash_info"]["crashing_thread"] == 1


def test_the_exceptions_thread_goes_before_the_one_that_asked(walker: Walker) -> None:
    record = ExceptionRecord(1, 11, 1, 0)
    answer = walker.json(write_minidump(dump_of(thread(1), thread(2), breakpad=(None, 2), exception=record)))

    assert answer["crash_info"]["crashing_thread"] == 0


def test_the_thread_that_wrote_the_dump_has_no_frames(walker: Walker) -> None:
    answer = walker.json(write_minidump(dump_of(thread(1), thread(2), breakpad=(2, None))))

    assert [entry["frame_count"] for entry in answer["threads"]] == [2, 0]
    assert [entry["thread_id"] for entry in answer["threads"]] == [1, 2]
    assert answer["thread_count"] == 2


def test_an_invalid_writer_is_not_believed(walker: Walker) -> None:
    data = bytearray(write_minidump(dump_of(thread(1), thread(2), breakpad=(2, 1))))
    at = data.index(struct.pack("<III", 3, 2, 1))
    data[at] = 2

    assert [entry["frame_count"] for entry in walker.json(bytes(data))["threads"]] == [2, 2]


def test_a_thread_without_a_context_has_no_frames(walker: Walker) -> None:
    answer = walker.json(write_minidump(dump_of(replace(thread(1), context=b""), thread(2))))

    assert [entry["frame_count"] for entry in answer["threads"]] == [0, 2]


def test_a_thread_without_a_stack_has_one_frame(walker: Walker) -> None:
    answer = walker.json(write_minidump(dump_of(replace(thread(1), stack=None))))

    assert frames(answer) == ["context lib+0x10 ?"]


def test_a_dump_may_have_no_threads(walker: Walker) -> None:
    answer = walker.json(write_minidump(dump_of()))

    assert (answer["thread_count"], answer["threads"]) == (0, [])


@pytest.mark.parametrize("options", [{"full_memory": True}, {"padded_lists": True}, {"process_id": 4711}])
def test_other_ways_to_write_the_same_dump_change_nothing(walker: Walker, options: dict[str, Any]) -> None:
    exception = ExceptionRecord(
        2, 11, 1, 0x1234, context=amd64_context({"rip": LIB + 0x99, "rsp": STACK + 0x20000})
    )
    plain = walker.json(write_minidump(dump_of(thread(1), thread(2), exception=exception)))
    other = walker.json(write_minidump(dump_of(thread(1), thread(2), exception=exception, **options)))

    assert other["threads"] == plain["threads"]
    assert other["crash_info"] == plain["crash_info"]
    assert other["modules"] == plain["modules"]


def test_a_stack_that_cannot_be_read_is_looked_up_in_the_memory_list(walker: Walker) -> None:
    stack = thread(1).stack
    assert stack is not None
    data = bytearray(write_minidump(dump_of(thread(1))))
    entry = data.index(struct.pack("<IIIIQQ", 1, 0, 0, 0, 0, stack.start))
    struct.pack_into("<II", data, entry + 32, 0, 0)

    assert frames(walker.json(bytes(data))) == ["context lib+0x10 ?", "scan lib+0x14f ?"]


def test_the_stack_is_the_memory_that_rsp_points_to(walker: Walker) -> None:
    elsewhere = Memory(STACK, struct.pack("<3Q", 7, FOUND + 8, 0))
    moved = replace(thread(1), context=amd64_context({"rip": LIB + 0x10, "rsp": STACK}))

    answer = walker.json(write_minidump(dump_of(moved, memory=[elsewhere])))

    assert frames(answer) == ["context lib+0x10 ?", "scan lib+0x157 ?"]


def test_an_rsp_that_points_nowhere_leaves_the_threads_own_stack(walker: Walker) -> None:
    stack = thread(1).stack
    assert stack is not None
    words = struct.unpack("<3Q", stack.data)
    chained = Memory(stack.start, struct.pack("<5Q", stack.start + 24, FOUND, *words))
    lost = Thread(1, chained, amd64_context({"rip": LIB + 0x10, "rsp": 0x1000, "rbp": stack.start}))

    answer = walker.json(write_minidump(dump_of(lost)))

    assert frames(answer)[:2] == ["context lib+0x10 ?", "frame_pointer lib+0x14f ?"]


def test_a_context_longer_than_usual_is_read(walker: Walker) -> None:
    long = replace(thread(1), context=thread(1).context + bytes(2048))

    assert frames(walker.json(write_minidump(dump_of(long)))) == ["context lib+0x10 ?", "scan lib+0x14f ?"]


def test_twenty_threads_keep_their_order_and_their_own_stacks(walker: Walker) -> None:
    threads = [thread(n, LIB + n, (7, FOUND + n, 0)) for n in (5, 3, 9, *range(20, 37))]

    answer = walker.json(write_minidump(dump_of(*threads)))

    assert [entry["thread_id"] for entry in answer["threads"]] == [one.thread_id for one in threads]
    for index, one in enumerate(threads):
        assert frames(answer, index) == [
            f"context lib+{one.thread_id:#x} ?",
            f"scan lib+{0x14F + one.thread_id:#x} ?",
        ]


@pytest.mark.parametrize(
    ("system", "os_name", "version"),
    [
        (System(minidump.LINUX, version=(6, 1, 0), service_pack="#1 SMP"), "Linux", "6.1.0 #1 SMP"),
        (System(minidump.LINUX, service_pack="Linux 5.4.0-x #1 SMP x86_64"), "Linux", "5.4.0-x #1 SMP"),
        (System(minidump.LINUX, service_pack="Linux 5.4.0 #1 SMP x86_64 Linux/GNU"), "Linux", "5.4.0 #1 SMP"),
        (System(minidump.LINUX), "Linux", "0.0.0"),
        (System(minidump.WINDOWS, version=(6, 1, 7601), service_pack="Service Pack 1"), "Windows NT",
         "6.1.7601 Service Pack 1"),
        (System(minidump.WINDOWS, version=(10, 0, 22631)), "Windows NT", "10.0.22631"),
        (System(minidump.MACOS, version=(14, 4, 1), service_pack="23E224 "), "Mac OS X", "14.4.1 23E224"),
    ],
)  # fmt: skip
def test_the_system_is_named_and_its_version_told(
    walker: Walker, system: System, os_name: str, version: str
) -> None:
    info = walker.json(write_minidump(replace(dump_of(thread(1)), system=system)))["system_info"]

    assert (info["os"], info["os_ver"], info["cpu_arch"]) == (os_name, version, "amd64")


@pytest.mark.parametrize("n", [600, 100_000])
def test_a_version_is_reported_whole_however_long_the_dump_makes_it(walker: Walker, n: int) -> None:
    system = System(minidump.LINUX, service_pack=f"Linux {'6' * n} {'#' * n} x86_64")

    info = walker.json(write_minidump(replace(dump_of(thread(1)), system=system)))["system_info"]

    assert info["os_ver"] == f"{'6' * n} {'#' * n}"


@pytest.mark.parametrize("n_cpus", [1, 24, 255])
def test_cpus_are_counted(walker: Walker, n_cpus: int) -> None:
    answer = walker.json(write_minidump(replace(dump_of(thread(1)), system=System(n_cpus=n_cpus))))

    assert answer["system_info"]["cpu_count"] == n_cpus


def test_the_main_module_is_the_first(walker: Walker) -> None:
    assert walker.json(write_minidump(dump_of(thread(1))))["main_module"] == 0


X86_STACK = 0xBF00_0000
X86_REGISTERS = {"ebx": 164, "ebp": 180, "eip": 184, "esp": 196}  #: offsets in the 716 bytes of the context


def x86_dump(words: list[int], **registers: int) -> bytes:
    context = bytearray(716)
    struct.pack_into("<I", context, 0, 0x1007F)
    for name, value in {"esp": X86_STACK, **registers}.items():
        struct.pack_into("<I", context, X86_REGISTERS[name], value)
    stack = Memory(X86_STACK, struct.pack(f"<{len(words)}I", *words))
    system = System(minidump.LINUX, minidump.X86)
    return write_minidump(Dump(system, [Thread(1, stack, bytes(context))], [scene_module("lib", LIB)]))


def test_an_x86_dump_is_walked_by_frame_pointer_and_by_scanning(walker: Walker) -> None:
    words = [7, X86_STACK + 16, FOUND, 7, 0, 0, 7, FOUND + 1, 0]

    answer = walker.json(x86_dump(words, eip=LIB + 0x10, ebp=X86_STACK + 4))

    assert answer["system_info"]["cpu_arch"] == "x86"
    assert frames(answer) == ["context lib+0x10 ?", "frame_pointer lib+0x14f ?"]
    words[1] = 7
    assert frames(walker.json(x86_dump(words, eip=LIB + 0x10, ebp=0)))[1:] == [
        "scan lib+0x14f ?",
        "scan lib+0x150 ?",
    ]


def test_an_x86_dump_is_walked_by_cfi(walker: Walker) -> None:
    rules = "STACK CFI INIT 0 1000 .cfa: $esp 12 + .ra: .cfa -4 + ^ $ebx: .cfa -8 + ^\n"
    write_symbols(walker.folder, "lib", f"FUNC 0 1000 0 f\n{rules}")

    answer = walker.json(x86_dump([1, 2, FOUND, 1, 2, FOUND + 1, 1, 2, 0], eip=LIB + 0x10), walker.folder)

    assert frames(answer) == ["context lib+0x10 f", "cfi lib+0x14f f", "cfi lib+0x150 f"]
