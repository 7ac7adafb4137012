"""Task manager that calls a function for each job of a stream, in one thread without a queue.

The names and the shape of a job are Socorro's. Intended differences from 2014: a stop ends the idle wait at
once, and an error of the source ends ``blocking_start`` with this error, instead of silently ending a thread.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from .stop_event import StopEvent

Job = tuple[tuple[Any, ...], Mapping[str, Any]]  #: ((crash_id,), {"finished_func": ...})
JobSource = Callable[[], Iterable[Job | None]] | Iterable[Job | None]  #: None: no job at the moment
TaskFunction = Callable[..., object]


class TaskManagerConfig(Protocol):
    """The options that task managers read."""

    @property
    def idle_delay(self) -> float:
        """Seconds to wait when the source has nothing to do."""

    @property
    def quit_on_empty_queue(self) -> bool:
        """Whether to end on an empty queue instead of waiting."""

    @property
    def number_of_threads(self) -> int:
        """Number of worker threads, if the task manager has several."""

    @property
    def maximum_queue_size(self) -> int:
        """Number of jobs that may wait between the source and the worker threads."""


class TaskManager:
    """Task manager that does one job after another in the thread that calls ``blocking_start``."""

    def __init__(
        self,
        config: TaskManagerConfig,
        job_source_iterator: JobSource,
        task_func: TaskFunction,
        *,
        unstarted_func: TaskFunction | None = None,
        stop_event: StopEvent | None = None,
    ) -> None:
        self.config = config
        self.job_source_iterator = job_source_iterator
        self.task_func = task_func
        self.unstarted_func = unstarted_func  #: called with each job that was taken but will not be done
        self.stop_event = stop_event or StopEvent()

    def blocking_start(self) -> None:
        """Do jobs until ``stop()``, the end of the iterator, or an empty queue with `quit_on_empty_queue`.

        Raises:
            Exception: any error of the iterator.
        """
        for args, kwargs in self._jobs():
            self._do(args, kwargs)

    def stop(self) -> None:
        """End ``blocking_start`` after the current job; safe in a signal handler."""
        self.stop_event.set()

    def _jobs(self) -> Iterator[Job]:
        """Yield the jobs of the source, and wait while it has none."""
        source = self.job_source_iterator
        is_busy = False  # before the source's answer, because a current job may return to its queue meanwhile
        for job in source() if callable(source) else source:
            if self.stop_event.is_set():
                if job is not None:
                    self._give_back(*job)
                return
            if job is not None:
                yield job
            elif self.config.quit_on_empty_queue and not is_busy:
                return
            else:
                self.stop_event.wait(self.config.idle_delay)
            if self.stop_event.is_set():
                return
            is_busy = self._is_busy()

    def _is_busy(self) -> bool:
        """Return whether some jobs are not finished."""
        return False

    def _do(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._call(self.task_func, args, kwargs)

    def _give_back(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.unstarted_func is not None:
            self._call(self.unstarted_func, args, kwargs)

    @staticmethod
    def _call(function: TaskFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Call *function*; write the traceback of an error to stderr, so that other jobs continue."""
        try:
            function(*args, **kwargs)
        except Exception:
            sys.stderr.write(f"job {args} failed:\n{traceback.format_exc()}")
