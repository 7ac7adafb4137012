"""The second way to find a caller: rbp, where it looks like a frame pointer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import APP, LIB, STACK, Scene

pytestmark = pytest.mark.integration

START = LIB + 0x10
FIRST, SECOND = LIB + 0x150, APP + 0x250
CONTEXT = "context lib+0x10 ?"
BY_POINTER = "frame_pointer lib+0x14f ?"
BY_SCAN = "scan lib+0x14f ?"

Walk = Callable[[Scene], list[str]]


def at(word: int) -> int:
    """The address of a stack word."""
    return STACK + 8 * word


def scene(words: list[int], rbp: int, *, os_name: str = "linux", tail_bytes: int = 0) -> Scene:
    return Scene(words, {"rip": START, "rbp": rbp}, None, os_name, tail_bytes)


def test_a_chain_of_frame_pointers_is_followed_to_its_end(walk: Walk) -> None:
    words = [7, at(4), FIRST, 7, at(6), SECOND, 0, 0]

    assert walk(scene(words, at(1))) == [CONTEXT, BY_POINTER, "frame_pointer app+0x24f ?"]


def test_a_saved_pointer_just_at_the_callers_rsp_is_the_least_accepted(walk: Walk) -> None:
    assert walk(scene([7, at(3), FIRST, 0, 0], at(1))) == [CONTEXT, BY_POINTER]
    assert walk(scene([7, at(3) - 1, FIRST, 0, 0], at(1))) == [CONTEXT, BY_SCAN]


def test_a_saved_pointer_must_point_to_a_whole_word_of_the_stack(walk: Walk) -> None:
    assert walk(scene([7, at(4), FIRST, 0, 0], at(1))) == [CONTEXT, BY_POINTER]
    assert walk(scene([7, at(4) + 1, FIRST, 0, 0], at(1))) == [CONTEXT, BY_SCAN]
    assert walk(scene([7, at(4) + 1, FIRST, 0, 0], at(1), tail_bytes=1)) == [CONTEXT, BY_POINTER]


@pytest.mark.parametrize("rbp", [0, 8, STACK - 8, 2**64 - 1, 2**64 - 8, 2**64 - 16, 2**63, LIB])
def test_an_rbp_outside_the_stack_is_no_frame_pointer(walk: Walk, rbp: int) -> None:
    assert walk(scene([7, at(4), FIRST, 0, 0], rbp)) == [CONTEXT, BY_SCAN]


def test_a_frame_pointer_in_the_last_word_has_no_return_address(walk: Walk) -> None:
    assert walk(scene([7, 7, FIRST, at(4)], at(3))) == [CONTEXT, BY_SCAN]


def test_rbp_may_be_unaligned(walk: Walk) -> None:
    shifted = (at(3) + 4).to_bytes(8, "little") + FIRST.to_bytes(8, "little") + bytes(16)
    data = bytes(4) + shifted + bytes(4)
    words = [int.from_bytes(data[start : start + 8], "little") for start in range(0, len(data), 8)]

    assert walk(scene(words, STACK + 4)) == [CONTEXT, BY_POINTER]


def test_a_frame_below_rsp_is_refused(walk: Walk) -> None:
    words = [at(3), SECOND, 0, 0, 0, FIRST, 0, 0]
    below = Scene(words, {"rip": START, "rbp": at(0), "rsp": at(2)})

    assert walk(below) == [CONTEXT, BY_SCAN]


@pytest.mark.parametrize(
    ("return_address", "accepted"),
    [
        (0x7FFF_FFFF_FFFF, True),
        (0x8000_0000_0000, False),
        (0xFFFF_7FFF_FFFF_FFFF, False),
        (0xFFFF_8000_0000_0000, True),
    ],
)
def test_a_return_address_must_be_canonical(walk: Walk, return_address: int, accepted: bool) -> None:
    frames = walk(scene([at(3), return_address, 0, 0, FIRST], STACK))

    assert frames[1] == (f"frame_pointer {return_address - 1:#x}" if accepted else BY_SCAN)


@pytest.mark.parametrize("return_address", [0, 4095])
def test_a_return_address_in_the_first_page_ends_the_stack(walk: Walk, return_address: int) -> None:
    assert walk(scene([at(3), return_address, FIRST, 0, 0], STACK)) == [CONTEXT]


def test_code_outside_every_module_is_walked_through(walk: Walk) -> None:
    words = [at(2), 0x7000_0000, at(4), FIRST, 0, 0]

    assert walk(scene(words, STACK)) == [CONTEXT, "frame_pointer 0x6fffffff", BY_POINTER]


def test_a_chain_that_turns_back_is_left(walk: Walk) -> None:
    words = [at(3), FIRST, 7, at(0), SECOND, 0, 0]

    assert walk(scene(words, STACK)) == [CONTEXT, BY_POINTER, "scan app+0x24f ?"]


@pytest.mark.parametrize("step", range(16))
def test_on_windows_rbp_may_point_into_the_frame(walk: Walk, step: int) -> None:
    saved = 2 * step
    words = [7] * (saved + 5)
    words[saved : saved + 2] = [at(saved + 3), FIRST]

    assert walk(scene(words, STACK, os_name="windows")) == [CONTEXT, BY_POINTER]


def test_on_windows_the_search_ends_after_sixteen_steps(walk: Walk) -> None:
    words = [7] * 37
    words[32:34] = [at(35), FIRST]

    assert walk(scene(words, STACK, os_name="windows")) == [CONTEXT, BY_SCAN]


def test_on_windows_a_word_that_points_high_but_not_into_the_stack_ends_the_search(walk: Walk) -> None:
    words = [2**40, 7, at(5), FIRST, 7, 7, 7]

    assert walk(scene(words, STACK, os_name="windows")) == [CONTEXT, BY_SCAN]


def test_on_windows_a_pair_with_a_wild_return_address_is_stepped_over(walk: Walk) -> None:
    words = [at(4), 2**63, at(5), FIRST, 7, 7, 7]

    assert walk(scene(words, STACK, os_name="windows")) == [CONTEXT, BY_POINTER]


@pytest.mark.parametrize("os_name", ["linux", "macos"])
def test_elsewhere_rbp_must_point_to_the_saved_one(walk: Walk, os_name: str) -> None:
    words = [7, 7, at(5), FIRST, 7, 7, 7]

    assert walk(scene(words, STACK, os_name=os_name)) == [CONTEXT, BY_SCAN]


def test_frames_without_symbols_and_with_rules_alternate(walk: Walk) -> None:
    rules = ".cfa: $rbp 16 + $rbp: .cfa -16 + ^ .ra: .cfa -8 + ^"
    symbols = f"FUNC 200 100 0 with_rules\nSTACK CFI INIT 200 100 {rules}\n"
    words = [at(3), SECOND, 7, at(6), FIRST, 7, at(8), FIRST + 1, 0, 0]

    assert walk(Scene(words, {"rip": START, "rbp": STACK}, symbols)) == [
        CONTEXT,
        "frame_pointer app+0x24f with_rules",
        "cfi lib+0x14f ?",
        "frame_pointer lib+0x150 ?",
    ]
