from __future__ import annotations

from pathlib import Path

from tuner.adapters.clock import VirtualClock
from tuner.adapters.load.totals import TotalsWriter
from tuner.adapters.probes.generator import GeneratorProbe
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError

from ..raising import raises
from ..wording import wording


def test_nothing_is_counted_until_the_generator_has_begun_and_then_what_it_counts(tmp_path: Path) -> None:
    path = tmp_path / "load.totals"
    with GeneratorProbe(VirtualClock(), path).counting(Layout(1, 1)) as counting:
        before = counting.read()
        totals = TotalsWriter(path)
        totals.answered(200, 10, 0, 1000)
        totals.answered(302, 10, 0, 1000)
        totals.answered(500, 10, 0, 1000)
        totals.failed("timeout", 2000)
        after = counting.read()
        totals.close()

    assert (before.n_done_total, before.n_failed_total) == (0, 0)
    assert (after.n_done_total, after.n_failed_total) == (2, 2)
    assert counting.environment == {}


def test_counts_that_are_gone_spoil_the_launch(tmp_path: Path) -> None:
    path = tmp_path / "load.totals"
    TotalsWriter(path).close()
    with GeneratorProbe(VirtualClock(), path).counting(Layout(1, 1)) as counting:
        counting.read()
        path.unlink()

        with raises(MeasurementError, wording("probes.is-gone")):
            counting.read()


def test_damaged_counts_spoil_the_launch(tmp_path: Path) -> None:
    path = tmp_path / "load.totals"
    path.write_bytes(b"x" * 500)

    with (
        GeneratorProbe(VirtualClock(), path).counting(Layout(1, 1)) as counting,
        raises(MeasurementError, wording("feeders.holds-no-totals")),
    ):
        counting.read()
