"""Damaged input: whatever a file claims, the stackwalker answers or refuses, and never dies of it."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tuner_workers.crash_processor.synthetic import make_crash, make_world

from .conftest import Scene, Walker, write_symbols

pytestmark = pytest.mark.integration

SEED = 20_240_601
N_MUTATIONS = 300
EXTREMES = (0, 1, 7, 0x7F, 0xFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFF0, 0xFFFF_FFFF)


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """A dump of all kinds of streams, and its symbols."""
    store = tmp_path_factory.mktemp("symbols")
    world = make_world(3, symbols_bytes=20_000, os_name="windows")
    world.write_symbols(store)
    return make_crash(1, world).dump, store


def assert_answered_or_refused(walker: Walker, data: bytes, store: Path, what: str) -> None:
    """Exit 0 with JSON, or 1 with one line of error; nothing else."""
    path = walker.folder / "damaged.dmp"
    path.write_bytes(data)
    done = walker.run(path, store)
    assert done.returncode in (0, 1), f"{what}: exit {done.returncode}, {done.stderr!r}"
    if done.returncode == 0:
        assert json.loads(done.stdout)["status"] == "OK", what
    else:
        assert done.stdout == b"", what
        assert done.stderr.startswith(b"ERROR "), f"{what}: {done.stderr!r}"
        assert done.stderr.count(b"\n") == 1, what


def test_a_dump_cut_off_anywhere(victim: tuple[bytes, Path], our_walker: Walker) -> None:
    dump, store = victim
    ends = sorted({*range(0, 256, 4), *range(0, len(dump), 61 if len(dump) < 20_000 else len(dump) // 300)})
    for end in ends:
        assert_answered_or_refused(our_walker, dump[:end], store, f"cut at {end}")


def mutations(dump: bytes) -> Iterator[tuple[str, bytes]]:
    random = Random(SEED)
    for number in range(N_MUTATIONS):
        data = bytearray(dump)
        limit = random.choice(
            (32, 512, len(data))
        )  # the header and the directory deserve more than their share
        for _ in range(random.randrange(1, 12)):
            if random.random() < 0.5:
                data[random.randrange(limit)] ^= 1 << random.randrange(8)
            else:
                struct.pack_into("<I", data, random.randrange(limit - 4) & ~3, random.choice(EXTREMES))
        yield f"mutation {number}", bytes(data)


def test_bits_flipped_and_numbers_replaced(victim: tuple[bytes, Path], our_walker: Walker) -> None:
    dump, store = victim
    for what, data in mutations(dump):
        assert_answered_or_refused(our_walker, data, store, what)


@pytest.mark.parametrize("value", EXTREMES)
def test_every_word_of_the_lists_may_lie(victim: tuple[bytes, Path], our_walker: Walker, value: int) -> None:
    dump, store = victim
    n_streams, directory = struct.unpack_from("<II", dump, 8)
    for index in range(n_streams):
        kind, _, rva = struct.unpack_from("<III", dump, directory + 12 * index)
        for offset in (0, 4, 8, 12, 20, 24, 32, 36, 44, 76, 80, 160, 164):
            if rva + offset + 4 <= len(dump):
                data = bytearray(dump)
                struct.pack_into("<I", data, rva + offset, value)
                assert_answered_or_refused(
                    our_walker, bytes(data), store, f"stream {kind:#x}+{offset}: {value:#x}"
                )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"M",
        b"MDMP",
        b"MDMP" + bytes(28),
        b"MDMP" + b"\xff" * 28,
        b"PMDM" + bytes(60),
        bytes(4096),
        b"\xff" * 4096,
    ],
    ids=["empty", "one byte", "magic", "no streams", "all streams", "big endian", "zeros", "ones"],
)
def test_what_is_no_minidump(victim: tuple[bytes, Path], our_walker: Walker, data: bytes) -> None:
    assert_answered_or_refused(our_walker, data, victim[1], repr(data[:8]))


def test_thousands_of_unloaded_modules_at_one_place_are_listed_as_far_as_it_goes(our_walker: Walker) -> None:
    dump, at, n = bytearray(Scene([0x900000] * 8, {"rip": 0x900000}).dump()), 0x900000, 65_536
    name = "old.so".encode("utf-16-le")
    listed = struct.pack("<I", len(name)) + name + struct.pack("<III", 12, 24, n)
    listed += b"".join(struct.pack("<QIIII", at - i, 0x100000, 0, 0, len(dump)) for i in range(n))
    n_streams, directory = struct.unpack_from("<II", dump, 8)
    kinds = [struct.unpack_from("<I", dump, directory + 12 * i)[0] for i in range(n_streams)]
    place = len(listed) - len(name) - 4, len(dump) + len(name) + 4
    # in place of the list of memory
    struct.pack_into("<III", dump, directory + 12 * kinds.index(5), 14, *place)

    path = our_walker.folder / "unloaded.dmp"
    path.write_bytes(dump + listed)
    done = our_walker.run(path)

    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["threads"][0]["frames"][0]["unloaded_modules"]
    offsets = [int(offset, 16) for offset in found["offsets"]]
    assert (found["module"], offsets) == ("old.so", list(range(len(offsets))))
    assert 1000 < len(offsets) < n
    assert b"too much to walk" in done.stderr


def test_unwind_rules_of_a_megabyte_are_computed_as_far_as_it_goes(our_walker: Walker) -> None:
    rules = f".cfa: $rsp 8 + .ra: .cfa 8 - ^ $rbx: 0{' 0 +' * 250_000}"
    write_symbols(our_walker.folder, "app", f"FUNC 1000 100 0 f\nSTACK CFI INIT 1000 100 {rules}\n")
    path = our_walker.folder / "rules.dmp"
    path.write_bytes(Scene([0x401050] * 600, {"rip": 0x401010}).dump())

    done = our_walker.run(path, our_walker.folder)

    frames = json.loads(done.stdout)["threads"][0]["frames"]
    assert {frame["trust"] for frame in frames[1:]} == {"cfi"}
    assert 50 < len(frames) < 600
    assert b"too much to walk" in done.stderr


SYMBOLS = """\
FILE 0 x.c
FUNC 1000 100 0 f
1000 100 5 0
PUBLIC 2000 0 p
STACK CFI INIT 1000 100 .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI 1004 .cfa: $rsp 16 + $rbx: .cfa -16 + ^
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        "FUNC",
        "FUNC \n",
        "FUNC 1000\n",
        "FUNC 1000 ffffffffffffffff 0 wraps\n",
        "FUNC ffffffffffffffff 100 0 at the end\n",
        "FUNC 1000 100 0\n",
        "FUNC zzz 100 0 f\n",
        "PUBLIC\n",
        "PUBLIC 1000\n",
        "STACK CFI INIT\n",
        "STACK CFI INIT 1000 100\n",
        "STACK CFI 1000 .cfa: $rsp 8 +\n",
        "STACK CFI INIT 1000 100 .cfa:\n",
        "STACK CFI INIT 1000 100 : :\n",
        f"STACK CFI INIT 1000 100 .cfa: {'$rsp ' * 5000}\n",
        f"STACK CFI INIT 1000 100 .cfa: $rsp {'1 + ' * 5000}.ra: .cfa\n",
        "STACK CFI INIT 1000 100 .cfa: -9223372036854775808 -1 / .ra: .cfa\n",
        "STACK CFI INIT 1000 100 .cfa: -9223372036854775808 -1 % .ra: .cfa\n",
        f"FUNC 1000 100 0 {'x' * 300_000}\n",
        "FUNC 1000 100 0 \x00\x01\xff\n",
        f"{'A' * 1_000_000}",
        "1000 10 1 0\n",
        "FUNC 1000 100 0 f\nffffffffffffffff ffffffff 4294967296 99999999999\n",
        SYMBOLS[:-1],
        SYMBOLS.replace("\n", "\r"),
    ],
)  # fmt: skip
def test_symbol_files_that_make_no_sense(our_walker: Walker, text: str) -> None:
    write_symbols(our_walker.folder, "app", text)
    dump = Scene([0, 0x401050, 0, 0x401051], {"rip": 0x401010}).dump()

    assert_answered_or_refused(our_walker, dump, our_walker.folder, text[:80])


def test_a_symbol_file_cut_off_or_garbled_anywhere(our_walker: Walker) -> None:
    random = Random(SEED)
    dump = Scene([0, 0x401050, 0, 0x401051], {"rip": 0x401010}).dump()
    for end in range(0, len(SYMBOLS), 3):
        write_symbols(our_walker.folder, "app", SYMBOLS[:end])
        assert_answered_or_refused(our_walker, dump, our_walker.folder, f"cut at {end}")
    for number in range(100):
        data = bytearray(SYMBOLS.encode())
        for _ in range(random.randrange(1, 6)):
            data[random.randrange(len(data))] = random.choice(b"\n\r\0 :^-+0fF$.\xff")
        write_symbols(our_walker.folder, "app", "").write_bytes(b"MODULE Linux x86_64 0 app\n" + bytes(data))
        assert_answered_or_refused(our_walker, dump, our_walker.folder, f"garbled {number}")


def test_an_empty_symbol_file_and_a_folder_in_its_place(our_walker: Walker) -> None:
    dump = Scene([0], {"rip": 0x401010}).dump()
    path = write_symbols(our_walker.folder, "app", "")
    path.write_bytes(b"")
    assert_answered_or_refused(our_walker, dump, our_walker.folder, "empty symbol file")
    path.unlink()
    path.mkdir()

    assert_answered_or_refused(our_walker, dump, our_walker.folder, "a folder")


def test_a_dump_that_is_a_folder_or_a_device_is_refused(our_walker: Walker) -> None:
    for path in (our_walker.folder, Path("/dev/null"), our_walker.folder / "nowhere.dmp"):
        done = our_walker.run(path)

        assert done.returncode == 1
        assert done.stderr.startswith(b"ERROR ")


def test_a_dump_from_a_pipe_is_read_or_refused(our_walker: Walker) -> None:
    command = f"cat {our_walker.folder}/scene.dmp | {our_walker.program} /dev/stdin"
    (our_walker.folder / "scene.dmp").write_bytes(Scene([0], {"rip": 0x401010}).dump())

    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, check=False)

    assert done.returncode in (0, 1)
    assert (done.returncode == 1) == done.stderr.startswith(b"ERROR ")
