"""SIGTERM: nothing more is claimed, what can be finished in time is, everything else goes back."""

from __future__ import annotations

import random
import signal
import time

import pytest

from ...wording import wording
from .conftest import Bed, wait_until

pytestmark = pytest.mark.integration

THREADS = pytest.mark.parametrize("threads", ["1", "3"])


def _n_in_hand(bed: Bed) -> int:
    """Items whose dumps were fetched and are being walked."""
    return len(list(bed.root.glob("tmp/*/*.dump")))


@THREADS
def test_items_in_hand_are_finished_and_the_others_go_back(either_bed: Bed, threads: str) -> None:
    either_bed.fill(*["slow 1"] * 12)
    process = either_bed.start("--number-of-threads", threads)
    wait_until(lambda: _n_in_hand(either_bed) == int(threads))
    process.send_signal(signal.SIGTERM)

    said = either_bed.end(process)

    status = either_bed.status()
    assert (status["new"] + status["done"], status["cur"], status["dead"]) == (12, 0, 0)
    assert wording("crash-processor.done-and-failed", done=status["done"], failed=0) in said
    assert int(threads) <= status["done"] == status["results"] < 12


@THREADS
def test_what_takes_longer_than_the_grace_is_killed_and_goes_back(either_bed: Bed, threads: str) -> None:
    either_bed.fill(*["hangs"] * 12)
    process = either_bed.start("--number-of-threads", threads, "--graceful-timeout", "200ms")
    wait_until(lambda: _n_in_hand(either_bed) == int(threads))
    process.send_signal(signal.SIGTERM)

    assert wording("crash-processor.done-and-failed", done=0, failed=0) in either_bed.end(process)
    status = either_bed.status()
    assert (status["new"], status["cur"], status["done"], status["dead"]) == (12, 0, 0, 0)


@pytest.mark.parametrize("waits_for", ["idle", "fetch", "save", "storage"])
@THREADS
def test_no_wait_outlasts_a_stop(bed: Bed, threads: str, waits_for: str) -> None:
    crash_id = bed.fill("ok")[0]
    options = {
        "idle": ["--idle-delay", "1000"],
        "fetch": ["--fetch-delay-ms", "1000000", "--graceful-timeout", "0"],
        "save": ["--save-delay-ms", "1000000", "--graceful-timeout", "0"],
        "storage": ["--backoff-delays", "1000"],
    }[waits_for]
    if waits_for == "storage":
        (bed.root / "processed" / f"{crash_id}.json.gz").mkdir()
    process = bed.start("--number-of-threads", threads, *options)
    bed.wait_for(lambda status: status["done" if waits_for == "idle" else "cur"] == 1)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)

    bed.end(process)
    assert bed.status()["new"] == (waits_for != "idle")


def test_every_sigterm_is_heard_while_threads_spawn_children(bed: Bed) -> None:
    """A kernel may give the signal to a thread that has just spawned: 1 process in 10 then slept on."""
    bed.fill(*["ok"] * 100)
    noise = random.Random(1)
    for _ in range(6):
        processes = [bed.start("--number-of-threads", "2", "--endless") for _ in range(4)]
        bed.wait_for(lambda status: status["workers"] == 4)
        time.sleep(noise.uniform(0.1, 0.4))
        for process in processes:
            process.terminate()
        for process in processes:
            bed.end(process)

    assert (bed.status()["new"], bed.status()["cur"]) == (100, 0)


def test_a_second_sigterm_and_ctrl_c_change_nothing(bed: Bed) -> None:
    bed.fill(*["slow 1"] * 4)
    process = bed.start("--number-of-threads", "2")
    bed.wait_for(lambda status: status["cur"] >= 2)
    time.sleep(0.2)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)

    bed.end(process)
    status = bed.status()
    assert status["new"] + status["done"] == 4
