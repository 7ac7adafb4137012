"""Synthetic symbol files: their size, their order, and that they mean what the answers say."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from tuner_workers.crash_processor.synthetic.symbols import SymbolStyle, SymbolTable, make_symbols

from ..wording import wording

HEADER = "MODULE Linux x86_64 030201000504070608090A0B0C0D0E0F0 x.so\n"
WANTED = ("main", "alpha", "omega", "_start")


def table(n_bytes: int = 100_000, seed: int = 1, style: SymbolStyle | None = None) -> SymbolTable:
    return make_symbols(
        Random(seed),
        header=HEADER,
        style=style or SymbolStyle(),
        n_bytes=n_bytes,
        wanted=WANTED,
        starts=frozenset(("_start",)),
    )


@pytest.mark.parametrize("n_bytes", [20_000, 100_000, 560_000])
@pytest.mark.parametrize("style", [SymbolStyle(), SymbolStyle(lines=False), SymbolStyle(cfi=False)])
def test_the_text_is_about_as_long_as_asked(n_bytes: int, style: SymbolStyle) -> None:
    assert n_bytes <= len(table(n_bytes, style=style).text) <= n_bytes + 6_000


def test_the_same_seed_gives_the_same_text_and_another_seed_another() -> None:
    assert table().text == table().text
    assert table().text != table(seed=2).text


def test_every_wanted_function_is_there_once() -> None:
    symbols = table(4_000)
    names = [function.name for function in symbols.functions]

    assert [names.count(name) for name in WANTED] == [1, 1, 1, 1]
    assert symbols.by_name["_start"].ends_stack
    assert not symbols.by_name["main"].ends_stack


def test_functions_are_sorted_and_do_not_overlap() -> None:
    symbols = table()

    assert all(one.address + one.size <= other.address for one, other in pairwise(symbols.functions))
    assert symbols.functions[-1].address + symbols.functions[-1].size <= symbols.end


def test_records_are_sorted_by_address_within_their_kind() -> None:
    lines = table().text.splitlines()
    functions = [
        int(line.replace("FUNC m ", "FUNC ").split()[1], 16) for line in lines if line.startswith("FUNC")
    ]
    rules = [int(line.removeprefix("STACK CFI ").removeprefix("INIT ").split()[0], 16) for line in lines
             if line.startswith("STACK")]  # fmt: skip

    assert functions == sorted(functions)
    assert rules == sorted(rules)
    assert len(functions) > 50
    assert len(rules) > 200


def test_records_come_in_the_order_of_dump_syms() -> None:
    kinds = [line.split()[0] for line in table().text.splitlines() if line[0].isupper()]
    kinds = [kind for kind in kinds if kind != "INLINE"]
    order = [kind for kind, following in pairwise([*kinds, ""]) if kind != following]

    assert order == ["MODULE", "FILE", "INLINE_ORIGIN", "FUNC", "STACK"]


def test_a_line_is_found_in_the_record_that_covers_it() -> None:
    symbols = table()
    for function in symbols.functions[:50]:
        for record in function.line_records.splitlines():
            if record.startswith("INLINE"):
                continue
            address, size, line, file = record.split()
            offset = int(address, 16) - function.address
            assert function.line_at(offset) == (int(file), int(line))
            assert function.line_at(offset + int(size, 16) - 1) == (int(file), int(line))
        assert function.line_at(function.size) is None


def test_some_code_has_no_line() -> None:
    symbols = table()

    assert any(
        function.line_at(offset) is None for function in symbols.functions for offset in range(function.size)
    )


def test_every_rule_is_written_for_the_state_it_describes() -> None:
    symbols = table()
    deltas = [
        line for line in symbols.text.splitlines() if line.startswith("STACK CFI ") and "INIT" not in line
    ]
    by_address = {int(line.split()[2], 16): line for line in deltas}
    for function in symbols.functions:
        for before, state in pairwise(function.unwind):
            text = by_address[function.address + state.offset]
            if (state.cfa_register, state.cfa_offset) != (before.cfa_register, before.cfa_offset):
                assert f".cfa: ${state.cfa_register} {state.cfa_offset} +" in text
            if state.rbp_slot is not None and before.rbp_slot is None:
                assert "$rbp: .cfa -16 + ^" in text


def test_the_state_in_force_is_the_last_one_at_or_before_an_offset() -> None:
    function = next(function for function in table().functions if len(function.unwind) >= 3)
    first, second, *_ = function.unwind

    assert function.state_at(first.offset) == first
    assert function.state_at(second.offset - 1) == first
    assert function.state_at(second.offset) == second
    assert function.state_at(function.size - 1) == function.unwind[-1]


def test_public_symbols_alone_have_neither_files_nor_lines() -> None:
    symbols = table(style=SymbolStyle(lines=False))

    assert symbols.files == ()
    assert "FUNC" not in symbols.text
    assert "FILE" not in symbols.text
    assert symbols.text.count("PUBLIC ") == len(symbols.functions)


def test_a_style_without_rules_has_none() -> None:
    assert "STACK" not in table(style=SymbolStyle(cfi=False)).text


def test_an_undefined_return_address_marks_the_first_function_of_a_thread() -> None:
    symbols = table()
    start = symbols.by_name["_start"]

    assert (
        wording("crash-processor.symbol-rule-of-stack", address=f"{start.address:x}", size=f"{start.size:x}")
        in symbols.text
    )
    assert symbols.text.count(".undef") == 1
