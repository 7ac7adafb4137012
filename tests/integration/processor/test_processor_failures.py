"""What goes wrong with an item, and what becomes of it: the failure table, row by row."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ...wording import key_of, start_of, wording
from .conftest import Bed

pytestmark = pytest.mark.integration


def test_a_stackwalker_that_fails_in_any_way_gives_a_result_that_says_how(bed: Bed) -> None:
    notes = {
        "fails": wording("crash-processor.stackwalker-failed", how="exit code 1"),
        "babbles": wording("crash-processor.stackwalker-printed-no-json"),
        "halves": wording("crash-processor.stackwalker-printed-broken-json"),
        "crashes": wording("crash-processor.stackwalker-failed", how="signal SIGSEGV"),
        "nothing": wording("crash-processor.stackwalker-printed-nothing"),
        "hangs": wording("crash-processor.stackwalker-killed") + ": kill_timeout",
        "closes": wording("crash-processor.stackwalker-killed") + ": kill_timeout",
        "floods": wording("crash-processor.stackwalker-killed"),
        "leaves": wording("crash-processor.stackwalker-killed") + ": kill_timeout",
        "": "EmptyMinidump",
    }
    ids = dict(zip(notes, bed.fill(*notes), strict=True))
    good = bed.fill("ok")[0]

    said = bed.run("--number-of-threads", "3", "--kill-timeout", "1500ms")

    assert wording("crash-processor.done-and-failed", done=11, failed=0) in said
    assert bed.status()["done"] == 11
    for what, crash_id in ids.items():
        result = bed.result(crash_id)
        assert not result["success"], what
        said_why = result["processor_notes"]
        assert any(note.startswith(notes[what]) for note in said_why), said_why
    assert bed.result(good)["success"]
    assert bed.result(good)["signature"] == "ns::Crash"
    assert wording("crash-processor.stackwalker-said") in " ".join(
        bed.result(ids["fails"])["processor_notes"]
    )
    assert os.listdir(bed.root / "tmp") == []


def test_nothing_is_spawned_for_an_empty_dump(bed: Bed, tmp_path: Path) -> None:
    crash_id = bed.fill("")[0]
    bed.walker.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")

    bed.run("--number-of-threads", "1")

    assert bed.result(crash_id)["processor_notes"] == [
        wording("crash-processor.empty-minidump"), wording("crash-processor.no-signature")
    ]  # fmt: skip
    assert not (tmp_path / "was-run").exists()


def test_a_result_that_can_never_be_saved_makes_a_dead_letter(either_bed: Bed) -> None:
    bad, good = either_bed.fill("ok", "ok")
    (either_bed.root / "processed" / f"{bad}.json.gz").mkdir()

    said = either_bed.run("--number-of-threads", "2", "--backoff-delays", "0.01,0.01", "--max-attempts", "2")

    assert wording("crash-processor.done-and-failed", done=1, failed=1) in said
    assert (either_bed.status()["done"], either_bed.status()["dead"]) == (1, 1)
    assert either_bed.result(good)["success"]


def test_a_result_that_can_be_saved_after_a_while_is_saved(bed: Bed) -> None:
    crash_id = bed.fill("ok")[0]
    blocked = bed.root / "processed" / f"{crash_id}.json.gz"
    blocked.mkdir()
    process = bed.start(
        "--quit-on-empty-queue", "--number-of-threads", "1", "--backoff-delays", ",".join(["0.05"] * 999)
    )
    bed.wait_for(lambda status: status["cur"] == 1)
    time.sleep(0.3)  # some attempts; the test holds whatever their number
    assert bed.status()["done"] == 0
    blocked.rmdir()

    assert wording("crash-processor.done-and-failed", done=1, failed=0) in bed.end(process)
    assert bed.result(crash_id)["success"]


def test_an_item_is_not_acknowledged_before_it_is_saved(bed: Bed) -> None:
    crash_id = bed.fill("ok")[0]
    process = bed.start("--number-of-threads", "1", "--save-delay-ms", "1000000")
    bed.wait_for(lambda status: status["cur"] == 1)
    process.kill()
    process.wait()

    assert not (bed.root / "processed" / f"{crash_id}.json.gz").exists()
    bed.run("--number-of-threads", "1")
    assert bed.result(crash_id)["success"]


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: (folder / "raw_crash.json").unlink(), wording("crash-processor.no-raw-crash")),
        (
            lambda folder: (folder / "raw_crash.json").write_text("{"),
            wording("crash-processor.raw-crash-no-json"),
        ),
        (
            lambda folder: (folder / "raw_crash.json").write_text("[]"),
            wording("crash-processor.raw-crash-no-object"),
        ),
        (
            lambda folder: (folder / "upload_file_minidump.dump").unlink(),
            wording("crash-processor.no-dump-of-crash"),
        ),
    ],
    ids=key_of,
)
def test_a_crash_that_cannot_be_read_is_a_dead_letter_with_the_reason(bed: Bed, harm, reason: str) -> None:
    bad, _ = bed.fill("ok", "ok")
    harm(bed.root / "crashes" / bad)

    said = bed.run("--number-of-threads", "1")

    assert wording("crash-processor.done-and-failed", done=1, failed=1) in said
    assert reason in start_of((bed.root / "dead" / bad).read_text())


def test_a_stackwalker_that_goes_away_meanwhile_is_waited_for(bed: Bed) -> None:
    bed.fill("ok")
    process = bed.start("--number-of-threads", "1", "--backoff-delays", ",".join(["0.05"] * 999))
    bed.wait_for(lambda status: status["done"] == 1)
    bed.walker.rename(bed.walker.with_name("away"))
    crash_id = bed.fill("ok")[0]
    bed.wait_for(lambda status: status["cur"] == 1)
    time.sleep(0.3)  # some attempts; the test holds whatever their number
    assert bed.status()["cur"] == 1
    bed.walker.with_name("away").rename(bed.walker)
    bed.wait_for(lambda status: status["done"] == 2)
    process.terminate()

    bed.end(process)
    assert bed.result(crash_id)["success"]


def test_a_queuing_thread_that_dies_ends_the_process_with_an_error(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd_source.py").write_text(
        "from tuner_workers.crash_processor.sources.fs import FileSystemCrashSource\n"
        "class OddSource(FileSystemCrashSource):\n"
        "    n = 0\n"
        "    def new_crashes(self):\n"
        "        self.n += 1\n"
        "        if self.n > 3: raise RuntimeError('odd')\n"
        "        return super().new_crashes()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    bed.fill("ok", "ok", "ok", "ok", "ok")
    for threads in ("1", "3"):
        process = bed.start(
            "--new-crash-source-class", "odd_source.OddSource", "--number-of-threads", threads, "--endless"
        )
        said = bed.end(process, exit_code=1)

        assert "RuntimeError: odd" in said
        assert "3 done" in said
        assert (bed.status()["new"], bed.status()["cur"]) == (5, 0)


def test_results_are_capped(bed: Bed) -> None:
    ids = bed.fill(*["ok"] * 40)
    bed.run("--number-of-threads", "2", "--keep-results", "5")
    assert (bed.status()["done"], bed.status()["results"]) == (40, 5)

    for crash_id in ids:
        (bed.root / "done" / crash_id).rename(bed.root / "new" / crash_id)
    bed.run("--number-of-threads", "2", "--keep-results", "all")
    assert bed.status()["results"] == 40


def test_results_that_a_kill_left_half_written_are_removed_once_they_are_old(bed: Bed) -> None:
    bed.fill("ok")
    young, old = (bed.root / "processed" / f".{age}.123.456" for age in ("young", "old"))
    for half in (young, old):
        half.write_bytes(b"\x1f\x8b")
    os.utime(old, (1, 1))
    bed.run()

    assert (young.exists(), old.exists(), bed.status()["results"]) == (True, False, 1)
