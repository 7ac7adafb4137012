"""Processes with a known load, for the tests and benches of the sampler. They end when their parent does.

python load.py MODE [WORD ...], where MODE is:

busy                one task that always runs
vfork               one task in state D: it waits in vfork for a child that sleeps
starting FIFO       one task in state D: its child cannot run its program before somebody opens FIFO to write;
                    once it has ended, this process waits asleep
children N CPU_MS   N children, one after the other, that each use CPU_MS; then prints what this process
                    and they used, in seconds, and waits
spawning THREADS LOW_MS HIGH_MS SLEEP_MS
                    threads that for ever start children of LOW to HIGH ms of CPU each
burn CPU_MS         such a child
gil KIND THREADS    threads that each for ever: compute in Python (python), hold the GIL in C while they sleep
                    (held), compute in C without it (free), sleep (asleep); prints a line once they run
helped THREADS      the main thread computes in C without the GIL, and so many others wake up every 2 ms;
                    prints a line once they run
prefork MIB         memory filled, then shared with a forked child
pool THREADS ITEMS  the main thread deals ITEMS out to threads that a pool starts for them, and both compute
                    for 2 ms each; then prints what the pool's threads used of CPU, in seconds, and waits
master MIB WORKERS OWN_MS
                    memory filled, then for ever that many workers at a time, forked, each of which fills a
                    tenth of it for itself, computes for OWN_MS and ends; the master computes for as long
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import queue
import random
import resource
import signal
import subprocess
import sys
import threading
import time

CLONE_VFORK = 0x4000
CLONE_SYSCALL = {"x86_64": 56, "aarch64": 220}
PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def say(value: float) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


def busy() -> None:
    while True:
        pass


def vfork() -> None:
    """clone() with CLONE_VFORK alone: the parent waits as after vfork(), the child has its own memory."""
    parent = os.getpid()
    number = CLONE_SYSCALL[platform.machine()]
    if ctypes.PyDLL(None).syscall(number, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        end_with_parent(parent)
        while True:
            time.sleep(60)


def starting(fifo: str) -> None:
    """The child of posix_spawn opens its standard input before it runs its program."""
    standard_input = (os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}, file_actions=[standard_input])
    os.waitpid(child, 0)
    signal.pause()


def burn(cpu_ms: float) -> None:
    while time.process_time() * 1000 < cpu_ms:
        pass


def one_child(cpu_ms: float) -> None:
    subprocess.run([sys.executable, "-S", "-E", __file__, "burn", str(cpu_ms)], check=True)


def children(n: int, cpu_ms: float) -> None:
    for _ in range(n):
        one_child(cpu_ms)
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    say(sum(usage.ru_utime + usage.ru_stime for usage in used))
    signal.pause()


def spawning(threads: int, low_ms: float, high_ms: float, sleep_ms: float) -> None:
    draw = random.Random(os.getpid())

    def one_thread() -> None:
        while True:
            one_child(draw.uniform(low_ms, high_ms))
            time.sleep(draw.uniform(0, 2 * sleep_ms) / 1000)

    for _ in range(threads - 1):
        threading.Thread(target=one_thread, daemon=True).start()
    one_thread()


def gil(kind: str, threads: int) -> None:
    data = bytes(1 << 22)
    held_sleep = ctypes.PyDLL(None).usleep  # PyDLL keeps the GIL
    one_turn = {
        "python": lambda: sum(range(1000)),
        "held": lambda: held_sleep(20_000),
        "free": lambda: hashlib.sha256(data).digest(),
        "asleep": lambda: time.sleep(0.01),
    }[kind]
    ready = threading.Barrier(threads + 1)

    def one_thread() -> None:
        ready.wait()
        while True:
            one_turn()

    for _ in range(threads):
        threading.Thread(target=one_thread, daemon=True).start()
    ready.wait()
    say(threads)
    signal.pause()


def helped(threads: int) -> None:
    data = bytes(1 << 24)

    def one_thread() -> None:
        while True:
            time.sleep(0.002)

    for _ in range(threads):
        threading.Thread(target=one_thread, daemon=True).start()
    say(threads)
    while True:
        hashlib.sha256(data).digest()


def prefork(mib: int) -> None:
    memory = random.Random(1).randbytes(mib << 20)
    parent = os.getpid()
    if os.fork() == 0:
        end_with_parent(parent)
    say(len(memory))
    signal.pause()


def compute(ms: float) -> None:
    until = time.thread_time() + ms / 1000
    while time.thread_time() < until:
        pass


def pool(threads: int, items: int) -> None:
    used_s = [0.0] * threads
    todo: queue.Queue[int] = queue.Queue()

    def one_thread(number: int) -> None:
        for _ in iter(todo.get, -1):
            compute(2)
        used_s[number] = time.thread_time()

    started = []
    for number in range(threads):
        started.append(threading.Thread(target=one_thread, args=(number,), daemon=True))
        todo.put(number)
        compute(20)  # a pool starts its threads with the first items
        started[-1].start()
    for number in range(items):
        compute(2)
        todo.put(number)
    for _ in started:
        todo.put(-1)
    for one in started:
        one.join()
    say(sum(used_s))
    signal.pause()


def master(mib: int, workers: int, own_ms: float) -> None:
    memory = bytearray(mib << 20)
    for page in range(0, len(memory), 4096):
        memory[page] = 1
    parent = os.getpid()
    say(len(memory))

    def started() -> None:
        if os.fork() == 0:
            end_with_parent(parent)
            for page in range(0, len(memory) // 10, 4096):
                memory[page] ^= 1
            compute(own_ms)
            os._exit(0)

    for _ in range(workers):
        started()
    while True:
        compute(own_ms / workers)
        os.wait()
        started()


def value(word: str) -> int | float | str:
    if word.isdigit():
        return int(word)
    return word if word.isalpha() else float(word)


if __name__ == "__main__":
    mode, *words = sys.argv[1:]
    if mode != "burn":
        end_with_parent(os.getppid())
    if mode == "starting":
        starting(*words)
    else:
        globals()[mode](*map(value, words))
