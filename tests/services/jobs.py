"""What tests of job queues share: jobs that are put into a queue, and three promises of their workers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from .measured import (
    ALONE,
    COUNTED,
    ITEM,
    KILLED,
    LONG_S,
    LOWEST,
    WARMUP_S,
    WINDOW_S,
    check_counts,
    check_ideal,
    check_kills,
    moments,
    tell,
    tuner,
    until_stopped_in_hand,
    windows_of,
)


@dataclass(frozen=True)
class Jobs:
    """A service whose command is *command*, in a folder with its *app*."""

    folder: Path
    services_venv: Path
    app: str  #: the text of ``app.py``
    command: str
    environment: Mapping[str, str]  #: where its queue is
    servers: Sequence[int]  #: pids of what holds the queue

    def __post_init__(self) -> None:
        (self.folder / "item.py").write_text(ITEM)
        (self.folder / "app.py").write_text(self.app)

    def python(self, code: str) -> None:
        """Run *code* in the service's Python, beside its app."""
        self.run(self.services_venv / "bin" / "python", "-c", code)

    def run(self, *words: str | Path) -> None:
        """Run a program of the service's."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": ".", **self.environment},
            check=False,
            timeout=LONG_S,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def counts_are_the_truth(self, layouts: str, *settings: str, lowest: float = LOWEST) -> str:
        """A study counts what was finished; returns what tuner said."""
        said = tuner(
            self.folder,
            self.services_venv,
            *("grid", *COUNTED, "--window", f"{WINDOW_S}s", "--warmup", f"{WARMUP_S}s", "--layouts", layouts),
            *_set(settings),
            *("--study", "s.tuner.db", "--", *self.command.split()),
            environment=self.environment,
        )
        tell(said)
        check_counts(self.folder, self.folder / "s.tuner.db", layouts.split(","))
        check_ideal(
            self.folder, self.folder / "s.tuner.db", lambda layout: layout.total_threads, lowest=lowest
        )
        return said

    def stopped_in_the_middle(self, layout: str, *settings: str) -> None:
        """A study of jobs of 3 s that ends while they are in hand."""
        arguments = [
            *("grid", *ALONE, "--window", "7s", "--warmup", "5s", "--max-attempts", "1", "--layouts", layout),
            *_set(settings),
            *("--study", "s.tuner.db", "--", *self.command.split()),
        ]
        environment = {**self.environment, "ITEM_S": "3"}
        until_stopped_in_hand(
            self.folder,
            self.folder / "s.tuner.db",
            lambda: tell(tuner(self.folder, self.services_venv, *arguments, environment=environment)),
        )

    def begun_and_finished(self) -> tuple[int, int]:
        """How many jobs."""
        return len(moments(self.folder, "begun")), len(moments(self.folder, "finished"))

    def most_in_hand(self) -> int:
        """The most jobs that were in hand at once, up to the end of the last window."""
        end_s = windows_of(self.folder / "s.tuner.db")[-1].readings[1].at_s
        changes = [(moment, 1) for moment in moments(self.folder, "begun") if moment <= end_s]
        changes += [(moment, -1) for moment in moments(self.folder, "finished") if moment <= end_s]
        return max(accumulate(change for _, change in sorted(changes)))

    def loses_nothing(self, n_offered: int, n_left: Callable[[], int]) -> None:
        """What was begun was finished, some of it after the window; the rest waits still."""
        started, finished = self.begun_and_finished()
        end_s = windows_of(self.folder / "s.tuner.db")[-1].readings[1].at_s
        n_after = sum(moment > end_s for moment in moments(self.folder, "finished"))
        tell(f"offered {n_offered}, begun {started}, finished {finished}, {n_after} after the window")
        assert n_after
        assert started == finished
        assert finished + n_left() == n_offered

    def nobody_survives(self, layout: str, victim: str, *settings: str) -> None:
        """kill -9 of *victim* while jobs are finished."""
        check_kills(
            self.folder,
            self.services_venv,
            [
                *("grid", *KILLED, "--layouts", layout, *_set(settings), "--study", "s.tuner.db"),
                *("--", *self.command.split()),
            ],
            victim,
            self.environment,
            self.servers,
        )

    def sampled(self, form: str) -> None:
        """``sample.json``, of jobs that wait; the queue stays as it is."""
        url = self.environment["REDIS_URL"]
        tuner(self.folder, self.services_venv, "sample", "--url", url, "--form", form, "-o", "sample.json")


def _set(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]
