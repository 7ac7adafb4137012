"""Dask scheduler that connects the coordinator and the hosts of a fleet and stores nothing."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
from distributed import Scheduler, rpc
from distributed.comm.core import FatalCommClosedError

from tuner.core.errors import ConfigError
from tuner.core.text.address import Address

if TYPE_CHECKING:
    from distributed.security import Security

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
_NO_ANSWER = (TimeoutError, asyncio.CancelledError)  #: the exceptions of a timeout in asyncio


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


# Dask settings that disable retries and unneeded monitoring.


CA, CERTIFICATE, KEY = "ca.pem", "fleet.pem", "fleet.key"  #: file names in a folder of certificates
#: time without a sign of life after which a worker counts as gone; also the interval of that check
WORKER_TTL_S = 15.0
_SETTINGS = {
    # leave a measured host undisturbed: Dask's defaults use 2.8 % of a core
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "2s",
    "distributed.admin.tick.cycle": "60s",
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.system-monitor.log-length": 2,
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.diagnostics.nvml": False,
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.active-memory-manager.start": False,
    # an order is for one host and is executed once; only the coordinator repeats orders
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": f"{WORKER_TTL_S}s",
    # events carry windows; the scheduler stores this many for each coordinator
    "distributed.admin.low-level-log-length": 10,
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "30s",
}


def keep_quiet() -> None:
    """Apply these settings to this process; call it before distributed creates any object."""
    import distributed  # noqa: F401 - its own defaults first  # its own defaults first

    dask.config.set(_SETTINGS)
    for name in ("distributed", "distributed.client", "distributed.gc"):  # tuner prints what matters
        logging.getLogger(name).setLevel(logging.CRITICAL)


def security_of(certs: Path | None) -> Security:
    """Return the TLS settings: only holders of keys from *certs* may connect; without a folder, everyone."""
    from distributed.security import Security

    if certs is None:
        return Security(require_encryption=False)
    ca, certificate, key = (str(certs / name) for name in (CA, CERTIFICATE, KEY))
    return Security(
        require_encryption=True,
        tls_ca_file=ca,
        tls_client_cert=certificate,
        tls_client_key=key,
        tls_scheduler_cert=certificate,
        tls_scheduler_key=key,
        tls_worker_cert=certificate,
        tls_worker_key=key,
    )
