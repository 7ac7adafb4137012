"""Counters of finished items in a worker, in memory that tuner reads from outside.

Each process has one memory-mapped file, each thread one slot in it. Standard library only, Python 3.8 or
newer, no import from tuner: this file may be copied into any interpreter. Only it defines the byte layout::

    header (64 bytes)   0  magic b"tunercnt", written last: while it is 0 the file is being created
                        8  version of this layout
                       16  pid of the process that writes
                       24  its start time in clock ticks since boot (field 22 of /proc/PID/stat)
                       32  slots handed out so far; the file is large enough for them
                       40  bytes of a slot
    slot 0, 1, ...      0  items done                    8  items failed
    (64 bytes each)    16  CPU of the Python code, ns   24  CPU of children, ns   32  time waited, ns

All are unsigned 64-bit words of this machine's byte order, aligned, so that each is stored and read in one
piece. A slot has one writer and its words only grow. The pages belong to the file, not to the process, so all
stored counts survive any end of the process. At most the current item of each thread is missing.

A server that forks from C without telling Python (uWSGI without ``--py-call-osafterfork``) must open the
counter in its workers: no hook runs in the child then, and its parent's slot would have two writers.
"""

from __future__ import annotations

import collections
import contextlib
import mmap
import os
import sys
import threading
import weakref
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Set

DIRECTORY_VARIABLE = "TUNER_COUNTER_DIR"  #: environment variable with the folder of counter files
SUFFIX = ".counter"  #: suffix of counter files; other files are ignored
VERSION = 1

_MAGIC = int.from_bytes(b"tunercnt", sys.byteorder)
_WORD_BYTES = 8
_SLOT_WORDS = 8
_SLOT_BYTES = _SLOT_WORDS * _WORD_BYTES
_HEADER_BYTES = 64
_HEADER_WORDS = _HEADER_BYTES // _WORD_BYTES
_PAGE_BYTES = mmap.ALLOCATIONGRANULARITY  # a file grows by this much, and each page has a separate mapping
_MOST_SLOTS = 1 << 16  # of a process; a damaged file may contain any number, and may have a hole of that size
_MAGIC_WORD, _VERSION_WORD, _PID_WORD, _START_WORD, _N_SLOTS_WORD, _SLOT_BYTES_WORD = range(6)


class CounterError(Exception):
    """A counter that cannot be written or read; the text has its path and the reason."""


class Totals(NamedTuple):
    """The sums over all processes of a folder, running or ended."""

    n_done: int
    n_failed: int
    python_cpu_ns: int
    child_cpu_ns: int
    waiting_ns: int
    n_slots: int  #: slots handed out; a new thread may reuse the slot of an ended one
    n_processes: int  #: processes that have at least one slot


# ---------------------------------------------------------------------------------------------- counting


class Slot:
    """The counters of one thread. Use it in one thread at a time: it has no lock.

    A slot, or one of its functions kept alone, stays valid after a fork: in the child it counts into the
    child's file, beginning at 0.
    """

    __slots__ = ("add_stages", "done", "failed")

    done: Callable[[], None]  #: count one item that succeeded
    failed: Callable[[], None]  #: count one item that failed; do not call done() for it
    add_stages: Callable[
        [int, int, int], None
    ]  #: add (python_cpu_ns, child_cpu_ns, waiting_ns), none negative

    def __init__(self, lease: _Lease) -> None:
        self.done, self.failed, self.add_stages = lease.functions()


class _Lease:
    """The right to write one slot. Once the slot's functions are no longer referenced, the slot is free."""

    __slots__ = ("__weakref__", "bind", "free", "index")

    def __init__(self) -> None:
        self.bind: Callable[[Any], None]  # make the functions write to this view, starting at its totals
        self.index = -1
        self.free: Optional[Deque[int]] = None  # list to return the slot to; None before it has one

    def __del__(self) -> None:
        if self.free is not None:
            self.free.append(self.index)  # one atomic step: this may run in any thread, at any moment

    def functions(self) -> Any:
        # Closures over an int and a memoryview; other ways cost more (bench/counter.py). The int changes
        # before the store, because the store may replace the view after a fork (_Unborn).
        view: Any = None
        n_done = n_failed = python_cpu_ns = child_cpu_ns = waiting_ns = 0

        def done() -> None:
            nonlocal n_done
            n_done += 1
            view[0] = n_done

        def failed() -> None:
            nonlocal n_failed
            n_failed += 1
            view[1] = n_failed

        def add_stages(python_cpu: int, child_cpu: int, waiting: int) -> None:
            nonlocal python_cpu_ns, child_cpu_ns, waiting_ns
            python_cpu_ns += python_cpu
            view[2] = python_cpu_ns
            child_cpu_ns += child_cpu
            view[3] = child_cpu_ns
            waiting_ns += waiting
            view[4] = waiting_ns

        def bind(new_view: Any) -> None:
            nonlocal view, n_done, n_failed, python_cpu_ns, child_cpu_ns, waiting_ns
            n_done, n_failed, python_cpu_ns, child_cpu_ns, waiting_ns = (new_view[word] for word in range(5))
            view = new_view

        self.bind = bind
        for function in (done, failed, add_stages):
            function.__dict__["lease"] = self  # a reference to a function keeps the slot
        return done, failed, add_stages


class _Unborn:
    """Placeholder for a forked child's slot until the child counts; a child that never counts has no file."""

    def __init__(self, counter: Counter, lease: _Lease) -> None:
        self._counter = counter
        self._lease = lease

    def __getitem__(self, word: int) -> int:
        return 0

    def __setitem__(self, word: int, value: int) -> None:
        view = self._counter._place(self._lease)
        view[word] += value  # a reused slot has totals already
        self._lease.bind(view)


class _Slots:
    """The slots of one process, in a file or anonymous memory that grows page by page."""

    def __init__(self, directory: Optional[str]) -> None:
        self.free: Deque[int] = collections.deque()
        self._views: List[Any] = []
        self._n_slots = 0
        self._path = None if directory is None else _new_file(directory)
        self._map_next_page()
        header = self._views[0]
        header[_VERSION_WORD] = VERSION
        header[_PID_WORD] = os.getpid()
        header[_START_WORD] = 0 if directory is None else _start_time("self")
        header[_SLOT_BYTES_WORD] = _SLOT_BYTES
        header[_MAGIC_WORD] = _MAGIC

    def place(self, lease: _Lease) -> Any:
        """Give *lease* a slot, preferably a freed one, and return its view."""
        try:
            index = self.free.popleft()
        except IndexError:
            index = self._new_slot()
        lease.index, lease.free = index, self.free
        offset_bytes = _HEADER_BYTES + index * _SLOT_BYTES
        first_word = offset_bytes % _PAGE_BYTES // _WORD_BYTES
        return self._views[offset_bytes // _PAGE_BYTES][first_word : first_word + _SLOT_WORDS]

    def _new_slot(self) -> int:
        index = self._n_slots
        if _HEADER_BYTES + (index + 1) * _SLOT_BYTES > len(self._views) * _PAGE_BYTES:
            self._map_next_page()
        self._n_slots += 1
        self._views[0][_N_SLOTS_WORD] = self._n_slots  # from now on a reader may use it
        return index

    def _map_next_page(self) -> None:
        offset_bytes = len(self._views) * _PAGE_BYTES
        if self._path is None:
            page = mmap.mmap(-1, _PAGE_BYTES)
        else:
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    # Allocate blocks, not a hole: a store into a hole of a full disk ends the process with
                    # SIGBUS.
                    os.posix_fallocate(fd, offset_bytes, _PAGE_BYTES)
                    page = mmap.mmap(fd, _PAGE_BYTES, offset=offset_bytes)
                finally:
                    os.close(fd)
            except OSError as error:
                raise CounterError(f"cannot enlarge the counter {self._path}: {error.strerror}") from error
        self._views.append(memoryview(page).cast("Q"))


class Counter:
    """The slots of the threads of this process; created by ``open_counter``."""

    def __init__(self, directory: Optional[str]) -> None:
        self._directory = directory
        self._local = threading.local()
        self._leases: Set[weakref.ref[_Lease]] = set()
        self._lock = threading.Lock()  # for handing out slots; counting takes no lock
        self._slots: Optional[_Slots] = None

    def slot(self) -> Slot:
        """Return the slot of the calling thread: always the same one, reused once the thread has ended.

        Raises:
            CounterError: the file cannot be made or enlarged.
        """
        slot: Optional[Slot] = getattr(self._local, "slot", None)
        if slot is None:
            lease = _Lease()
            slot = Slot(lease)
            lease.bind(self._place(lease))
            self._leases.add(weakref.ref(lease, self._leases.discard))
            self._local.slot = slot
        return slot

    def _place(self, lease: _Lease) -> Any:
        with self._lock:
            if self._slots is None:
                self._slots = _Slots(self._directory)
            return self._slots.place(lease)

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()  # a thread that the child lacks may hold the old one
        self._slots = None
        for reference in list(self._leases):
            lease = reference()
            if lease is not None:
                lease.bind(_Unborn(self, lease))


_counters: Dict[Optional[str], Counter] = {}


def _after_fork_in_child() -> None:
    for counter in list(_counters.values()):
        counter._after_fork_in_child()


# Runs for os.fork, multiprocessing and servers that fork from C and then call PyOS_AfterFork_Child.
os.register_at_fork(after_in_child=_after_fork_in_child)


def open_counter(directory: Optional[str] = None) -> Counter:
    """Return a counter that writes into *directory*, by default the folder that the environment names.

    If neither is given it counts in anonymous memory, so the same code runs with and without tuner. A folder
    has one counter per process, however often it is opened; its file appears with the first slot.

    Raises:
        CounterError: there is no such folder.
    """
    if directory is None:
        directory = os.environ.get(DIRECTORY_VARIABLE) or None
    if directory is not None:
        directory = os.path.abspath(directory)  # the worker may change its folder later
        if not os.path.isdir(directory):
            raise CounterError(f"no folder {directory} to count in (is {DIRECTORY_VARIABLE} a leftover?)")
    return _counters.setdefault(directory, Counter(directory))


def _new_file(directory: str) -> str:
    attempt = 0
    while True:  # an earlier process with this pid, or one in another pid namespace, may have used the name
        path = os.path.join(directory, f"{os.getpid()}-{attempt}{SUFFIX}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            attempt += 1
        except OSError as error:
            raise CounterError(f"cannot make the counter {path}: {error.strerror}") from error
        else:
            return path


def _start_time(pid: object) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])  # the command before ")" may contain anything


# ----------------------------------------------------------------------------------------------- reading


class Reader:
    """Sums of the counters in a folder; files of running processes stay mapped, so a read is cheap.

    A file that was read once stays in the totals even if it is deleted, so they never decrease. Only mapped
    files hold a descriptor, so their number is limited by the processes that run at once.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.fspath(directory)
        self._files: Dict[str, _File] = {}
        #: files of processes not found: they ended before the first read, or are in another namespace
        self._unmapped: Dict[str, _Unmapped] = {}
        self._over: Dict[str, List[int]] = {}  #: last counts of processes that were found and have ended

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def totals(self) -> Totals:
        """Return the sums now. A file that is being created counts from the next call on.

        Raises:
            CounterError: the folder cannot be read, or one of its counters has another version or is damaged.
        """
        try:
            names = os.listdir(self._directory)
        except OSError as error:
            raise CounterError(f"cannot read the counters in {self._directory}: {error.strerror}") from error
        new = [name for name in names if name.endswith(SUFFIX) and not self._is_known(name)]
        if new:
            self._unmap_ended()
        for name in new:
            path = os.path.join(self._directory, name)
            opened = _open_file(path)
            if opened is not None and opened.writer_runs():
                self._files[name] = opened
            elif opened is not None:
                self._unmapped[name] = _Unmapped(path, opened.slots())
        words: List[int] = []
        n_processes = 0
        for slots in self._slots():
            words += slots
            n_processes += bool(slots)
        done, failed, python_cpu, child_cpu, waiting = (sum(words[word::_SLOT_WORDS]) for word in range(5))
        n_slots = len(words) // _SLOT_WORDS
        return Totals(done, failed, python_cpu, child_cpu, waiting, n_slots, n_processes)

    def close(self) -> None:
        """Unmap every file."""
        self._files.clear()

    def _is_known(self, name: str) -> bool:
        return name in self._files or name in self._over or name in self._unmapped

    def _unmap_ended(self) -> None:
        """Unmap the files of ended processes; called when new files appear, as nothing grows otherwise."""
        for name in [name for name, file in self._files.items() if not file.writer_runs()]:
            self._over[name] = self._files.pop(name).slots()

    def _slots(self) -> Iterator[List[int]]:
        """Yield the words of each process's slots."""
        for file in self._files.values():
            yield file.slots()
        for unmapped in self._unmapped.values():
            yield unmapped.slots()
        yield from self._over.values()


def read_totals(directory: str) -> Totals:
    """Return the sums of all counters in *directory* now; raises like ``Reader.totals``."""
    with Reader(directory) as reader:
        return reader.totals()


class _File:
    """One mapped counter file of another process."""

    def __init__(self, path: str, pages: mmap.mmap) -> None:
        self._path = path
        self._map(pages)

    def writer_runs(self) -> bool:
        """Return whether the process that writes the file is visible and runs."""
        try:
            return _start_time(self._words[_PID_WORD]) == self._words[_START_WORD]
        except OSError:
            return False

    def slots(self) -> List[int]:
        """Return the words of all slots handed out, slot after slot."""
        if self._pages.size() < self._n_mapped_bytes:  # reading beyond the end would raise SIGBUS
            raise CounterError(f"the counter {self._path} has shrunk: something else writes to it")
        n_slots = self._words[_N_SLOTS_WORD]
        if n_slots > _MOST_SLOTS:
            raise CounterError(f"the counter {self._path} is damaged: it claims {n_slots} threads")
        end_word = _HEADER_WORDS + n_slots * _SLOT_WORDS
        if end_word > len(self._words):
            self._map_again(end_word)
        words: List[int] = self._words[_HEADER_WORDS:end_word].tolist()
        return words

    def _map_again(self, n_words: int) -> None:
        if self._pages.size() < n_words * _WORD_BYTES:
            raise CounterError(
                f"the counter {self._path} is damaged: it is too short for its {n_words} words"
            )
        # After deletion only the slots mapped so far can still be read.
        with contextlib.suppress(FileNotFoundError):
            try:
                pages = _map_file(self._path)
            except FileNotFoundError:
                raise
            except (OSError, ValueError) as error:
                raise CounterError(f"cannot read the counter {self._path}: {error}") from error
            if len(pages) < n_words * _WORD_BYTES:
                raise CounterError(f"the counter {self._path} was replaced by a shorter one")
            self._map(pages)

    def _map(self, pages: mmap.mmap) -> None:
        self._pages = pages
        self._n_mapped_bytes = len(pages)
        self._words = memoryview(pages).cast("Q")


class _Unmapped:
    """A counter file that is mapped again for each read."""

    def __init__(self, path: str, last: List[int]) -> None:
        self._path, self._last = path, last

    def slots(self) -> List[int]:
        """Return the words of all slots handed out; after deletion of the file, those of the last read."""
        opened = _open_file(self._path)
        if opened is not None:
            self._last = opened.slots()
        return self._last


def _open_file(path: str) -> Optional[_File]:
    """Return the counter at *path*, or None while it is being created."""
    try:
        if os.stat(path).st_size < _HEADER_BYTES:
            return None
        pages = _map_file(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CounterError(f"cannot read the counter {path}: {error}") from error
    header = memoryview(pages)[:_HEADER_BYTES].cast("Q")
    if header[_MAGIC_WORD] == 0:
        return None
    if header[_MAGIC_WORD] != _MAGIC or header[_SLOT_BYTES_WORD] != _SLOT_BYTES:
        raise CounterError(f"{path} is not a counter of tuner, or it is damaged")
    if header[_VERSION_WORD] != VERSION:
        raise CounterError(
            f"the counter {path} has layout version {header[_VERSION_WORD]}, this reader supports {VERSION}: "
            "use the same tuner for the workers and for the study"
        )
    return _File(path, pages)


def _map_file(path: str) -> mmap.mmap:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        n_bytes = os.fstat(fd).st_size
        return mmap.mmap(fd, n_bytes - n_bytes % _WORD_BYTES, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
