"""tuner replay as it is typed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.bootstrap.stores import new_store
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import Reading, Sample, Usage, Window

from ..processes import is_running
from ..wording import wording
from .typed import Typed

pytestmark = pytest.mark.integration

SUITES = Path(__file__).resolve().parents[3] / "shared" / "data" / "suites"
HERE = ("--processes", "1")  #: in the test's process: multiprocessing would keep one beside it
KEYS = [
    "schema_version",
    "suite", "strategy", "kind", "n", "right_ratio", "right_low", "right_high", "worst_surface_right_ratio",
    "mean_windows", "p90_windows", "mean_hours", "mean_launches", "unanswered_ratio",
]  # fmt: skip


def suite(folder: Path, **changes: object) -> Path:
    path = folder / "s.json"
    content = {
        "layouts": ["1x4", "2x2", "4x1"],
        "surfaces": [[100, 80, 70], [60, 90, 95], [50, 100, 40]],
        "within": 0.02,
        "confidence": 0.95,
        "launch_s": 60,
        "window_s": 300,
        "noise": {"window_sd": 0.03, "launch_sd": 0.01},
    }
    path.write_text(json.dumps({**content, **changes}))
    return path


def test_the_figures_are_the_same_whatever_the_number_of_processes(tuner, typed: Typed) -> None:
    suite(tuner.folder)
    asked = ("replay", "s.json", "--strategy", "f-race", "--repeats", "6", "--seed", "7", "--json")
    done = [typed(*asked, *HERE), *(tuner(*asked, "--processes", n) for n in ("2", "3"))]

    assert {one.stderr for one in done} == {""}
    assert len({one.stdout for one in done}) == 1
    figures = json.loads(done[0].stdout)
    assert list(figures) == KEYS
    assert (figures["suite"], figures["strategy"], figures["n"]) == ("s", "f-race", 18)


def test_the_race_is_replayed_as_both_kinds_and_a_person_reads_a_small_table(typed: Typed) -> None:
    suite(typed.folder)
    strict = json.loads(typed("replay", *HERE, "s.json", "--repeats", "5", "--json").stdout)
    calibrated = json.loads(typed("replay", *HERE, "s.json", "--kind", "calibrated", "--json").stdout)
    table = typed("replay", *HERE, "s.json", "--surfaces", "2")

    assert (strict["strategy"], strict["kind"], strict["n"]) == ("race", "strict", 15)
    assert (calibrated["kind"], calibrated["n"]) == ("calibrated", 3)
    assert table.stdout.startswith(wording("suite.race-told"))
    assert "Wilson 95 %" in table.stdout
    assert table.returncode == 0


def test_a_budget_counts_for_those_that_do_not_end_by_themselves(typed: Typed) -> None:
    words = ["identical+drift", "--strategy", "in-order", "--windows", "32", "--surfaces", "5", "--json"]
    done = typed("replay", *HERE, *words)

    assert json.loads(done.stdout)["mean_windows"] == 32
    assert json.loads(done.stdout)["kind"] == "none"


def test_more_surfaces_than_there_are_is_all_of_them_and_said(typed: Typed) -> None:
    suite(typed.folder)
    done = typed("replay", *HERE, "s.json", "--strategy", "in-order", "--surfaces", "200", "--json")

    assert json.loads(done.stdout)["n"] == 3
    assert done.stderr == wording("suite.surfaces-only")


def test_margin_and_confidence_can_be_others_than_the_suite_s(typed: Typed) -> None:
    suite(typed.folder, surfaces=[[100, 96, 50]], noise={"window_sd": 0.2})
    asked = ("replay", *HERE, "s.json", "--strategy", "in-order", "--repeats", "30", "--json")
    narrow = json.loads(typed(*asked).stdout)
    wide = json.loads(typed(*asked, "--within", "5%", "--confidence", "0.9").stdout)

    assert narrow["right_ratio"] < wide["right_ratio"] == 1.0


def test_a_broken_suite_is_reported_with_line_and_column(typed: Typed) -> None:
    (typed.folder / "s.json").write_text('{"layouts": ["1x1",\n "2x2"\n')
    done = typed("replay", *HERE, "s.json")

    assert done.stderr.startswith("Error: s.json:3:1: not JSON: ")
    assert done.returncode == 2


def children_of(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(status.parent.name))
    return found


def wait_until(holds, what: str) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_nothing_is_left_running_however_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-c", "from tuner.cli import main; main()", "replay", "identical"]
    process = subprocess.Popen(
        [*command, "--repeats", "1000", "--strategy", "f-race", "--processes", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        # two workers, and the tracker of what multiprocessing shares; some of them may still be starting
        wait_until(lambda: len(children_of(process.pid)) >= 3, "its workers never started")
        children = children_of(process.pid)
        # as a terminal does it: everybody of the group hears Ctrl-C
        (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
        out, err = process.communicate(timeout=60)
        wait_until(lambda: not any(map(is_running, children)), "a worker is left")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert out == ""
    if how == signal.SIGINT:
        assert err == "Error: interrupted\n"
        assert process.returncode == 130


def study_file(folder: Path, n_blocks: int) -> Path:
    """A study of two layouts, 20 % apart, as `tuner grid --strategy all` would have written it."""
    layouts = (Layout(1, 4), Layout(4, 1))
    asked = StudyRecord(
        "svc", "all", layouts, 4, 4.0, 60.0, None, n_blocks, 1, 1, None, 0.0, StoredConfig("{}")
    )
    file = folder / "svc.tuner.db"
    with new_store(file, asked) as store:
        for number in range(2 * n_blocks):
            block, position = divmod(number, 2)
            began_s, layout = 100.0 * number, layouts[position]
            launch = LaunchRecord(
                block, position, 1, layout, "box", began_s, 1.0, 9.0, True, None, began_s + 80
            )
            n_done = (1000, 1200)[position] + 7 * block + 3 * position * block
            samples = tuple(Sample(at_s, 0, 0, 1.0, 1.0, 1.0, 4) for at_s in (0.0, 60.0))
            usage = tuple(
                Usage(at_s, began_s + 10 + at_s, 0, 0, 0, 0, 0, 0, 1, 1, 4, None, None, None)
                for at_s in (0.0, 60.0)
            )
            readings = Reading(0.0, 0, 0), Reading(60.0, n_done, 0)
            window = Window(layout, 0, 1, began_s + 10, 60.0, n_done, 0, samples, usage, readings)
            store.add_window(store.add_launch(launch), window)
    return file


def test_a_study_that_was_measured_is_replayed_and_stays_as_it_is(typed: Typed) -> None:
    file = study_file(typed.folder, 4)
    before = file.read_bytes()
    asked = ("replay", *HERE, file, "--strategy", "successive-halving", "--repeats", "50")
    figures = json.loads(typed(*asked, "--json").stdout)

    assert (figures["suite"], figures["n"], figures["right_ratio"]) == ("svc", 50, 1.0)
    assert wording("suite.own-estimates-are-the-truth") in typed(*asked).stdout
    assert file.read_bytes() == before
    assert [path.name for path in typed.folder.iterdir()] == [file.name]


def test_a_study_too_small_to_replay_is_reported(typed: Typed) -> None:
    done = typed("replay", *HERE, study_file(typed.folder, 1))

    assert done.stderr.startswith(wording("simulate.study-too-small"))
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(not SUITES.is_dir(), reason="the shared suites are not beside this tree")
@pytest.mark.parametrize("name", ["T", "full"])
def test_the_shared_suites_replay(typed: Typed, name: str) -> None:
    done = typed(
        "replay", *HERE, SUITES / f"{name}.json", "--strategy", "in-order", "--surfaces", "20", "--json"
    )

    figures = json.loads(done.stdout)
    assert (figures["suite"], figures["n"], figures["unanswered_ratio"]) == (name, 20, 0.0)
