"""Cost of counting one item, and of reading all counters, in interleaved runs.

    python bench/counter.py [--rounds 41] [--items 20000]

Each way of counting has a separate process, because prometheus_client chooses its mode when it is imported.
The ways alternate, so that a disturbance of the host affects all of them. Figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path

from tuner.probe.counter import Counter, Reader, open_counter

N_PROCESSES = 24


def tuner_slot() -> Callable[[int], float]:
    return timed("held.done()", open_counter(fresh_folder()).slot())


def tuner_function() -> Callable[[int], float]:
    return timed("held()", open_counter(fresh_folder()).slot().done)


def tuner_stages() -> Callable[[int], float]:
    return timed("held.add_stages(5000000, 50000000, 8000000)", open_counter(fresh_folder()).slot())


def forked_slot() -> Callable[[int], float]:
    slot = open_counter(fresh_folder()).slot()
    if (pid := os.fork()) != 0:  # the child goes on as this process would have
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return timed("held.done()", slot)


def reading_back() -> Callable[[int], float]:
    view = memoryview(bytearray(64)).cast("Q")

    def done() -> None:
        view[0] += 1

    return timed("held()", done)


def method() -> Callable[[int], float]:
    class Slot:
        __slots__ = ("n_done", "view")

        def __init__(self) -> None:
            self.view = memoryview(bytearray(64)).cast("Q")
            self.n_done = 0

        def done(self) -> None:
            self.n_done += 1
            self.view[0] = self.n_done

    return timed("held.done()", Slot())


def prometheus() -> Callable[[int], float]:
    import prometheus_client

    return timed("held.inc()", prometheus_client.Counter("items", "items done"))


def prometheus_multiprocess() -> Callable[[int], float]:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = fresh_folder()
    return prometheus()


def shared_value() -> Callable[[int], float]:
    import multiprocessing

    held = multiprocessing.Value("Q")

    def done() -> None:
        with held.get_lock():
            held.value += 1

    return timed("held()", done)


def nothing() -> Callable[[int], float]:
    return timed("held()", lambda: None)


WAYS: dict[str, tuple[str, Callable[[], Callable[[int], float]]]] = {
    "tuner": ("tuner: slot.done()", tuner_slot),
    "function": ("tuner: done() kept by itself", tuner_function),
    "forked": ("tuner: slot.done() in a forked child", forked_slot),
    "stages": ("tuner: slot.add_stages(...)", tuner_stages),
    "reading": ("not taken: total read back from the view", reading_back),
    "method": ("not taken: a method on a class with __slots__", method),
    "prometheus": ("prometheus_client: counter.inc()", prometheus),
    "multiprocess": ("prometheus_client, multiprocess mode", prometheus_multiprocess),
    "value": ("multiprocessing.Value with its lock", shared_value),
    "nothing": ("(an empty call)", nothing),
}


def timed(statement: str, held: object) -> Callable[[int], float]:
    timer = timeit.Timer(statement, globals={"held": held})
    return lambda n_items: timer.timeit(n_items) / n_items


def fresh_folder() -> str:
    return tempfile.mkdtemp(dir=os.environ["BENCH_FOLDER"])


def serve(way: str) -> None:
    """Answer each line on stdin, a number of items, with the seconds one of them took."""
    run = WAYS[way][1]()
    for line in sys.stdin:
        print(run(int(line)), flush=True)


def ask(process: subprocess.Popen[str], n_items: int) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{n_items}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def time_of_a_look(folder: Path, n_threads: int) -> float:
    """Seconds of one ``Reader.totals()`` over the files of N_PROCESSES, *n_threads* slots in each."""
    folder.mkdir()
    held = []
    for _ in range(N_PROCESSES):
        counter = Counter(str(folder))
        for _ in range(n_threads):
            held.append(counter.slot())
            del counter._local.slot  # the next one is another thread's
    looks = []
    with Reader(str(folder)) as reader:
        for _ in range(2000):
            start = time.perf_counter()
            totals = reader.totals()
            looks.append(time.perf_counter() - start)
    assert (totals.n_processes, totals.n_slots) == (N_PROCESSES, N_PROCESSES * n_threads)
    return statistics.median(looks)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=41)
    arguments.add_argument("--items", type=int, default=20_000)
    arguments.add_argument("--serve", choices=WAYS, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.serve:
        serve(options.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BENCH_FOLDER"] = folder
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
        processes = {
            way: subprocess.Popen(
                [sys.executable, __file__, "--serve", way],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for way in WAYS
        }
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for process in processes.values():
            ask(process, options.items)  # warm
        for _ in range(options.rounds):
            for way, process in processes.items():
                seconds[way].append(ask(process, options.items))
        for process in processes.values():
            process.communicate()
        looks = {n: time_of_a_look(Path(folder) / f"look-{n}", n) for n in (1, 2, 16)}
    print(f"Python {sys.version.split()[0]}, {options.rounds} turns of {options.items} items, ns per item\n")
    print(f"{'':48} median    best     x tuner (median of the ratios, turn by turn)")
    for way, (title, _) in WAYS.items():
        ratios = [mine / ours for mine, ours in zip(seconds[way], seconds["tuner"], strict=True)]
        median, best = statistics.median(seconds[way]), min(seconds[way])
        print(f"{title:48} {median * 1e9:6.1f}  {best * 1e9:6.1f}  {statistics.median(ratios):7.2f}")
    print(f"\nreading the totals of {N_PROCESSES} processes (median of 2000 looks)")
    for n_threads, look in looks.items():
        print(f"{n_threads:4} threads each: {look * 1e6:6.1f} us; once a second {look * 100:.4f} % of a core")


if __name__ == "__main__":
    main()
