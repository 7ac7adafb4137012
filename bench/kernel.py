"""Kernel cost of a launch's cgroup and of filters of system calls.

    python bench/kernel.py [--rounds 11]

Two processes on one core pass a byte to each other, in the current cgroup and in one below it, alternately.
The bench creates the lower cgroup if the host permits it, and removes it. Processes with no filter, with one,
with seven, and with one of 300 calls run `getppid` in a loop, alternately. Figures are medians of CPU time,
which a busy host changes less than elapsed time. A filter stays with its process, so each round has new
processes.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import resource
import struct
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tuner.adapters.proc import launch_cgroup

N_SWITCHES, N_CALLS = 100_000, 300_000
CGROUPS = "/sys/fs/cgroup/unified", "/sys/fs/cgroup"  #: where version 2 may be
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD_NUMBER, _IF_EQUAL, _RETURN, _ALLOW = 0x20, 0x15, 0x06, 0x7FFF0000
LIBC = ctypes.CDLL(None, use_errno=True)


def in_child(what: Callable[[], float]) -> float:
    """Return the result of a separate process."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.write(writing, struct.pack("d", what()))
        except BaseException:  # nothing of the parent's may run here
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise SystemExit("a process of the bench failed")
    return float(struct.unpack("d", said)[0])


def switch_s(cgroup: str | None) -> float:
    """CPU seconds of one switch between two processes on one core, in *cgroup*; None: where they are."""
    if cgroup is not None:
        launch_cgroup.join(cgroup, os.getpid())
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    (there_r, there_w), (back_r, back_w) = os.pipe(), os.pipe()
    if (pid := os.fork()) == 0:
        for _ in range(N_SWITCHES // 2):
            os.write(back_w, os.read(there_r, 1))
        os._exit(0)
    for _ in range(N_SWITCHES // 2):
        os.write(there_w, b"x")
        os.read(back_r, 1)
    os.waitpid(pid, 0)
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both) / N_SWITCHES


class _Program(ctypes.Structure):
    _fields_ = (("n", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def add_filter(n_looked_at: int) -> None:
    """Allow all calls of this process, after a look at so many numbers that are none of a call."""
    looks = [struct.pack("HBBI", _IF_EQUAL, 0, 0, 5000 + number) for number in range(n_looked_at)]
    allow = struct.pack("HBBI", _RETURN, 0, 0, _ALLOW)
    steps = b"".join([struct.pack("HBBI", _LOAD_NUMBER, 0, 0, 0), *looks, allow])
    held = ctypes.create_string_buffer(steps, len(steps))
    program = _Program(len(steps) // 8, ctypes.cast(held, ctypes.c_void_p))
    if LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or LIBC.prctl(
        _SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter")


def call_s(filters: tuple[int, ...]) -> float:
    """CPU seconds of one getppid, the loop around it included, under these filters."""
    for n_looked_at in filters:
        add_filter(n_looked_at)
    call = os.getppid
    began_s = time.process_time()
    for _ in range(N_CALLS):
        call()
    return (time.process_time() - began_s) / N_CALLS


def cgroups(rounds: int) -> None:
    root = next((one for one in CGROUPS if os.path.exists(f"{one}/cgroup.procs")), None)
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")
    if root is None or not os.access(root + own, os.W_OK):
        print("no cgroup of version 2 can be made here: nothing to compare")
        return
    made_s, here, below = [], [], []
    for _ in range(rounds):
        began_s = time.perf_counter()
        folder = f"{root}{own}/tuner-bench-{os.getpid()}"  # no launch's: guardians sweep those
        os.mkdir(folder)
        spent_s = time.perf_counter() - began_s
        try:
            here.append(in_child(lambda: switch_s(None)))
            below.append(in_child(lambda: switch_s(folder)))  # noqa: B023
        finally:
            began_s = time.perf_counter()
            os.rmdir(folder)
            made_s.append(spent_s + time.perf_counter() - began_s)
    print(f"a switch between two processes: {1e9 * median(here):.0f} ns")
    more = median(b - a for a, b in zip(here, below, strict=True))
    print(f"  in a cgroup one level below: {1e9 * median(below):.0f} ns ({1e9 * more:+.0f} ns, by turns)")
    print(f"making and removing that cgroup: {1e3 * median(made_s):.2f} ms")


def filters(rounds: int) -> None:
    ways = {"no filter": (), "one": (0,), "seven": (0,) * 7, "one that looks at 300 calls": (300,)}
    took_s: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, asked in ways.items():
            took_s[way].append(in_child(lambda: call_s(asked)))  # noqa: B023
    print("getppid, Python's loop around it included")
    for way, took in took_s.items():
        more = median(a - b for a, b in zip(took, took_s["no filter"], strict=True))
        print(f"  {way:28} {1e9 * median(took):6.0f} ns  {1e9 * more:+.0f} ns, by turns")


def main() -> None:
    parser = argparse.ArgumentParser(description="What the kernel takes for a launch's cgroup and filters.")
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    print(f"Linux {platform.release()}, load {os.getloadavg()[0]:.0f}, medians of {rounds}")
    cgroups(rounds)
    filters(rounds)


if __name__ == "__main__":
    main()
