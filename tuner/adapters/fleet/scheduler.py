"""Dask scheduler that connects the coordinator and the hosts of a fleet and stores nothing."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable
from typing import Any

from distributed import Scheduler, rpc
from distributed.comm.core import FatalCommClosedError

from tuner.core.errors import ConfigError
from tuner.core.text.address import Address

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class FleetScheduler(Scheduler):
    """Dask's scheduler without its web server."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start no web server."""


def run_scheduler(address: Address, security: Any, ready: Callable[[str], None]) -> None:
    """Run the scheduler at *address* until a signal; call *ready* with its final address.

    Raises:
        ConfigError: it cannot listen there.
    """
    asyncio.run(_serve(address, security, ready))


async def _serve(address: Address, security: Any, ready: Callable[[str], None]) -> None:
    loop, ends = asyncio.get_running_loop(), asyncio.Event()
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # HUP, ignored by nohup
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


# Single query to a scheduler, without becoming its client.


ANSWERS_WITHIN_S = 10.0
_NO_ANSWER = (TimeoutError, asyncio.CancelledError)  #: as asyncio tells that time is over


async def answer_of(address: str, security: Any) -> dict[str, Any]:
    """Return the facts of the scheduler at *address* and of its workers.

    Raises:
        OSError: it does not answer, which may be temporary.
        ConfigError: the server is not a scheduler, or does not accept our certificates.
    """
    arguments = security.get_connection_args("client")
    scheduler = rpc(address, timeout=ANSWERS_WITHIN_S, connection_args=arguments)
    try:
        found = await asyncio.wait_for(scheduler.identity(n_workers=-1), ANSWERS_WITHIN_S + 1)
    except FatalCommClosedError as error:
        raise ConfigError(
            f"{address} does not accept these certificates, or is not encrypted: {_cause(error)}",
            hint="All hosts, the scheduler and the coordinator need the keys of one folder (tuner"
            " fleet certs).",
        ) from error
    except TimeoutError as error:
        raise OSError("no answer") from error
    except OSError as error:
        raise OSError(_cause(error)) from error
    finally:
        await scheduler.close_rpc()
    if not isinstance(found, dict) or found.get("type") is None:
        raise ConfigError(f"{address} is no scheduler of a fleet", hint="Start one: tuner fleet scheduler")
    return found


def _cause(error: BaseException) -> str:
    """Return the last line of an error that Dask wraps several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    return "no answer" if isinstance(error, _NO_ANSWER) else str(error).strip() or type(error).__name__
