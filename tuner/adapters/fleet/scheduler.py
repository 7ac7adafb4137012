"""The scheduler of a fleet: brings coordinator and boxes together, and keeps nothing."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable
from typing import Any

from distributed import Scheduler

from tuner.core.errors import ConfigError
from tuner.core.text.address import Address

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class FleetScheduler(Scheduler):
    """Dask's, without its web server."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Nobody looks, and nobody is to."""


def run_scheduler(address: Address, security: Any, ready: Callable[[str], None]) -> None:
    """Be the scheduler at *address* until a signal says to end; *ready* gets where it is.

    Raises:
        ConfigError: nobody can listen there.
    """
    asyncio.run(_serve(address, security, ready))


async def _serve(address: Address, security: Any, ready: Callable[[str], None]) -> None:
    loop, ends = asyncio.get_running_loop(), asyncio.Event()
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's HUP
            loop.add_signal_handler(number, ends.set)
    scheme = "tls" if security.require_encryption else "tcp"
    host = f"[{address.host}]" if ":" in address.host else address.host
    scheduler = FleetScheduler(
        host=f"{scheme}://{host}", port=address.port, security=security, dashboard=False
    )
    try:
        await scheduler
    except (RuntimeError, OSError) as error:
        cause = error.__cause__ or error
        if isinstance(cause, OSError):
            what = "is taken" if cause.errno == errno.EADDRINUSE else f"cannot be listened at: {cause}"
            raise ConfigError(f"{address} {what}", hint="Name another: --host, --port") from error
        raise
    ready(scheduler.address)
    finished = asyncio.ensure_future(scheduler.finished())  # type: ignore[no-untyped-call]
    ending = asyncio.ensure_future(ends.wait())
    await asyncio.wait({finished, ending}, return_when=asyncio.FIRST_COMPLETED)
    await scheduler.close(reason="told to end")
    ending.cancel()
