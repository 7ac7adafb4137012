"""The drop-in for ``TaskManager`` with threads: a queuing thread feeds them through a bounded queue."""

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
    """Wakes one thread, from any thread or signal handler."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)

    def __del__(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full of rings that were not heard yet: they will do
            os.write(self._write_fd, b"!")

    def wait(self) -> None:
        os.read(self._read_fd, 4096)

    @contextlib.contextmanager
    def rung_by_signals(self) -> Iterator[None]:
        """In the main thread, let every signal ring, too.

        Python runs signal handlers in the main thread, but the kernel may give the signal to another one:
        above all to a thread that has just spawned a child and unblocks its signals. A main thread that waits
        for a lock then sleeps on, and the handler with it (one SIGTERM in ten, with two threads that spawn
        all the time).
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
    """One thread takes jobs, ``number_of_threads`` do them; at most ``maximum_queue_size`` wait in between.

    The queuing thread takes a job only once there is room for it, so that nothing is ever held outside the
    queue.
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
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # None: the end
        self._room = threading.Semaphore(max(1, config.maximum_queue_size))
        self._n_running = 0
        self._n_unfinished = 0  # jobs that were queued and are not done
        self._lock = threading.Lock()  # around both counts
        self._bell = _Bell()  # rings when it was stopped, or all threads have ended
        self._source_error: BaseException | None = None

    def blocking_start(self) -> None:
        """As ``TaskManager.blocking_start``; the jobs already queued are finished, unless it was stopped."""
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
            self._give_back_queued()
            self._room.release()  # the queuing thread may be waiting for room
        for thread in started:
            thread.join()
        self._give_back_queued()
        if self._source_error is not None:
            raise self._source_error

    def stop(self) -> None:
        """As ``TaskManager.stop``; what is queued is given back."""
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
        except BaseException as error:  # a silent thread would leave the workers waiting for ever
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

    def _give_back_queued(self) -> None:
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
