"""The use case of `tuner replay`: a strategy on simulated or recorded studies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.layout import whole_cores
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.core.planning.replay import ReplayedStudy, ReplayJob
    from tuner.core.search.recorded import RecordedStudy
    from tuner.core.search.suite import Suite

_MOST_RUNS_AT_ONCE = 25  #: runs sent to a worker process together; they take some seconds


def suite_of(text: str) -> Suite | RecordedStudy:
    """Return the built-in suite named *text*, or the suite or study in the file of that name."""
    from tuner.app.session import is_study
    from tuner.config.suite import read_suite
    from tuner.core.search.own_suites import OWN_SUITES, own_suite

    path = Path(text)
    if path.suffix == "" and not path.exists():
        try:
            return own_suite(text)
        except KeyError:
            raise ConfigError(
                f"no suite is called {text}, and no file either",
                hint=f"A suite's JSON file, a study's, or one of {', '.join(OWN_SUITES)}.",
            ) from None
    return _read_recorded(path) if is_study(path) else read_suite(path)


def _read_recorded(file: Path) -> RecordedStudy:
    from tuner.bootstrap import stores
    from tuner.core.search.recorded import record_study
    from tuner.study.counted import left_out

    with stores.open_store(file, read_only=True) as store:
        others = left_out(store)
        windows = [one for one in store.windows() if one.launch_id not in others]
        return record_study(file.name.split(".")[0], store.study(), dict(store.launches()), windows)


def replay_studies(
    job: ReplayJob, total: int, repeats: int, processes: int | None
) -> Iterator[list[ReplayedStudy]]:
    """Replay *total* studies, *repeats* on each surface, in *processes* (None: one for each usable core)."""
    from tuner.adapters.proc.cores import usable_cores
    from tuner.adapters.processes.worker_processes import each_in_processes

    n_processes = processes if processes is not None else whole_cores(usable_cores().count)
    size = max(1, min(_MOST_RUNS_AT_ONCE, total // (8 * n_processes)))
    tasks = [(first, min(first + size, total), repeats) for first in range(0, total, size)]
    return each_in_processes(_replay_part, job, tasks, n_processes)


def _replay_part(job: ReplayJob, part: tuple[int, int, int]) -> list[ReplayedStudy]:
    """Replay the runs of *part* (first number, end number, repeats), surface by surface."""
    from tuner.core.planning.replay import replay as replay_one

    first, end, repeats = part
    return [replay_one(job, *divmod(number, repeats)) for number in range(first, end)]
