"""The studies that `bench/scale.py` measures on: as large as asked for, and studies like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner import bootstrap
from tuner.adapters.sqlite import SqliteStore
from tuner.core.layout import Layout

from ..bench_modules import loaded

pytestmark = pytest.mark.integration
LAYOUTS = (Layout(1, 1), Layout(2, 2))


def test_a_study_is_as_large_as_asked_for_and_ranked_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "s.tuner.db"
    with loaded("scale_study") as bench:
        bench.scale_study.write_study(path, bench.scale_study.Size(60, 900, LAYOUTS), cores=4)
    with SqliteStore.open(path, read_only=True) as store:
        windows = store.windows()
        n_samples = sum(len(store.samples(one.launch_id, one.index, one.attempt)) for one in windows[:10])

    assert sum(not one.void for one in windows) == 60
    assert sum(bool(one.void) for one in windows) == 1
    assert len({one.launch_id for one in windows}) == 12
    assert n_samples == 10 * 15
    _, ranking = bootstrap.ranked(path)
    assert [row.layout for row in ranking.rows] == [Layout(2, 2), Layout(1, 1)]
    assert [row.n_windows for row in ranking.rows] == [30, 30]
