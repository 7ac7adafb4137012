"""What tests cost: the table, and what is measured."""

from __future__ import annotations

import re

from ..costs import CHEAP_CPU_S, CHEAP_WALL_S, HEAD, Cost, kept_costs, still_there, table_of

FUNCTION = re.compile(r"^[^:]+\.py::test_\w+(\[.*\])?$", re.DOTALL)


def test_a_test_that_computes_or_waits_for_long_is_not_cheap() -> None:
    assert Cost(CHEAP_CPU_S, CHEAP_WALL_S).is_cheap
    assert not Cost(CHEAP_CPU_S + 0.01, 0.0).is_cheap
    assert not Cost(0.0, CHEAP_WALL_S + 0.1).is_cheap


def test_the_table_has_the_tests_that_are_not_cheap_in_order() -> None:
    costs = {
        "b.py::test_b": Cost(2.0, 4.04),
        "a.py::test_a[x]": Cost(0.1, 5.0),
        "c.py::test_c": Cost(0.1, 0.1),
    }

    assert table_of(costs) == f"{HEAD}\na.py::test_a[x]\t0.10\t5.0\nb.py::test_b\t2.00\t4.0\n"


def test_each_row_of_the_table_names_a_test_that_is_still_there() -> None:
    found = [FUNCTION.match(node) for node in kept_costs()]

    assert all(found)
    assert sorted({node for node in kept_costs() if not still_there(node)}) == []
