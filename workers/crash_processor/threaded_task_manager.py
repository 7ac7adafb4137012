"""Task manager with worker threads, which get jobs from a queuing thread through a bounded queue."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Iterator

from .errors import InputError
from .stop_event import StopEvent
from .task_manager import Job, JobSource, TaskFunction, TaskManager, TaskManagerConfig


class _Bell:
    """Wake-up of one thread from any thread or signal handler, by a pipe."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)

    def __del__(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full of earlier rings, which suffice
            os.write(self._write_fd, b"!")

    def wait(self) -> None:
        os.read(self._read_fd, 4096)

    @contextlib.contextmanager
    def rung_by_signals(self) -> Iterator[None]:
        """Let every signal ring, too, if called in the main thread.

        Python runs signal handlers in the main thread, but the kernel may deliver the signal to another one,
        especially to a thread that has just spawned a child and unblocks its signals. A main thread that
        waits for a lock then sleeps on without running the handler (one SIGTERM in ten, with two threads that
        spawn continuously).
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)


class ThreadedTaskManager(TaskManager):
    """Task manager with one queuing thread and ``number_of_threads`` workers.

    At most ``maximum_queue_size`` jobs wait in between. The queuing thread takes a job only if there is room,
    so that it never keeps a job outside the queue.
    """

    def __init__(
        self,
        config: TaskManagerConfig,
        job_source_iterator: JobSource,
        task_func: TaskFunction,
        *,
        unstarted_func: TaskFunction | None = None,
        stop_event: StopEvent | None = None,
    ) -> None:
        super().__init__(
            config, job_source_iterator, task_func, unstarted_func=unstarted_func, stop_event=stop_event
        )
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # None ends a worker
        self._room = threading.Semaphore(max(1, config.maximum_queue_size))
        self._n_running = 0
        self._n_unfinished = 0  # queued jobs that are not finished
        self._lock = threading.Lock()  # for both counts
        self._bell = _Bell()  # rings at a stop, and at the end of all threads
        self._source_error: BaseException | None = None

    def blocking_start(self) -> None:
        """Do jobs like ``TaskManager.blocking_start``; queued jobs are also finished, except after a stop."""
        threads = [
            threading.Thread(target=self._work, name=f"worker-{n}")
            for n in range(self.config.number_of_threads)
        ]
        threads.append(threading.Thread(target=self._fill_queue, name="queuing"))
        self._n_running = len(threads)
        started = []
        try:
            for thread in threads:
                thread.start()
                started.append(thread)
        except RuntimeError as error:
            self._n_running -= len(threads) - len(started)
            self._source_error = InputError(
                f"cannot start {self.config.number_of_threads} threads, only {len(started)}: {error}",
                hint="Ask for fewer, or raise the limit on processes (ulimit -u).",
            )
            self._end_queue()
        with self._bell.rung_by_signals():
            while self._n_running and not self.stop_event.is_set():
                self._bell.wait()
        if self.stop_event.is_set():
            self._return_queued()
            self._room.release()  # the queuing thread may wait for room
        for thread in started:
            thread.join()
        self._return_queued()
        if self._source_error is not None:
            raise self._source_error

    def stop(self) -> None:
        """Stop like ``TaskManager.stop``; queued jobs are given back."""
        super().stop()
        self._bell.ring()

    def _fill_queue(self) -> None:
        try:
            self._room.acquire()
            for job in self._jobs():
                self._add_unfinished(1)
                self._queue.put(job)
                self._room.acquire()
                if self.stop_event.is_set():
                    break
        except BaseException as error:  # otherwise the workers would wait for ever
            self._source_error = error
        finally:
            self._end_queue()
            self._thread_ends()

    def _end_queue(self) -> None:
        for _ in range(self.config.number_of_threads):
            self._queue.put(None)

    def _work(self) -> None:
        try:
            while (job := self._queue.get()) is not None:
                self._room.release()
                if self.stop_event.is_set():
                    self._give_back(*job)
                else:
                    self._do(*job)
                self._add_unfinished(-1)
        finally:
            self._thread_ends()

    def _is_busy(self) -> bool:
        return self._n_unfinished > 0

    def _add_unfinished(self, n: int) -> None:
        with self._lock:
            self._n_unfinished += n

    def _thread_ends(self) -> None:
        with self._lock:
            self._n_running -= 1
            ended = self._n_running == 0
        if ended:
            self._bell.ring()

    def _return_queued(self) -> None:
        ends = 0
        try:
            while True:
                job = self._queue.get_nowait()
                if job is None:
                    ends += 1
                else:
                    self._give_back(*job)
        except queue.Empty:
            for _ in range(ends):
                self._queue.put(None)
