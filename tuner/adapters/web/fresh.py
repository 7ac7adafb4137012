"""Something made of files that change, kept until they do, and made anew no faster than the box can bear."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

AGAIN_S = 60.0  #: after a failure it is tried again, for its reason may be one that no stamp tells
SHARE = 0.02  #: of a core, at most, for making it anew: a study that runs here sees it as a stranger's CPU
T = TypeVar("T")


class Fresh(Generic[T]):
    """What *make* gives, of the moment that *stamp* tells.

    Args:
        make: slow; called by one thread at a time. What it raises is kept and raised like what it gives.
        stamp: cheap; its ``repr`` changes when *make* would give something else.
        monotonic_s: the time.
    """

    def __init__(
        self,
        make: Callable[[], T],
        stamp: Callable[[], object],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make, self._stamp, self._monotonic_s = make, stamp, monotonic_s
        self._made: tuple[str, T] | None = None
        self._failed: tuple[str, Exception, float] | None = None  #: version, why, until when that is believed
        self._not_before_s = 0.0
        self._lock = threading.Lock()

    def version(self) -> str:
        """Of what would be made now."""
        return hashlib.sha256(repr(self._stamp()).encode("utf-8", "backslashreplace")).hexdigest()[:20]

    def get(self) -> tuple[str, T]:
        """What was made, and its version: that of now, unless making it took long and was not long ago.

        Raises:
            Exception: whatever making it raised, now or before: it is not tried again at each call.
        """
        with self._lock:
            version = self.version()  # before it is made: what comes meanwhile is seen the next time
            made = self._made
            if made is not None and (made[0] == version or self._monotonic_s() < self._not_before_s):
                return made
            failed, now_s = self._failed, self._monotonic_s()
            if failed is not None and now_s < (failed[2] if failed[0] == version else self._not_before_s):
                raise failed[1].with_traceback(None)
            self._failed, began_s = None, time.thread_time()
            try:
                self._made = made = version, self._make()
            except Exception as error:
                self._made, self._failed = None, (version, error, now_s + AGAIN_S)
                raise
            finally:
                self._not_before_s = self._monotonic_s() + (time.thread_time() - began_s) / SHARE
            return made
