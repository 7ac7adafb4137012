"""The wiring of a fleet: workers on hosts, scheduler, coordinator.

It checks once whether the packages distributed and cryptography are installed.
"""

from __future__ import annotations

import pickle
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.domain.fleet import BoxFacts, Order
from tuner.core.domain.layout import whole_cores
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.errors import ConfigError, MissingToolError, TunerError
from tuner.core.text.address import SchedulerAddress, check_open, parse_scheduler

if TYPE_CHECKING:
    from tuner.adapters.fleet.dask_fleet import DaskFleet
    from tuner.config.settings import Settings

_FILES = ("ca.pem", "fleet.pem", "fleet.key")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BoxThere:
    """A host according to its scheduler."""

    name: str
    host: str
    cores: float
    tuner: str  #: version of tuner on the host
    is_busy: bool
    seen_s_ago: float
    address: str


def be_box(address: str, name: str | None, certs: Path | None, say: Say, *, is_forced: bool) -> None:
    """Run as a host of the fleet whose scheduler is at *address*, until a signal ends it.

    Raises:
        ConfigError: the address or the certificates cannot be used, or this host is in a fleet already.
    """
    where = _scheduler(address, certs, is_forced=is_forced)
    from tuner.adapters.fleet.box_plugin import BoxPlugin
    from tuner.adapters.fleet.box_worker import run_box
    from tuner.adapters.fleet.scheduler import keep_quiet, security_of
    from tuner.adapters.host_lock import hold_host, in_fleet, usual_path
    from tuner.bootstrap.fleet_order import making_of, provenance_of

    name = name or platform.node()
    lock = usual_path()
    with hold_host(f"host {name} of {where}", lock.with_name(f"{lock.name}.fleet"), taken=in_fleet):
        keep_quiet()
        run_box(
            str(where), name, security_of(certs), _facts(name, lock), BoxPlugin(making_of, provenance_of), say
        )


def be_scheduler(host: str, port: int, certs: Path | None, say: Say, *, is_forced: bool) -> None:
    """Run the scheduler of a fleet until a signal ends it.

    Raises:
        ConfigError: the address cannot be used, or anyone could reach it without a certificate.
    """
    from tuner.core.text.address import listening_at

    _needs_dask()
    address = listening_at(host, port)
    where = SchedulerAddress(address, certs is not None)
    check_open(where, has_certs=certs is not None, is_forced=is_forced)
    _check_certs(certs)
    from tuner.adapters.fleet.scheduler import keep_quiet, run_scheduler, security_of

    keep_quiet()
    run_scheduler(address, security_of(certs), say)


def new_certificates(folder: Path, hosts: Sequence[str]) -> list[Path]:
    """Create the keys of a fleet, and return the files.

    Raises:
        ConfigError: the files cannot be written, or exist already.
    """
    _needs_dask()
    from tuner.adapters.fleet.certificates import write_certificates

    return write_certificates(folder, hosts)


def connected_hosts(address: str, certs: Path | None, *, is_forced: bool) -> list[BoxThere]:
    """Return the hosts now connected to the scheduler at *address*, sorted by name.

    Raises:
        ConfigError: the scheduler does not answer, or refuses access.
    """
    import asyncio
    import time

    where = _scheduler(address, certs, is_forced=is_forced)
    from tuner.adapters.fleet.box_worker import FACTS
    from tuner.adapters.fleet.scheduler import keep_quiet, security_of

    keep_quiet()
    found = asyncio.run(_answer(where, security_of(certs)))["workers"]
    said = [(there, one, one[FACTS]) for there, one in found.items() if FACTS in one]
    boxes = [
        BoxThere(
            name=facts["name"],
            host=facts["provenance"].get("host", ""),
            cores=float(facts["cores"]),
            tuner=facts["provenance"].get("tuner", ""),
            is_busy=any(one["metrics"]["task_counts"].values()),
            seen_s_ago=max(0.0, time.time() - one["last_seen"]),
            address=there,
        )
        for there, one, facts in said
    ]
    return sorted(boxes, key=lambda box: box.name)


def first_box(
    address: str, certs: Path | None, settings: Settings | None, *, is_forced: bool = False
) -> tuple[BoxFacts, int]:
    """Return a representative host of the fleet at *address*, and the number of hosts.

    *settings* are used to read facts about the workers' interpreters on it; None: these are not read.

    Raises:
        ConfigError: the scheduler does not answer or refuses access, no host is connected, or none can use
            *settings*.
    """
    found = connected_hosts(address, certs, is_forced=is_forced)
    if not found:
        raise ConfigError(
            f"no host is connected to {address}",
            hint=f"Run on each host: tuner box {address}, with the same --certs.",
        )
    usual = Counter(box.cores for box in found).most_common(1)[0][0]
    alike = sorted((box for box in found if box.cores == usual), key=lambda box: box.is_busy)
    if settings is None:
        one = alike[0]
        return BoxFacts(one.name, one.cores, Provenance(host=one.host, tuner=one.tuner)), len(found)
    from tuner.adapters.fleet.dask_fleet import ask_host
    from tuner.adapters.fleet.scheduler import security_of

    cores = settings.study.cores or whole_cores(usual)
    where = str(_scheduler(address, certs, is_forced=is_forced))
    problem: TunerError | None = None
    for one in alike:  # a host that cannot use the configuration is skipped, unless none can
        try:
            reported = ask_host(where, security_of(certs), one.address, pickle.dumps((settings, cores)))
        except TunerError as error:
            problem = problem or error
        else:
            return BoxFacts(one.name, one.cores, Provenance.from_mapping(reported)), len(found)
    assert problem is not None
    raise problem


@contextmanager
def fleet_of(
    address: str,
    certs: Path | None,
    record: StudyRecord,
    settings: Settings | None,
    study: str,
    *,
    is_forced: bool = False,
    began_wall_s: float | None = None,
) -> Iterator[DaskFleet]:
    """Open the fleet at *address* for the study *record*; real hosts get *settings*, including secrets.

    Args:
        study: the name of the study, which the hosts' locks show.
        began_wall_s: wall time at which a simulated study continues; None: its time of creation.

    Raises:
        ConfigError: the scheduler does not answer, or does not let us in.
    """
    import asyncio

    where = _scheduler(address, certs, is_forced=is_forced)
    from tuner.adapters.fleet.dask_fleet import DaskFleet, VirtualDaskFleet
    from tuner.adapters.fleet.scheduler import keep_quiet, security_of
    from tuner.bootstrap.fleet_order import FleetOrder
    from tuner.study.fleet.remote_launch import report_interval_s

    keep_quiet()
    security, simulated = security_of(certs), is_simulated(record)
    asyncio.run(_answer(where, security))

    def asks(order: Order, at_wall_s: float, n_boxes: int) -> bytes:
        seen = None if simulated else settings
        return pickle.dumps(FleetOrder(order, record, seen, study, at_wall_s, report_interval_s(n_boxes)))

    def simulating(facts: BoxFacts) -> BoxFacts:
        """Return the facts of a simulated host: the study's cores, and no clock offset."""
        return replace(facts, cores=record.box_cores, ahead_s=0.0)

    if not simulated:
        with DaskFleet(str(where), security, asks, facts_of=lambda facts: facts) as fleet:
            yield fleet
        return
    began_s = record.created_wall_s if began_wall_s is None else began_wall_s
    with VirtualDaskFleet(str(where), security, asks, facts_of=simulating, began_wall_s=began_s) as fleet:
        yield fleet


async def _answer(where: SchedulerAddress, security: Any) -> dict[str, Any]:
    from tuner.adapters.fleet.scheduler import answer_of

    try:
        return await answer_of(str(where), security)
    except OSError as error:
        raise ConfigError(
            f"no scheduler answers at {where}: {error}",
            hint="Start one there: tuner fleet scheduler --host HOST --certs DIR",
        ) from error


def _scheduler(text: str, certs: Path | None, *, is_forced: bool) -> SchedulerAddress:
    _needs_dask()
    where = parse_scheduler(text, has_certs=certs is not None, is_forced=is_forced)
    _check_certs(certs)
    return where


def _needs_dask() -> None:
    for package in ("distributed", "cryptography"):
        if find_spec(package) is None:
            raise MissingToolError(f"{package} is not installed", hint="Type: pip install 'proctuner[fleet]'")


def _check_certs(certs: Path | None) -> None:
    """Check that the certificate files can be read; the connection checks their content."""
    if certs is None:
        return
    for name in _FILES:
        try:
            with open(certs / name, "rb"):
                pass
        except OSError as error:
            raise ConfigError(
                f"cannot read {certs / name}: {error.strerror}",
                hint="Create them with `tuner fleet certs DIR`, then copy the folder to every host.",
            ) from error


def _facts(name: str, lock: Path) -> dict[str, Any]:
    from tuner.adapters.proc.cores import usable_cores
    from tuner.adapters.provenance import provenance

    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return {
        "name": name,
        "cores": usable_cores().count,
        "provenance": provenance(),
        "identity": [platform.node(), boot_id, str(lock)],
    }
