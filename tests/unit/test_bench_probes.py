"""What bench/probes.py makes of pairs, and that each of its services can be configured."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tuner.app import plan_builder
from tuner.bootstrap import configs

from ..bench_modules import loaded


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with loaded("probes", "probe_services") as modules:
        yield modules


def test_the_difference_is_the_median_of_the_pairs_and_no_outlier_moves_it(bench: SimpleNamespace) -> None:
    pairs = [(1.01 * slow, slow) for slow in range(1, 40)] + [(50.0, 1.0)]

    found = bench.probes.difference(pairs)

    assert found.middle == pytest.approx(0.01)
    assert found.low == pytest.approx(0.01)
    assert found.high == pytest.approx(0.01)
    assert found.n == 40


def test_the_interval_holds_the_truth_in_95_of_100(bench: SimpleNamespace) -> None:
    """Pairs that differ by 0.5 %, with noise of 3 % each: the share of 2000 benches that say so."""
    chance = random.Random("pairs")
    n_held = 0
    for _ in range(2000):
        pairs = [(1.005 * chance.gauss(1, 0.03), chance.gauss(1, 0.03)) for _ in range(20)]
        found = bench.probes.difference(pairs)
        n_held += found.low <= 0.005 <= found.high

    assert 0.95 - 3 * 0.005 <= n_held / 2000 <= 0.985


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([(0.001, 0.000, 0.002, 48)], "met"),
        ([(0.001, 0.000, 0.006, 48), (0.001, 0.000, 0.006, 8)], "open"),
        ([(0.03, 0.02, 0.04, 48), (0.0, -0.005, 0.005, 8)], "MISSED"),
        ([(0.0, -0.03, 0.03, 48)], "open"),
        ([(0.03, 0.03, 0.03, 2)], "open"),
    ],
)
def test_the_bar_is_met_or_missed_only_where_the_intervals_say_so(
    bench: SimpleNamespace, parts: list[tuple[float, float, float, int]], said: str
) -> None:
    verdict = bench.probes.verdict(*(bench.probes.Difference(*part) for part in parts))

    assert verdict.partition(":")[0] == said


def test_every_service_is_one_that_tuner_reads(bench: SimpleNamespace, tmp_path: Path) -> None:
    urls = {"redis": "redis://127.0.0.1:6379/0", "rabbitmq": "amqp://guest:guest@127.0.0.1:5672//", "": ""}
    for case in bench.probe_services.CASES.values():
        place = bench.probes.Place(case, tmp_path, 8000, urls[case.broker])
        place.write()
        (tmp_path / "sample.json").write_text("{}")
        for probe in filter(None, (case.probe, case.without)):
            settings = configs.settings_of(place.config(probe), {})

            (layout,) = plan_builder.plan_record(settings).layouts
            assert str(layout).partition("@")[0] == case.layout
