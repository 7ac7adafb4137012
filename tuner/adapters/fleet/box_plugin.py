"""Dask worker plugin that executes the orders for a host: one launch at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from distributed import Worker, WorkerPlugin, get_worker

from tuner.adapters.fleet.frames import Frame, OrderEvent

NAME = "tuner-box"
_UNBEGUN = ("waiting", "ready", "constrained")  #: Dask's states before the start of an order


class Making(Protocol):
    """A launch under way; other threads call all methods except ``frames``."""

    def frames(self) -> Iterator[Frame]:
        """Yield the news of the launch until its end."""

    def finish(self) -> None:
        """Request its end after the current window."""

    def end(self, why: str | None = None) -> None:
        """Request its end now."""

    def problem(self) -> str | None:
        """Return, after its end, a problem that the launch could not report itself; else None."""


def key_of(topic: str, order: str) -> str:
    """Return the Dask key of an order whose events go to *topic*."""
    return f"{topic}:{order}"


def make_order(topic: str, order: str, worker_id: str, asked: bytes) -> None:
    """Dask task that executes an order and returns when the host is free again.

    It does nothing if another worker has taken the address of the intended one. (No argument is the key
    itself: Dask would replace such an argument with a result.)
    """
    worker = get_worker()
    if worker.id == worker_id:
        _plugin(worker).make(key_of(topic, order), asked)


def describe(topic: str, asked: bytes) -> None:
    """Dask task that sends the description of the host and of its programs to *topic*.

    It is an event, not the result of the task, because the coordinator cannot connect to a worker behind a
    tunnel.
    """
    worker = get_worker()
    worker.log_event(topic, {"facts": _plugin(worker).describe(asked)})


def _plugin(worker: Worker) -> BoxPlugin:
    plugin = worker.plugins[NAME]
    assert isinstance(plugin, BoxPlugin)
    return plugin


class BoxPlugin(WorkerPlugin):
    """Executes orders with *begin*, and ends them when the coordinator releases them or the worker closes."""

    name = NAME

    def __init__(self, begin: Callable[[bytes], Making], describe: Callable[[bytes], dict[str, str]]) -> None:
        """Set up the plugin; *describe* takes settings and returns the facts of the host and of its
        programs.
        """
        self._begin, self.describe = begin, describe
        self._lock = threading.Lock()
        self._makings: dict[str, Making | None] = {}  #: launches by key of their order; None: about to begin
        self._unwanted: set[str] = set()  #: keys released before their launch began
        self._finishing: set[str] = set()  #: keys of launches that must end after their present window
        self._refuses: str | None = None  #: reason why no further launch begins
        self._worker: Worker | None = None

    # ------------------------------------------------------------------ in the thread of the task

    def make(self, key: str, asked: bytes) -> None:
        """Execute an order to its end."""
        worker, (topic, _, order) = self._worker, key.partition(":")
        assert worker is not None
        n, why = 0, None
        with self._lock:
            self._makings[key] = None
        try:
            making = self._begin_order(key, asked)
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

    def _begin_order(self, key: str, asked: bytes) -> Making | None:
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
        """Start with the worker."""
        self._worker = worker
        self._unwanted.clear()
        self._finishing.clear()

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002
        """End the current launch, because the worker closes and the coordinator gives the order up."""
        self.end("the worker of the host closed, or lost its scheduler")

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """End an order that Dask releases because its coordinator released it or is gone."""
        if finish != "released" or not isinstance(key, str) or ":" not in key:
            return  # not an order
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

    # ------------------------------------------------------------------ for the program of the worker

    @property
    def is_busy(self) -> bool:
        """Return whether an order is not finished."""
        return bool(self._makings)

    def finish(self, keys: list[str] | None = None) -> None:
        """Request the end of orders after the current window; without *keys*, of all, and refuse new ones."""
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
