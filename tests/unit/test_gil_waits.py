"""Threads that wait for the GIL, in a /proc as it was recorded: who counts, for how long, and who cannot."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest

from tuner.adapters.proc.gil_waits import MOST_LOOKED_AT, GilWaits, GilWatch, InLine
from tuner.adapters.proc.python_runtime import PythonRuntimes

from ..file_limit import few_files, open_files

pytestmark = pytest.mark.pythons

PID = 50
FUTEX, WAIT, WAKE = 202, 0x89, 0x81
ELSEWHERE = 0x7F2E00000000
READ = "0 0x5 0x7f2e3d7feae0 0x1 0x0 0x0 0x0 0x7f2e3d7fe9b0 0x7f2e3e2a3f16"
RUNNING = "running"


def futex(address: int, operation: int = WAIT, call: int = FUTEX) -> str:
    return (
        f"{call} {address:#x} {operation:#x} 0x0 0x7f2e3d7feae0 0x0 0xffffffff 0x7f2e3d7fe9b0 0x7f2e3e2a3f16"
    )


class Box:
    """One worker, in a folder for /proc, that maps what this very Python maps."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.cpu_s = self.now_s = 0.0
        self.cores = 1.0  #: what the worker computes on while it is looked at
        folder = proc / str(PID)
        folder.mkdir(parents=True)
        (folder / "exe").symlink_to(os.readlink("/proc/self/exe"))
        (folder / "root").symlink_to("/")
        (folder / "maps").write_bytes(Path("/proc/self/maps").read_bytes())
        found = PythonRuntimes(proc).of(PID)
        assert found is not None
        self.gil = found.begin + 8

    def threads(self, *calls: str) -> None:
        for thread, call in enumerate(calls, start=PID):
            folder = self.proc / str(PID) / "task" / str(thread)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "syscall").write_text(f"{call}\n")

    def waits(self, machine: str = "x86_64") -> GilWaits:
        waits = GilWaits(self.proc, machine, lambda _: self._tick() * self.cores, self._tick)
        waits.follow([PID])
        return waits

    def _tick(self) -> float:
        self.now_s += 0.5
        return self.now_s


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path / "proc")


def in_line(box: Box, *calls: str, machine: str = "x86_64") -> InLine:
    box.threads(*calls)
    waits = box.waits(machine)
    found = waits.look()
    waits.close()
    return found


def test_the_runtime_is_where_the_interpreter_itself_has_it() -> None:
    found = PythonRuntimes(Path("/proc")).of(os.getpid())
    own = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))

    assert found is not None
    assert found.begin == own
    assert found.end - found.begin > 1000


@pytest.mark.parametrize("program", ["/bin/true", __file__])
def test_what_is_no_python_has_no_runtime(tmp_path: Path, program: str) -> None:
    folder = tmp_path / str(PID)
    folder.mkdir()
    (folder / "exe").symlink_to(program)
    (folder / "root").symlink_to("/")
    (folder / "maps").write_text(f"7f2e3e400000-7f2e3e94e000 r--p 00000000 fe:00 18500   {program}\n")

    assert PythonRuntimes(tmp_path).of(PID) is None
    assert PythonRuntimes(tmp_path).of(PID + 1) is None


def test_a_path_in_maps_may_hold_blanks_and_ends_of_lines(tmp_path: Path) -> None:
    shared = [
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libpython" in line
    ]
    plain = Path(shared[0] if shared else sys.executable).resolve()
    odd = tmp_path / "a b\r\n\x0b c" / plain.name
    odd.parent.mkdir()
    odd.write_bytes(plain.read_bytes())
    found = []
    for number, program in enumerate((plain, odd)):
        folder = tmp_path / str(number) / str(PID)
        folder.mkdir(parents=True)
        (folder / "exe").symlink_to(program)
        (folder / "root").symlink_to("/")
        written = str(program).replace("\n", "\\012")  # the only character that the kernel escapes there
        line = f"7f2e3e400000-7f2e3e94e000 r--p 00000000 fe:00 18500   {written}\n"
        (folder / "maps").write_bytes(line.encode())
        found.append(PythonRuntimes(folder.parent).of(PID))

    assert found[0] is not None
    assert found[0] == found[1]


def test_those_who_wait_at_an_address_of_the_runtime_are_in_line(box: Box) -> None:
    assert in_line(
        box,
        RUNNING,
        futex(box.gil),
        futex(box.gil + 4, operation=0x189),
        futex(ELSEWHERE),
        futex(box.gil, operation=WAKE),
        futex(box.gil, call=98),
        READ,
        "-1 0x7f2e3d7fe9b0 0x7f2e3e2a3f16",
    ) == InLine(asleep=2, waking=0)


def test_who_is_runnable_without_a_core_where_there_is_a_line_was_woken_for_the_gil(box: Box) -> None:
    """One may hold the GIL, on a core or not."""
    two_without = (futex(box.gil), RUNNING, RUNNING, RUNNING)

    assert in_line(box, *two_without) == InLine(asleep=1, waking=2)
    box.cores = 0.0
    assert in_line(box, *two_without) == InLine(asleep=1, waking=2)
    box.cores = 3.0
    assert in_line(box, *two_without) == InLine(asleep=1, waking=0)


def test_who_is_runnable_where_there_is_no_line_computes_without_the_gil(box: Box) -> None:
    assert in_line(box, READ, RUNNING, RUNNING, RUNNING) == InLine()


def test_a_line_of_which_all_are_awake_is_known_by_the_looks_before(box: Box) -> None:
    box.threads(futex(box.gil), RUNNING)
    waits = box.waits()
    waits.look()
    box.threads(RUNNING, RUNNING)
    awake = waits.look()
    waits.close()

    assert awake.asleep == 0
    assert 0 < awake.waking < 1


def test_one_thread_alone_waits_for_nobody(box: Box) -> None:
    assert in_line(box, futex(box.gil)) == InLine()


def test_threads_that_are_too_many_to_look_at_are_counted_like_the_others(box: Box) -> None:
    n = 2 * MOST_LOOKED_AT

    assert in_line(box, *[futex(box.gil), READ] * (n // 2)).asleep == pytest.approx(n / 2, rel=0.2)


def test_a_machine_whose_calls_are_not_known_tells_nothing(box: Box) -> None:
    box.threads(futex(box.gil), RUNNING)

    assert box.waits("x86_64").is_known
    assert not box.waits("m68k").is_known
    assert in_line(box, futex(box.gil, call=98), RUNNING, machine="aarch64").asleep == 1


def test_a_worker_that_may_not_be_looked_at_tells_nothing(box: Box) -> None:
    box.threads(RUNNING, RUNNING)
    for thread in (box.proc / str(PID) / "task").iterdir():
        (thread / "syscall").unlink()
        (thread / "syscall").mkdir()

    assert not box.waits().is_known


def test_the_threads_of_four_launches_are_sampled_with_few_files(box: Box) -> None:
    """Each launch has as many threads as are sampled at most: together more than the limit of open files."""
    box.threads(*[futex(box.gil)] * MOST_LOOKED_AT)
    with few_files(40) as limit:
        launches = [box.waits() for _ in range(1 + limit // MOST_LOOKED_AT)]
        n_open = len(open_files())
        found = [waits.look().asleep for waits in launches]
        for waits in launches:
            waits.close()

    assert found == [MOST_LOOKED_AT] * len(launches)
    assert n_open <= limit // 2 + 1


@pytest.mark.parametrize("library", ["/lib/ld-musl-x86_64.so.1", "/usr/lib/libc.so"])
def test_the_waits_of_a_python_with_musl_are_unknown(box: Box, library: str) -> None:
    """With musl, both other threads may wait for the GIL: each waits at an address on its own stack."""
    with (box.proc / str(PID) / "maps").open("a") as maps:
        maps.write(f"7f2e3e400000-7f2e3e44e000 r--p 00000000 fe:00 18500   {library}\n")
    box.threads(RUNNING, futex(ELSEWHERE), futex(ELSEWHERE + 0x1000))
    waits = box.waits()
    watch = GilWatch(waits, itertools.count(0.0).__next__)
    watch.follow([PID])
    watch.look()
    found = waits.is_known, watch.waited_s()
    watch.close()

    assert found == (False, None)


def test_a_python_with_glibc_is_not_taken_for_one_with_musl(box: Box) -> None:
    with (box.proc / str(PID) / "maps").open("a") as maps:
        for library in ("/lib/libc.so.6", "/opt/musl/lib/libpq.so", "/lib/myld-musl-x86_64.so.1"):
            maps.write(f"7f2e3e400000-7f2e3e44e000 r--p 00000000 fe:00 18500   {library}\n")
    box.threads(futex(box.gil), RUNNING)

    assert in_line(box, futex(box.gil), RUNNING).asleep == 1


def test_a_worker_whose_interpreter_is_not_there_yet_is_asked_again(box: Box) -> None:
    maps = box.proc / str(PID) / "maps"
    whole = maps.read_bytes()
    maps.write_bytes(b"")
    box.threads(futex(box.gil), RUNNING)
    waits = box.waits()
    before = waits.is_known
    maps.write_bytes(whole)
    waits.follow([PID])

    assert (before, waits.is_known) == (False, True)
    assert waits.look().asleep == 1
    waits.close()
    assert not waits.is_known


@pytest.fixture
def clock() -> Callable[[], float]:
    return iter([float(n) for n in range(100)]).__next__


def test_a_thread_that_has_ended_is_left_out(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.threads(RUNNING, futex(box.gil), futex(box.gil), READ)
    waits = box.waits()
    read, ended = os.pread, f"{box.proc}/{PID}/task/{PID + 3}/syscall"

    def read_of_those_left(file: int, n_bytes: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{file}") == ended:
            rmtree(Path(ended).parent)
            raise ProcessLookupError
        return read(file, n_bytes, offset)

    monkeypatch.setattr(os, "pread", read_of_those_left)
    looks = [waits.look(), waits.look()]
    waits.close()

    assert looks == [InLine(asleep=2, waking=0)] * 2


def test_a_look_stands_until_the_next_one(box: Box, clock: Callable[[], float]) -> None:
    """A second passes with each reading of the clock."""
    box.threads(futex(box.gil), futex(box.gil), RUNNING, RUNNING)
    watch = GilWatch(box.waits(), clock)
    watch.follow([PID])
    nothing = watch.waited_s()
    watch.look()
    seen = watch.waited_s()
    box.threads(READ, READ, READ, READ)
    watch.look()
    more, then = watch.waited_s(), watch.waited_s()
    watch.close()

    assert nothing == (0.0, 0.0)
    assert seen == (3.0, 1.0)
    assert more == then == (6.0, 2.0)


def test_of_workers_that_are_no_python_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    watch = GilWatch(GilWaits(tmp_path / "proc", "x86_64"), iter([0.0, 1.0, 2.0]).__next__)
    watch.follow([PID])
    watch.look()

    assert watch.waited_s() is None
    watch.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watch_that_failed_tells_nothing(box: Box) -> None:
    """And says why on stderr: here it finds no clock."""
    asked = threading.current_thread()

    def clock() -> float:
        assert threading.current_thread() is asked
        return 0.0

    box.threads(futex(box.gil), RUNNING)
    watch = GilWatch(box.waits(), clock, looks_per_s=1000)
    watch.follow([PID])
    before = watch.waited_s()
    watch.start()
    for _ in range(1000):  # 10 s at most
        if watch.waited_s() is None:
            break
        time.sleep(0.01)
    watch.close()

    assert before == (0.0, 0.0)
    assert watch.waited_s() is None


def test_looking_in_a_thread_of_its_own_ends_with_it(box: Box) -> None:
    box.threads(futex(box.gil), RUNNING)
    watch = GilWatch(box.waits(), itertools.count(0.0).__next__, looks_per_s=1000)
    watch.follow([PID])
    watch.start()
    for _ in range(1000):  # 10 s at most; a look is due each millisecond
        if watch.waited_s() != (0.0, 0.0):
            break
        time.sleep(0.01)
    watch.close()

    assert watch.waited_s() > (0.0, 0.0)
    assert "gil-watch" not in {thread.name for thread in threading.enumerate()}


def test_of_those_who_wait_only_threads_that_work_on_items_are_counted(box: Box) -> None:
    """The main thread and an item's wait in line while another of these computes; a third wants a core."""
    box.threads(futex(box.gil), futex(box.gil), RUNNING, RUNNING, READ)
    waits = GilWaits(box.proc, "x86_64", lambda _: box._tick() * box.cores, box._tick)
    found = []
    for items in (None, {PID + 1, PID + 2, PID + 3}, {PID + 1}, {PID}):
        waits.follow([PID], lambda _, items=items: None if items is None else frozenset(items))
        found.append(waits.look())
    waits.close()

    assert found == [InLine(2, 1), InLine(1, 1), InLine(1, 0), InLine(1, 0)]
