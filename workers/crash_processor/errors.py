"""Errors outside the processing of an item; a failure of the processing itself is a result."""

from __future__ import annotations


class ProcessorError(Exception):
    """An error that ends the process with one line on stderr: the problem and a remedy."""

    exit_code = 2

    def __init__(self, problem: str, *, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem  #: the problem, with the invalid value
        self.hint = hint  #: the remedy; None if the problem implies it


class InputError(ProcessorError):
    """An option, a file or an environment that the processor cannot work with."""


class SourceLostError(ProcessorError):
    """The crash source was unreachable for all of ``backoff_delays``."""


class StorageError(Exception):
    """Fetching or saving failed, and may succeed later."""


class CrashNotFoundError(Exception):
    """An item without a readable raw crash or dump; it will never succeed."""


class OutOfTimeError(Exception):
    """The processor is stopping and ``graceful_timeout`` is over; the item goes back to its queue."""
