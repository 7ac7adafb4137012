"""Asking a scheduler who is there, once, without becoming a client of it."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed import rpc
from distributed.comm.core import FatalCommClosedError

from tuner.core.errors import ConfigError

ANSWERS_WITHIN_S = 10.0
_NO_ANSWER = (TimeoutError, asyncio.CancelledError)  #: as asyncio tells that time is over


async def answer_of(address: str, security: Any) -> dict[str, Any]:
    """What the scheduler at *address* says of itself and of its workers.

    Raises:
        OSError: nobody answers, which may change.
        ConfigError: somebody does, who is no scheduler or does not accept our certificates.
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
    """The last line of what Dask wraps several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    return "no answer" if isinstance(error, _NO_ANSWER) else str(error).strip() or type(error).__name__
