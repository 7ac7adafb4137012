"""A program that disturbs the host: it computes on some cores from time to time, until it is stopped.

    python bench/neighbour.py [--seed 1] [--cores 2] [--most 3600]

For 2 to 20 s, it computes on some of the cores, for 30 % to 98 % of each tenth of a second. Then it rests for
2 to 20 s. It ends after `--most` seconds, or when its parent process ends.
"""

from __future__ import annotations

import argparse
import os
import time
from multiprocessing import Process
from random import Random

SLICE_S = 0.1


def burn(until_s: float, share: float) -> None:
    while time.monotonic() < until_s:
        busy_until_s = time.monotonic() + share * SLICE_S
        while time.monotonic() < busy_until_s:
            pass
        time.sleep((1 - share) * SLICE_S)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--most", type=float, default=3600.0, help="seconds")
    options = parser.parse_args()
    random, parent = Random(options.seed), os.getppid()
    ends_s = time.monotonic() + options.most
    while time.monotonic() < ends_s and os.getppid() == parent:
        until_s = min(ends_s, time.monotonic() + random.uniform(2.0, 20.0))
        share, n = random.uniform(0.3, 0.98), random.randint(1, options.cores)
        busy = [Process(target=burn, args=(until_s, share), daemon=True) for _ in range(n)]
        for one in busy:
            one.start()
        for one in busy:
            one.join()
        time.sleep(random.uniform(2.0, 20.0))


if __name__ == "__main__":
    main()
