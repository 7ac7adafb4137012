"""The first way to find a caller: the rules that STACK CFI records give for an address."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import APP, LIB, STACK, Scene

pytestmark = pytest.mark.integration

FUNCTIONS = "FUNC 1000 100 0 leaf\nFUNC 1100 100 0 middle\nFUNC 1200 100 0 outer\n"
TO_LIB = LIB + 0x150

Walk = Callable[[Scene], list[str]]


def from_leaf(rules: str, words: list[int], **registers: int) -> Scene:
    """A thread that stands in leaf, for which these rules hold."""
    return Scene(words, {"rip": APP + 0x1010, **registers}, f"{FUNCTIONS}STACK CFI INIT 1000 100 {rules}\n")


@pytest.mark.parametrize(
    "cfa",
    [
        "$rsp 16 +",
        "rsp 16 +",
        "$rsp 32 + 16 -",
        "$rsp 2 3 * + 10 +",
        "$rsp 33 2 / +",
        "$rsp 56 40 % +",
        "$rsp 31 + 16 @",
        "$rbx ^",
        "$rsp -16 -",
        "-8 $rsp + 24 +",
        "$rip 4198416 - $rsp + 16 +",
        "$rsp +16 +",
        "0 1 - 17 + $rsp +",
    ],
)
def test_a_frame_address_is_computed_from_registers_numbers_and_memory(walk: Walk, cfa: str) -> None:
    scene = from_leaf(f".cfa: {cfa} .ra: .cfa -8 + ^", [0, TO_LIB, STACK + 16], rbx=STACK + 16)

    assert walk(scene) == ["context app+0x1010 leaf", "cfi lib+0x14f ?"]


@pytest.mark.parametrize(
    "cfa",
    [
        "$rsp 16",
        "+ 16",
        "$rsp 0 /",
        "$rsp 0 %",
        "$rsp 3 @",
        "$rsp -16 @",
        "$rsp 0 @",
        ".cfa 8 +",
        ".undef",
        "$nosuch 8 +",
        "nosuch 8 +",
        "$rsp 0x10 +",
        "$rsp 99999999999999999999 +",
        "1 ^",
        "$rsp 16 & +",
    ],
)
def test_a_rule_that_makes_no_sense_leaves_the_frame_to_scanning(walk: Walk, cfa: str) -> None:
    scene = from_leaf(f".cfa: {cfa} .ra: .cfa -8 + ^", [0, TO_LIB])

    assert walk(scene) == ["context app+0x1010 leaf", "scan lib+0x14f ?"]


@pytest.mark.parametrize(
    "rules", [".cfa: $rsp 16 +", ".ra: $rsp 8 + ^", ".cfa: .ra: .cfa -8 + ^", "16 .cfa: $rsp 16 +"]
)
def test_rules_without_a_frame_address_or_a_return_address_are_not_used(walk: Walk, rules: str) -> None:
    assert walk(from_leaf(rules, [0, TO_LIB])) == ["context app+0x1010 leaf", "scan lib+0x14f ?"]


def test_a_delta_may_complete_the_rules(walk: Walk) -> None:
    scene = from_leaf(".ra: .cfa 8 - ^\nSTACK CFI 1001 .cfa: $rsp 16 +", [0, TO_LIB])

    assert walk(scene) == ["context app+0x1010 leaf", "cfi lib+0x14f ?"]


@pytest.mark.parametrize(
    ("offset", "expected"), [(0x100F, "lib+0x0"), (0x1010, "lib+0x1"), (0x10FF, "lib+0x1")]
)
def test_a_delta_holds_from_its_own_address_on(walk: Walk, offset: int, expected: str) -> None:
    rules = ".cfa: $rsp 8 + .ra: .cfa -8 + ^\nSTACK CFI 1010 .cfa: $rsp 16 +"
    scene = from_leaf(rules, [LIB + 1, LIB + 2], rip=APP + offset)

    assert walk(scene)[1].startswith(f"cfi {expected} ")


def test_a_caller_is_looked_up_one_byte_before_its_return_address(walk: Walk) -> None:
    rules = (
        "STACK CFI INIT 1000 100 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n"
        "STACK CFI INIT 1100 100 .cfa: $rsp 16 + .ra: .cfa -8 + ^\n"
        "STACK CFI INIT 1200 100 .cfa: $rsp 800 + .ra: .cfa -8 + ^\n"
    )
    scene = Scene([APP + 0x1200, 0, TO_LIB], {"rip": APP + 0x1010}, FUNCTIONS + rules)

    assert walk(scene) == ["context app+0x1010 leaf", "cfi app+0x11ff middle", "cfi lib+0x14f ?"]


def test_callee_saved_registers_live_on_in_the_caller(walk: Walk) -> None:
    rules = (
        "STACK CFI INIT 1000 100 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n"
        "STACK CFI INIT 1100 100 .cfa: $rbx 16 + .ra: .cfa -8 + ^\n"
    )
    scene = Scene([APP + 0x1150, 0, 0, TO_LIB], {"rip": APP + 0x1010, "rbx": STACK + 16}, FUNCTIONS + rules)

    assert walk(scene) == ["context app+0x1010 leaf", "cfi app+0x114f middle", "cfi lib+0x14f ?"]


@pytest.mark.parametrize("register", ["rax", "rcx", "rdi", "r8", "r11"])
def test_other_registers_are_lost_with_the_call(walk: Walk, register: str) -> None:
    rules = (
        "STACK CFI INIT 1000 100 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n"
        f"STACK CFI INIT 1100 100 .cfa: ${register} 16 + .ra: .cfa -8 + ^\n"
    )
    scene = Scene(
        [APP + 0x1150, 0, 0, TO_LIB], {"rip": APP + 0x1010, register: STACK + 16}, FUNCTIONS + rules
    )

    assert walk(scene) == ["context app+0x1010 leaf", "cfi app+0x114f middle", "scan lib+0x14f ?"]


@pytest.mark.parametrize("rule", ["$rbx: .undef", "$rbx: $nosuch", "$rbx: 0 ^"])
def test_a_register_whose_rule_fails_is_unknown_in_the_caller(walk: Walk, rule: str) -> None:
    rules = (
        f"STACK CFI INIT 1000 100 .cfa: $rsp 8 + .ra: .cfa -8 + ^ {rule}\n"
        "STACK CFI INIT 1100 100 .cfa: $rbx 16 + .ra: .cfa -8 + ^\n"
    )
    scene = Scene([APP + 0x1150, 0, 0, TO_LIB], {"rip": APP + 0x1010, "rbx": STACK + 16}, FUNCTIONS + rules)

    assert walk(scene) == ["context app+0x1010 leaf", "cfi app+0x114f middle", "scan lib+0x14f ?"]


@pytest.mark.parametrize(
    ("register", "spelling"),
    [("rbx", "$rbx"), ("r12", "r12"), ("r15", "$r15"), ("rax", "$rax"), ("rbp", "rbp")],
)
def test_a_register_saved_on_the_stack_is_restored(walk: Walk, register: str, spelling: str) -> None:
    rules = (
        f"STACK CFI INIT 1000 100 .cfa: $rsp 16 + .ra: .cfa -8 + ^ {spelling}: .cfa -16 + ^\n"
        f"STACK CFI INIT 1100 100 .cfa: ${register} 8 + .ra: .cfa -8 + ^\n"
    )
    scene = Scene([STACK + 24, APP + 0x1150, 0, TO_LIB], {"rip": APP + 0x1010}, FUNCTIONS + rules)

    assert walk(scene) == ["context app+0x1010 leaf", "cfi app+0x114f middle", "cfi lib+0x14f ?"]


def test_a_rule_for_rip_or_rsp_overrides_the_return_and_frame_address(walk: Walk) -> None:
    rules = ".cfa: $rsp 8 + .ra: .cfa -8 + ^ $rip: .cfa 8 + ^ $rsp: .cfa 16 +\nSTACK CFI INIT 1100 100 " \
            ".cfa: $rsp 8 + .ra: .cfa -8 + ^"  # fmt: skip
    scene = from_leaf(rules, [TO_LIB, 0, APP + 0x1150, TO_LIB + 8])

    assert walk(scene) == ["context app+0x1010 leaf", "cfi app+0x114f middle", "cfi lib+0x157 ?"]


def test_where_rules_overlap_the_first_ones_win(walk: Walk) -> None:
    rules = ".cfa: $rsp 16 + .ra: .cfa -8 + ^\nSTACK CFI INIT 1008 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^"
    scene = from_leaf(rules, [TO_LIB, TO_LIB + 16])

    assert walk(scene)[1] == "cfi lib+0x15f ?"


def test_rules_end_where_their_range_ends(walk: Walk) -> None:
    symbols = f"{FUNCTIONS}STACK CFI INIT 1000 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n"

    assert walk(Scene([TO_LIB], {"rip": APP + 0x100F}, symbols))[1] == "cfi lib+0x14f ?"
    assert walk(Scene([TO_LIB], {"rip": APP + 0x1010}, symbols))[1] == "scan lib+0x14f ?"


def test_rules_of_no_length_are_ignored(walk: Walk) -> None:
    symbols = f"{FUNCTIONS}STACK CFI INIT 1010 0 .cfa: $rsp 16 + .ra: .cfa -8 + ^\n"

    assert walk(Scene([TO_LIB, TO_LIB], {"rip": APP + 0x1010}, symbols))[1] == "scan lib+0x14f ?"


def test_rules_hold_without_any_name_for_the_address(walk: Walk) -> None:
    symbols = "STACK CFI INIT 1000 100 .cfa: $rsp 16 + .ra: .cfa -8 + ^\n"

    assert walk(Scene([0, TO_LIB], {"rip": APP + 0x1010}, symbols)) == [
        "context app+0x1010 ?",
        "cfi lib+0x14f ?",
    ]


def test_rules_may_come_before_the_functions(walk: Walk) -> None:
    symbols = f"STACK CFI INIT 1000 100 .cfa: $rsp 16 + .ra: .cfa -8 + ^\n{FUNCTIONS}"

    assert walk(Scene([0, TO_LIB], {"rip": APP + 0x1010}, symbols)) == [
        "context app+0x1010 leaf",
        "cfi lib+0x14f ?",
    ]


def test_rules_need_not_be_sorted(walk: Walk) -> None:
    rule = ".cfa: $rsp {} + .ra: .cfa -8 + ^\n"
    symbols = FUNCTIONS + "".join(
        f"STACK CFI INIT {address:x} 100 {rule.format(size)}"
        for address, size in ((0x1200, 24), (0x1100, 16), (0x1000, 8))
    )
    words = [APP + 0x1150, 0, APP + 0x1250, 0, 0, TO_LIB]

    assert walk(Scene(words, {"rip": APP + 0x1010}, symbols))[1:] == [
        "cfi app+0x114f middle",
        "cfi app+0x124f outer",
        "cfi lib+0x14f ?",
    ]


def test_deltas_need_not_be_sorted(walk: Walk) -> None:
    rules = ".cfa: $rsp 8 + .ra: .cfa -8 + ^\nSTACK CFI 1008 .cfa: $rsp 24 +\nSTACK CFI 1004 .cfa: $rsp 16 +"

    assert walk(from_leaf(rules, [0, 0, TO_LIB]))[1] == "cfi lib+0x14f ?"


@pytest.mark.parametrize("return_address", [0, 1, 4095])
def test_a_return_address_in_the_first_page_ends_the_stack(walk: Walk, return_address: int) -> None:
    scene = from_leaf(".cfa: $rsp 16 + .ra: .cfa -8 + ^", [0, return_address, TO_LIB])

    assert walk(scene) == ["context app+0x1010 leaf"]


def test_a_return_address_outside_every_module_is_believed(walk: Walk) -> None:
    scene = from_leaf(".cfa: $rsp 16 + .ra: .cfa -8 + ^", [0, 0xDEAD_BEEF_0000_0000, 0])

    assert walk(scene) == ["context app+0x1010 leaf", "cfi 0xdeadbeeeffffffff"]


@pytest.mark.parametrize("cfa", ["$rsp", "$rsp 8 -", "8"])
def test_a_frame_that_does_not_shrink_the_stack_ends_it(walk: Walk, cfa: str) -> None:
    scene = from_leaf(f".cfa: {cfa} .ra: $rsp 8 + ^", [0, TO_LIB, TO_LIB])

    assert walk(scene) == ["context app+0x1010 leaf"]


def test_an_undefined_return_address_leaves_the_frame_to_scanning(walk: Walk) -> None:
    scene = from_leaf(".cfa: $rsp 16 + .ra: .undef", [0, TO_LIB])

    assert walk(scene) == ["context app+0x1010 leaf", "scan lib+0x14f ?"]


def test_a_return_address_beyond_the_captured_stack_leaves_the_frame_to_scanning(walk: Walk) -> None:
    scene = from_leaf(".cfa: $rsp 24 + .ra: .cfa -8 + ^", [0, TO_LIB])

    assert walk(scene) == ["context app+0x1010 leaf", "scan lib+0x14f ?"]


def test_registers_are_unknown_after_a_frame_pointer_step(walk: Walk) -> None:
    rules = "STACK CFI INIT 1100 100 .cfa: $rbx 8 + .ra: .cfa -8 + ^\n"
    words = [STACK + 16, APP + 0x1150, 0, TO_LIB]
    scene = Scene(words, {"rip": APP + 0x1010, "rbp": STACK, "rbx": STACK + 24}, FUNCTIONS + rules)

    assert walk(scene) == ["context app+0x1010 leaf", "frame_pointer app+0x114f middle", "scan lib+0x14f ?"]


def test_windows_line_ends_are_understood(walk: Walk) -> None:
    symbols = f"{FUNCTIONS}STACK CFI INIT 1000 100 .cfa: $rsp 16 + .ra: .cfa -8 + ^\n".replace("\n", "\r\n")

    assert walk(Scene([0, TO_LIB], {"rip": APP + 0x1010}, symbols)) == [
        "context app+0x1010 leaf",
        "cfi lib+0x14f ?",
    ]
