"""Dask worker plugin that executes the orders for a host: one launch at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from distributed import Worker, WorkerPlugin, get_worker

from tuner.adapters.fleet.frames import Frame, OrderEvent

NAME = "tuner-box"
_UNBEGUN = ("waiting", "ready", "constrained")  #: states of Dask's in which an order has not begun


class Making(Protocol):
    """A launch that is made; all but ``frames`` is called by other threads."""

    def frames(self) -> Iterator[Frame]:
        """What it tells, until nothing is left of it."""

    def finish(self) -> None:
        """Have it end after the window in hand."""

    def end(self, why: str | None = None) -> None:
        """Have it end now."""

    def problem(self) -> str | None:
        """Once it is over: what went wrong that it could not tell itself."""


def key_of(topic: str, order: str) -> str:
    """The name of an order in Dask; what comes of it is told under *topic*."""
    return f"{topic}:{order}"


def make_order(topic: str, order: str, worker_id: str, asked: bytes) -> None:
    """The task of an order: returns when the box is free again.

    Another worker may have got the address of the one that the order was for: it does nothing. (No argument
    is the key itself: Dask takes such a one for a result.)
    """
    worker = get_worker()
    if worker.id == worker_id:
        _plugin(worker).make(key_of(topic, order), asked)


def describe(topic: str, asked: bytes) -> None:
    """A task: tells under *topic* what the box says of itself and of what would run there.

    As an event, not as its result: nobody can get at a worker behind a tunnel.
    """
    worker = get_worker()
    worker.log_event(topic, {"facts": _plugin(worker).describe(asked)})


def _plugin(worker: Worker) -> BoxPlugin:
    plugin = worker.plugins[NAME]
    assert isinstance(plugin, BoxPlugin)
    return plugin


class BoxPlugin(WorkerPlugin):
    """Makes orders, by *begin*, and ends them when the coordinator lets go or the worker closes."""

    name = NAME

    def __init__(self, begin: Callable[[bytes], Making], describe: Callable[[bytes], dict[str, str]]) -> None:
        """*describe*, given settings, says what the box is and what would run there."""
        self._begin, self.describe = begin, describe
        self._lock = threading.Lock()
        self._makings: dict[str, Making | None] = {}  #: by key; None: it is about to begin
        self._unwanted: set[str] = set()  #: let go before they had begun
        self._finishing: set[str] = set()  #: to end after the window in hand
        self._refuses: str | None = None  #: why nothing is begun any more
        self._worker: Worker | None = None

    # ------------------------------------------------------------------ in the thread of the task

    def make(self, key: str, asked: bytes) -> None:
        """Make an order to its end."""
        worker, (topic, _, order) = self._worker, key.partition(":")
        assert worker is not None
        n, why = 0, None
        with self._lock:
            self._makings[key] = None
        try:
            making = self._begun(key, asked)
            for n, frame in enumerate(making.frames(), start=1) if making else ():
                worker.log_event(topic, OrderEvent(order, n - 1, frame).event())
            why = making.problem() if making else self._refuses
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise
        finally:
            with self._lock:
                del self._makings[key]
                self._unwanted.discard(key)
                self._finishing.discard(key)
            worker.log_event(topic, OrderEvent(order, n, None, why).event())

    def _begun(self, key: str, asked: bytes) -> Making | None:
        with self._lock:
            if self._refuses is not None or key in self._unwanted:
                return None
            making = self._makings[key] = self._begin(asked)
            finishes = key in self._finishing
        if finishes:
            making.finish()
        return making

    # ------------------------------------------------------------------ in the worker's event loop

    def setup(self, worker: Worker) -> None:
        """A worker begins."""
        self._worker = worker
        self._unwanted.clear()
        self._finishing.clear()

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002
        """It closes: what it makes is given up by whoever ordered it."""
        self.end("the worker of the host closed, or lost its scheduler")

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Dask lets go of an order when its coordinator does, or is gone."""
        if finish != "released" or not isinstance(key, str) or ":" not in key:
            return  # of no order
        if start == "executing":
            self._let_go(key)
        elif start in _UNBEGUN and self._worker is not None:
            topic, order = key.split(":", 1)
            self._worker.log_event(
                topic, OrderEvent(order, 0, None, "it was cancelled before it began").event()
            )

    def _let_go(self, key: str) -> None:
        with self._lock:
            self._unwanted.add(key)
            making = self._makings.get(key)
        if making is not None:
            making.end("its coordinator cancelled it, or is gone")

    # ------------------------------------------------------------------ for whoever runs the worker

    @property
    def is_busy(self) -> bool:
        """Whether something is left of an order."""
        return bool(self._makings)

    def finish(self, keys: list[str] | None = None) -> None:
        """Have orders end after the window in hand; without *keys* all, and none is begun any more."""
        with self._lock:
            if keys is None:
                self._refuses = "the host is about to leave"
            self._finishing.update(self._makings if keys is None else keys)
            makings = [one for key, one in self._makings.items() if one and (keys is None or key in keys)]
        for making in makings:
            making.finish()

    def end(self, why: str) -> None:
        """End everything now."""
        with self._lock:
            self._unwanted.update(self._makings)
            makings = [one for one in self._makings.values() if one is not None]
        for making in makings:
            making.end(why)
