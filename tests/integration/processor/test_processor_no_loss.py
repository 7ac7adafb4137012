"""kill -9 at random moments: items in = done + dead + still queued, and each is done once."""

from __future__ import annotations

import os
import random
import subprocess
import time

import pytest

from .conftest import Bed

pytestmark = pytest.mark.integration

LAYOUTS = (("1", "single"), ("2", "threaded"), ("3", "threaded"), ("1", "threaded"))


def _start(bed: Bed, noise: random.Random) -> subprocess.Popen[str]:
    threads, manager = noise.choice(LAYOUTS)
    return bed.start("--number-of-threads", threads, "--producer-consumer-class", manager,
                     "--save-delay-ms", "120", "--keep-results", "all")  # fmt: skip


def _survive_kills(bed: Bed, *, n_items: int, n_kills: int, seed: int) -> None:
    noise = random.Random(seed)
    ids = bed.fill(*(noise.choice(("ok", "ok", "ok", "fails", "slow 0.05")) for _ in range(n_items)))
    running = [_start(bed, noise) for _ in range(4)]
    n_hits = 0  # kills while items were in somebody's hands
    for _ in range(n_kills):
        time.sleep(noise.uniform(0.0, 0.3))
        victim = running.pop(noise.randrange(len(running)))
        victim.kill()
        victim.communicate()
        n_hits += bed.status()["cur"] > 0
        running.append(_start(bed, noise))
    bed.wait_for(lambda status: status["new"] + status["cur"] == 0)
    for process in running:
        process.terminate()
    for process in running:
        bed.end(process)

    assert n_hits > n_kills // 2
    status = bed.status()
    assert (status["new"], status["cur"], status["dead"], status["done"]) == (0, 0, 0, n_items)
    assert status["results"] == n_items
    assert {bed.result(crash_id)["uuid"] for crash_id in ids} == set(ids)
    bed.start("--quit-on-empty-queue").communicate()  # whoever comes next sweeps what the killed ones left
    assert [os.listdir(bed.root / place) for place in ("cur", "tmp")] == [[], []]


def test_no_item_is_lost_to_fifteen_kills(either_bed: Bed) -> None:
    _survive_kills(either_bed, n_items=300, n_kills=15, seed=2026)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_item_is_lost_to_many_kills(either_bed: Bed) -> None:
    _survive_kills(either_bed, n_items=3000, n_kills=120, seed=1120)
