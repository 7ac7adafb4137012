"""Construction of a processor, and its run until a stop."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from .classes import CRASH_SOURCES, CRASH_STORAGES, TASK_MANAGERS, find_class
from .errors import InputError, SourceLostError
from .options import Options
from .processor import Processor
from .spool import symbols_of
from .stackwalk import StackwalkCommand, find_stackwalker
from .stop_event import StopEvent
from .task_manager import TaskManager


def run(options: Options) -> None:
    """Process items until SIGTERM, SIGINT, or an empty queue with `quit_on_empty_queue`.

    Raises:
        InputError: an object that the options name is missing.
        SourceLostError: the source became unreachable.
        Exception: any other error of the queuing thread.
    """
    command = _stackwalk_command(options)
    manager_class = _manager_class(options)
    source_class = find_class("new_crash_source_class", options.new_crash_source_class, CRASH_SOURCES)
    storage_class = find_class("crashstorage_class", options.crashstorage_class, CRASH_STORAGES)
    new_slot = _open_counter()
    stop = StopEvent(options.graceful_timeout)
    source = source_class.from_options(options, stop)
    lost: list[SourceLostError] = []
    try:
        storage = storage_class.from_options(options)
        try:

            def give_up(error: SourceLostError) -> None:
                lost.append(error)
                manager.stop()

            processor = Processor(
                options,
                source=source,
                storage=storage,
                command=command,
                stop=stop,
                new_slot=new_slot,
                on_source_lost=give_up,
            )
            manager: TaskManager = manager_class(
                options, processor.jobs, processor, unstarted_func=processor.give_back, stop_event=stop
            )
            _run_until_stopped(manager, processor, options)
        finally:
            storage.close()
    finally:
        source.close()
    if lost:
        raise lost[0]


def _run_until_stopped(manager: TaskManager, processor: Processor, options: Options) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: manager.stop())
    _log(f"{type(manager).__name__}, {options.number_of_threads} threads, spool {options.fs_root}")
    started_s = time.monotonic()
    try:
        manager.blocking_start()
    finally:
        _log(_summary(processor, time.monotonic() - started_s))


def _summary(processor: Processor, elapsed_s: float) -> str:
    n = processor.n_done + processor.n_failed
    text = f"{processor.n_done} done, {processor.n_failed} failed in {elapsed_s:.1f} s"
    if n == 0:
        return text
    parts = {
        "stackwalker CPU": processor.child_cpu_ns,
        "Python CPU": processor.python_cpu_ns,
        "waiting": processor.waiting_ns,
    }
    whole_ns = sum(parts.values()) or 1
    shares = ", ".join(f"{name} {ns / n / 1e6:.2f} ms ({ns / whole_ns:.0%})" for name, ns in parts.items())
    return f"{text}; per item: {shares}"


def _log(text: str) -> None:
    sys.stderr.write(f"crash-processor: {text}\n")
    sys.stderr.flush()


def _stackwalk_command(options: Options) -> StackwalkCommand:
    symbols = options.processor_symbols_pathname_list
    if symbols is None:
        symbols = symbols_of(options.fs_root)
    return StackwalkCommand(
        options.stackwalk_command_line,
        stackwalker=find_stackwalker(options.minidump_stackwalk_pathname),
        symbols=symbols,
        symbol_cache=options.symbol_cache_path,
        kill_timeout_s=options.kill_timeout,
        passes=options.stackwalk_passes,
    )


def _manager_class(options: Options) -> Any:
    text = options.producer_consumer_class
    if text == "auto":
        text = "single" if options.number_of_threads == 1 else "threaded"
    if text == "single" and options.number_of_threads != 1:
        raise InputError(
            f"--producer-consumer-class single runs one thread, not {options.number_of_threads}",
            hint="Use --number-of-threads 1, or threaded.",
        )
    return find_class("producer_consumer_class", text, TASK_MANAGERS)


def _open_counter() -> Callable[[], Any]:
    from tuner.probe import counter  # the only part of tuner that a worker uses

    try:
        return counter.open_counter().slot
    except counter.CounterError as error:
        raise InputError(str(error)) from error
