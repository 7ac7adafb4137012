"""Dask worker of a fleet host: joins the scheduler, reconnects after a loss, and shuts down in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from distributed import Worker
from distributed.comm.addressing import get_address_host
from distributed.utils import get_ip

from tuner.adapters.fleet.box_plugin import BoxPlugin
from tuner.adapters.fleet.scheduler import answer_of

FACTS = "tuner_box"  #: key under which the scheduler stores the facts of a host
FINISH_ORDERS = "finish-orders"  #: message from a scheduler to end a launch after its present window
HEARTBEAT_S = 2.0  #: Dask's default of 0.5 s would use twice as much CPU on the host
_LOOK_S = 0.1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0  #: wait before the scheduler is tried again
_CLOSES_WITHIN_S = 30.0


class _DaskWorker(Worker):
    """Dask's worker without its web server, with fewer heartbeats."""

    def __init__(self, address: str, plugin: BoxPlugin, **how: Any) -> None:
        super().__init__(address, plugins=(plugin,), **how)
        self.stream_handlers[FINISH_ORDERS] = plugin.finish

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start no web server."""

    async def heartbeat(self) -> None:
        """Send heartbeats at tuner's interval instead of the scheduler's."""
        await super().heartbeat()
        callback = self.periodic_callbacks["heartbeat"]
        callback.callback_time = max(callback.callback_time, HEARTBEAT_S * 1000)


class BoxWorker:
    """The worker of one host, active while ``run`` runs."""

    def __init__(
        self,
        address: str,
        name: str,
        security: Any,
        facts: Mapping[str, Any],
        plugin: BoxPlugin,
        say: Callable[[str], None],
    ) -> None:
        """Set up the worker; *say* prints to the terminal; the scheduler stores *facts*."""
        self._address, self._name, self._security = address, name, security
        self._facts, self._plugin, self._say = dict(facts), plugin, say
        self._n_asked_to_end = 0
        self._ends = asyncio.Event()  #: set when no more launches may begin
        self._said = ""

    async def run(self) -> None:
        """Serve until a signal: end after the current window, or, at a second signal, now.

        Raises:
            ConfigError: the scheduler refuses this host.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # HUP, ignored by nohup
                loop.add_signal_handler(number, self._asked_to_end)
        with tempfile.TemporaryDirectory(prefix="tuner-box-") as folder:
            pause_s = _FIRST_PAUSE_S
            while not self._ends.is_set():
                if await self._is_there() and await self._serve_until_gone(folder):
                    pause_s = _FIRST_PAUSE_S
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            await self._until_free()

    def _asked_to_end(self) -> None:
        self._n_asked_to_end += 1
        self._ends.set()
        if self._n_asked_to_end > 1:
            self._plugin.end("the host was stopped at once")
            return
        if self._plugin.is_busy:
            self._say("Finishing this window, if one has begun, then leaving. Once more stops now.")
        self._plugin.finish()

    async def _is_there(self) -> bool:
        """Return whether the scheduler answers; print the reason once if it does not."""
        try:
            await answer_of(self._address, self._security)
        except OSError as error:
            self._print_once(f"Waiting for the scheduler at {self._address}: {error}")
            return False
        return True

    async def _serve_until_gone(self, folder: str) -> bool:
        """Join, and stay until either end is gone; return False if it could not join."""
        worker = _DaskWorker(
            self._address,
            self._plugin,
            name=self._name,
            host=get_ip(get_address_host(self._address)),  # a loopback worker stays local
            nthreads=1,
            resources={"box": 1},
            memory_limit=0,
            local_directory=folder,
            security=self._security,
            startup_information={FACTS: lambda _: self._facts},
            dashboard=False,
        )
        try:
            await asyncio.wait_for(worker, _CLOSES_WITHIN_S)
        except (RuntimeError, OSError, TimeoutError) as error:
            self._print_once(self._why_not_in(error))
            with contextlib.suppress(OSError, RuntimeError, TimeoutError):
                await worker.close(timeout=1)
            return False
        self._say(
            f"{self._name} is in the fleet of {self._address}. Ctrl-C leaves it after the current window."
        )
        self._said = ""
        gone = asyncio.ensure_future(worker.finished())  # type: ignore[no-untyped-call]
        ends = asyncio.ensure_future(self._ends.wait())
        await asyncio.wait({gone, ends}, return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            await self._until_free()  # the last news still reach the coordinator
            await worker.close(timeout=_CLOSES_WITHIN_S)
        else:
            self._say(f"{self._address} is gone, or dropped this host; it connects again when it can.")
            await self._until_free()
        ends.cancel()
        await gone
        return True

    def _why_not_in(self, error: BaseException) -> str:
        cause = error.__cause__ or error
        if "name taken" in str(cause):
            return (
                f"The fleet has a host called {self._name}: another host (use --name), or an old connection"
                " of this one."
            )
        return f"{self._address} does not accept this host: {cause}"

    async def _until_free(self) -> None:
        """Wait until no order is under way."""
        while self._plugin.is_busy:
            await asyncio.sleep(_LOOK_S)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ends.wait(), seconds)

    def _print_once(self, text: str) -> None:
        if text != self._said:
            self._say(text)
        self._said = text


def run_box(
    address: str,
    name: str,
    security: Any,
    facts: Mapping[str, Any],
    plugin: BoxPlugin,
    say: Callable[[str], None],
) -> None:
    """Run the worker of the host *name*, in the fleet whose scheduler is at *address*, until a signal.

    Raises:
        ConfigError: the scheduler refuses this host.
    """

    async def run() -> None:
        await BoxWorker(address, name, security, facts, plugin, say).run()

    asyncio.run(run())
