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

pytestmark = pytest.mark.integration

SUITES = Path(__file__).resolve().parents[3] / "shared" / "data" / "suites"
KEYS = [
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


def test_the_figures_are_the_same_whatever_the_number_of_processes(tuner) -> None:
    suite(tuner.folder)
    asked = ("replay", "s.json", "--strategy", "f-race", "--repeats", "6", "--seed", "7", "--json")
    done = [tuner(*asked, "--processes", n) for n in ("1", "2", "3")]

    assert {one.stderr for one in done} == {""}
    assert len({one.stdout for one in done}) == 1
    figures = json.loads(done[0].stdout)
    assert list(figures) == KEYS
    assert (figures["suite"], figures["strategy"], figures["n"]) == ("s", "f-race", 18)


def test_the_race_is_replayed_as_both_kinds_and_a_person_reads_a_small_table(tuner) -> None:
    suite(tuner.folder)
    strict = json.loads(tuner("replay", "s.json", "--repeats", "5", "--json").stdout)
    calibrated = json.loads(tuner("replay", "s.json", "--kind", "calibrated", "--json").stdout)
    table = tuner("replay", "s.json", "--surfaces", "2")

    assert (strict["strategy"], strict["kind"], strict["n"]) == ("race", "strict", 15)
    assert (calibrated["kind"], calibrated["n"]) == ("calibrated", 3)
    assert table.stdout.startswith(
        "race, strict on s: 3 layouts, within 0.02 of the best, 0.95 confidence, 2 s"
    )
    assert "Wilson 95 %" in table.stdout
    assert table.returncode == 0


def test_a_budget_counts_for_those_that_do_not_end_by_themselves(tuner) -> None:
    done = tuner(
        "replay", "identical+drift", "--strategy", "in-order", "--windows", "32", "--surfaces", "5", "--json"
    )

    assert json.loads(done.stdout)["mean_windows"] == 32
    assert json.loads(done.stdout)["kind"] == "none"


def test_more_surfaces_than_there_are_is_all_of_them_and_said(tuner) -> None:
    suite(tuner.folder)
    done = tuner("replay", "s.json", "--strategy", "in-order", "--surfaces", "200", "--json")

    assert json.loads(done.stdout)["n"] == 3
    assert done.stderr == "s has 3 surfaces only: all of them are replayed.\n"


def test_margin_and_confidence_can_be_others_than_the_suite_s(tuner) -> None:
    suite(tuner.folder, surfaces=[[100, 96, 50]], noise={"window_sd": 0.2})
    asked = ("replay", "s.json", "--strategy", "in-order", "--repeats", "30", "--json")
    narrow = json.loads(tuner(*asked).stdout)
    wide = json.loads(tuner(*asked, "--within", "5%", "--confidence", "0.9").stdout)

    assert narrow["right_ratio"] < wide["right_ratio"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "no suite is called nonsense, and no file either"),
        (["identical+nonsense"], "no suite is called identical+nonsense"),
        (["none.json"], "cannot read the suite none.json: No such file or directory"),
        (["."], "cannot read the suite .: Is a directory"),
        (["s.json", "--strategy", "rcae"], "--strategy rcae: there is none, did you mean race?"),
        (["s.json", "--kind", "sure"], "--kind sure: should be strict or calibrated"),
        (["s.json", "--surfaces", "0"], "--surfaces: should be greater than or equal to 1"),
        (["s.json", "--repeats", "x"], "--repeats: should be a valid integer"),
        (["s.json", "--processes", "0"], "--processes: should be greater than or equal to 1"),
        (["s.json", "--within", "2"], "--within 2: should be between 0% and 100%"),
        (["s.json", "--within", "nan"], "--within nan: should be between 0% and 100%"),
        (["s.json", "--confidence", "x"], "--confidence: 'x' is no share"),
        (["s.json", "--confidence", "10%"], "--confidence 10%: should be between 50% and 100%"),
        (
            ["s.json", "--windows", "5"],
            "--windows is for strategies that do not end by themselves; race does",
        ),
        ([], "missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_typed_wrong_is_told_in_one_line(tuner, arguments: list[str], said: str) -> None:
    suite(tuner.folder)
    done = tuner("replay", *arguments)

    assert said in done.stderr.splitlines()[0]
    assert done.stderr.startswith("Error: ")
    assert done.returncode == 2
    assert done.stdout == ""


def test_a_broken_suite_is_told_with_line_and_column(tuner) -> None:
    (tuner.folder / "s.json").write_text('{"layouts": ["1x1",\n "2x2"\n')
    done = tuner("replay", "s.json")

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


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
        wait_until(lambda: len(children_of(process.pid)) >= 3, "its workers never started")  # and a tracker
        children = children_of(process.pid)
        # as a terminal does it: everybody of the group hears Ctrl-C
        (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
        out, err = process.communicate(timeout=60)
        wait_until(lambda: not any(map(is_alive, children)), "a worker is left")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert out == ""
    if how == signal.SIGINT:
        assert err == "Error: interrupted\n"
        assert process.returncode == 130


@pytest.mark.skipif(not SUITES.is_dir(), reason="the shared suites are not beside this tree")
@pytest.mark.parametrize("name", ["A", "T", "worst", "full"])
def test_the_shared_suites_replay(tuner, name: str) -> None:
    done = tuner("replay", SUITES / f"{name}.json", "--strategy", "in-order", "--surfaces", "20", "--json")

    figures = json.loads(done.stdout)
    assert (figures["suite"], figures["n"], figures["unanswered_ratio"]) == (name, 20, 0.0)
