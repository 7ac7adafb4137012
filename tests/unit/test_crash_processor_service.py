"""The built-in worker as a service: what its spool has to hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.services.crash_processor import dumps_in, items_for
from tuner_workers.crash_processor.fill import find_dumps


def test_a_spool_holds_four_times_what_the_largest_layout_holds_at_once() -> None:
    layouts = [Layout(1, 4), Layout(2, 3)]

    assert items_for(layouts, {}) == 4 * 2 * (3 + 8)
    assert items_for(layouts, {"maximum_queue_size": " 20 "}) == 4 * 2 * (3 + 20)


@pytest.mark.parametrize("text", ["x", "", "0", "-1", "1.5", "9" * 5000])
def test_a_queue_of_no_size_is_reported(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^service\.options\.maximum_queue_size: '"):
        items_for([Layout(1, 1)], {"maximum_queue_size": text})


def test_dumps_are_found_however_their_names_end(tmp_path: Path) -> None:
    names = ["MEMORY.DMP", "a.dmp", "b.Dump"]
    for name in (*names, "notes.txt"):
        (tmp_path / name).touch()

    assert sorted(path.name for path in dumps_in(tmp_path)) == names
    assert [path.name for path in find_dumps(tmp_path)] == names
