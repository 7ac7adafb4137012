"""Probe that reads the memory-mapped counters of workers which use ``tuner.probe.counter``."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from tuner.config.kinds import ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.figures import LARGEST_COUNT
from tuner.ports import Clock
from tuner.probe import counter
from tuner.probe.counter import DIRECTORY_VARIABLE, CounterError, Reader

if TYPE_CHECKING:
    from tuner.config.settings import Settings

#: files in ``helpers`` that workers may import to count, by their name in the config
_MODULES = {"celery": "tuner_celery.py"}
_LARGEST_NS = 2**62  #: 146 years; the counters have 63 bits


class MmapCounterSettings(ProbeSettings):
    """The workers count their items with the Python module `tuner.probe`."""

    is_alone: ClassVar[bool] = True
    fills_in: ClassVar[tuple[str, ...]] = (DIRECTORY_VARIABLE,)
    kind: Literal["mmap-counter"] = "mmap-counter"  #: Kind of probe
    #: Set `celery` to count the tasks of Celery workers without changes to their code
    module: Literal["celery"] | None = None

    def build(self, settings: Settings, around: Surroundings) -> CounterProbe:
        """See `ProbeSettings`."""
        return CounterProbe(around.clock, around.counters, settings.service.owner, self.module)

    @property
    def needs_own_code(self) -> bool:
        """See `ProbeSettings`."""
        return self.module is None

    def counts_failed(self, _feeder: object) -> bool:
        """Workers count them, too."""
        return True


class CounterProbe:
    """Reads the memory-mapped counters of every worker process, in a separate folder for each launch.

    Args:
        clock: gives the time of readings.
        folder_root: parent of the launch's folder, which is removed afterwards; on tmpfs no disk is written.
        owner: user and group id of the workers, if not tuner's own.
        module: a name of ``_MODULES``, whose file is also put into the folder, for the workers to import.
    """

    def __init__(
        self,
        clock: Clock,
        folder_root: Path,
        owner: tuple[int, int] | None = None,
        module: str | None = None,
    ) -> None:
        self._clock = clock
        self._folder_root = folder_root
        self._owner = owner
        self._module = module

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[CounterCounting]:
        """Count during one launch; the folder exists as long as the ``with`` block."""
        try:
            folder = tempfile.TemporaryDirectory(
                prefix=f"count-{layout.processes}x{layout.threads}-", dir=self._folder_root
            )
        except OSError as error:
            raise ConfigError(
                f"cannot make a folder for counters in {self._folder_root}: {error.strerror}",
                hint="Free or unlock that file system, or set TMPDIR to another one.",
            ) from error
        with folder as name, Reader(name) as reader:
            if self._module is not None:
                file = _MODULES[self._module]
                copies = {
                    file: Path(__file__).parent / "helpers" / file,
                    "tuner_counter.py": Path(counter.__file__),
                }
                for copy, source in copies.items():
                    shutil.copyfile(source, Path(name) / copy)
                    (Path(name) / copy).chmod(0o644)  # another user may run the service, whatever the umask
            if self._owner is not None:
                os.chown(name, *self._owner)
            yield CounterCounting(self._clock, Path(name), reader, is_own_code=self._module is None)


class CounterCounting:
    """The counters of one launch.

    A module of tuner counts items but not their stages. Greenlets come and go with a task, so fewer of them
    count than the layout has. Only the workers' own code can report stages and the number of threads.
    """

    def __init__(self, clock: Clock, folder: Path, reader: Reader, *, is_own_code: bool = True) -> None:
        self._clock = clock
        self._folder = folder
        self._reader = reader
        self._is_own_code = is_own_code

    @property
    def environment(self) -> Mapping[str, str]:
        """Variable that names the folder to the workers."""
        return {DIRECTORY_VARIABLE: str(self._folder)}

    def pids(self) -> frozenset[int]:
        """Return no process: tuner counts itself."""
        return frozenset()

    def read(self) -> Reading:
        """Return the sum of all slots of all processes, including ended ones.

        Raises:
            MeasurementError: a counter is of another version, damaged or unreadable.
        """
        at_s = self._clock.monotonic_s()
        try:
            totals = self._reader.totals()
        except CounterError as error:
            raise MeasurementError(str(error)) from error
        if max(totals.n_done, totals.n_failed) > LARGEST_COUNT or max(totals) > _LARGEST_NS:
            raise MeasurementError(f"the counters in {self._folder} are damaged: no worker can count so much")
        problem = "" if totals.n_slots else "no worker has opened a counter"
        if not self._is_own_code:
            return Reading(at_s, totals.n_done, totals.n_failed, problem=problem)
        return Reading(
            at_s=at_s,
            n_done_total=totals.n_done,
            n_failed_total=totals.n_failed,
            python_cpu_ns_total=totals.python_cpu_ns,
            child_cpu_ns_total=totals.child_cpu_ns,
            waiting_ns_total=totals.waiting_ns,
            n_slots=totals.n_slots,
            problem=problem,
        )
