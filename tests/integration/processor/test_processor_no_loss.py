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


def _survive_kills(bed: Bed, *, n_hits: int, seed: int) -> None:
    """Kill until *n_hits* of the killed had items in their hands; there is always more to do."""
    noise = random.Random(seed)
    ids = bed.fill("ok")
    running = [_start(bed, noise) for _ in range(4)]
    while n_hits > 0:
        if bed.status()["new"] < 40:
            ids += bed.fill(*(noise.choice(("ok", "ok", "ok", "fails", "slow 0.05")) for _ in range(40)))
        victim = running.pop(noise.randrange(len(running)))
        if noise.random() < 0.8:  # the others die before they have started
            assert victim.stderr is not None
            assert "TaskManager" in victim.stderr.readline()
        time.sleep(noise.uniform(0.0, 0.3))
        victim.kill()
        victim.wait()
        n_hits -= bed.held_by(victim.pid) > 0
        victim.communicate()
        running.append(_start(bed, noise))
    bed.wait_for(lambda status: status["new"] + status["cur"] == 0)
    for process in running:
        assert process.stderr is not None
        assert "TaskManager" in process.stderr.readline()  # from here on it hears a SIGTERM
        process.terminate()
    for process in running:
        bed.end(process)

    assert {crash_id for crash_id in ids if not bed.has_result(crash_id)} == set()
    status = bed.status()
    assert (status["new"], status["cur"], status["dead"], status["done"]) == (0, 0, 0, len(ids))
    assert status["results"] == len(ids)
    assert [bed.result(crash_id)["uuid"] for crash_id in ids] == ids
    bed.start("--quit-on-empty-queue").communicate()  # whoever comes next sweeps what the killed ones left
    assert [os.listdir(bed.root / place) for place in ("cur", "tmp")] == [[], []]


def test_no_item_is_lost_to_fifteen_kills(either_bed: Bed) -> None:
    _survive_kills(either_bed, n_hits=15, seed=2026)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_no_item_is_lost_to_many_kills(either_bed: Bed) -> None:
    _survive_kills(either_bed, n_hits=120, seed=1120)
