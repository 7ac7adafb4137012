"""The bytes of a synthetic minidump: each field at its documented offset."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tuner_workers.crash_processor.synthetic import minidump
from tuner_workers.crash_processor.synthetic.minidump import (
    Dump,
    ExceptionRecord,
    LoadedModule,
    Memory,
    System,
    Thread,
    amd64_context,
    write_minidump,
)

STACK = Memory(0x7FFD_0000_0000, bytes(range(64)))
GUID = UUID("01020304-a5b6-c7d8-e9fa-0b1c2d3e4f50")
PLAIN = Dump(
    System(
        minidump.WINDOWS, n_cpus=6, version=(10, 1, 19045), service_pack="SP \N{GREEK SMALL LETTER LAMDA}"
    ),
    [
        Thread(11, STACK, amd64_context({"rip": 0x401000, "rsp": STACK.start})),
        Thread(12, Memory(0x7FFC_0000_0000, b"\xee" * 24), amd64_context({"rax": 2**64 - 1})),
    ],
    [LoadedModule("C:\\a.exe", 0x400000, 0x5000, minidump.rsds(GUID, 2, "a.pdb"), 0x1234, (1, 2, 3, 4))],
    ExceptionRecord(12, 0xC0000005, 1, 0x401000, (1, 0xDEAD), amd64_context({"rip": 0x402000})),
    breakpad=(11, 12),
    memory=[Memory(0x1000, b"abc")],
    process_id=4711,
    timestamp=1_717_200_000,
)


def streams(data: bytes) -> dict[int, bytes]:
    """stream type -> its bytes, by way of the directory."""
    count, directory = struct.unpack_from("<II", data, 8)
    found = {}
    for index in range(count):
        kind, size, rva = struct.unpack_from("<III", data, directory + 12 * index)
        found[kind] = data[rva : rva + size]
        assert len(found[kind]) == size
    assert len(found) == count
    return found


def string_at(data: bytes, rva: int) -> str:
    size = struct.unpack_from("<I", data, rva)[0]
    return data[rva + 4 : rva + 4 + size].decode("utf-16-le")


def test_the_header_says_what_it_is() -> None:
    signature, version, _, directory, checksum, timestamp, _ = struct.unpack_from(
        "<4sIIIIIQ", write_minidump(PLAIN)
    )

    assert (signature, version & 0xFFFF, directory, checksum) == (b"MDMP", 0xA793, 32, 0)
    assert timestamp == 1_717_200_000


def test_system_info_lies_where_it_should() -> None:
    data = write_minidump(PLAIN)
    info = streams(data)[minidump.SYSTEM_INFO]

    assert len(info) == 56
    assert struct.unpack_from("<H", info, 0) == (minidump.AMD64,)
    assert info[6] == 6
    assert struct.unpack_from("<IIII", info, 8) == (10, 1, 19045, minidump.WINDOWS)
    assert string_at(data, struct.unpack_from("<I", info, 24)[0]) == "SP λ"


def test_threads_are_48_bytes_and_point_to_stack_and_context() -> None:
    data = write_minidump(PLAIN)
    threads = streams(data)[minidump.THREAD_LIST]

    assert len(threads) == 4 + 2 * 48
    assert struct.unpack_from("<I", threads) == (2,)
    assert struct.unpack_from("<I", threads, 4) == (11,)
    start, size, rva = struct.unpack_from("<QII", threads, 4 + 24)
    assert (start, data[rva : rva + size]) == (STACK.start, STACK.data)
    size, rva = struct.unpack_from("<II", threads, 4 + 40)
    assert data[rva : rva + size] == PLAIN.threads[0].context
    assert struct.unpack_from("<I", threads, 4 + 48) == (12,)


def test_modules_are_108_bytes_and_point_to_name_and_identity() -> None:
    data = write_minidump(PLAIN)
    modules = streams(data)[minidump.MODULE_LIST]

    assert len(modules) == 4 + 108
    base, size, _, timestamp, name_rva = struct.unpack_from("<QIIII", modules, 4)
    assert (base, size, timestamp) == (0x400000, 0x5000, 0x1234)
    assert string_at(data, name_rva) == "C:\\a.exe"
    assert struct.unpack_from("<IIII", modules, 4 + 24) == (0xFEEF04BD, 0x10000, 1 << 16 | 2, 3 << 16 | 4)
    size, rva = struct.unpack_from("<II", modules, 4 + 76)
    assert data[rva : rva + size] == b"RSDS" + GUID.bytes_le + b"\2\0\0\0a.pdb\0"


def test_versions_on_linux_are_four_plain_numbers() -> None:
    modules = streams(write_minidump(replace(PLAIN, system=System())))[minidump.MODULE_LIST]

    assert struct.unpack_from("<IIII", modules, 4 + 24 + 8) == (1, 2, 3, 4)


def test_the_exception_is_168_bytes_with_its_own_context() -> None:
    data = write_minidump(PLAIN)
    exception = streams(data)[minidump.EXCEPTION]

    assert len(exception) == 168
    assert struct.unpack_from("<I", exception) == (12,)
    assert struct.unpack_from("<II", exception, 8) == (0xC0000005, 1)
    assert struct.unpack_from("<QI", exception, 24) == (0x401000, 2)
    assert struct.unpack_from("<15Q", exception, 40) == (1, 0xDEAD, *[0] * 13)
    size, rva = struct.unpack_from("<II", exception, 160)
    assert struct.unpack_from("<Q", data[rva : rva + size], 248) == (0x402000,)


def test_the_memory_list_has_stacks_and_other_regions() -> None:
    data = write_minidump(PLAIN)
    regions = streams(data)[minidump.MEMORY_LIST]
    found = {}
    for index in range(struct.unpack_from("<I", regions)[0]):
        start, size, rva = struct.unpack_from("<QII", regions, 4 + 16 * index)
        found[start] = data[rva : rva + size]

    assert found == {STACK.start: STACK.data, 0x7FFC_0000_0000: b"\xee" * 24, 0x1000: b"abc"}


def test_full_memory_lies_in_one_run_and_threads_name_no_stack() -> None:
    data = write_minidump(replace(PLAIN, full_memory=True))
    found = streams(data)

    assert minidump.MEMORY_LIST not in found
    count, rva = struct.unpack_from("<QQ", found[minidump.MEMORY64_LIST])
    regions = [
        struct.unpack_from("<QQ", found[minidump.MEMORY64_LIST], 16 + 16 * index) for index in range(count)
    ]
    assert regions == [(0x1000, 3), (STACK.start, 64), (0x7FFC_0000_0000, 24)]
    assert data[rva:] == b"abc" + STACK.data + b"\xee" * 24
    assert struct.unpack_from("<QII", found[minidump.THREAD_LIST], 4 + 24) == (STACK.start, 0, 0)


@pytest.mark.parametrize("kind", [minidump.THREAD_LIST, minidump.MODULE_LIST, minidump.MEMORY_LIST])
def test_padded_lists_have_four_bytes_behind_the_count(kind: int) -> None:
    plain = streams(write_minidump(PLAIN))[kind]
    padded = streams(write_minidump(replace(PLAIN, padded_lists=True)))[kind]

    assert len(padded) == len(plain) + 4
    assert padded[:8] == plain[:4] + bytes(4)


@pytest.mark.parametrize(
    ("breakpad", "words"),
    [((11, 12), (3, 11, 12)), ((None, 12), (2, 0, 12)), ((11, None), (1, 11, 0)), ((None, None), (0, 0, 0))],
)
def test_who_wrote_and_who_asked_have_a_valid_bit_each(breakpad: Any, words: tuple[int, int, int]) -> None:
    info = streams(write_minidump(replace(PLAIN, breakpad=breakpad)))[minidump.BREAKPAD_INFO]

    assert struct.unpack("<III", info) == words


def test_what_a_dump_does_not_have_leaves_no_stream() -> None:
    found = streams(write_minidump(Dump(System(), [], [])))

    assert set(found) == {
        minidump.SYSTEM_INFO,
        minidump.THREAD_LIST,
        minidump.MODULE_LIST,
        minidump.MEMORY_LIST,
    }


@pytest.mark.parametrize(
    ("register", "offset"),
    [("rax", 120), ("rcx", 128), ("rdx", 136), ("rbx", 144), ("rsp", 152), ("rbp", 160), ("rsi", 168),
     ("rdi", 176), ("r8", 184), ("r15", 240), ("rip", 248)],
)  # fmt: skip
def test_each_register_has_its_place_in_the_context(register: str, offset: int) -> None:
    context = amd64_context({register: 0x1122334455667788})

    assert len(context) == 1232
    assert struct.unpack_from("<I", context, 48)[0] & 0x100000
    assert struct.unpack_from("<Q", context, offset) == (0x1122334455667788,)
    assert sum(context[120:256]) == sum(struct.pack("<Q", 0x1122334455667788))


@pytest.mark.parametrize(
    ("code_view", "expected"),
    [
        (minidump.rsds(GUID, 0, "x"), "01020304A5B6C7D8E9FA0B1C2D3E4F500"),
        (minidump.rsds(GUID, 0x1F, "x"), "01020304A5B6C7D8E9FA0B1C2D3E4F501f"),
        (minidump.rsds(UUID(int=0), 1, "x"), "0" * 33),
        (minidump.build_id(bytes(range(20))), "030201000504070608090A0B0C0D0E0F0"),
        (minidump.build_id(bytes(range(32))), "030201000504070608090A0B0C0D0E0F0"),
        (minidump.build_id(b"\1\2\3"), "000302010000000000000000000000000"),
        (minidump.build_id(bytes(20)), "0" * 33),
        (minidump.build_id(b""), "0" * 33),
        (b"", "0" * 33),
    ],
)
def test_the_debug_id_of_each_kind_of_identity(code_view: bytes, expected: str) -> None:
    assert minidump.debug_id(code_view) == expected
