"""Bottlenecks of three services: the output of `tuner explain`, compared with independent observations.

    python bench/model/bound.py [FOLDER [SERVICE ...]]

Each service runs under `tuner grid` in a few layouts. While a layout runs, the bench observes its worker
processes without tuner: each thread's system call twenty times a second (/proc/PID/task/TID/syscall: a futex
is the wait for the GIL, clock_nanosleep a sleep, wait4 or a pipe a child), its time on a core and its wait
for a core (schedstat), and, if py-spy is installed, whether a thread holds the GIL. The bench takes some five
minutes. On a busy host, the cores are also used by other processes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bound_worker import ITEMS

WORKER = Path(__file__).with_name("bound_worker.py")
LAYOUTS = {"gil": "1x1,1x6,2x1", "cores": "1x1,1x6,6x1", "waiting": "1x1,1x6,3x2"}
STUDY = """\
service:
  kind: script
  name: {name}-bound
  command: [{python}, {worker}, {name}]
study: {{strategy: all, window: 12s, warmup: 3s, repeats: 2, warm_cache: no, foreign_limit: 64}}
"""
CALLS = {
    202: "futex",
    230: "sleep",
    35: "sleep",
    61: "child",
    7: "child",
    0: "child",
    247: "child",
}  #: x86-64
EVERY_S = 0.05
SETTLED_S = 3.0  #: processes that are younger are not looked at
SPY_EVERY_S = 2.0


@dataclass
class Looks:
    """Observations of one layout from outside."""

    calls: Counter[str] = field(default_factory=Counter)  #: looks at threads, by what they were doing
    ran_s: float = 0.0
    in_line_s: float = 0.0
    thread_s: float = 0.0
    spied: int = 0  #: py-spy's looks at a process
    gil_held: int = 0  #: of these, with a thread that held the GIL


def workers(name: str) -> dict[int, float]:
    """Age in seconds of each worker process of the service."""
    found = {}
    with open("/proc/uptime") as file:
        now_s = float(file.read().split()[0])
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if words[1:3] == [str(WORKER).encode(), name.encode()]:
                    stat = (folder / "stat").read_text().rpartition(")")[2].split()
                    found[int(folder.name)] = now_s - int(stat[19]) / 100
            except OSError:
                continue  # ended meanwhile
    return found


def threads_of(pid: int) -> list[int]:
    """The threads that work on items: all but the first, which waits for them."""
    return sorted(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir())[1:]


def schedstat(pid: int, threads: list[int]) -> tuple[float, float]:
    """Seconds the threads ran, and waited for a core."""
    ran = waited = 0
    for tid in threads:
        words = Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()
        ran, waited = ran + int(words[0]), waited + int(words[1])
    return ran / 1e9, waited / 1e9


def doing(pid: int, tid: int) -> str:
    """Return the current activity of a thread: computing, or its system call."""
    folder = Path(f"/proc/{pid}/task/{tid}")
    word = (folder / "syscall").read_text().split()[0]
    if word == "running":
        return "runs"
    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    return "blocked" if state == "D" else CALLS.get(int(word), f"call {word}")


def holds_gil(pid: int) -> bool | None:
    """Whether a thread of *pid* holds the GIL now, by py-spy; None: it could not look."""
    done = subprocess.run(
        ["py-spy", "dump", "--json", "--nonblocking", "--pid", str(pid)], capture_output=True, check=False
    )
    return any(thread["owns_gil"] for thread in json.loads(done.stdout)) if done.returncode == 0 else None


def watch(name: str, study: subprocess.Popen[str]) -> dict[str, Looks]:
    """Look at every layout that the study runs, until it has ended."""
    seen: dict[str, Looks] = {}
    has_spy = shutil.which("py-spy") is not None
    while study.poll() is None:
        pids = sorted(workers(name))
        ages = workers(name)
        if not pids or min(ages.values(), default=0.0) < SETTLED_S:
            time.sleep(EVERY_S)
            continue
        try:
            look_at(pids, seen, study, spy=has_spy)
        except OSError:
            continue  # the launch ended
    return seen


def look_at(pids: list[int], seen: dict[str, Looks], study: subprocess.Popen[str], *, spy: bool) -> None:
    """Look at one launch until it ends."""
    tasks = {pid: threads_of(pid) for pid in pids}
    if not all(tasks.values()):  # it ends: its threads are gone, and its processes are not yet
        time.sleep(EVERY_S)
        return
    looks = seen.setdefault(f"{len(pids)}x{len(tasks[pids[0]])}", Looks())
    spied_s = last_s = time.monotonic()
    before = {pid: schedstat(pid, tids) for pid, tids in tasks.items()}
    while study.poll() is None:
        time.sleep(EVERY_S)
        now = {pid: schedstat(pid, tids) for pid, tids in tasks.items()}
        calls = Counter(doing(pid, tid) for pid, tids in tasks.items() for tid in tids)
        now_s = time.monotonic()
        looks.calls += calls
        looks.thread_s += (now_s - last_s) * sum(map(len, tasks.values()))
        looks.ran_s += sum(now[pid][0] - before[pid][0] for pid in pids)
        looks.in_line_s += sum(now[pid][1] - before[pid][1] for pid in pids)
        before, last_s = now, now_s
        if spy and now_s - spied_s >= SPY_EVERY_S:
            for pid in pids:
                if (held := holds_gil(pid)) is not None:
                    looks.spied += 1
                    looks.gil_held += held
            spied_s = time.monotonic()


def tuner(*arguments: str) -> str:
    return subprocess.run(["tuner", *arguments], capture_output=True, text=True, check=True).stdout


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="bound-"))
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or ITEMS:
        config, file = folder / f"{name}.yaml", folder / f"{name}.tuner.db"
        config.write_text(STUDY.format(name=name, python=sys.executable, worker=WORKER))
        grid = ["tuner", "grid", str(config), "--layouts", LAYOUTS[name], "--study", str(file)]
        with subprocess.Popen(grid, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as study:
            seen = watch(name, study)
            result = study.communicate()[1]
        if study.returncode:
            raise SystemExit(f"{' '.join(grid)} gave {study.returncode}:\n{result}")
        print(f"== {name}\n\n{tuner('explain', str(file))}", flush=True)
        print_looks(seen)


def print_looks(seen: dict[str, Looks]) -> None:
    print("From outside   CPU of   ran     waited    of looks at threads                          py-spy:")
    print("layout         process          for core  (system calls)                               GIL held")
    for layout, looks in seen.items():
        n = sum(looks.calls.values())
        if not n:
            continue
        calls = ", ".join(f"{what} {100 * count / n:.0f} %" for what, count in looks.calls.most_common(5))
        threads = int(layout.partition("x")[2])
        spied = f"{looks.gil_held} of {looks.spied}" if looks.spied else "-"
        print(
            f"{layout:<13} {100 * looks.ran_s / looks.thread_s * threads:5.0f} %"
            f" {100 * looks.ran_s / looks.thread_s:5.0f} % {100 * looks.in_line_s / looks.thread_s:5.0f} %"
            f"     {calls:<45} {spied}"
        )
    print(flush=True)


if __name__ == "__main__":
    main()
