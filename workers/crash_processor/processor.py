"""Processing of one item, from its crash id to a saved result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .analysis import Analysis, analyse
from .errors import CrashNotFoundError, OutOfTimeError, SourceLostError, StorageError
from .options import Options
from .rules import apply_rules
from .sources import CrashSource
from .spawn import Ended, run_child
from .stackwalk import StackwalkCommand
from .stages import Stages
from .stop_event import StopEvent
from .storage import CrashStorage
from .task_manager import Job
from .waits import drawn_delay_s, wait

T = TypeVar("T")


class Slot(Protocol):
    """Item counter of one thread: ``tuner.probe.counter.Slot``."""

    def done(self) -> None:
        """Count a successful item."""

    def failed(self) -> None:
        """Count a failed item."""

    def add_stages(self, python_cpu_ns: int, child_cpu_ns: int, waiting_ns: int, /) -> None:
        """Add the nanoseconds of the stages of an item."""


class Claim:
    """A taken item; calling it acknowledges the item."""

    def __init__(self, source: CrashSource, receipt: Any, wall_ns: int, cpu_ns: int) -> None:
        self._source = source
        self._receipt = receipt
        self.wall_ns = wall_ns  #: wall-clock time of taking the item
        self.cpu_ns = cpu_ns

    def __call__(self) -> bool:
        """Acknowledge the item as done; return False if it was taken back before."""
        return self._source.ack(self._receipt)

    def release(self) -> None:
        """Return the item to the queue."""
        self._source.release(self._receipt)

    def retry(self, reason: str) -> bool:
        """Report a failed attempt; return whether it was the last one."""
        return self._source.retry(self._receipt, reason)

    def reject(self, reason: str) -> None:
        """Reject the item for ever."""
        self._source.reject(self._receipt, reason)


class Processor:
    """The task of a task manager: ``jobs`` is its source, and the instance its function."""

    def __init__(
        self,
        options: Options,
        *,
        source: CrashSource,
        storage: CrashStorage,
        command: StackwalkCommand,
        stop: StopEvent,
        new_slot: Callable[[], Slot],
        on_source_lost: Callable[[SourceLostError], None],
    ) -> None:
        self._options = options
        self._source = source
        self._storage = storage
        self._command = command
        self._stop = stop
        self._new_slot = new_slot
        self._on_source_lost = on_source_lost
        self._local = threading.local()
        self._totals_lock = threading.Lock()
        self.n_done = self.n_failed = 0
        self.python_cpu_ns = self.child_cpu_ns = self.waiting_ns = 0

    def jobs(self) -> Iterator[Job | None]:
        """Yield items without end; None if there is none at the moment."""
        while True:
            wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
            taken = self._source.new_crashes()
            if taken is None:
                yield None
                continue
            crash_id, receipt = taken
            claim = Claim(
                self._source, receipt, time.perf_counter_ns() - wall_ns, time.thread_time_ns() - cpu_ns
            )
            yield (crash_id,), {"finished_func": claim}

    def __call__(self, crash_id: str, finished_func: Claim) -> None:
        """Process one item; acknowledge, release, retry or reject it depending on the result."""
        try:
            self._process(crash_id, finished_func)
        except SourceLostError as error:
            self._on_source_lost(error)

    @staticmethod
    def give_back(_crash_id: str, finished_func: Claim) -> None:
        """Release an item that was taken and will not be started."""
        finished_func.release()

    def _process(self, crash_id: str, claim: Claim) -> None:
        stages = Stages(claim.wall_ns, claim.cpu_ns)
        try:
            processed = self._process_crash(crash_id, stages)
            self._save(crash_id, processed, stages)
        except CrashNotFoundError as error:
            claim.reject(str(error))
            self._count(stages, is_done=False)
        except OutOfTimeError:
            claim.release()
        except (StorageError, OSError) as error:
            if self._stop.is_set():
                claim.release()
            elif claim.retry(str(error)):
                self._count(stages, is_done=False)
        except Exception as error:
            claim.retry(f"{type(error).__name__}: {error}")  # a bug: keep the item, and show the traceback
            raise
        else:
            is_ours = claim()
            stages.finish("acknowledge")
            self._local.after_ns = stages.cpu_ns["save"] + stages.cpu_ns["acknowledge"]
            if is_ours:
                self._count(stages, is_done=True)

    def _process_crash(self, crash_id: str, stages: Stages) -> dict[str, Any]:
        options = self._options
        started = datetime.now(UTC)
        stages.waiting_ns += self._wait(options.fetch_delay_ms, crash_id, "fetch")
        raw_crash, dump = self._with_backoff(lambda: self._storage.fetch(crash_id))
        stages.finish("fetch")
        try:
            notes: list[str] = []
            processed = apply_rules(raw_crash, notes)
            stages.finish("rules")
            ended = self._stackwalk(dump, notes)
            stages.child_cpu_ns = ended.cpu_ns if ended else 0
            stages.finish("stackwalk")
        finally:
            dump.unlink(missing_ok=True)
        analysis = self._analyse(ended, processed, stages)
        stages.finish("analyse")
        return {
            "uuid": crash_id,
            **processed,
            "success": analysis.success,
            "signature": analysis.signature,
            "crash_type": analysis.crash_type,
            "classifications": analysis.classifications,
            "json_dump": analysis.json_dump,
            "processor_notes": notes + analysis.notes,
            "started_datetime": started.isoformat(),
            "completed_datetime": datetime.now(UTC).isoformat(),
            "child_cpu_ms": round(stages.child_cpu_ns / 1e6, 3),
            "stages": stages.in_ms(),
        }

    def _stackwalk(self, dump: Path, notes: list[str]) -> Ended | None:
        """Run the stackwalker; return None for an empty dump."""
        if dump.stat().st_size == 0:
            notes.append("EmptyMinidump: the dump has no bytes, nothing to walk")
            return None
        ended = self._with_backoff(
            lambda: run_child(
                self._command.arguments(dump),
                timeout_s=self._options.kill_timeout,
                stop=self._stop,
                spawn_path=self._options.spawn_path,
            )
        )
        if ended.killed == "stopping":
            raise OutOfTimeError
        return ended

    def _analyse(self, ended: Ended | None, processed: dict[str, Any], stages: Stages) -> Analysis:
        """Repeat the analysis until the Python CPU of the item reaches `python_cost_ms`.

        The later saving and acknowledging are assumed to cost the same as for the previous item.
        """
        wanted_ns = self._options.python_cost_ms * 1e6 - getattr(self._local, "after_ns", 0)
        thresholds = (
            self._options.crashing_thread_frame_threshold,
            self._options.crashing_thread_tail_frame_threshold,
        )
        before_ns = stages.running_cpu_ns()
        analysis = analyse(ended, processed, *thresholds)
        pass_ns = stages.running_cpu_ns() - before_ns
        while stages.running_cpu_ns() + pass_ns / 2 < wanted_ns:
            analysis = analyse(ended, processed, *thresholds)
        return analysis

    def _save(self, crash_id: str, processed: dict[str, Any], stages: Stages) -> None:
        stages.waiting_ns += self._wait(self._options.save_delay_ms, crash_id, "save")
        self._with_backoff(lambda: self._storage.save_processed(crash_id, processed))
        stages.finish("save")

    def _wait(self, mean_ms: float, crash_id: str, stage: str) -> int:
        delay_s = drawn_delay_s(mean_ms, seed=self._options.seed, crash_id=crash_id, stage=stage)
        return wait(delay_s, self._stop)

    def _with_backoff(self, operation: Callable[[], T]) -> T:
        """Retry *operation* after each of ``backoff_delays``; a stop ends the waiting."""
        for delay_s in self._options.backoff_delays:
            try:
                return operation()
            except (StorageError, OSError):
                if self._stop.wait(delay_s):
                    raise
        return operation()

    def _count(self, stages: Stages, *, is_done: bool) -> None:
        """Count an item in the thread's slot, and in the totals for the final message."""
        slot: Slot | None = getattr(self._local, "slot", None)
        if slot is None:
            slot = self._local.slot = self._new_slot()
        python_cpu_ns = stages.python_cpu_ns
        slot.add_stages(python_cpu_ns, stages.child_cpu_ns, stages.waiting_ns)
        if is_done:
            slot.done()
        else:
            slot.failed()
        with self._totals_lock:
            self.n_done += is_done
            self.n_failed += not is_done
            self.python_cpu_ns += python_cpu_ns
            self.child_cpu_ns += stages.child_cpu_ns
            self.waiting_ns += stages.waiting_ns
