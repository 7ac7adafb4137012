"""A spool of crashes whose dumps tell a pretended stackwalker what to do, and real processors on it."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tuner_workers.crash_processor.cli import main
from tuner_workers.crash_processor.sources.redis import RedisQueue
from tuner_workers.crash_processor.spool import spool_status, storage_status
from tuner_workers.crash_processor.storage import PROCESSED, RESULT_SUFFIX, read_processed

from ...e2e.typed import Done

LONG_S = 60.0
ANSWER = json.dumps({
    "status": "OK", "crash_info": {"type": "SIGSEGV", "address": "0x8", "crashing_thread": 0}, "modules": [],
    "threads": [{"frames": [{"frame": 0, "function": "ns::Crash(int)", "module": "app"}]}],
})  # fmt: skip
#: The first word of the dump is what happens to whoever reads it, the second one how long it takes.
WALKER = f"""#!/bin/sh
read what seconds < "$2"
answer() {{ echo '{ANSWER}'; }}
case "$what" in
ok) answer ;;
slow) sleep "$seconds"; answer ;;
fails) echo "ERROR $2: too short" >&2; exit 1 ;;
babbles) echo "I am no JSON" ;;
halves) answer | head -c 40 ;;
crashes) kill -SEGV $$ ;;
hangs) sleep 1000 & wait ;;
closes) exec >&- 2>&-; sleep 1000 ;;
leaves) sleep 1000 & answer ;;
floods) exec yes ;;
esac
"""


class Bed:
    """A spool with its processors, in files or in Redis."""

    def __init__(self, root: Path, walker: Path, redis_url: str | None) -> None:
        self.root = root
        self.walker = walker
        self._redis_url = redis_url
        self._source = ("--new-crash-source-class", "redis", "--redis-url", redis_url) if redis_url else ()
        self.processes: list[subprocess.Popen[str]] = []
        self._batches = itertools.count()

    def fill(self, *dumps: str) -> list[str]:
        """One crash per text of a dump, each with an id of its own; the ids in the same order."""
        batch = next(self._batches)
        folder = self.root.parent / f"dumps-{batch}"
        folder.mkdir()
        ids = []
        for number, text in enumerate(dumps):
            crash_id = f"00000000-0000-4000-8000-{batch:06d}{number:06d}"
            (folder / f"{number:06d}.dmp").write_text(text)
            (folder / f"{number:06d}.json").write_text(json.dumps({"uuid": crash_id, "ProductName": "App"}))
            ids.append(crash_id)
        filled = self.typed("fill", "--dumps", str(folder))
        assert filled.returncode == 0, filled.stderr
        return ids

    def typed(self, *arguments: str) -> Done:
        """Run a command in this process, to its end; it starts no threads and waits for no signal."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main(self._words(*arguments))
        return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    def command(self, *arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(self._line(*arguments), capture_output=True, text=True, timeout=LONG_S, **how)

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start a processor; the test's end kills what is still there."""
        walker = ("--minidump-stackwalk-pathname", str(self.walker), "--idle-delay", "50ms")
        process = subprocess.Popen(
            self._line("run", *walker, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    def run(self, *options: str) -> str:
        """Run a processor until the queue is empty; what it said."""
        return self.end(self.start("--quit-on-empty-queue", *options))

    def end(self, process: subprocess.Popen[str], exit_code: int = 0) -> str:
        """Wait for a processor to end as it should; what it said."""
        out, err = process.communicate(timeout=LONG_S)
        assert (process.returncode, out) == (exit_code, ""), err
        return err

    def status(self) -> dict[str, int]:
        """Counted here, not by the command."""
        if self._redis_url is None:
            return spool_status(self.root)
        queue = RedisQueue(self._redis_url, "crash-processor")
        try:
            return {**queue.status(), **storage_status(self.root)}
        finally:
            queue.close()

    def held_by(self, pid: int) -> int:
        """How many items that process has in its hands, or had when it died."""
        if self._redis_url is None:
            return sum(1 for item in self.root.glob(f"cur/*.{pid}.*/*") if not item.name.startswith("."))
        queue = RedisQueue(self._redis_url, "crash-processor")
        try:
            workers = [name for name in queue.call("SMEMBERS", queue.key("workers")) if f".{pid}." in name]
            return sum(queue.call("LLEN", queue.key("cur", worker)) for worker in workers)
        finally:
            queue.close()

    def wait_for(self, is_so: Callable[[dict[str, int]], bool]) -> None:
        """Wait until the status is as wanted."""
        wait_until(lambda: is_so(self.status()))

    def has_result(self, crash_id: str) -> bool:
        return (self.root / PROCESSED / f"{crash_id}{RESULT_SUFFIX}").is_file()

    def result(self, crash_id: str) -> dict[str, Any]:
        return read_processed(self.root, crash_id)

    def _line(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tuner_workers.crash_processor", *self._words(*arguments)]

    def _words(self, command: str, *rest: str) -> list[str]:
        return [command, "--fs-root", str(self.root), *self._source, *rest]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < deadline_s, "waited too long"
        time.sleep(0.02)


@pytest.fixture
def walker(tmp_path: Path) -> Path:
    path = tmp_path / "walker"
    path.write_text(WALKER)
    path.chmod(0o755)
    return path


@pytest.fixture
def bed(tmp_path: Path, walker: Path) -> Iterator[Bed]:
    bed = Bed(tmp_path / "spool", walker, None)
    yield bed
    _kill(bed)


@pytest.fixture(params=["fs", "redis"])
def either_bed(request: pytest.FixtureRequest, tmp_path: Path, walker: Path) -> Iterator[Bed]:
    """The same with each crash source."""
    url = request.getfixturevalue("redis_server").url if request.param == "redis" else None
    bed = Bed(tmp_path / "spool", walker, url)
    yield bed
    _kill(bed)


def _kill(bed: Bed) -> None:
    for process in bed.processes:
        if process.poll() is None:
            process.kill()
        process.communicate()
