"""What tests of real services share: an item that keeps when it was finished, tuner as typed, three promises.

The promises: a window's count is what was finished in it; a stop loses nothing; nobody survives a kill -9.
Each test has a folder, in which the service runs and finds `item.py`.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from tuner.adapters.sqlite.store import SqliteStore
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Window

from ..conftest import MARKER

LONG_S = 120.0  #: for a state to come: the box may be busy with other tests
TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")
#: a window is void by nothing that other tests on this box do
ALONE = ("--strategy", "all", "--repeats", "1", "--foreign-limit", "1000")
#: nor is a layout left out whose workers take long to come, where nobody says when they are there
COUNTED = (*ALONE, "--max-attempts", "9")
#: a race whose layouts stay started and take turns
IN_TURNS = (
    *("--slices", "auto", "--within", "20%", "--window", "4s", "--min-window", "4s", "--warmup", "2s"),
    *("--foreign-limit", "1000", "--max-attempts", "9", "--budget", "1m"),
)
TURNS_ITEM_S = 0.1  #: of its items: with longer ones a slice takes many seconds
WINDOW_S = 6
WARMUP_S = 2
#: something is killed early on; a layout whose supervisord was killed is launched again, and runs to its end
KILLED = (*ALONE, "--window", f"{WINDOW_S}s", "--warmup", "1s", "--max-attempts", "1")
#: between reading the clock and the count, a thread may have to wait that long for a core of a busy box
READING_S = 0.02

#: of an item: no core is needed for it. So long that one event loop with eight items needs a small part of
#: a core only, which it gets on a host with five times as many runnable processes as cores
WAIT_S = 0.5
#: the least share of a window in which every thread holds an item, and the most items / what the waits allow.
#: both hold on a host that is busy with other tests: an item that waits for a core is held all the longer
LOWEST, HIGHEST = 0.9, 1.05

#: for the service to import: `item()`, or `begin()` and `finish()` around a wait of its own
#: most of an item is its wait: services that took all of the cores could not be tested side by side
ITEM = f"""\
import contextvars, hashlib, os, struct, time

WAIT_S = float(os.environ.get("ITEM_S", "{WAIT_S}"))
_begun = os.open("begun", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
_finished = os.open("finished", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
_held = os.open("held", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
_begun_s = contextvars.ContextVar("begun_s")


def begin():
    _begun_s.set(time.monotonic())
    os.write(_begun, struct.pack("d", _begun_s.get()))


def finish():
    digest = b""
    for _ in range(2000):
        digest = hashlib.sha256(digest).digest()
    finished_s = time.monotonic()
    os.write(_finished, struct.pack("d", finished_s))
    os.write(_held, struct.pack("dd", _begun_s.get(finished_s), finished_s))


def item():
    begin()
    time.sleep(WAIT_S)
    finish()
"""


def moments(folder: Path, name: str) -> list[float]:
    """When items were begun, or finished, in seconds of the monotonic clock."""
    file = folder / name
    return [moment for (moment,) in struct.iter_unpack("d", file.read_bytes())] if file.exists() else []


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait for a state."""
    deadline_s = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {LONG_S:.0f} s in vain: {what}"
        time.sleep(0.05)


@contextmanager
def tuner_running(
    folder: Path, services_venv: Path, arguments: Sequence[str | Path], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """`tuner ARGUMENTS` in *folder*, the services' programs on the PATH; killed if it outlives the block."""
    (folder / "item.py").write_text(ITEM)
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(
            [*TUNER, *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "PATH": f"{services_venv / 'bin'}:{os.environ['PATH']}", **environment},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def tuner(
    folder: Path, services_venv: Path, *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> str:
    """Run `tuner ARGUMENTS` to its end; what it said.

    Good ends are 0, 5 (weaker than asked), and 3: on a box too busy for a reading a second every window may
    be void. They are kept.
    """
    with tuner_running(folder, services_venv, arguments, environment or {}) as process:
        process.wait(3 * LONG_S)
    said = (folder / "said").read_text()
    assert process.returncode in (0, 3, 5), said
    return said


def windows_of(study: Path) -> list[Window]:
    """The windows of a study, void ones too."""
    with SqliteStore.open(study, read_only=True) as store:
        return [store.window(one.launch_id, one.index, one.attempt) for one in store.windows()]


def check_counts(
    folder: Path, study: Path, layouts: Sequence[str], step_s: float = 0.0, *, some_fail: bool = False
) -> None:
    """Every layout's windows count the number of items that were finished in them.

    An item in hand at an edge may be told before it is kept, or after: so many as the layout has threads. And
    the reading itself takes a moment. *step_s* is for counts that are up to so many seconds old. Tuner claims
    nothing of a void window and takes it again: the valid ones are checked. Where a box is too busy for a
    reading a second, a layout may have none: then the void one of the most items is.
    """
    finished_s = moments(folder, "finished")
    windows = _windows_to_check(study)
    assert sorted({str(window.layout) for window in windows}) == sorted(layouts)
    for window in windows:
        begin_s, end_s = (reading.at_s for reading in window.readings)
        n_true = _within(finished_s, begin_s, end_s)
        n_moved = sum(
            _within(finished_s, at_s - READING_S - step_s, at_s + READING_S) for at_s in (begin_s, end_s)
        )
        allowed = max(0.005 * n_true, window.layout.total_threads) + n_moved
        text = f"{window.layout}: counted {window.n_done}, finished {n_true}, allowed {allowed:.1f}"
        tell(text)
        assert n_true > 5, text
        assert abs(window.n_done - n_true) <= allowed, text
        assert (window.n_failed > 0) == some_fail, text
        assert {reason.slug for reason in window.void} <= {"probe-gap"}, window.void


def check_turns(folder: Path, study: Path, layouts: Sequence[str], item_s: float) -> None:
    """Each layout counted no more items than its threads finish, and no two layouts worked at once."""
    with SqliteStore.open(study, read_only=True) as store:
        heats = {launch_id: launch.heat for launch_id, launch in store.launches()}
        found = [one for one in store.windows() if heats[one.launch_id] is not None and not one.void]
        in_turns = [store.window(one.launch_id, one.index, one.attempt) for one in found]
    assert {str(window.layout) for window in in_turns} == set(layouts)
    for window in in_turns:
        n_threads = window.layout.total_threads
        ideal = n_threads * window.length_s / item_s
        text = f"{window.layout}: counted {window.n_done} in {window.length_s:.2f} s, waits allow {ideal:.0f}"
        tell(text)
        assert 0 < window.n_done <= HIGHEST * ideal + n_threads, text
    begun_s, finished_s = moments(folder, "begun"), moments(folder, "finished")
    changes = sorted([(at_s, 1) for at_s in begun_s] + [(at_s, -1) for at_s in finished_s])
    most = max(accumulate(change for _, change in changes))
    tell(f"begun {len(begun_s)}, finished {len(finished_s)}, at most {most} at once")
    assert len(begun_s) == len(finished_s)
    assert most == max(window.layout.total_threads for window in in_turns)


def check_ideal(
    folder: Path,
    study: Path,
    n_at_once: Callable[[Layout], int],
    step_s: float = 0.0,
    lowest: float = LOWEST,
) -> None:
    """Check that every layout had *n_at_once* items under way all the time, and no more.

    Each item waits `WAIT_S`. The share of the window in which items are under way is the same on a slow host,
    the number of items is not: it has an upper bound only. At an edge of a window an item of each may fall on
    either side. *step_s* is as for `check_counts`.
    """
    held = list(struct.iter_unpack("dd", (folder / "held").read_bytes()))
    for window in _windows_to_check(study):
        begin_s, end_s = (reading.at_s for reading in window.readings)
        n, duration_s = n_at_once(window.layout), end_s - begin_s
        under_way_s = sum(
            max(0.0, min(finished_s, end_s) - max(begun_s, begin_s)) for begun_s, finished_s in held
        )
        lost_s, ideal = n * (WAIT_S + step_s), n * duration_s / WAIT_S
        text = (
            f"{window.layout}: {under_way_s / duration_s:.2f} of {n} items under way,"
            f" counted {window.n_done}, waits allow {ideal:.0f}"
        )
        tell(text)
        assert under_way_s >= lowest * n * duration_s - lost_s, text
        assert window.n_done <= HIGHEST * ideal + lost_s / WAIT_S, text


def _windows_to_check(study: Path) -> list[Window]:
    """The valid windows of each layout; of one that has none, the one with the most items."""
    by_layout: dict[str, list[Window]] = {}
    for window in windows_of(study):
        by_layout.setdefault(str(window.layout), []).append(window)
    chosen = []
    for of_layout in by_layout.values():
        valid = [window for window in of_layout if not window.void]
        chosen += valid or [max(of_layout, key=lambda one: one.n_done)]
    return chosen


def tell(text: str) -> None:
    """A line for whoever looks at the test."""
    sys.stdout.write(f"{text}\n")


def _within(moments_s: Sequence[float], begin_s: float, end_s: float) -> int:
    return sum(begin_s < moment <= end_s for moment in moments_s)


def until_stopped_in_hand(folder: Path, study: Path, run: Callable[[], object]) -> None:
    """*run* a study that ends in the middle of items; on a busy box a stop may fall between: thrice."""
    for _ in range(3):
        study.unlink(missing_ok=True)
        run()
        if _finished_later(folder, study):
            return


def _finished_later(folder: Path, study: Path) -> list[float]:
    windows = windows_of(study)
    return [one for one in moments(folder, "finished") if windows and one > windows[-1].readings[1].at_s]


def check_stop(folder: Path, study: Path) -> None:
    """What was begun was finished, some of it after the window: so the stop came in the middle of it."""
    begun_s, finished_s = moments(folder, "begun"), moments(folder, "finished")
    in_hand = _finished_later(folder, study)
    tell(f"begun {len(begun_s)}, finished {len(finished_s)}, {len(in_hand)} of them after the window")
    assert in_hand
    assert len(begun_s) == len(finished_s)


def check_kills(
    folder: Path,
    services_venv: Path,
    arguments: Sequence[str | Path],
    victim: str,
    environment: Mapping[str, str] | None = None,
    keep: Sequence[int] = (),
) -> None:
    """kill -9 of tuner, or of supervisord, while items are finished: nobody of theirs is left.

    *keep* are processes of the test's own (a broker) and what these started.
    """
    quick = {"ITEM_S": "0.02", **(environment or {})}  # ten are finished long before the window ends
    with tuner_running(folder, services_venv, arguments, quick) as process:
        wait_for(
            lambda: len(moments(folder, "finished")) > 10 or process.poll() is not None, "no item is finished"
        )
        assert process.poll() is None, (folder / "said").read_text()
        ours = {pid: line for pid, line in _marked().items() if not _is_below(pid, keep)}
        assert len(ours) >= 4, ours  # tuner, its guardian, supervisord, the service
        killed = process.pid if victim == "tuner" else _the_one("supervisord", ours)
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: process.poll() is not None, "tuner did not end")
        wait_until_gone(keep)
    if victim == "supervisord":
        assert "supervisord" in (folder / "said").read_text()


def wait_until_gone(keep: Sequence[int] = ()) -> None:
    """Wait until no process is left that this test started, but for *keep* and those that these started."""
    wait_for(
        lambda: not {pid for pid in _marked() if not _is_below(pid, keep)},
        f"still there: { {pid: line for pid, line in _marked().items() if not _is_below(pid, keep)} }",
    )


def _the_one(program: str, processes: Mapping[int, str]) -> int:
    (found,) = (pid for pid, line in processes.items() if program in line and "guardian" not in line)
    return found


def _marked() -> dict[int, str]:
    """pid -> command line of every living process that this test started, by itself or through others."""
    wanted = f"{MARKER}={os.environ[MARKER]}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):  # ended meanwhile, or not ours to read
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = line.decode("utf-8", "replace")
    return found


def _is_below(pid: int, ancestors: Sequence[int]) -> bool:
    """Whether *pid* is one of *ancestors*, or was started by one."""
    while pid > 1:
        if pid in ancestors:
            return True
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        pid = int(status.rpartition(")")[2].split()[1])
    return False
