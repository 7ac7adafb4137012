"""The load on a service in a study, and whether it was enough."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from tuner.core.domain.layout import Layout
from tuner.core.domain.load import ClientSearchResult, clients_for, parse_client_search
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.requests import ConnectionSpread
from tuner.core.windows.launch_sums import LaunchTally

#: mean connections of a process without a setting for threads, from which it counts as working on several
_SEVERAL = 1.5


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """The closed-loop load of a study: clients that each have one request in progress."""

    n_set: int | None  #: number of clients in the settings; None: twice the threads, or unknown
    found: ClientSearchResult | None  #: search that found the number; None: the user set it
    #: variants whose processes work on any number of requests at a time; "": the service without variants
    event_loops: frozenset[str]

    def clients_of(self, layout: Layout) -> int | None:
        """Return how many clients send to *layout*; None if it is twice the threads, or not known."""
        return self.n_set if self.found is None else clients_for(layout, self.found)

    @property
    def is_enough(self) -> bool:
        """Return whether twice as many clients were measured to give no more throughput."""
        return self.found is not None and self.found.saturates

    def takes_many(self, layout: Layout, spread: ConnectionSpread | None) -> bool:
        """Return whether a process of *layout* works on more requests at a time than its setting of threads.

        Either the variant is set to ``event_loop``, or a process was measured to hold several connections.
        """
        if layout.variant in self.event_loops:
            return True
        held = () if spread is None else spread.per_worker
        return not layout.has_threads and bool(held) and sum(held) / len(held) >= _SEVERAL


def load_facts(study: StudyRecord) -> LoadFacts | None:
    """Return how *study* loaded its service; None if it has no clients, or they send at a fixed rate."""
    service = study.config.service
    if service.feeder.get("kind") != "http" or isinstance(service.feeder.get("rate"), int | float):
        return None
    found = parse_client_search(study.provenance.clients_found, service.n_clients)
    return LoadFacts(service.n_clients, found, service.event_loop_variants)


def sum_spreads(launches: Iterable[LaunchTally]) -> ConnectionSpread | None:
    """Return the spread of connections over the windows of *launches* not at a fixed rate, or None."""
    requests = [one.requests for one in launches if one.requests is not None and not one.n_at_a_rate]
    spreads = [one.spread for one in requests if one.spread is not None]
    return reduce(ConnectionSpread.merged, spreads) if spreads else None
