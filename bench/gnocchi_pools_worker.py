"""Worker of `gnocchi_pools.py`: handles the measures of one sack repeatedly with Gnocchi's own code.

    python bench/gnocchi_pools_worker.py METRICS ROUNDS N,N,... --config-file gnocchi.conf

It prints a line for each round: parallel operations, seconds, and CPU seconds of this process. The Python
must have gnocchi; gnocchi-upgrade must have created the index and the sacks.
"""

from __future__ import annotations

import random
import sys
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy
from gnocchi import chef, incoming, indexer, service, storage, utils
from gnocchi.cli import metricd

POLICY, CREATOR = "low", "bench"


def of_one_sack(driver: Any) -> Iterator[uuid.UUID]:
    """New metrics, all of the sack that the first one falls into."""
    first = uuid.uuid4()
    yield first
    while True:
        if driver.sack_for_metric(one := uuid.uuid4()) == driver.sack_for_metric(first):
            yield one


def main() -> None:
    """Operations by turns, in another order each round; the first round warms up."""
    n_metrics, n_rounds, operations = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(",")
    conf = service.prepare_service(sys.argv[4:], log_to_std=True)
    driver, index = incoming.get_driver(conf), indexer.get_driver(conf)
    locks = metricd.get_coordinator_and_start(uuid.uuid4().bytes, conf.coordination_url)
    cook = chef.Chef(locks, driver, index, storage.get_driver(conf))
    metrics = list(islice(of_one_sack(driver), n_metrics))
    for one in metrics:
        index.create_metric(one, CREATOR, POLICY)
    turns = [int(one) for one in operations]
    for number in range(n_rounds + 1):
        random.shuffle(turns)
        for n in turns:
            now = numpy.datetime64(utils.utcnow().replace(tzinfo=None))
            driver.add_measures_batch({one: [incoming.Measure(now, random.random())] for one in metrics})
            utils.parallel_map.MAX_WORKERS = n
            began_s, cpu_s = time.perf_counter(), time.process_time()
            handled = cook.process_new_measures_for_sack(driver.sack_for_metric(metrics[0]), blocking=True)
            took_s, used_s = time.perf_counter() - began_s, time.process_time() - cpu_s
            if handled != n_metrics:
                sys.exit(f"{handled} of {n_metrics} metrics were handled")
            if number:
                print(n, took_s, used_s, flush=True)
    locks.stop()


if __name__ == "__main__":
    main()
