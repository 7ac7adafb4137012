"""What an address is called: functions, line records, public symbols, and where the files are found."""

from __future__ import annotations

from pathlib import Path
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

from .conftest import APP, APP_ID, LIB, STACK, Scene, Walker, scene_module, write_symbols

pytestmark = pytest.mark.integration

SYMBOLS = """\
FILE 0 /src/a.c
FILE 7 /src/with spaces/b.h
FUNC 1000 100 0 first(int, char const*)
1000 10 11 0
1010 10 12 7
1030 10 14 0
1040 10 15 3
FUNC m 1100 80 8 void second<int, (lambda)>::operator() const
1100 80 4294967295 0
FUNC 1280 80 0 third
PUBLIC 800 0 early
PUBLIC 1000 0 shadowed
PUBLIC m 1180 0 _public@8
PUBLIC 2000 0 late
"""


def innermost(walker: Walker, offset: int, symbols: str = SYMBOLS) -> tuple[Any, ...]:
    """(function, function offset, file, line) of an address in app."""
    store = walker.folder / "symbols"
    write_symbols(store, "app", symbols)
    frame = walker.json(Scene([0], {"rip": APP + offset}).dump(), store)["threads"][0]["frames"][0]
    start = frame["function_offset"]
    return frame["function"], None if start is None else int(start, 16), frame["file"], frame["line"]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0x0, (None, None, None, None)),
        (0x7FF, (None, None, None, None)),
        (0x800, ("early", 0, None, None)),
        (0xFFF, ("early", 0x7FF, None, None)),
        (0x1000, ("first(int, char const*)", 0, "/src/a.c", 11)),
        (0x100F, ("first(int, char const*)", 0xF, "/src/a.c", 11)),
        (0x1010, ("first(int, char const*)", 0x10, "/src/with spaces/b.h", 12)),
        (0x1020, ("first(int, char const*)", 0x20, None, None)),
        (0x103F, ("first(int, char const*)", 0x3F, "/src/a.c", 14)),
        (0x1040, ("first(int, char const*)", 0x40, None, None)),
        (0x10FF, ("first(int, char const*)", 0xFF, None, None)),
        (0x1100, ("void second<int, (lambda)>::operator() const", 0, "/src/a.c", 4294967295)),
        (0x117F, ("void second<int, (lambda)>::operator() const", 0x7F, "/src/a.c", 4294967295)),
        (0x1180, ("_public@8", 0, None, None)),
        (0x127F, ("_public@8", 0xFF, None, None)),
        (0x1280, ("third", 0, None, None)),
        (0x1300, (None, None, None, None)),
        (0x1FFF, (None, None, None, None)),
        (0x2000, ("late", 0, None, None)),
        (0xFFFF, ("late", 0xDFFF, None, None)),
    ],
)
def test_an_address_has_the_name_of_what_covers_it(
    walker: Walker, offset: int, expected: tuple[Any, ...]
) -> None:
    assert innermost(walker, offset) == expected


def test_a_function_of_no_size_is_not_there(walker: Walker) -> None:
    assert innermost(walker, 0x1000, "FUNC 1000 0 0 empty\nPUBLIC 900 0 before\n")[0] == "before"


def test_of_overlapping_functions_the_first_wins(walker: Walker) -> None:
    symbols = "FUNC 1000 100 0 outer\nFUNC 1080 100 0 inner\nFUNC 1100 80 0 next\n"

    assert innermost(walker, 0x10FF, symbols)[0] == "outer"
    assert innermost(walker, 0x1100, symbols)[0] == "next"


def test_of_functions_with_one_start_the_shorter_wins(walker: Walker) -> None:
    assert innermost(walker, 0x1010, "FUNC 1000 100 0 long\nFUNC 1000 20 0 short\n")[0] == "short"


def test_functions_need_not_be_sorted(walker: Walker) -> None:
    symbols = (
        "FUNC 3000 100 0 c\n3000 100 3 0\nFUNC 1000 100 0 a\n1000 100 1 0\nFUNC 2000 100 0 b\nFILE 0 x.c\n"
    )

    assert innermost(walker, 0x1050, symbols) == ("a", 0x50, "x.c", 1)
    assert innermost(walker, 0x2050, symbols)[0] == "b"
    assert innermost(walker, 0x3050, symbols) == ("c", 0x50, "x.c", 3)


def test_public_symbols_need_not_be_sorted(walker: Walker) -> None:
    assert innermost(walker, 0x1050, "PUBLIC 2000 0 b\nPUBLIC 1000 0 a\nPUBLIC 500 0 z\n")[0] == "a"


def test_of_public_symbols_at_one_address_the_last_by_name_wins(walker: Walker) -> None:
    assert innermost(walker, 0x1050, "PUBLIC 1000 0 b\nPUBLIC 1000 0 c\nPUBLIC 1000 0 a\n")[0] == "c"


def test_a_public_symbol_ends_with_a_function_that_starts_where_it_does(walker: Walker) -> None:
    symbols = "FUNC 1000 10 0 f\nPUBLIC 1000 0 alias\n"

    assert innermost(walker, 0x100F, symbols)[0] == "f"
    assert innermost(walker, 0x1010, symbols)[0] is None


def test_line_records_need_not_be_sorted(walker: Walker) -> None:
    symbols = "FILE 0 x.c\nFUNC 1000 100 0 f\n1080 10 8 0\n1000 10 1 0\n1040 10 4 0\n"

    assert innermost(walker, 0x1005, symbols)[3] == 1
    assert innermost(walker, 0x1045, symbols)[3] == 4
    assert innermost(walker, 0x1085, symbols)[3] == 8


def test_of_overlapping_line_records_the_first_wins(walker: Walker) -> None:
    symbols = "FILE 0 x.c\nFUNC 1000 100 0 f\n1000 20 1 0\n1010 20 2 0\n1020 20 3 0\n"

    assert innermost(walker, 0x101F, symbols)[3] == 1
    assert innermost(walker, 0x1020, symbols)[3] == 3


def test_a_line_record_of_no_size_is_not_there(walker: Walker) -> None:
    assert innermost(walker, 0x1000, "FILE 0 x.c\nFUNC 1000 100 0 f\n1000 0 1 0\n1000 10 2 0\n")[3] == 2


def test_hexadecimal_may_be_in_capitals(walker: Walker) -> None:
    assert innermost(walker, 0x1ABC, "FILE 0 x.c\nFUNC 1AB0 2F 0 F\n1AB0 F 12 0\n") == ("F", 12, "x.c", 12)


def test_records_that_do_not_matter_are_passed_over(walker: Walker) -> None:
    symbols = (
        "INFO CODE_ID 0123 app\nINFO URL https://example.com/app.sym\nINLINE_ORIGIN 0 small\nFILE 0 x.c\n\n"
        "FUNC 1000 100 0 f\nINLINE 0 99 0 0 1080 10\n1000 100 5 0\n"
        "STACK WIN 4 1000 100 0 0 0 0 0 0 1 $eip 4 + ^ =\n"
    )

    assert innermost(walker, 0x1010, symbols) == ("f", 0x10, "x.c", 5)


def test_a_very_long_name_is_whole(walker: Walker) -> None:
    name = f"f<{'std::pair<int, ' * 2000}int{'>' * 2001}()"

    assert innermost(walker, 0x1010, f"FUNC 1000 100 0 {name}\n")[0] == name


def test_names_beyond_ascii_and_with_quotes_survive_json(walker: Walker) -> None:
    name = 'größe::λ("a\\b")\t<日本>'

    assert innermost(walker, 0x1010, f"FILE 0 C:\\src\\ü.c\nFUNC 1000 100 0 {name}\n1000 100 3 0\n") == (
        name,
        0x10,
        "C:\\src\\ü.c",
        3,
    )


def test_a_file_that_was_declared_last_is_known(walker: Walker) -> None:
    assert innermost(walker, 0x1010, "FUNC 1000 100 0 f\n1000 100 3 12\nFILE 12 late.c\n")[2] == "late.c"


INLINED = """\
FILE 0 outer.c
FILE 1 middle.h
FILE 2 inner.h
INLINE_ORIGIN 0 middle()
INLINE_ORIGIN 1 inner()
FUNC 1000 100 0 outer
INLINE 0 11 0 0 1010 40 1080 10
INLINE 1 22 1 1 1020 10
1000 10 1 0
1010 10 21 1
1020 10 31 2
1030 d0 2 0
"""


@pytest.mark.parametrize(
    ("offset", "line", "inlined"),
    [
        (0x1000, 1, None),
        (0x1010, 11, [("middle()", "middle.h", 21)]),
        (0x1025, 11, [("inner()", "inner.h", 31), ("middle()", "middle.h", 22)]),
        (0x1080, 11, [("middle()", "outer.c", 2)]),
        (0x10F0, 2, None),
    ],
)
def test_inlined_calls_are_listed_innermost_first(
    walker: Walker, offset: int, line: int, inlined: list[tuple[str, str, int]] | None
) -> None:
    write_symbols(walker.folder, "app", INLINED)

    answer = walker.json(Scene([0], {"rip": APP + offset}).dump(), walker.folder)

    frame = answer["threads"][0]["frames"][0]
    assert (frame["function"], frame["file"], frame["line"]) == ("outer", "outer.c", line)
    found = frame["inlines"] and [(one["function"], one["file"], one["line"]) for one in frame["inlines"]]
    assert found == inlined


def test_of_inlined_calls_at_one_place_the_longer_wins(walker: Walker) -> None:
    ranges = "INLINE 0 11 0 0 1010 80\nINLINE 0 12 0 1 1010 8\n"

    assert innermost(walker, 0x1050, INLINED.replace("INLINE 0 11 0 0 1010 40 1080 10\n", ranges))[3] == 11


@pytest.mark.parametrize("record", ["FUNC 1000 100 0 ", "PUBLIC 1000 0 "])
def test_a_nameless_function_is_no_reason_to_believe_a_word(walker: Walker, record: str) -> None:
    assert innermost(walker, 0x1010, f"{record}\n")[0] == ""

    words = Scene([7, APP + 0x1051, 0], {"rip": LIB})
    assert walker.json(words.dump(), walker.folder / "symbols")["threads"][0]["frame_count"] == 1


def function_with(walker: Walker, module: LoadedModule, *stores: Path) -> str | None:
    dump = Dump(
        System(),
        [Thread(1, Memory(STACK, bytes(64)), minidump.amd64_context({"rip": APP + 0x1010, "rsp": STACK}))],
        [module],
    )
    name: str | None = walker.json(write_minidump(dump), *stores)["threads"][0]["frames"][0]["function"]
    return name


def test_the_first_store_that_has_the_file_serves_it(walker: Walker) -> None:
    stores = [walker.folder / name for name in ("empty", "one", "two")]
    stores[0].mkdir()
    write_symbols(stores[1], "app", "FUNC 1000 100 0 from_one\n")
    write_symbols(stores[2], "app", "FUNC 1000 100 0 from_two\n")

    assert function_with(walker, scene_module("app", APP), *stores) == "from_one"


def test_symbols_of_another_build_are_not_used(walker: Walker) -> None:
    write_symbols(walker.folder, "app", "FUNC 1000 100 0 f\n", UUID(int=99))

    assert function_with(walker, scene_module("app", APP), walker.folder) is None


def test_a_store_that_does_not_exist_is_as_good_as_an_empty_one(walker: Walker) -> None:
    assert function_with(walker, scene_module("app", APP), walker.folder / "nowhere") is None


def test_pdb_symbols_are_filed_under_the_pdb_and_end_in_sym(walker: Walker) -> None:
    code_view = minidump.rsds(APP_ID, 0x1F, r"C:\build\obj\App.PDB")
    path = walker.folder / "App.PDB" / minidump.debug_id(code_view) / "App.sym"
    path.parent.mkdir(parents=True)
    path.write_text(f"MODULE windows x86_64 {minidump.debug_id(code_view)} App.PDB\nFUNC 1000 100 0 f\n")

    assert function_with(walker, LoadedModule(r"C:\app.exe", APP, 0x10000, code_view), walker.folder) == "f"


def test_elf_symbols_are_filed_under_the_build_id(walker: Walker) -> None:
    code_view = minidump.build_id(bytes(range(1, 21)))
    path = walker.folder / "app.so" / "0403020106050807090A0B0C0D0E0F100" / "app.so.sym"
    path.parent.mkdir(parents=True)
    path.write_text("MODULE Linux x86_64 0403020106050807090A0B0C0D0E0F100 app.so\nFUNC 1000 100 0 f\n")

    assert (
        function_with(walker, LoadedModule("/usr/lib/app.so", APP, 0x10000, code_view), walker.folder) == "f"
    )


def test_two_modules_with_one_name_have_their_own_symbols(walker: Walker) -> None:
    other = UUID(int=5)
    write_symbols(walker.folder, "app", "FUNC 1000 100 0 from_app\n")
    write_symbols(walker.folder, "app", "FUNC 1000 100 0 from_other\n", other)
    words = (LIB + 0x1051).to_bytes(8, "little") * 2
    dump = Dump(
        System(),
        [Thread(1, Memory(STACK, words), minidump.amd64_context({"rip": APP + 0x1010, "rsp": STACK}))],
        [scene_module("app", APP), scene_module("app", LIB, other)],
    )

    frames = walker.json(write_minidump(dump), walker.folder)["threads"][0]["frames"]

    assert [frame["function"] for frame in frames] == ["from_app", "from_other", "from_other"]
