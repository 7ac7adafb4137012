"""Limits on worker processes, free space of folders, and ports in the config."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.adapters.proc.cgroup import kernel_lines
from tuner.adapters.proc.cores import group_name, groups_above
from tuner.core.domain.service import ServiceSpec
from tuner.core.text.address import bound_ports
from tuner.doctor.room import FolderSeen, LimitsSeen, TaskLimit
from tuner.doctor.service import PortSeen

if TYPE_CHECKING:
    from tuner.config.settings import Settings


def read_limits(
    asked: Mapping[str, int],
    uid: int,
    *,
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
) -> LimitsSeen:
    """Return the limits for workers of the user *uid*; *asked* are the limits that a config sets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LimitsSeen(
        files=asked.get("nofile", _finite(soft)),
        files_hard=_finite(hard),
        tasks=tuple(_task_limits(asked, uid, proc, sys / "fs" / "cgroup")),
    )


def read_folder(folder: Path, what: str, needed_bytes: int, *, has_logs: bool = False) -> FolderSeen:
    """Return the disk space that is free in *folder* for users other than root."""
    try:
        room, disk = os.statvfs(folder), folder.stat().st_dev
    except OSError:
        return FolderSeen(str(folder), what, needed_bytes, None, can_write=False)
    if not folder.is_dir():
        return FolderSeen(str(folder), what, needed_bytes, None, can_write=False)
    free_bytes = room.f_bavail * room.f_frsize
    can_write = os.access(folder, os.W_OK | os.X_OK)
    return FolderSeen(str(folder), what, needed_bytes, free_bytes, can_write, disk, has_logs)


def temporary_folder() -> Path:
    """Return the folder for temporary files, without writing a file to test it as `tempfile` does."""
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    for folder in (*filter(None, named), "/tmp", "/var/tmp", "/usr/tmp"):
        if os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    return Path.cwd()


def _task_limits(asked: Mapping[str, int], uid: int, proc: Path, cgroup: Path) -> Iterator[TaskLimit]:
    most = asked.get("nproc", _finite(resource.getrlimit(resource.RLIMIT_NPROC)[0]))
    if most is not None and uid != 0:  # root is exempt (kernel/fork.c)
        yield TaskLimit("ulimit -u", most, _tasks_of(uid, proc))
    for _, folder, root in groups_above("pids", proc=proc, cgroup=cgroup):
        reported, used = _number(folder / "pids.max"), _number(folder / "pids.current")
        if reported is not None and used is not None:
            yield TaskLimit(f"pids.max of cgroup {group_name(folder, root)}", reported, used)
    used = _tasks_of_box(proc)
    for name in ("threads-max", "pid_max"):
        reported = _number(proc / "sys/kernel" / name)
        if reported is not None and used is not None:
            yield TaskLimit(f"kernel.{name}", reported, used)


def _tasks_of(uid: int, proc: Path) -> int:
    """Count the processes and threads of a user that are visible in /proc."""
    n_tasks = 0
    for name in os.listdir(proc):
        if name.isdigit():
            with suppress(OSError, KeyError):  # the process has ended
                lines = kernel_lines(proc / name / "status")
                data = dict(line.split(":", 1) for line in lines if ":" in line)
                if int(data["Uid"].split()[0]) == uid:
                    n_tasks += int(data["Threads"])
    return n_tasks


def _tasks_of_box(proc: Path) -> int | None:
    with suppress(OSError, IndexError, ValueError):  # 0.01 0.02 0.00 RUNNING/ALL LAST
        return int((proc / "loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])
    return None


def _number(file: Path) -> int | None:
    """Read an integer; None if the file cannot be read or contains ``max``."""
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return None


def _finite(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


# The addresses that a config names, and those on this host.


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """An address in the config, with its key."""

    key: str
    host: str
    port: int


def check_ports(settings: Settings, spec: ServiceSpec) -> Iterator[PortSeen]:
    """Yield the ports of this host at which the service, or a proxy in front of it, should listen."""
    named = {(one.host, one.port): one for one in reversed(list(named_places(settings)))}
    if not named:
        return
    from tuner.doctor.around import local_address, who_listens

    bound = bound_ports([word for one in spec.each_variant for word in one.command])
    for one in reversed(named.values()):
        address = local_address(one.host, one.port)
        if address is not None:
            yield PortSeen(
                address=str(address),
                named_by=one.key,
                is_bound_by_command=one.port in bound,
                is_elsewhere=bool(bound) and one.port not in bound,
                listener=who_listens(address),
            )


def named_places(settings: Settings) -> Iterator[NamedPlace]:
    """Yield the addresses to which the feeder sends, and those that ready checks test."""
    service = settings.service
    if service.kind != "script":
        return
    for key, (host, port) in service.feeder.places.items():
        yield NamedPlace(f"service.feeder.{key}", host, port)
    variants = [settings.service_in(name) for name in service.variants] or [service]
    for one in variants:
        for key, (host, port) in one.ready.places.items() if one.ready is not None else ():
            yield NamedPlace(f"service.ready.{key}", host, port)
