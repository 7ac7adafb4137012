"""CPU of counting the connections of each worker, compared with reading the kernel's table of connections.

    python bench/connection_count.py [--rounds 15]

The load generator counts about once a second, and sends nothing during the count. Reading the table takes
longer on hosts with more memory. The two ways alternate; the ratio is that of their medians.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tabulate import tabulate

from tuner.adapters.load.workers import Peer, Workers, peer_of


def cpu_ms(work: Callable[[], object]) -> float:
    began_s = time.thread_time()
    work()
    return 1000 * (time.thread_time() - began_s)


def read_table() -> None:
    for name in ("tcp", "tcp6"):
        Path("/proc/self/net", name).read_bytes()


def compared(n_connections: int, rounds: int) -> tuple[float, float]:
    """The CPU in ms of counting with tuner, and of reading the table alone."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=n_connections))
        workers, peers = Workers([server.getsockname()[1]]), list[Peer]()
        for _ in range(n_connections):
            peers.append(peer_of(stack.enter_context(socket.create_connection(server.getsockname()))))
            stack.enter_context(server.accept()[0])
        if len(workers.holders([os.getpid()], peers)) != n_connections:  # it also finds the workers' files
            raise SystemExit("not all connections were found")
        turns = [
            (cpu_ms(lambda: workers.holders([os.getpid()], peers)), cpu_ms(read_table)) for _ in range(rounds)
        ]
        return median(ours for ours, _ in turns), median(table for _, table in turns)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
    rows = []
    for n in (8, 64, 512, 2000):
        ours_ms, table_ms = compared(n, rounds)
        rows.append((n, f"{ours_ms:.2f} ms", f"{table_ms:.2f} ms", f"{ours_ms / table_ms:.2f}"))
    print(tabulate(rows, ("connections", "counted", "table read", "ratio"), disable_numparse=True))


if __name__ == "__main__":
    main()
