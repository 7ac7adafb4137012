"""Work shared among processes; nothing of them is left, however we end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import Any, TypeVar

from tuner.core.errors import TunerError

Task = TypeVar("Task")
Result = TypeVar("Result")

_shared: Any = None  #: in a worker: what every task needs


def each_in_processes(
    function: Callable[[Any, Task], Result], shared: Any, tasks: Sequence[Task], n_processes: int
) -> Iterator[Result]:
    """``function(shared, task)`` of each task, in the order of *tasks*; with one process, in this one.

    *function* is a module's own; *shared* is sent to each worker once. A generator that is closed, or left
    by an exception (Ctrl-C), ends its workers; they also end by themselves when we are killed.

    Raises:
        TunerError: a worker was killed.
    """
    n_processes = min(n_processes, len(tasks))
    if n_processes <= 1:
        for task in tasks:
            yield function(shared, task)
        return
    from concurrent.futures.process import BrokenProcessPool

    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        n_processes, multiprocessing.get_context("spawn"), _begin_worker, (function, shared)
    )
    finished = False
    try:
        for future in _submitted(executor, tasks):
            yield future.result()
        finished = True
    except BrokenProcessPool as error:
        raise TunerError(
            "a worker process was killed", hint="Memory may be short: try fewer with --processes."
        ) from error
    finally:
        if not finished:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
        executor.shutdown(cancel_futures=True)


def _submitted(executor: ProcessPoolExecutor, tasks: Sequence[Task]) -> list[Future[Any]]:
    """Every task handed in. Ctrl-C on a terminal reaches the workers too: they are started deaf to it."""
    try:
        heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread: there is no Ctrl-C to hear either
        return [executor.submit(_run_task, task) for task in tasks]
    try:
        return [executor.submit(_run_task, task) for task in tasks]
    finally:
        signal.signal(signal.SIGINT, heard)


def _begin_worker(function: Callable[[Any, Any], Any], shared: Any) -> None:
    global _shared
    _shared = function, shared
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _run_task(task: Any) -> Any:
    function, shared = _shared
    return function(shared, task)
