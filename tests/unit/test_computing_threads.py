"""Which threads of a worker compute beside those of its layout: of services as they are, and of libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.adapters.proc.computing_threads import ComputingThreads, ItemThreads, pools_of
from tuner.adapters.proc.process_tree import ProcessStat
from tuner.core.domain.layout import Computing, Layout, Pool

PID, STARTED = 50, 5
MS = 1_000_000
EVERY_S = 5.0
OPENBLAS = "/app/numpy.libs/libscipy_openblas64_-fdde5778.so"
BUSY_MS = EVERY_S * 1000 / 4  #: of CPU between two looks


class Worker:
    """A worker process below a folder like /proc, on 4 cores, whose threads do the same between all looks."""

    def __init__(self, proc: Path) -> None:
        self.folder = proc / f"{PID}"
        self.folder.mkdir()
        (self.folder / "status").write_text("Name:\tpython\nCpus_allowed:\tf\n")
        self.loads()
        self.rates: dict[int, tuple[float, float, float]] = {}
        self.totals: dict[int, list[float]] = {}
        self.items = ItemThreads(proc)
        self.threads = ComputingThreads(proc, self.items)
        self.at_s = 100.0

    def loads(self, *files: str, **environment: str) -> None:
        lines = [
            f"7f0000000000-7f0000001000 r-xp 00000000 08:01 {n}    {file}" for n, file in enumerate(files)
        ]
        anonymous = "7ff000000000-7ff000001000 rw-p 00000000 00:00 0"
        (self.folder / "maps").write_text("\n".join([*lines, anonymous, ""]))
        (self.folder / "environ").write_text(
            "".join(f"{name}={value}\0" for name, value in environment.items())
        )

    def does(
        self, thread: int, cpu_ms: float, *, sleeps: float, waited_ms: float = 0.0, began: int = 10
    ) -> None:
        """Between two looks; *began* is when it was started."""
        self.rates[thread] = (cpu_ms * MS, waited_ms * MS, sleeps)
        folder = self.folder / "task" / str(thread)
        folder.mkdir(parents=True, exist_ok=True)
        fields = " ".join(["S", "1", *["0"] * 17, str(began), "0", "0"])
        (folder / "stat").write_text(f"{thread} (python) {fields}\n")

    def pool(self, *threads: int, cpu_ms: float = BUSY_MS, sleeps: float = 1.0, began: int = 90) -> None:
        for thread in threads:
            self.does(thread, cpu_ms, sleeps=sleeps, began=began)

    def look(self, shape: Layout, *, at_edge: bool = False) -> Computing | None:
        for thread, rates in self.rates.items():
            totals = self.totals.setdefault(thread, [2000.0 * MS, 0.0, 500.0])
            totals[:] = [before + more for before, more in zip(totals, rates, strict=True)]
            ran, waited, sleeps = totals
            folder = self.folder / "task" / str(thread)
            (folder / "schedstat").write_text(f"{ran:.0f} {waited:.0f} {sleeps:.0f}\n")
            (folder / "status").write_text(
                f"Name:\tp\nvoluntary_ctxt_switches:\t{sleeps:.0f}\nnonvoluntary_ctxt_switches:\t9\n"
            )
        worker = ProcessStat(PID, "python", "S", 1, 0, 0, 0, len(self.rates), STARTED)
        self.items.look([worker], shape)
        found = self.threads.look([worker], shape, self.at_s, at_edge=at_edge)
        self.at_s += EVERY_S
        return found

    def n_inner(self, shape: Layout) -> int:
        """After some looks."""
        for _ in range(3):
            self.look(shape)
        found = self.look(shape)
        assert found is not None
        return found.n_inner


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path)


def test_threads_of_a_library_compute_beside_the_pool_that_calls_it(worker: Worker) -> None:
    worker.loads(OPENBLAS)
    worker.does(PID, 5, sleeps=100)
    worker.pool(51, 52, 53, began=20)  # as numpy was imported
    worker.pool(61, 62)

    assert worker.n_inner(Layout(1, 2)) == 3


def test_threads_that_were_idle_before_a_slice_compute_in_it(worker: Worker) -> None:
    worker.loads(OPENBLAS)
    worker.does(PID, 0, sleeps=0)
    worker.pool(51, 52, 53, cpu_ms=0, sleeps=0, began=20)
    worker.pool(61, 62, cpu_ms=0, sleeps=0)
    worker.look(Layout(1, 2))
    worker.look(Layout(1, 2), at_edge=True)  # the slice begins
    worker.pool(51, 52, 53, began=20)
    worker.pool(61, 62)

    found = worker.look(Layout(1, 2))

    assert found is not None
    assert found.n_inner == 3


def test_a_pool_of_threads_that_each_start_some_of_their_own(worker: Worker) -> None:
    """OpenMP: a team for each thread that calls it."""
    worker.loads("/app/torch/lib/libgomp-a34b3233.so.1")
    worker.does(PID, 5, sleeps=100)
    worker.pool(61, 62)
    worker.pool(71, 72, 73, 74, 75, 76, began=200)

    assert worker.n_inner(Layout(1, 2)) == 6


def test_threads_that_wait_for_a_core_nearly_all_the_time_compute_too(worker: Worker) -> None:
    """34 of them on two cores."""
    worker.loads(OPENBLAS)
    for thread in range(60, 94):
        worker.does(thread, 2 * 5000 / 34, sleeps=3, waited_ms=4500, began=thread)

    assert worker.n_inner(Layout(1, 2)) == 32


def test_one_that_works_on_items_that_end_soon_is_not_taken_for_one_of_the_librarys(worker: Worker) -> None:
    """It sleeps after each of 3 ms; those of the library spin meanwhile. It is the main thread."""
    worker.loads(OPENBLAS)
    worker.does(PID, BUSY_MS, sleeps=BUSY_MS / 3)
    worker.pool(51, 52, 53, began=20)

    assert worker.n_inner(Layout(1, 1)) == 3


@pytest.mark.parametrize("threads", [1, 4])
def test_gunicorns_main_thread_though_it_is_as_busy_as_the_pool(worker: Worker, threads: int) -> None:
    """It accepts and deals out: 0.1 ms at a time."""
    worker.loads(OPENBLAS)
    worker.does(PID, BUSY_MS, sleeps=10 * BUSY_MS)
    worker.pool(*range(60, 60 + threads), sleeps=10 * BUSY_MS)

    assert worker.n_inner(Layout(2, threads)) == 0


def test_celerys_main_thread_and_dramatiqs_consumers(worker: Worker) -> None:
    worker.does(PID, 700, sleeps=3000, waited_ms=900)
    worker.pool(51, 52, cpu_ms=300, sleeps=800, began=20)
    worker.pool(61, 62, 63, 64)

    assert worker.n_inner(Layout(1, 4)) == 0


def test_threads_that_take_turns_at_python_code_sleep_until_they_have_the_gil(worker: Worker) -> None:
    """An event loop that hands functions to threads: each has the GIL for 5 ms at a time."""
    worker.loads(OPENBLAS)
    worker.does(PID, 200, sleeps=900)
    worker.pool(*range(61, 69), cpu_ms=600, sleeps=600 / 5 * 7)

    assert worker.n_inner(Layout(2, 1, has_threads=False)) == 0


def test_an_event_loop_whose_functions_compute_without_the_gil_in_threads_of_its_own(worker: Worker) -> None:
    worker.does(PID, 200, sleeps=900)
    worker.pool(61, 62)

    assert worker.n_inner(Layout(2, 1, has_threads=False)) == 0


def test_a_process_of_a_prefork_pool_with_a_library(worker: Worker) -> None:
    worker.loads(OPENBLAS)
    worker.does(PID, BUSY_MS, sleeps=BUSY_MS / 3)
    worker.pool(51, 52, 53, began=20)

    assert worker.n_inner(Layout(2, 1, has_threads=False)) == 3


@pytest.mark.parametrize("libraries", [(), (OPENBLAS,)], ids=["plain", "with-a-library"])
def test_an_agent_that_computes_for_a_moment_now_and_then(worker: Worker, libraries: tuple[str, ...]) -> None:
    """It was started last, and wakes up as often as the other: it is taken for the one of the items."""
    worker.loads(*libraries)
    worker.pool(PID, began=10)
    worker.does(70, 100, sleeps=1, began=90)

    assert worker.n_inner(Layout(1, 1)) == 0


def test_a_process_with_no_more_threads_than_its_layout_has_none(worker: Worker) -> None:
    worker.pool(PID, 61)

    assert worker.look(Layout(1, 2)) == Computing(0)


def test_nothing_is_said_before_two_looks_can_be_compared(worker: Worker) -> None:
    """What a thread did before it was first seen may be the import of its modules."""
    worker.pool(PID, 61, 62)

    assert worker.look(Layout(1, 1)) is None
    worker.at_s -= EVERY_S - 0.1
    assert worker.look(Layout(1, 1)) is None
    worker.at_s += EVERY_S
    assert worker.look(Layout(1, 1)) is not None


def test_which_libraries_are_loaded_is_reported_with_what_their_variables_are(worker: Worker) -> None:
    worker.loads(
        OPENBLAS,
        "/app/torch/lib/libtorch_cpu.so",
        "/app/torch/lib/libgomp-a34b3233.so.1",
        "/app/onnxruntime/capi/onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so",
        "/app/numexpr/interpreter.cpython-311-x86_64-linux-gnu.so",
        "/app/other/interpreter.cpython-311-x86_64-linux-gnu.so (deleted)",
        OMP_NUM_THREADS="2",
        NUMEXPR_NUM_THREADS="",
    )
    loaded = pools_of(PID, str(worker.folder.parent))

    assert loaded.pools == (
        Pool("OpenBLAS", "OMP_NUM_THREADS", "2"),
        Pool("numexpr", "OMP_NUM_THREADS", "2"),
        Pool("torch", "OMP_NUM_THREADS", "2"),
        Pool("ONNX Runtime", "", None),
        Pool("OpenMP", "OMP_NUM_THREADS", "2"),
    )
    assert loaded.n_started(4) == 1 + 1 + 1 + 3 + 1


def test_a_library_that_is_reported_to_use_one_thread_starts_none(worker: Worker) -> None:
    worker.loads(OPENBLAS, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="4")

    loaded = pools_of(PID, str(worker.folder.parent))

    assert loaded.pools == (Pool("OpenBLAS", "OPENBLAS_NUM_THREADS", "1"),)
    assert loaded.causes == ()


def test_a_process_that_is_gone_has_loaded_nothing(tmp_path: Path) -> None:
    assert pools_of(PID, str(tmp_path)).pools == ()


def test_without_a_library_those_above_the_layouts_number_are_beside_it(worker: Worker) -> None:
    """Three that compute: two by themselves, beside the one that works on items."""
    worker.pool(PID, 61, 62)

    assert worker.n_inner(Layout(1, 1)) == 2


def test_without_a_library_one_that_computes_beside_a_pool_that_waits_may_be_the_pools(
    worker: Worker,
) -> None:
    worker.does(PID, BUSY_MS, sleeps=1)
    worker.pool(61, 62, 63, 64, cpu_ms=40, sleeps=400)

    assert worker.n_inner(Layout(1, 4)) == 0


def test_short_parts_of_openmp_which_sleeps_after_each_of_them(worker: Worker) -> None:
    """More threads than cores: each works 4 ms, and sleeps then, as the threads that call it do."""
    worker.loads("/app/torch/lib/libgomp-a34b3233.so.1")
    worker.does(PID, 5, sleeps=100)
    worker.pool(61, 62, 63, 64, sleeps=BUSY_MS / 4)
    worker.pool(71, 72, 73, 74, sleeps=BUSY_MS / 4, began=200)

    assert worker.n_inner(Layout(1, 4)) == 4


def test_celerys_main_thread_beside_a_library_that_items_do_not_use(worker: Worker) -> None:
    worker.loads(OPENBLAS)
    worker.does(PID, 700, sleeps=700)
    worker.pool(61, 62, 63, 64)

    assert worker.n_inner(Layout(1, 4)) == 0
