"""tuner grid with limits that stop it: the service is gone, the box restored, what was measured kept."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from tuner.adapters.sqlite.store import SqliteStore

from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration

#: fails each item with two threads
_FAILING = sleeping_worker("0.01").replace(
    "        slot.done()\n", "        slot.failed() if n_threads == 2 else slot.done()\n"
)
_MIB = 1024**2
#: more than the box uses when it starts; others may take of it meanwhile, and the brake only comes sooner
_SPARE_BYTES = 400 * _MIB
#: takes 10 MiB an item; if nothing stops it, it ends that by itself at 3 GiB
_EATING = (
    sleeping_worker("0.02")
    .replace("stop = threading.Event()\n", "stop = threading.Event()\neaten = []\n")
    .replace(
        "        slot.done()\n",
        "        slot.done()\n        eaten.extend([b'x' * EATS][len(eaten) // 300 :])\n",
    )
    .replace("EATS", str(10 * _MIB))
)

_CONFIG = """\
service:
  kind: script
  name: braked
  directory: {folder}
  command: [{python}, worker.py]
  stop: {{wait: 20s}}
{more}
study: {{strategy: all, layouts: [{layouts}], window: {window}, warmup: 1s, repeats: 1, warm_cache: no,
  foreign_limit: 1000, memory_pressure_limit: 1}}
hooks:
  after_launch: [[sh, -c, 'echo "launch $TUNER_LAYOUT" >> restored']]
  after_study: [[sh, -c, 'echo study >> restored']]
  finished: [[sh, -c, 'echo "$TUNER_EXIT_CODE $TUNER_BRAKE" > finished']]
brake: {brake}
"""


def write(
    folder: Path, worker: str, brake: str, layouts: str = "1x1, 1x2", window: str = "60s", more: str = ""
) -> None:
    (folder / "worker.py").write_text(worker)
    text = _CONFIG.format(
        folder=folder, python=sys.executable, brake=brake, layouts=layouts, window=window, more=more
    )
    (folder / "s.yaml").write_text(text)


def nothing_runs(folder: Path) -> bool:
    return not [
        process
        for process in psutil.process_iter(["cwd", "cmdline"])
        if process.info["cwd"] == str(folder) and "worker.py" in (process.info["cmdline"] or [])
    ]


def test_a_worker_that_eats_the_memory_is_stopped(typed: Typed) -> None:
    limit = psutil.virtual_memory().total - psutil.virtual_memory().available + _SPARE_BYTES
    write(typed.folder, _EATING, f"{{memory: {limit // _MIB}M}}", layouts="1x1")

    done = typed("grid", "s.yaml")

    assert done.returncode == 3, done.stderr  # no window: nothing was measured
    assert "[braked]" in done.stderr
    assert wording("brake.stopped-layout") in done.stderr
    assert wording("brake.memory-in-use") in done.stderr
    assert wording("grid.go-on-with", study="braked.tuner.db") in done.stderr
    assert nothing_runs(typed.folder)
    assert (typed.folder / "restored").read_text() == "launch 1x1\nstudy\n"
    assert "memory in use" in (typed.folder / "finished").read_text()

    with SqliteStore.open(typed.folder / "braked.tuner.db", read_only=True) as store:
        assert [launch.error.startswith("braked: ") for _, launch in store.launches()] == [True]


def test_memory_is_looked_at_while_a_launch_gets_ready(typed: Typed) -> None:
    limit = psutil.virtual_memory().total - psutil.virtual_memory().available + _SPARE_BYTES
    never = "  ready: {kind: command, command: [test, -e, is-ready], within: 100s}"
    write(typed.folder, _EATING, f"{{memory: {limit // _MIB}M}}", layouts="1x1", more=never)

    done = typed("grid", "s.yaml")

    assert done.returncode == 3, done.stderr
    assert wording("brake.stopped-while-it-started") in done.stderr
    assert nothing_runs(typed.folder)
    assert (typed.folder / "restored").read_text() == "launch 1x1\nstudy\n"


def test_a_layout_whose_items_fail_is_left_out_and_the_others_are_ranked(typed: Typed) -> None:
    brake = "{errors: 5%, holds: 1s, then: leave-out}"
    write(typed.folder, _FAILING, brake, layouts="1x1, 1x2, 1x3", window="4s")

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 5, done.stderr
    assert "[over-limit]" in done.stderr
    ranking = json.loads(done.stdout)
    rows = {row["layout"]: row for row in ranking["layouts"]}
    assert rows["1x2"]["rank"] is None
    assert rows["1x2"]["note"].startswith(wording("brake.left-out"))
    assert "items failed within" in rows["1x2"]["note"]
    assert rows["1x1"]["rank"] is not None
    assert rows["1x3"]["rank"] is not None
    assert (typed.folder / "restored").read_text().count("launch") == 3
    assert nothing_runs(typed.folder)


def test_a_command_that_says_no_stops_the_study_which_continues_once_it_says_yes(tuner, typed: Typed) -> None:
    brake = "{command: [sh, -c, 'echo asked; echo queue too deep; test ! -e full'], every: 1s, holds: 1s}"
    write(tuner.folder, sleeping_worker(), brake, window="3s")
    text = (tuner.folder / "s.yaml").read_text()
    # full once the first layout is done
    hook = f"touch {tuner.folder}/full"
    text = text.replace("hooks:\n", f"hooks:\n  after_window: [[sh, -c, '{hook}']]\n")
    (tuner.folder / "s.yaml").write_text(text.replace("test ! -e full", f"test ! -e {tuner.folder}/full"))

    done = tuner("grid", "s.yaml")

    assert done.returncode == 6, done.stderr
    assert wording("brake.command-says-stop") in done.stderr
    assert "1 of the 2 windows" in done.stdout  # what is measured is kept and ranked
    assert (tuner.folder / "finished").read_text().startswith("6 ")
    assert nothing_runs(tuner.folder)

    os.remove(tuner.folder / "full")
    again = typed("grid", "--resume", "braked.tuner.db")

    assert again.returncode == 0, again.stderr
    with SqliteStore.open(tuner.folder / "braked.tuner.db", read_only=True) as store:
        errors = [launch.error for _, launch in store.launches()]
        n_windows = sum(not window.void for window in store.windows())
    assert [error is None for error in errors] == [True, False, True]
    assert n_windows == 2


def test_another_brake_may_be_given_to_a_study_that_continues(typed: Typed) -> None:
    no = "{command: [sh, -c, 'test -z \"$TUNER_LAYOUT\"'], every: 1s, holds: 0s}"  # to every layout
    write(typed.folder, sleeping_worker(), no, window="2s")
    assert typed("grid", "s.yaml").returncode == 3
    write(typed.folder, sleeping_worker(), "{command: ['true']}", window="2s")

    again = typed("grid", "s.yaml", "--resume", "braked.tuner.db")

    assert again.returncode == 0, again.stderr


def test_a_brake_whose_command_is_missing_is_reported_before_anything_runs(typed: Typed) -> None:
    write(typed.folder, sleeping_worker(), "{command: no-such-thing}")

    done = typed("grid", "s.yaml")

    assert done.returncode == 2
    assert done.stderr.splitlines()[-2:] == [
        "Error: " + wording("brake.command-missing"),
        wording("brake.name-a-program"),
    ]
    assert not (typed.folder / "braked.tuner.db").exists()
