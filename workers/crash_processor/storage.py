"""Storage of raw and processed crashes in files below the spool's root.

``crashes/<crash id>/raw_crash.json`` and ``crashes/<crash id>/<dump field>.dump`` are the input,
``processed/<crash id>.json.gz`` is the result. Only the last ``keep_results`` results are kept: a
night on 24 cores makes 240 000.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import os
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from .errors import CrashNotFoundError, InputError, StorageError
from .options import Options
from .presence import Presence, abandoned_folders

CRASHES, PROCESSED, TEMPORARY = "crashes", "processed", "tmp"
RAW_CRASH = "raw_crash.json"
RESULT_SUFFIX = ".json.gz"
_PRUNE_LOCK = ".prune-lock"
_WRITING_LASTS_S = 600.0  # writing takes milliseconds; an older file was left by a kill
_PRUNE_EVERY_RATIO = 1 / 8  # of keep_results: excess per process after which old results are removed


class FetchedCrash(NamedTuple):
    """A crash on the local disk; the user removes the dump."""

    raw_crash: dict[str, Any]
    dump: Path


class CrashStorage(Protocol):
    """Storage of crashes. Methods may be called from several threads."""

    def fetch(self, crash_id: str) -> FetchedCrash:
        """Copy a crash to the local disk, with its dump in a temporary file.

        Raises:
            CrashNotFoundError: it does not exist, or is not readable as a crash.
            StorageError: the copy failed, but may succeed later.
        """

    def save_processed(self, crash_id: str, processed: Mapping[str, Any]) -> None:
        """Store a result before returning.

        Raises:
            StorageError: it failed, but may succeed later.
        """

    def close(self) -> None:
        """Remove temporary files."""


class FileSystemCrashStorage:
    """Crashes and results below *root*, temporary dumps below *temporary* (default: ``root/tmp``)."""

    def __init__(
        self, root: Path, *, dump_field: str, temporary: Path | None = None, keep_results: int | None = None
    ) -> None:
        self._crashes, self._processed = root / CRASHES, root / PROCESSED
        self._dump_name = f"{dump_field}.dump"
        self._keep_results = keep_results
        self._n_saved = 0
        self._saved_lock = threading.Lock()
        temporary = temporary or root / TEMPORARY
        try:
            self._processed.mkdir(exist_ok=True)
            self._presence = Presence(temporary)
            for folder in abandoned_folders(temporary):
                for left in folder.glob("*.dump"):
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot write to {temporary} or {self._processed}: {error.strerror}") from error

    @classmethod
    def from_options(cls, options: Options) -> FileSystemCrashStorage:
        """Make the storage for these options."""
        return cls(
            options.fs_root,
            dump_field=options.dump_field,
            temporary=options.temporary_file_system_storage_path,
            keep_results=options.keep_results,
        )

    def fetch(self, crash_id: str) -> FetchedCrash:
        """Copy the dump to a temporary file, as from a remote store."""
        folder = self._crashes / crash_id
        dump = self._presence.folder / f"{crash_id}.{threading.get_ident()}.dump"
        try:
            raw_crash = json.loads((folder / RAW_CRASH).read_bytes())
            shutil.copyfile(folder / self._dump_name, dump)
        except (FileNotFoundError, IsADirectoryError) as error:
            if Path(error.filename) == dump:  # our temporary folder is missing, not the crash
                raise StorageError(f"cannot fetch {crash_id}: {error.strerror}: {dump.parent}") from error
            raise CrashNotFoundError(f"no {Path(error.filename).name} for this crash") from error
        except (ValueError, RecursionError) as error:
            raise CrashNotFoundError(f"{RAW_CRASH} is not JSON: {error}") from error
        except OSError as error:
            dump.unlink(missing_ok=True)
            raise StorageError(f"cannot fetch {crash_id}: {error.strerror}") from error
        if not isinstance(raw_crash, dict):
            dump.unlink(missing_ok=True)
            raise CrashNotFoundError(f"{RAW_CRASH} is not a JSON object")
        return FetchedCrash(raw_crash, dump)

    def save_processed(self, crash_id: str, processed: Mapping[str, Any]) -> None:
        """Write to a temporary name, then rename, so that an incomplete result is never visible."""
        beside = self._processed / f".{crash_id}.{os.getpid()}.{threading.get_ident()}"
        content = gzip.compress(json.dumps(processed).encode(), compresslevel=6, mtime=0)
        try:
            beside.write_bytes(content)
            beside.rename(self._processed / f"{crash_id}{RESULT_SUFFIX}")
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise StorageError(f"cannot save {crash_id}: {error.strerror}") from error
        self._count_result()

    def close(self) -> None:
        """Remove temporary files, results beyond ``keep_results``, and incomplete ones left by a kill."""
        self._prune()
        self._sweep()
        for left in self._presence.folder.glob("*.dump"):
            left.unlink(missing_ok=True)
        self._presence.close()

    def _count_result(self) -> None:
        if self._keep_results is None:
            return
        with self._saved_lock:
            self._n_saved += 1
            is_due = self._n_saved >= max(1, self._keep_results * _PRUNE_EVERY_RATIO)
            if is_due:
                self._n_saved = 0
        if is_due:
            self._prune()

    def _prune(self) -> None:
        """Remove the oldest results beyond ``keep_results``; the next call retries failed removals."""
        if self._keep_results is None:
            return
        with contextlib.suppress(OSError), open(self._processed / _PRUNE_LOCK, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # one process is enough
            with os.scandir(self._processed) as entries:
                results = [
                    (entry.stat().st_mtime_ns, entry.path)
                    for entry in entries
                    if entry.name.endswith(RESULT_SUFFIX) and not entry.name.startswith(".")
                ]
            results.sort()
            for _, path in results[: -self._keep_results]:
                os.unlink(path)

    def _sweep(self) -> None:
        old_s = time.time() - _WRITING_LASTS_S
        with contextlib.suppress(OSError), os.scandir(self._processed) as entries:
            for entry in entries:
                is_half = entry.name.startswith(".") and entry.name != _PRUNE_LOCK
                if is_half and entry.stat().st_mtime < old_s:
                    os.unlink(entry.path)


def read_processed(root: Path, crash_id: str) -> dict[str, Any]:
    """Return the saved result of a crash below *root*; raise FileNotFoundError if there is none."""
    result: dict[str, Any] = json.loads(
        gzip.decompress((root / PROCESSED / f"{crash_id}{RESULT_SUFFIX}").read_bytes())
    )
    return result
