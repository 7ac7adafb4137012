"""Open files, processes, threads and disk space that a study needs, compared with the limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.text.figures import render_size
from tuner.doctor.service import Finding, PortSeen, blocking, doubtful, fine, port_finding

#: A worker process of the crash processor with six threads had up to 51 open files: six pipe ends and
#: /dev/null for each child that starts, and the locks of its items (bench/room.py).
_FILES_PER_PROCESS, _FILES_PER_THREAD = 10, 7
_FEWEST_FILES_PER_THREAD = 3
#: processes and threads of tuner, supervisord, guardian, feeder and probe
_TASKS_OF_TUNER = 16
#: A second of a launch takes 50 bytes (simulated, windows of 20 s to 10 minutes) to 208 bytes (measured,
#: windows of 20 s) of a study's file; an empty file has 82 kB (bench/room.py).
_BYTES_PER_S, _BYTES_OF_FILE = 250, 100_000
_WARMUP_S = 60.0  #: start, warm-up and stop of a launch
#: assumed launches per layout of a race without a budget; a race may stop after 2, and makes more of the best
#: layouts
_LAUNCHES_OF_A_RACE = 20
#: A synthetic crash takes 27 kB of the spool (100 were filled in), and its dump exists twice while the spool
#: is filled; all symbols are 4.5 to 4.9 times as large as the largest file of them (5.6 MB and 560 kB).
_BYTES_PER_ITEM, _SYMBOL_FILES, _BYTES_OF_SMALL_SYMBOLS = 54_000, 5, 200_000
#: size of the largest symbol file that `crash-processor fill` makes by default
LARGEST_SYMBOLS_BYTES = 560_000
#: A copy of a dump has a folder, annotations and a queue entry (50 copies of 5 dumps filled in: 8.6 kB each).
_BYTES_BESIDE_DUMP, _BLOCK_BYTES = 9_000, 4096
LOGS_BYTES = 100 * 1024**2  #: reserve for the logs of the service, whose size is not known in advance


@dataclass(frozen=True, slots=True)
class Needed:
    """Resources that the largest of the layouts needs."""

    of_supervisord: int  #: files that supervisord keeps open
    of_worker: int  #: approximate number of files that one worker process may have open
    of_generator: int  #: connections of the load generator; 0: no generator
    tasks: int  #: processes and threads, including children and tuner's own
    largest: Layout  #: layout with the most tasks


def sum_needs(
    layouts: Sequence[Layout],
    *,
    extra_threads: int,
    has_children: bool,
    of_supervisord: int,
    of_generator: int,
) -> Needed:
    """Return the largest resources that one of *layouts* may need.

    Args:
        layouts: One or more layouts.
        extra_threads: Threads of each process in addition to those of the layout.
        has_children: Whether each thread starts child processes, one at a time.
        of_supervisord: Open files of supervisord with the largest number of programs.
        of_generator: Simultaneous connections of the load generator.
    """

    def tasks(layout: Layout) -> int:
        children = layout.total_threads if has_children else 0
        return layout.processes * (1 + extra_threads) + layout.total_threads + children

    largest = max(layouts, key=tasks)
    threads = max(layout.threads for layout in layouts)
    return Needed(
        of_supervisord=of_supervisord,
        of_worker=_FILES_PER_PROCESS + _FILES_PER_THREAD * threads,
        of_generator=of_generator,
        tasks=tasks(largest) + _TASKS_OF_TUNER,
        largest=largest,
    )


@dataclass(frozen=True, slots=True)
class TaskLimit:
    """A limit on processes and threads together."""

    name: str  #: source of the limit, as printed
    most: int
    used: int  #: present number of tasks that count against it


@dataclass(frozen=True, slots=True)
class LimitsSeen:
    """Limits of this process and of the workers; None: no limit."""

    files: int | None  #: soft limit, which applies to workers
    files_hard: int | None  #: hard limit, to which supervisord and the load generator raise their own limits
    tasks: tuple[TaskLimit, ...]


def limits_findings(seen: LimitsSeen, need: Needed) -> Iterator[Finding]:
    """Yield the findings whether the largest layout keeps the limits."""
    yield _files(seen, need)
    yield _tasks(seen, need)


def too_large(need: Needed, seen: LimitsSeen) -> str | None:
    """Return the reason, as part of a sentence, why the layout of *need* cannot be launched, or None.

    The number of files is a lower bound: a request and two connections per thread.
    """
    files = _FILES_PER_PROCESS + _FEWEST_FILES_PER_THREAD * need.largest.threads
    if seen.files is not None and files > seen.files:
        return f"a process of {need.largest} needs {files} open files or more, and {seen.files} is the most"
    blocked = [one for one in limits_findings(seen, need) if one.level == "blocker"]
    return f"{need.largest} does not fit: {blocked[0].found}" if blocked else None


@dataclass(frozen=True, slots=True)
class Planned:
    """Properties of a study that determine the size of its file."""

    n_layouts: int
    n_blocks: int  #: 0: the study is a race
    windows_per_launch: int
    window_s: float
    budget_s: float | None


def study_bytes(planned: Planned) -> int:
    """Estimate the size of the study's file in bytes; the estimate is rather too large."""
    launches = planned.n_layouts * (planned.n_blocks or _LAUNCHES_OF_A_RACE)
    seconds = launches * (_WARMUP_S + planned.windows_per_launch * planned.window_s)
    if planned.budget_s is not None:
        seconds = min(seconds, planned.budget_s) if planned.n_blocks else planned.budget_s
    return round(_BYTES_OF_FILE + _BYTES_PER_S * seconds)


def synthetic_spool_bytes(n_items: int, symbols_bytes: int = LARGEST_SYMBOLS_BYTES) -> int:
    """Estimate the bytes of the built-in service's spool; *symbols_bytes*: of its largest symbol file."""
    return _BYTES_PER_ITEM * n_items + _SYMBOL_FILES * symbols_bytes + _BYTES_OF_SMALL_SYMBOLS


def copied_spool_bytes(dumps_bytes: Sequence[int], n_copies: int) -> int:
    """Estimate the bytes of a spool of *n_copies* copies of each dump; symbols are only linked."""
    blocks = (-(-size // _BLOCK_BYTES) * _BLOCK_BYTES for size in dumps_bytes)
    return n_copies * sum(size + _BYTES_BESIDE_DUMP for size in blocks)


@dataclass(frozen=True, slots=True)
class FolderSeen:
    """A folder that a study writes to."""

    path: str
    what: str  #: description of the data written there
    needed_bytes: int  #: approximate; 0: unknown
    free_bytes: int | None  #: free space for this user; None: the folder does not exist
    can_write: bool
    disk: int = 0  #: id of its disk (st_dev); folders on one disk share its free space
    has_logs: bool = False  #: whether launches write logs to it


def disk_findings(folders: Iterable[FolderSeen]) -> Iterator[Finding]:
    """Yield a finding for each unusable folder, then one per disk: whether its free space suffices."""
    by_disk: dict[int, list[FolderSeen]] = {}
    for seen in folders:
        if seen.free_bytes is None or not seen.can_write:
            yield _unusable(seen)
        else:
            by_disk.setdefault(seen.disk, []).append(seen)
    yield from map(_disk, by_disk.values())


def _unusable(seen: FolderSeen) -> Finding:
    why = "is not there" if seen.free_bytes is None else "cannot be written"
    return blocking(
        "disk",
        f"{seen.path} {why}",
        f"{seen.what} cannot be kept",
        "Create it or make it writable, or use another folder (--study, TMPDIR).",
    )


def _disk(folders: Sequence[FolderSeen]) -> Finding:
    """Return the finding about the free space of the disk that has all *folders*."""
    free_bytes = min(seen.free_bytes or 0 for seen in folders)
    needed_bytes = sum(seen.needed_bytes for seen in folders)
    logs_bytes = LOGS_BYTES if any(seen.has_logs for seen in folders) else 0
    places = " and ".join(dict.fromkeys(seen.path for seen in folders))
    found = f"{_size(free_bytes)} free in {places}{''.join(map(_describe_need, folders))}"
    if free_bytes < needed_bytes:
        return blocking("disk", found, "the study will stop when the disk is full", "Make room there.")
    if free_bytes < needed_bytes + logs_bytes:
        return doubtful(
            "disk",
            found,
            f"less than {_size(LOGS_BYTES)} is left for logs of the service; the study ends when it is full",
            "Make room there.",
        )
    return fine("disk", found)


def _describe_need(seen: FolderSeen) -> str:
    if seen.needed_bytes:
        return f"; {seen.what}: about {_size(seen.needed_bytes)}"
    return f"; {seen.what} in addition" if seen.has_logs else f"; {seen.what}: no further space"


def _files(seen: LimitsSeen, need: Needed) -> Finding:
    hard = _limit(seen.files_hard)
    if seen.files_hard is not None and need.of_supervisord > seen.files_hard:
        return blocking(
            "open-files",
            f"at most {hard}; supervisord needs {need.of_supervisord} for the layout of most processes",
            "that layout cannot be launched",
            "Raise it: ulimit -Hn, or LimitNOFILE= of the unit.",
        )
    if seen.files_hard is not None and need.of_generator > seen.files_hard:
        return blocking(
            "open-files",
            f"at most {hard}; the load generator opens {need.of_generator} connections",
            "requests fail for want of files, and count as failed",
            "Raise it: ulimit -Hn, or LimitNOFILE= of the unit.",
        )
    found = f"{_limit(seen.files)}; a worker process of most threads may need about {need.of_worker}"
    if seen.files is not None and need.of_worker > seen.files:
        return doubtful(
            "open-files",
            found,
            "layouts of many threads fail, or count failed items",
            "Raise it: ulimit -n, LimitNOFILE= of the unit, or limits: {nofile: ...} in the config.",
        )
    return fine("open-files", found)


def _tasks(seen: LimitsSeen, need: Needed) -> Finding:
    wanted = f"{need.largest} needs about {need.tasks}"
    if not seen.tasks:
        return fine("processes", f"no limit; {wanted}")
    tightest = min(seen.tasks, key=lambda limit: limit.most - limit.used)
    left = max(0, tightest.most - tightest.used)
    found = f"{left} processes and threads left of {tightest.most} ({tightest.name}); {wanted}"
    if left < need.tasks:
        return blocking(
            "processes",
            found,
            f"{need.largest} cannot start all its threads: its launches fail, or children and items do",
            f"Raise {tightest.name}, or leave such layouts out (--layouts).",
        )
    if left < 2 * need.tasks:
        return doubtful(
            "processes",
            found,
            "the number of other processes of the service is unknown; items fail if they reach the limit",
            f"Raise {tightest.name}.",
        )
    return fine("processes", found)


def _limit(value: int | None) -> str:
    return "no limit" if value is None else str(value)


def _size(size: int) -> str:
    return render_size(max(1000, size))


@dataclass(frozen=True, slots=True)
class Room:
    """Resources needed and available. They are cheap to read, so a study also checks them at its start."""

    need: Needed
    limits: LimitsSeen
    folders: tuple[FolderSeen, ...]
    ports: tuple[PortSeen, ...]


def room_findings(room: Room) -> Iterator[Finding]:
    """Yield the findings about limits, disk space and ports."""
    yield from limits_findings(room.limits, room.need)
    yield from disk_findings(room.folders)
    yield from map(port_finding, room.ports)
