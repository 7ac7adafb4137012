"""What bench/counts.py takes for finished, and which windows it compares."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tuner.core.domain.window import Reading

from ..bench_modules import loaded


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with loaded("counts") as modules:
        yield modules.counts


class Counted:
    """A probe whose readings are known."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = iter(readings)

    def read(self) -> Reading:
        return next(self._readings)


def test_an_item_belongs_to_the_window_in_which_it_ended(bench: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "finished").write_bytes(array("d", [1.0, 10.0, 10.5, 19.0, 20.0, 20.5]).tobytes())

    assert bench.finished(tmp_path, 10.0, 20.0) == 3


def test_windows_lie_between_the_readings_and_not_where_they_were_due(
    bench: SimpleNamespace, tmp_path: Path
) -> None:
    (tmp_path / "finished").write_bytes(array("d", [1.0, 2.0, 3.0, 4.0]).tobytes())
    probe = Counted(Reading(0.5, 7, 0), Reading(2.5, 9, 0), Reading(4.5, 12, 0))

    assert bench.windows(probe, tmp_path, 2, 0.0) == [(2, 2), (3, 2)]
