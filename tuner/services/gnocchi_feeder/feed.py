"""Feeder for Gnocchi that keeps one batch of measures waiting per metric and counts finished batches.

A batch is finished when metricd has removed it from Redis, after it has written the aggregates. Only then
is the next batch of the metric added: metricd processes all waiting measures of a metric at once, so with
several batches the work per item would depend on their number. Gnocchi's own driver adds the measures. tuner
runs this file with the Python that has gnocchi installed.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import uuid
from typing import Any

try:
    import numpy
    from gnocchi import incoming, indexer, service, utils
    from gnocchi.common import redis
    from oslo_config import cfg
except ImportError as error:
    sys.exit(f"{sys.executable} has no gnocchi ({error}): name the Python that has it, --set python=PATH")

LOOK_S = 0.05  #: a count is so old at most
COUNT = "tuner:gnocchi:done"  #: how many batches are done
KEYS = "tuner:gnocchi:keys"  #: where the batches wait
KEPT_S = 3600  #: after the last look
CREATOR = "tuner"

#: One look, as one step: which of the keys are gone. The first one of a feeder counts nothing.
_GONE = """
local gone = {}
for place, key in ipairs(redis.call("LRANGE", KEYS[1], 0, -1)) do
    if redis.call("EXISTS", key) == 0 then gone[#gone + 1] = place - 1 end
end
redis.call("INCRBY", KEYS[2], ARGV[1] == "count" and #gone or 0)
redis.call("EXPIRE", KEYS[1], ARGV[2])
redis.call("EXPIRE", KEYS[2], ARGV[2])
return gone
"""


def own_metrics(index: Any, n: int, policy: str) -> list[uuid.UUID]:
    """Return the same *n* metrics in each launch, and create missing ones."""
    wanted = [uuid.uuid5(uuid.NAMESPACE_OID, f"{CREATOR} {policy} {number}") for number in range(n)]
    there = {metric.id for metric in index.list_metrics(attribute_filter={"in": {"id": wanted}})}
    for one in wanted:
        if one not in there:
            index.create_metric(one, CREATOR, policy)
    return wanted


def feed(driver: Any, client: Any, metrics: list[uuid.UUID], stopping: threading.Event) -> None:
    """Check and refill the metrics until *stopping*."""
    sacks = ((str(driver.sack_for_metric(one)), str(one)) for one in metrics)
    client.delete(KEYS)
    client.rpush(KEYS, *(redis.SEP_S.join(parts) for parts in sacks))
    look = client.register_script(_GONE)
    first = True
    while not stopping.is_set():
        gone = look(keys=[KEYS, COUNT], args=["" if first else "count", KEPT_S])
        now = numpy.datetime64(utils.utcnow().replace(tzinfo=None))
        if gone:
            driver.add_measures_batch(
                {metrics[place]: [incoming.Measure(now, random.random())] for place in gone}
            )
        first = False
        stopping.wait(LOOK_S)


def main() -> None:
    """Feed until SIGTERM."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    conf = cfg.ConfigOpts()
    conf.register_cli_opts([cfg.IntOpt("metrics", min=1), cfg.StrOpt("policy")])
    conf = service.prepare_service(conf=conf, log_to_std=True)
    if conf.incoming.driver != "redis":
        sys.exit(f"incoming is {conf.incoming.driver}; tuner can only count items that wait in Redis")
    index = indexer.get_driver(conf)
    metrics = own_metrics(index, conf.metrics, conf.policy)
    client, _ = redis.get_client(conf.incoming)
    feed(incoming.get_driver(conf), client, metrics, stopping)


if __name__ == "__main__":
    main()
