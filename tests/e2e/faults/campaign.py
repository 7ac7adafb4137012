"""kill -9 at random moments of studies; what is left and what is lost is counted.

A campaign runs `tuner grid` as somebody types it, kills victims at moments drawn by lot, and looks:

- every window that was in the file is in it unchanged;
- of the launches, no more are spoilt or cut off than there were kills;
- when tuner itself was the victim: within ten seconds nothing it had started runs, and its study goes on;
- of a simulated study: once resumed to its end, its exports are to the byte those of one that nobody killed.

    python -m tests.e2e.faults.campaign script --kills 100 --seed 1    # or crash-processor, queue, simulated

prints a line of JSON: kills, windows kept and launches lost by victim, the longest time until nothing ran.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from ...redis_server import RedisServer
from .killed_service import RealCampaign, Typist, crash_study, queue_study, script_study
from .killed_simulation import killed_simulation
from .toll import Toll


def campaign(typist: Typist, kind: str, n_kills: int, seed: int) -> Toll:
    """So many kills of a study of *kind*; raises BrokenPromise."""
    if kind == "simulated":
        return killed_simulation(typist.folder, n_kills, seed)
    if kind == "queue":
        with tempfile.TemporaryDirectory(prefix="rd-") as folder:
            redis = RedisServer(Path(folder))
            try:
                return RealCampaign(typist, queue_study(typist, redis), seed, redis).run(n_kills)
            finally:
                redis.stop()
    victims = {"script": script_study, "crash-processor": crash_study}[kind](typist)
    return RealCampaign(typist, victims, seed).run(n_kills)


def main() -> None:
    """``KIND --kills N --seed S``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=["script", "crash-processor", "queue", "simulated"])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored in the background, and by what is started
    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        typist = Typist(
            (sys.executable, "-c", "from tuner.cli import main; main()"),
            Path(name),
            {"TUNER_LOCK": str(Path(name) / "lock")},
        )
        toll = campaign(typist, asked.kind, asked.kills, asked.seed)
        sys.stdout.write(toll.told() + "\n")


if __name__ == "__main__":
    main()
