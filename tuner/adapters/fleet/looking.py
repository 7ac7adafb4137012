"""Which boxes a scheduler has, as a client of it sees them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from typing import Any

from distributed import Client

from tuner.adapters.fleet.box_worker import FACTS, FINISH_ORDERS
from tuner.adapters.fleet.ledger import Seen
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.provenance import Provenance
from tuner.core.errors import ConfigError


class Looking:
    """Looks who is there, again and again; what a box says of itself is asked for once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._said: dict[str, Mapping[str, Any]] = {}  #: by worker, of those seen last

    def boxes(self) -> list[Seen]:
        """The boxes that are there now; other workers of the scheduler's are none.

        Raises:
            ConfigError: this is no scheduler of a fleet.
        """
        began_s = time.time()
        found = self._client.run_on_scheduler(workers_of)
        if not found["is_ours"]:
            raise ConfigError(
                "this scheduler repeats failed tasks, so launches would count twice",
                hint="Start one with tuner fleet scheduler.",
            )
        ahead_s = found["wall_s"] - (began_s + time.time()) / 2  # the scheduler's clock, less ours
        there = {worker for _, worker, _ in found["workers"]}
        said = {worker: facts for worker, facts in self._said.items() if worker in there}
        if unknown := there - said.keys():
            said |= self._client.run_on_scheduler(describe_workers, unknown)
        self._said = said
        return [
            Seen(
                address,
                worker,
                _facts(said[worker], ahead_s - behind_s),
                tuple(map(str, said[worker]["identity"])),
            )
            for address, worker, behind_s in found["workers"]
            if worker in said  # gone meanwhile
        ]


def workers_of(dask_scheduler: Any) -> dict[str, Any]:
    """What a coordinator looks at each second; runs where the scheduler does, on all versions alike."""
    return {
        "is_ours": dask_scheduler.allowed_failures == 0,
        "wall_s": time.time(),
        "workers": [
            (one.address, one.server_id, one.time_delay)
            for one in dask_scheduler.workers.values()
            if FACTS in one.extra
        ],
    }


def describe_workers(workers: Set[str], dask_scheduler: Any) -> dict[str, Any]:
    """What *workers* say of themselves, as far as they are there; runs where the scheduler does."""
    return {
        one.server_id: one.extra[FACTS]
        for one in dask_scheduler.workers.values()
        if one.server_id in workers and FACTS in one.extra
    }


def say_finish(keys_of: Mapping[str, list[str]], dask_scheduler: Any) -> None:
    """Have workers, by address, end orders after the window in hand; runs where the scheduler does.

    It goes the way that orders go: no box is waited for, and one behind a tunnel hears of it.
    """
    for address, keys in keys_of.items():
        if address in dask_scheduler.stream_comms:
            dask_scheduler.worker_send(address, {"op": FINISH_ORDERS, "keys": keys})


def _facts(said: Mapping[str, Any], ahead_s: float) -> BoxFacts:
    return BoxFacts(
        str(said["name"]), float(said["cores"]), Provenance.from_mapping(said["provenance"]), ahead_s
    )
