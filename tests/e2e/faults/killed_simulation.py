"""A simulated study, killed and resumed: its exports are those of one that nobody killed, to the byte."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from pathlib import Path

from tuner.adapters.sqlite.store import SqliteStore

from ..typed import Typed
from .simulated import SIMULATE, STUDY, exports, started_anew, whole_study
from .toll import PATIENCE_S, BrokenPromise, Toll, check_whole, kept


def killed_simulation(folder: Path, n_kills: int, seed: int) -> Toll:
    """The toll of so many kills of a tuner that simulates, each at a moment drawn by lot.

    Each tuner is a fork of this process, which has loaded all it needs: most of the time it measures.
    """
    toll, chance = Toll(), random.Random(f"faults {seed}")
    cut = folder / "cut"
    cut.mkdir()
    study = cut / STUDY
    while toll.kills.total() < n_kills:
        toll.n_studies += 1
        began_s = time.monotonic()
        whole = whole_study(folder / f"whole-{toll.n_studies}", "--seed", str(toll.n_studies))
        takes_s = time.monotonic() - began_s
        started_anew(whole, study)
        n_before = toll.kills.total()
        before = kept(study)
        while True:
            wait_s = chance.uniform(0.0, 0.6 * takes_s) if toll.kills.total() < n_kills else PATIENCE_S
            was_killed = _killed(toll, cut, _forked(cut, *SIMULATE, "--resume", STUDY), wait_s)
            after = kept(study)
            if after[: len(before)] != before:
                raise BrokenPromise(f"a kill changed finished windows of {study}")
            toll.n_midway += was_killed and len(after) > len(before)
            before = after
            if not was_killed:
                break
        check_whole(study)
        if exports(study) != exports(whole):
            raise BrokenPromise(f"the exports of {study} differ from those of {whole}")
        toll.n_identical += 1
        toll.n_windows += len(before)
        with SqliteStore.open(study, read_only=True) as store:
            n_spoilt = sum(launch.ended_wall_s is None for _, launch in store.launches())
        if n_spoilt > toll.kills.total() - n_before:
            raise BrokenPromise(f"{n_spoilt} launches lost to {toll.kills.total() - n_before} kills")
        toll.n_spoilt += n_spoilt
    return toll


def _forked(folder: Path, *arguments: object) -> int:
    """The pid of a process that runs `tuner ...` in *folder*; what it says is in the file ``said``."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            with (folder / "said").open("w") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            done = Typed(folder)(*map(str, arguments))
            os.write(2, done.stderr.encode())
            code = done.returncode
        finally:
            os._exit(code)
    return pid


def _killed(toll: Toll, folder: Path, pid: int, wait_s: float) -> bool:
    """Whether the kill came before it was done."""
    descriptor = os.pidfd_open(pid)
    try:
        select.select([descriptor], [], [], wait_s)
        os.kill(pid, signal.SIGKILL)
    finally:
        os.close(descriptor)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if ended not in (0, -signal.SIGKILL):
        raise BrokenPromise(f"it ended by itself with {ended}: {(folder / 'said').read_text()}")
    toll.kills["tuner"] += ended != 0
    return ended != 0
