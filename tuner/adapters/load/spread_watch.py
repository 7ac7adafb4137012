"""Counts the connections that each worker process holds, and opens those anew that are too many for one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from tuner.adapters.load.client import Client
from tuner.adapters.load.order import Order, read_workers
from tuner.adapters.load.totals import TotalsWriter
from tuner.adapters.load.workers import Peer, Workers
from tuner.core.domain.connection_spread import n_starved, surplus

_EVERY_S = 1.0
_UNEVEN_EVERY_S = 0.2  #: while connections are opened anew
_HURRIES_S = 60.0  #: so long after the first look; a server that takes connections unevenly never ends it
_COST_RATIO = 0.01  #: of one core: what looks may cost


class SpreadWatch:
    """Looks every second, or less often where a look is dear: its cost grows with the connections."""

    def __init__(self, order: Order, totals: TotalsWriter) -> None:
        self._order = order
        self._totals = totals
        ports = [order.port, *(port for _, port in order.others)]
        self._workers = Workers([] if order.host.startswith("/") else ports)
        self._counted: tuple[Sequence[int], int, int] | None = None  #: by the last look
        self._looked_ns = 0
        self._began_s: float | None = None

    async def go_on(self, clients: Collection[Client]) -> None:
        """Look until cancelled."""
        if self._order.workers_file is None:
            return
        while True:
            cost_s, now_s = -time.thread_time(), time.monotonic()
            is_uneven = self._look(self._order.workers_file, clients)
            cost_s += time.thread_time()
            if self._counted is not None and self._began_s is None:
                self._began_s = now_s
            hurries = self._began_s is None or (is_uneven and now_s - self._began_s < _HURRIES_S)
            await asyncio.sleep(max(_UNEVEN_EVERY_S if hurries else _EVERY_S, cost_s / _COST_RATIO))

    def _look(self, file: str, clients: Collection[Client]) -> bool:
        """Count, and have clients move where that is asked for; whether it was uneven."""
        now_ns = time.monotonic_ns()
        if self._counted is not None:  # what was seen stands until now
            self._totals.spread(now_ns - self._looked_ns, *self._counted)
        self._looked_ns, self._counted = now_ns, None
        pids = read_workers(file)
        by_peer: dict[Peer, Client] = {peer: one for one in clients if (peer := one.peer) is not None}
        holders = self._workers.holders(pids, by_peer)
        held: dict[int, list[Client]] = {pid: [] for pid in self._workers.accepting}
        n_waiting = 0
        for peer, pid in holders.items():
            if pid:
                held[pid].append(by_peer[peer])
            else:
                n_waiting += 1
        if not any(held.values()):  # not to be seen, or nothing is there yet
            return False
        counts = [len(own) for own in held.values()]
        busy = [sum(client.is_busy for client in own) for own in held.values()]
        self._counted = counts, n_starved(busy, self._order.threads), n_waiting
        # of several addresses each client has one: they are even as they are
        moving = surplus([*held.values()]) if self._order.spreads and not self._order.others else []
        for client in moving:
            client.move()
        return bool(moving)
