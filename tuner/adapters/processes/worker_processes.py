"""Work shared among processes, which all end together with the parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing.connection import wait
from typing import Any, TypeVar

from tuner.core.errors import TunerError

Task = TypeVar("Task")
Result = TypeVar("Result")

#: tasks submitted in advance per worker: enough to keep each worker busy, with few to discard at Ctrl-C
_AHEAD = 4

_shared: Any = None  #: the data that all tasks of this worker process need


def each_in_processes(
    function: Callable[[Any, Task], Result], shared: Any, tasks: Sequence[Task], n_processes: int
) -> Iterator[Result]:
    """Yield ``function(shared, task)`` of each task, in the order of *tasks*; use no workers for one process.

    *function* is at the top level of a module; *shared* is sent to each worker once. Closing the generator,
    or an exception (Ctrl-C), ends its workers; they also end if this process is killed.

    Raises:
        TunerError: a worker was killed.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # processes are enough; threads would only wait
        os.environ.setdefault(name, "1")
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
    waiting: deque[Future[Result]] = deque()
    left = iter(tasks)
    try:
        waiting.extend(_submit_deaf(executor, list(islice(left, n_processes))))
        while waiting:
            for task in islice(left, n_processes * _AHEAD - len(waiting)):
                waiting.append(executor.submit(_run_task, task))
            yield waiting.popleft().result()
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


def _submit_deaf(executor: ProcessPoolExecutor, tasks: Sequence[Any]) -> list[Future[Any]]:
    """Submit the first tasks, one per worker, each of which starts one.

    Workers must ignore Ctrl-C at the terminal, so they start with SIGINT blocked, and it stays blocked. In
    this process it is only delayed.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return [executor.submit(_run_task, task) for task in tasks]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
