"""The last way to find a caller: a word on the stack that looks like a return address."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import APP, LIB, MODULE_SIZE, STACK, Scene

pytestmark = pytest.mark.integration

START = LIB + 0x10
FOUND = LIB + 0x150
CONTEXT = "context lib+0x10 ?"
BY_SCAN = "scan lib+0x14f ?"
#: 1000-10ff f, 1100-11ff nothing, 1200-12ff g; a public symbol at 3000
NAMED = "FUNC 1000 100 0 f\nFUNC 1200 100 0 g\nPUBLIC 3000 0 exported\n"

Walk = Callable[[Scene], list[str]]


def at(word: int) -> int:
    """The address of a stack word."""
    return STACK + 8 * word


def scene(words: list[int], symbols: str | None = None, **registers: int) -> Scene:
    return Scene(words, {"rip": START, **registers}, symbols)


@pytest.mark.parametrize("distance", [0, 1, 39, 40, 159])
def test_from_the_context_a_scan_reaches_160_words(walk: Walk, distance: int) -> None:
    assert walk(scene([7] * distance + [FOUND])) == [CONTEXT, BY_SCAN]


def test_from_the_context_a_scan_ends_there(walk: Walk) -> None:
    assert walk(scene([7] * 160 + [FOUND])) == [CONTEXT]


def test_from_a_scanned_frame_a_scan_reaches_40_words(walk: Walk) -> None:
    assert walk(scene([FOUND, *[7] * 39, FOUND])) == [CONTEXT, BY_SCAN, BY_SCAN]
    assert walk(scene([FOUND, *[7] * 40, FOUND])) == [CONTEXT, BY_SCAN]


def test_from_a_frame_by_frame_pointer_a_scan_reaches_40_words(walk: Walk) -> None:
    by_pointer = [at(2), FOUND + 1]

    assert walk(scene([*by_pointer, *[7] * 39, FOUND], rbp=STACK))[2:] == [BY_SCAN]
    assert walk(scene([*by_pointer, *[7] * 40, FOUND], rbp=STACK))[2:] == []


def test_from_a_frame_by_cfi_a_scan_reaches_160_words(walk: Walk) -> None:
    symbols = "FUNC 1000 100 0 f\nSTACK CFI INIT 1000 100 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n"

    assert walk(scene([FOUND + 1, *[7] * 159, FOUND], symbols, rip=APP + 0x1010))[2:] == [BY_SCAN]
    assert walk(scene([FOUND + 1, *[7] * 160, FOUND], symbols, rip=APP + 0x1010))[2:] == []


@pytest.mark.parametrize(
    ("word", "is_found"),
    [
        (LIB, False),  # the byte before it lies outside
        (LIB + 1, True),
        (LIB + MODULE_SIZE, True),  # a call in the module's last bytes
        (LIB + MODULE_SIZE + 1, False),
        (0, False),
        (1, False),
        (APP + MODULE_SIZE + 0x100, False),
        (LIB | 1 << 47, False),
        (LIB | 1 << 63, False),
        (STACK, False),
    ],
)
def test_a_return_address_points_just_behind_code_of_a_module(walk: Walk, word: int, is_found: bool) -> None:
    expected = [f"scan lib+{word - 1 - LIB:#x} ?"] if is_found else []

    assert walk(scene([7, word, 0])) == [CONTEXT, *expected]


@pytest.mark.parametrize(
    ("offset", "name"),
    [
        (0x0FFF, None),
        (0x1000, None),
        (0x1001, "f"),
        (0x1100, "f"),
        (0x1101, None),
        (0x1200, None),
        (0x1201, "g"),
        (0x1301, None),
        (0x3000, None),
        (0x3001, "exported"),
        (0xFFFF, "exported"),
    ],
)
def test_where_a_module_has_symbols_only_named_code_counts(walk: Walk, offset: int, name: str | None) -> None:
    expected = [f"scan app+{offset - 1:#x} {name}"] if name else []

    assert walk(scene([7, APP + offset, 0], NAMED)) == [CONTEXT, *expected]


def test_without_symbols_any_address_of_a_module_counts(walk: Walk) -> None:
    assert walk(scene([7, APP + 0x1101, 0])) == [CONTEXT, "scan app+0x1100 ?"]


def test_an_empty_symbol_table_names_nothing(walk: Walk) -> None:
    assert walk(scene([7, APP + 0x1101, 0], "INFO CODE_ID 1234\n")) == [CONTEXT]


def test_a_scan_steps_by_words_from_rsp(walk: Walk) -> None:
    words = [FOUND << 32 & 2**64 - 1, FOUND >> 32]

    assert walk(scene([*words, 0])) == [CONTEXT]
    assert walk(scene([*words, 0], rsp=STACK + 4)) == [CONTEXT, BY_SCAN]


@pytest.mark.parametrize("rsp", [STACK - 8, STACK + 24, 0, 2**64 - 8, 2**64 - 1])
def test_an_rsp_outside_the_stack_ends_it(walk: Walk, rsp: int) -> None:
    assert walk(scene([7, FOUND, 0], rsp=rsp)) == [CONTEXT]


def test_rbp_is_kept_when_it_lies_above_the_return_address(walk: Walk) -> None:
    words = [7, FOUND, 7, 7, at(6), FOUND + 1, 0]
    kept = scene(words, rbp=at(4))

    assert walk(scene([7, FOUND, 7, 7, 0, 0, 0], rbp=at(4)))[1:] == [BY_SCAN]
    assert walk(kept) == [CONTEXT, "frame_pointer lib+0x150 ?"]


RULES = "FUNC 1000 100 0 f\nSTACK CFI INIT 1000 100 .cfa: $rbp 16 + .ra: .cfa -8 + ^\n"


def test_a_kept_rbp_serves_the_rules_of_the_caller(walk: Walk) -> None:
    words = [7, APP + 0x1050, 7, 7, 0, FOUND, 0]

    assert walk(scene(words, RULES, rbp=at(4))) == [CONTEXT, "scan app+0x104f f", "cfi lib+0x14f ?"]


def test_an_rbp_just_at_the_callers_rsp_is_kept(walk: Walk) -> None:
    words = [7, APP + 0x1050, 0, FOUND, 0]

    assert walk(scene(words, RULES, rbp=at(2)))[1:] == ["scan app+0x104f f", "cfi lib+0x14f ?"]
    assert walk(scene(words, RULES, rbp=at(2) - 1))[1:] == ["scan app+0x104f f", BY_SCAN]


def test_rbp_is_lost_when_the_return_address_is_the_first_word(walk: Walk) -> None:
    words = [7, APP + 0x1050, 7, 7, 0, FOUND, 0]

    assert walk(scene(words, RULES, rsp=at(1), rbp=at(4))) == [CONTEXT, "scan app+0x104f f", BY_SCAN]
    assert walk(scene(words, RULES, rsp=at(0), rbp=at(4))) == [
        CONTEXT,
        "scan app+0x104f f",
        "cfi lib+0x14f ?",
    ]


def test_rbp_is_restored_from_the_word_below_the_return_address(walk: Walk) -> None:
    saved = at(2) + 4  # too low for a frame pointer step, but above the return address
    data = b"".join(word.to_bytes(8, "little") for word in (7, saved, APP + 0x1050))
    data += bytes(4) + FOUND.to_bytes(8, "little") + bytes(12)
    words = [int.from_bytes(data[start : start + 8], "little") for start in range(0, len(data), 8)]

    assert walk(scene(words, RULES, rbp=at(1))) == [CONTEXT, "scan app+0x104f f", "cfi lib+0x14f ?"]


def test_a_frame_found_by_scan_may_be_the_only_one(walk: Walk) -> None:
    assert walk(scene([FOUND])) == [CONTEXT, BY_SCAN]


def test_a_stack_of_return_addresses_alone_gives_a_frame_for_each(walk: Walk) -> None:
    assert walk(scene([FOUND + n for n in range(50)])) == [
        CONTEXT,
        *(f"scan lib+{0x14F + n:#x} ?" for n in range(50)),
    ]


def test_code_outside_every_module_is_left_by_scanning(walk: Walk) -> None:
    assert walk(scene([7, FOUND], rip=0x7000_0000)) == ["context 0x70000000", BY_SCAN]


def test_a_call_through_null_is_left_by_scanning(walk: Walk) -> None:
    assert walk(scene([FOUND, 7], rip=0)) == ["context 0x0", BY_SCAN]
