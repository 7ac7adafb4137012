"""tuner grid on several boxes, as its user types it; each box is a process of its own."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ..fleet_processes import PATIENCE_S, Machines, Process, machines_in, pids_with, wait_until
from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration
N_BLOCKS = 6
MANY_BLOCKS = 24  #: so many that there is time to break something
LAYOUTS = ("1x1", "1x2", "2x1")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with machines_in(tmp_path) as started:
        yield started


@pytest.fixture
def config(tmp_path: Path) -> Path:
    worker, file = tmp_path / "worker.py", tmp_path / "s.yaml"
    worker.write_text(sleeping_worker("0.02"))
    file.write_text(
        f"service:\n  kind: script\n  name: sleeper\n  command: [{sys.executable}, {worker}]\n"
        f"study: {{strategy: all, layouts: [{', '.join(LAYOUTS)}], window: 3s, warmup: 1s,"
        f" repeats: {N_BLOCKS}, warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1}}\n"
    )
    return file


def grid(machines: Machines, *words: str | Path) -> Process:
    fleet = ["--fleet", machines.address]
    return Process(machines.folder, ["grid", *map(str, words), *fleet], {})


def windows(file: Path) -> list[tuple[int, str, str]]:
    """Block, layout and box of each window that counts."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return connection.execute(
            "SELECT block, processes || 'x' || threads, box FROM window JOIN launch ON launch.id = launch_id"
            " WHERE window.id NOT IN (SELECT window_id FROM void_reason)"
        ).fetchall()


def ended(process: Process) -> int:
    code = process.process.wait(2 * PATIENCE_S)
    process.close()
    return code


def ranked(file: Path) -> dict[str, Any]:
    done = Typed(file.parent)("rank", file, "--json")
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def has_all(file: Path, n_blocks: int = N_BLOCKS) -> bool:
    """Every layout was measured in every block."""
    return {(block, layout) for block, layout, _ in windows(file)} >= {
        (block, layout) for block in range(n_blocks) for layout in LAYOUTS
    }


@pytest.mark.timeout(600)
def test_a_study_is_measured_on_all_boxes_and_each_window_counts_once(
    machines: Machines, config: Path, tmp_path: Path
) -> None:
    machines.scheduler()
    for n in (1, 2, 3):
        machines.box(f"box-{n}").until_it_says("is in the fleet of")

    study = grid(machines, config)
    code = ended(study)

    file = tmp_path / "sleeper.tuner.db"
    assert code == 0, study.said
    found = windows(file)
    assert sorted((block, layout) for block, layout, _ in found) == [
        (block, layout) for block in range(N_BLOCKS) for layout in LAYOUTS
    ]
    of_block: dict[int, set[str]] = {}
    for block, _, box in found:
        of_block.setdefault(block, set()).add(box)
    assert all(len(boxes) == 1 for boxes in of_block.values())
    assert {box for _, _, box in found} == {"box-1", "box-2", "box-3"}
    assert {row["layout"] for row in ranked(file)["layouts"]} == set(LAYOUTS)
    assert pids_with(str(tmp_path / "worker.py")) == []


@pytest.mark.timeout(900)
@pytest.mark.full
def test_nothing_is_lost_or_counted_twice_whatever_dies(
    machines: Machines, config: Path, tmp_path: Path
) -> None:
    """A box is killed, one hangs and goes on, the scheduler and the study itself are killed."""
    scheduler = machines.scheduler()
    boxes = [machines.box(f"box-{n}") for n in (1, 2, 3, 4)]
    for box in boxes:
        box.until_it_says("is in the fleet of")
    file = tmp_path / "sleeper.tuner.db"
    study = grid(machines, config, "--repeats", str(MANY_BLOCKS))
    study.until_it_says(f"of {MANY_BLOCKS * len(LAYOUTS)} windows")

    boxes[0].end(signal.SIGKILL)
    study.until_it_says("box-1 is gone")
    boxes[1].process.send_signal(signal.SIGSTOP)
    study.until_it_says("box-2 is gone")
    boxes[1].process.send_signal(signal.SIGCONT)
    scheduler.end(signal.SIGKILL)
    machines.scheduler(port=int(machines.address.rpartition(":")[2]))
    before = windows(file)
    study.process.kill()
    ended(study)
    wait_until(lambda: not pids_with(str(tmp_path / "worker.py")), "boxes end what nobody waits for")
    machines.box("box-1").until_it_says("is in the fleet of")

    on = grid(machines, "--resume", file)
    code = ended(on)

    assert code == 0, on.said
    after = windows(file)
    assert after[: len(before)] == before
    assert has_all(file, MANY_BLOCKS)
    assert max(Counter(after).values()) == 1
    assert pids_with(str(tmp_path / "worker.py")) == []


@pytest.mark.timeout(600)
@pytest.mark.full
def test_a_study_that_is_interrupted_continues(machines: Machines, config: Path, tmp_path: Path) -> None:
    machines.scheduler()
    machines.box("box-1").until_it_says("is in the fleet of")
    file = tmp_path / "sleeper.tuner.db"
    study = grid(machines, config)
    study.until_it_says("1 of")
    study.process.send_signal(signal.SIGINT)
    assert ended(study) == 130
    before = windows(file)
    assert any(f"--resume {file.name} --fleet {machines.address}" in line for line in study.said)

    machines.box("box-2").until_it_says("is in the fleet of")
    on = grid(machines, "--resume", file)
    code = ended(on)

    assert code == 0, on.said
    assert windows(file)[: len(before)] == before
    assert has_all(file)


def test_without_a_box_nothing_is_begun(machines: Machines, config: Path, tmp_path: Path) -> None:
    machines.scheduler()

    study = grid(machines, config)

    assert ended(study) == 2
    assert any(wording("fleet.no-box-at") in line for line in study.said)
    assert not (tmp_path / "sleeper.tuner.db").exists()
