"""Compare the analytic network with the simulation, which models more, for a few services."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from tuner.adapters.virtual.simulator import simulate_all
from tuner.core.domain.layout import divisors_grid
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.model.simulation.scenario import scenario_of

from ..bench_modules import MODEL, loaded

N_SERVICES = 12
N_ITEMS = 20_000
#: bench/model/analytic.py: absolute errors over 60 services, mean and largest (docs/method/model.md)
MEAN_RATIO, MOST_THROUGHPUT_RATIO, MOST_LOAD_RATIO = 0.0036, 0.078, 0.085


@pytest.mark.integration
def test_throughput_and_load_of_random_services_are_as_near_as_the_bench_says() -> None:
    random, box = Random(1), Machine(cores=8, wake_s=0.0)  # the simulation knows no waking for nothing
    layouts = divisors_grid(8)
    with loaded("analytic", folder=MODEL) as bench:
        services = [bench.analytic.random_demands(random) for _ in range(N_SERVICES)]
    chosen = [(demands, random.choice(layouts), random.getrandbits(64)) for demands in services]
    scenarios = [
        scenario_of(demands, box, layout, seed=seed, n_items=N_ITEMS, n_warm_items=N_ITEMS // 10)
        for demands, layout, seed in chosen
    ]
    throughput, load, luck = [], [], []
    for (demands, layout, _), seen in zip(chosen, simulate_all(scenarios), strict=True):
        said = predict(demands, box, [layout])
        throughput.append(abs(float(said.throughput_per_s[0]) / seen.throughput_per_s - 1))
        load.append(abs(float(said.load[0]) / seen.load - 1))
        luck.append(seen.throughput_error_per_s / seen.throughput_per_s)

    assert max(luck) < 0.03
    assert max(throughput) < MOST_THROUGHPUT_RATIO + 4 * max(luck)
    assert max(load) < MOST_LOAD_RATIO + 4 * max(luck)
    # 0.8 standard errors is what luck alone makes of an absolute error on average
    assert fmean(throughput) < MEAN_RATIO + 1.5 * fmean(luck)
    assert fmean(load) < MEAN_RATIO + 1.5 * fmean(luck)
