"""The load on a service in a study, and whether it was enough."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from tuner.core.domain.layout import Layout
from tuner.core.domain.load import ClientSearchResult, clients_for, parse_found
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.requests import ConnectionSpread
from tuner.core.windows.launch_sums import LaunchTally

_SEVERAL = 1.5  #: connections of a process without threads, on average: then it takes several at a time


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """Of a study whose requests come from clients, each of which has one under way."""

    n_set: int | None  #: clients that the settings give; None: twice the threads, or nobody knows
    found: ClientSearchResult | None  #: how that number was found; None: the user gave it
    event_loops: frozenset[str]  #: variants whose processes work on as many requests as come; "": as it is

    def clients_of(self, layout: Layout) -> int | None:
        """How many clients send to *layout*; None: twice the threads, or nobody knows."""
        return self.n_set if self.found is None else clients_for(layout, self.found)

    @property
    def is_enough(self) -> bool:
        """Whether twice the clients were seen to bring nothing."""
        return self.found is not None and self.found.saturates

    def takes_many(self, layout: Layout, spread: ConnectionSpread | None) -> bool:
        """Whether a process of *layout* works on more requests at a time than it has threads to choose.

        It says so (``event_loop``), or it was seen to hold several connections.
        """
        if layout.variant in self.event_loops:
            return True
        held = () if spread is None else spread.per_worker
        return not layout.has_threads and bool(held) and sum(held) / len(held) >= _SEVERAL


def load_facts(study: StudyRecord) -> LoadFacts | None:
    """How *study* loaded its service; None: no clients send requests, or they come at a fixed rate."""
    service = study.config.service
    if service.feeder.get("kind") != "http" or isinstance(service.feeder.get("rate"), int | float):
        return None
    found = parse_found(study.provenance.clients_found, service.n_clients)
    return LoadFacts(service.n_clients, found, service.event_loop_variants)


def sum_spreads(launches: Iterable[LaunchTally]) -> ConnectionSpread | None:
    """How connections spread in all windows of *launches* that are not at a rate; None: not to be seen."""
    requests = [one.requests for one in launches if one.requests is not None and not one.n_at_a_rate]
    spreads = [one.spread for one in requests if one.spread is not None]
    return reduce(ConnectionSpread.merged, spreads) if spreads else None
