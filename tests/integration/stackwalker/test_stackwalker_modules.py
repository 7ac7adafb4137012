"""The modules of a dump: how they are listed, and to which of them an address belongs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tuner_workers.crash_processor.synthetic import minidump
from tuner_workers.crash_processor.synthetic.minidump import (
    Dump,
    LoadedModule,
    Memory,
    System,
    Thread,
    write_minidump,
)

from .conftest import STACK, Walker, frame_line

pytestmark = pytest.mark.integration

BASE = 0x7F00_0000_0000
NO_ID = "0" * 33


def answer(
    walker: Walker, modules: list[LoadedModule], rip: int = BASE, platform: int = minidump.LINUX
) -> Any:
    context = minidump.amd64_context({"rip": rip, "rsp": STACK})
    return walker.json(
        write_minidump(Dump(System(platform), [Thread(1, Memory(STACK, bytes(64)), context)], modules))
    )


def listed(walker: Walker, module: LoadedModule, platform: int = minidump.LINUX) -> dict[str, str]:
    keys = ("filename", "base_addr", "end_addr", "debug_file", "debug_id")
    modules = answer(walker, [module], platform=platform)["modules"]
    assert len(modules) == 1
    return {key: modules[0][key] for key in keys}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/lib/libx.so.1.2", "libx.so.1.2"),
        ("libx.so", "libx.so"),
        (r"C:\Program Files\App\x.dll", "x.dll"),
        (r"\\server\share/mixed\x.dll", "x.dll"),
        ("/opt/größe/日本.so", "日本.so"),
        ("/opt/with space (deleted)", "with space (deleted)"),
        ("/emoji/\N{PILE OF POO}.so", "\N{PILE OF POO}.so"),
        ('/quote/"x"', '"x"'),
        ("", ""),
    ],
)
def test_a_module_is_listed_by_its_file_name(walker: Walker, path: str, name: str) -> None:
    module = LoadedModule(path, BASE, 0x1000, minidump.build_id(bytes(range(20))))

    assert listed(walker, module) == {
        "filename": name,
        "base_addr": "0x00007f0000000000",
        "end_addr": "0x00007f0000001000",
        "debug_file": name,
        "debug_id": "03020100050407060809" + "0A0B0C0D0E0F0",
    }


@pytest.mark.parametrize(
    ("age", "last"), [(0, "0"), (1, "1"), (10, "a"), (0x1F, "1f"), (0xFFFF_FFFF, "ffffffff")]
)
def test_the_id_of_a_pdb_is_its_guid_and_age(walker: Walker, age: int, last: str) -> None:
    guid = UUID("01020304-a5b6-c7d8-e9fa-0b1c2d3e4f50")
    module = LoadedModule(r"C:\x.dll", BASE, 0x1000, minidump.rsds(guid, age, r"D:\o\x.pdb"))

    found = listed(walker, module, minidump.WINDOWS)

    assert (found["debug_file"], found["debug_id"]) == ("x.pdb", "01020304A5B6C7D8E9FA0B1C2D3E4F50" + last)


@pytest.mark.parametrize(
    ("code_view", "debug_file", "debug_id"),
    [
        (minidump.build_id(b"\x01\x02\x03\x04\x05"), "x.so", "04030201000500000000000000000000" + "0"),
        (minidump.build_id(bytes(range(1, 33))), "x.so", "0403020106050807090A0B0C0D0E0F10" + "0"),
        (minidump.build_id(bytes(20)), "x.so", NO_ID),
        (minidump.rsds(UUID(int=0), 3, "x.so"), "x.so", NO_ID),
        (b"", "", NO_ID),
        (b"NB09" + bytes(16), "", NO_ID),
    ],
)
def test_short_empty_and_strange_identities(
    walker: Walker, code_view: bytes, debug_file: str, debug_id: str
) -> None:
    found = listed(walker, LoadedModule("/lib/x.so", BASE, 0x1000, code_view))

    assert (found["debug_file"], found["debug_id"]) == (debug_file, debug_id)


def module(name: str, base: int, size: int) -> LoadedModule:
    return LoadedModule(f"/lib/{name}", base, size, minidump.build_id(name.encode().ljust(20, b"!")))


@pytest.mark.parametrize(
    ("rip", "line"),
    [
        (BASE - 1, f"context {BASE - 1:#x}"),
        (BASE, "context a+0x0 ?"),
        (BASE + 0xFFF, "context a+0xfff ?"),
        (BASE + 0x1000, "context b+0x0 ?"),
        (BASE + 0x2000, f"context {BASE + 0x2000:#x}"),
    ],
)
def test_a_module_covers_its_first_byte_but_not_its_end(walker: Walker, rip: int, line: str) -> None:
    modules = [module("b", BASE + 0x1000, 0x1000), module("a", BASE, 0x1000)]

    assert frame_line(answer(walker, modules, rip)["threads"][0]["frames"][0]) == line


@pytest.mark.parametrize(
    ("offset", "name"), [(0x0, "low"), (0x1FFF, "low"), (0x2000, None), (0x2FFF, None), (0x3000, "high")]
)
def test_of_overlapping_modules_the_lower_one_wins_and_the_other_is_gone(
    walker: Walker, offset: int, name: str | None
) -> None:
    modules = [
        module("high", BASE + 0x3000, 0x100),
        module("mid", BASE + 0x1000, 0x2000),
        module("low", BASE, 0x2000),
    ]

    found = answer(walker, modules, BASE + offset)

    assert found["threads"][0]["frames"][0]["module"] == name
    assert [entry["filename"] for entry in found["modules"]] == ["high", "mid", "low"]


def test_a_module_of_no_size_covers_nothing(walker: Walker) -> None:
    assert answer(walker, [module("x", BASE, 0)])["threads"][0]["frames"][0]["module"] is None


def test_a_dump_without_modules_still_has_frames(walker: Walker) -> None:
    found = answer(walker, [])

    assert found["modules"] == []
    assert [frame_line(frame) for frame in found["threads"][0]["frames"]] == [f"context {BASE:#x}"]


def test_modules_keep_the_order_of_the_dump(walker: Walker) -> None:
    modules = [module(f"m{n}", BASE + 0x10000 * (n * 7 % 50), 0x1000) for n in range(50)]

    assert [entry["filename"] for entry in answer(walker, modules)["modules"]] == [f"m{n}" for n in range(50)]


def test_a_thousand_modules_are_kept_apart(walker: Walker) -> None:
    modules = [module(f"m{n}", BASE + 0x10000 * n, 0x10000) for n in range(1000)]

    frame = answer(walker, modules, BASE + 0x10000 * 777 + 5)["threads"][0]["frames"][0]

    assert frame_line(frame) == "context m777+0x5 ?"
