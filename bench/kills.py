"""Remains of a study in slices after kill -9 at a random moment: processes, and the content of the file.

    python bench/kills.py [--n 200] [--seed 1] [--longest 25]

The bench starts a study of three layouts whose workers only sleep. After a random time, it kills tuner, a
supervisord or a guardian. If tuner survives, the bench sends Ctrl-C twice. The table counts, for each kind of
victim, the studies that left a process after ten seconds (running or stopped), that lost a stored window, or
whose file is damaged; and the longest time until all processes had ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import psutil
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.e2e.sleeping_worker import sleeping_worker

WITHIN_S = 10.0
#: what is counted, as found or not
FAULTS = ("killed", "left", "frozen", "lost", "damaged")
VICTIMS = ("tuner", "supervisord", "guardian")
TOKEN = "TUNER_BENCH_KILLS"
STUDY = """\
service:
  kind: script
  name: sleeper
  gate: freeze
  command: [{python}, {worker}]
study: {{layouts: [1x4, 2x2, 4x1], slices: auto, window: 4s, min_window: 1s, warmup: 1s, within: 1%,
  warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1}}
"""


def family(token: str) -> list[psutil.Process]:
    """Processes of one study: all inherit a variable, or name a path in its folder."""
    found = []
    for one in psutil.process_iter(["pid"]):
        with suppress(psutil.Error, OSError):
            known = [*one.cmdline(), one.environ().get(TOKEN, "")]
            if any(token in text for text in known) and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def victims(name: str, tuner: int, found: list[psutil.Process]) -> list[psutil.Process]:
    """The processes of *found* that may be killed as *name*."""
    if name == "tuner":
        return [one for one in found if one.pid == tuner]
    word = "guardian_process" if name == "guardian" else "supervisord"
    chosen = []
    for one in found:
        with suppress(psutil.Error):
            if one.pid != tuner and any(word in text for text in one.cmdline()):
                chosen.append(one)
    return chosen


def windows_in(file: Path) -> int | None:
    """Number of stored windows; None: there is no study yet, or it is being created."""
    if not file.exists():
        return None
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM window").fetchone()[0])
        except sqlite3.OperationalError:
            return None


def kill_once(random: Random, victim: str, longest_s: float) -> dict[str, float]:
    """Kill *victim* of a new study; the faults that follow, and the seconds until all processes ended."""
    seen: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        (folder / "worker.py").write_text(sleeping_worker())
        (folder / "s.yaml").write_text(STUDY.format(python=sys.executable, worker=folder / "worker.py"))
        environment = {**os.environ, "TMPDIR": name, TOKEN: name, "TUNER_LOCK": f"{name}/lock"}
        with open(folder / "log", "wb") as log, subprocess.Popen(
            [str(Path(sys.executable).with_name("tuner")), "grid", str(folder / "s.yaml")],
            cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
        ) as process:  # fmt: skip
            time.sleep(1.0 + random.uniform(0, longest_s))
            chosen = victims(victim, process.pid, family(name))
            seen["killed"] = len(chosen) > 0
            n_before = windows_in(folder / "sleeper.tuner.db")
            if chosen:
                with suppress(psutil.NoSuchProcess):
                    random.choice(chosen).kill()
            if victim != "tuner" or not chosen:
                for _ in range(2):
                    with suppress(ProcessLookupError):
                        process.send_signal(signal.SIGINT)
                    time.sleep(0.3)
            began_s = time.monotonic()
            while (left := family(name)) and time.monotonic() - began_s < WITHIN_S:
                process.poll()
                time.sleep(0.1)
            seen["left"] = len(left) > 0
            for one in left:
                with suppress(psutil.Error):
                    seen["frozen"] = seen.get("frozen", False) or one.status() == psutil.STATUS_STOPPED
                    print("left:", one.pid, one.status(), one.cmdline(), file=sys.stderr)
                    one.kill()
            seen["took_s"] = time.monotonic() - began_s
        file = folder / "sleeper.tuner.db"
        n_after = windows_in(file)
        seen["lost"] = n_before is not None and (n_after or 0) < n_before
        seen["windows"] = n_after or 0
        if file.exists():
            with closing(sqlite3.connect(file)) as connection:
                seen["damaged"] = connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=25.0, help="seconds until the kill, at most")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    random = Random(options.seed)
    found: dict[str, list[dict[str, float]]] = {victim: [] for victim in VICTIMS}
    for number in range(options.n):
        victim = VICTIMS[number % len(VICTIMS)]
        found[victim].append(kill_once(random, victim, options.longest))
        print(number + 1, victim, found[victim][-1], file=sys.stderr, flush=True)
    rows = [
        [
            victim,
            len(seen),
            *(sum(bool(one.get(fault)) for one in seen) for fault in FAULTS),
            sum(one["windows"] > 0 for one in seen),
            max((one["took_s"] for one in seen), default=0.0),
        ]
        for victim, seen in found.items()
    ]
    headers = ("victim", "studies", *FAULTS, "with windows", "longest, s")
    print(tabulate(rows, headers=headers, floatfmt=".1f"))


if __name__ == "__main__":
    main()
