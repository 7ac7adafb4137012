"""Dask settings that disable retries and unneeded monitoring."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import dask

if TYPE_CHECKING:
    from distributed.security import Security

CA, CERTIFICATE, KEY = "ca.pem", "fleet.pem", "fleet.key"  #: in a folder of certificates
WORKER_TTL_S = 15.0  #: who was not heard for that long is gone; looked at as often
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
