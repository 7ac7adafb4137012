"""Worker of bench/model/mixes.py: TUNER_THREADS threads that endlessly run items of a mix, and count them.

    python mix_worker.py --python-turns N --native-turns N --asleep-s S --blocked-s S --child-turns N --cv C
        --seed N --child PROGRAM --blocked LIBRARY --counter FILE
    python mix_worker.py --turns-per-ms CHILD  # prints, as JSON, how many turns this host makes in a ms

Only the standard library, Python 3.11 or later. The sizes of an item's parts come from decks: each deck has
the quantiles of a lognormal distribution, and is shuffled again after its last card. So even a short window
has items of nearly every size in their true shares. Seed, process id and thread give each thread its own
random stream, which differs between launches.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from math import exp
from random import Random
from statistics import NormalDist, fmean, pstdev
from typing import Any

DECK = 96  #: long enough that ten items in a row scatter as drawn ones do (a twentieth less)
CALIBRATIONS = 9


def deck_of(cv: float, n: int = DECK) -> list[float]:
    """*n* equally likely sizes with mean 1 and standard deviation *cv*, in the shape of a lognormal."""
    if cv == 0:
        return [1.0] * n
    normal = [NormalDist().inv_cdf((k + 0.5) / n) for k in range(n)]
    low, high = 0.0, 4.0
    for _ in range(60):
        sigma = (low + high) / 2
        sizes = [exp(sigma * z) for z in normal]
        low, high = (sigma, high) if pstdev(sizes) < cv * fmean(sizes) else (low, sigma)
    mean = fmean(sizes)
    return [size / mean for size in sizes]


def sizes(cv: float, random: Random) -> Iterator[float]:
    """Sizes for ever, a shuffled deck at a time."""
    deck = deck_of(cv)
    while True:
        random.shuffle(deck)
        yield from deck


def burn(turns: int) -> None:
    """Python with the GIL."""
    x = 0
    for turn in range(turns):
        x += turn


def derive_key(turns: int) -> None:
    """C without the GIL, from begin to end of one call."""
    hashlib.pbkdf2_hmac("sha256", b"mix", b"worker", max(1, turns))


def run_child(program: str, turns: int) -> None:
    """A child and its end, on the spawn path of the crash processor (process_group=0)."""
    child = subprocess.Popen(
        [program, str(turns)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0
    )
    if child.wait() != 0:
        raise SystemExit(f"{program} ended with {child.returncode}")


def waiter(library: str) -> Callable[[float], None]:
    """The wait in state D of mix_blocked.c."""
    wait_blocked = ctypes.CDLL(library).wait_blocked
    wait_blocked.argtypes, wait_blocked.restype = [ctypes.c_double], ctypes.c_int

    def wait(seconds: float) -> None:
        if code := wait_blocked(seconds):
            raise OSError(code, os.strerror(code))

    return wait


def work(options: argparse.Namespace, thread: int, done: Callable[[], None]) -> None:
    python, native, asleep, blocked, child = (
        sizes(options.cv, Random(f"{options.seed} {os.getpid()} {thread} {part}"))
        for part in ("python", "native", "asleep", "blocked", "child")
    )
    wait_blocked = waiter(options.blocked) if options.blocked_s else None
    time.sleep(
        Random(f"{options.seed} {os.getpid()} {thread}").uniform(0, 0.2)
    )  # threads that begin together need not march together
    while True:
        turns = round(options.python_turns * next(python))
        burn(turns // 2)
        if options.asleep_s:
            time.sleep(options.asleep_s * next(asleep))
        if options.native_turns:
            derive_key(round(options.native_turns * next(native)))
        if wait_blocked is not None:
            wait_blocked(options.blocked_s * next(blocked))
        if options.child_turns:
            run_child(options.child, round(options.child_turns * next(child)))
        burn(turns - turns // 2)
        done()


def turns_per_ms(child: str) -> dict[str, float]:
    """Return the turns in a millisecond of CPU: the most of some tries."""

    def child_cpu_s(turns: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([child, str(turns)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def own_cpu_s(part: Callable[[int], None]) -> Callable[[int], float]:
        def spent(turns: int) -> float:
            began = time.thread_time()
            part(turns)
            return time.thread_time() - began

        return spent

    return {
        name: max(turns / 1000 / spent(turns) for _ in range(CALIBRATIONS))
        for name, spent, turns in (
            ("python", own_cpu_s(burn), 1_000_000),
            ("native", own_cpu_s(derive_key), 50_000),
            ("child", child_cpu_s, 100_000_000),
        )
    }


def probe(file: str) -> Any:
    """tuner's counter, as its one file: the interpreter may be another one than tuner's."""
    spec = spec_from_file_location("tuner_counter", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns-per-ms", metavar="CHILD")
    for name in ("--python-turns", "--native-turns", "--child-turns", "--seed"):
        parser.add_argument(name, type=int, default=0)
    for name in ("--asleep-s", "--blocked-s", "--cv"):
        parser.add_argument(name, type=float, default=0.0)
    parser.add_argument("--child")
    parser.add_argument("--blocked")
    parser.add_argument("--counter")
    options = parser.parse_args()
    if options.turns_per_ms is not None:
        json.dump(turns_per_ms(options.turns_per_ms), sys.stdout)
        return
    counter = probe(options.counter).open_counter()

    def one_thread(thread: int) -> None:
        try:
            work(options, thread, counter.slot().done)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(70)  # a process that has lost a thread is not the layout it says it is

    for thread in range(1, int(os.environ["TUNER_THREADS"])):
        threading.Thread(target=one_thread, args=(thread,), daemon=True).start()
    one_thread(0)


if __name__ == "__main__":
    main()
