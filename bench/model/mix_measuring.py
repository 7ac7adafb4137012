"""Measurement of the windows of mixes.py: block by block, the mixes in turn, one study file per mix.

After an interruption, the measurement continues: windows in a file are not measured again.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import yaml
from mix_active import DenseSampler
from mix_registry import PREFIX, Mix, Tools, mix_environment, worker_command

from tuner.adapters.processes.signals import SignalStop, stopping_by_signal
from tuner.adapters.terminal.progress import LineProgress
from tuner.app import plan_builder
from tuner.bootstrap import stores, wire
from tuner.config.load import Given, canonical_json, load_settings
from tuner.config.settings import Settings
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.stored_config import StoredConfig, list_changed_settings
from tuner.core.domain.window import Window
from tuner.core.errors import ConfigError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.text.figures import render_duration, render_rest
from tuner.study.run import run_study

BESIDE_S = 1.5  #: of a launch: its start and stop
MAX_ATTEMPTS = 4  #: launches and windows: strangers come and go


@dataclass(frozen=True)
class Plan:
    """The measurements of one folder."""

    folder: Path
    mixes: tuple[Mix, ...]
    layouts: tuple[Layout, ...]
    n_blocks: int
    window_s: float
    warmup_s: float
    foreign_limit: float | None  #: cores; None: tuner's usual rule
    hours: float | None
    seed: int

    @property
    def cell_s(self) -> float:
        """Return the usual time of one layout in one block."""
        return BESIDE_S + self.warmup_s + self.window_s

    @property
    def n_windows(self) -> int:
        return len(self.mixes) * len(self.layouts) * self.n_blocks


def study_file(folder: Path, mix: str) -> Path:
    return folder / f"{mix}.tuner.db"


def looks_file(folder: Path, mix: str) -> Path:
    return folder / f"{mix}.active.csv"


class TimedStop:
    """A signal's stop, or the end of the time there is."""

    def __init__(self, signals: SignalStop, ends_s: float | None) -> None:
        self._signals, self._ends_s = signals, ends_s

    def requested(self) -> bool:
        return self._signals.requested() or self.is_late

    @property
    def is_late(self) -> bool:
        return self._ends_s is not None and time.monotonic() >= self._ends_s


class MixProgress(LineProgress):
    """tuner's lines, with the remaining time of all mixes together."""

    def __init__(self, plan: Plan, n_kept: int) -> None:
        super().__init__(sys.stderr)
        self._plan, self._n_kept, self._n_before = plan, n_kept, n_kept
        self._began_s = time.monotonic()

    @property
    def left_s(self) -> float:
        """Estimate the remaining time from the mean time per window, including invalid ones."""
        n_new = self._n_kept - self._n_before
        each_s = (time.monotonic() - self._began_s) / n_new if n_new >= 3 else self._plan.cell_s
        return each_s * max(0, self._plan.n_windows - self._n_kept)

    def window_taken(
        self,
        window: Window,
        n_taken: int,  # noqa: ARG002  # of its mix alone
        n_planned: int | None,  # noqa: ARG002
        remaining_s: float | None,  # noqa: ARG002
    ) -> None:
        self._n_kept += not window.void
        super().window_taken(window, self._n_kept, self._plan.n_windows, self.left_s)


def measure(plan: Plan, tools: Tools) -> bool:
    """Whether all windows of *plan* are there now. Ctrl-C finishes the window in hand."""
    asked = {mix.name: _asked(plan, mix, tools) for mix in plan.mixes}
    progress = MixProgress(plan, sum(_n_valid(plan, mix) for mix in plan.mixes))
    _say(f"{plan.n_windows} windows of {render_duration(plan.window_s)}, {render_rest(progress.left_s)} left")
    ends_s = None if plan.hours is None else time.monotonic() + 3600 * plan.hours
    with stopping_by_signal() as signals:
        stop = TimedStop(signals, ends_s)
        for block in range(plan.n_blocks):
            for mix in _in_turns(plan.mixes, plan.seed, block):
                if stop.requested():
                    break
                _say(f"{mix.name}, block {block + 1} of {plan.n_blocks}")
                _measure_block(plan, mix, block, *asked[mix.name], progress, stop)
        if stop.is_late:
            _say("The time is over; the same command goes on.")
    return all(_n_valid(plan, mix) >= len(plan.layouts) * plan.n_blocks for mix in plan.mixes)


def _in_turns(mixes: Sequence[Mix], seed: int, block: int) -> list[Mix]:
    order = list(mixes)
    Random(f"{seed} {block}").shuffle(order)
    return order


def _measure_block(
    plan: Plan,
    mix: Mix,
    block: int,
    settings: Settings,
    record: StudyRecord,
    progress: MixProgress,
    stop: TimedStop,
) -> None:
    """Measure *mix* up to and including *block*."""
    file = study_file(plan.folder, mix.name)
    with (
        wire.this_box(settings, record, str(file), progress.warning) as box,
        stores.open_store(file) if file.exists() else stores.new_store(file, record) as store,
    ):
        dense = replace(box, sampler=DenseSampler(box.sampler, looks_file(plan.folder, mix.name)))
        run_study(dense, store, progress, stop, strategy_of(replace(store.study(), n_blocks=block + 1)))


def _config(plan: Plan, mix: Mix, tools: Tools) -> str:
    """The study as a config file, which `tuner grid` can be given, too."""
    values = {
        "service": {
            "kind": "script",
            "name": PREFIX + mix.name,
            "command": worker_command(mix, tools, plan.seed),
            "environment": mix_environment(mix),
            "stop": {"signal": "TERM", "wait": "10s"},
            "max_extra_threads": 0,
        },
        "study": {
            "strategy": "all",
            "layouts": [str(one) for one in plan.layouts],
            "window": f"{plan.window_s}s",
            "warmup": f"{plan.warmup_s}s",
            "repeats": plan.n_blocks,
            "max_attempts": MAX_ATTEMPTS,
            "seed": plan.seed,
            **({} if plan.foreign_limit is None else {"foreign_limit": plan.foreign_limit}),
        },
    }
    return str(yaml.safe_dump(values, sort_keys=False))


def _given(plan: Plan) -> dict[tuple[str | int, ...], Given]:
    """Return the given options, so that an error names the option."""
    texts = {
        "layouts": ("--layouts", ",".join(map(str, plan.layouts))),
        "window": ("--window", f"{plan.window_s}s"),
        "warmup": ("--warmup", f"{plan.warmup_s}s"),
        "repeats": ("--windows", str(plan.n_blocks)),
        "seed": ("--seed", str(plan.seed)),
        **(
            {}
            if plan.foreign_limit is None
            else {"foreign_limit": ("--foreign-limit", str(plan.foreign_limit))}
        ),
    }
    return {("study", name): Given(option, text) for name, (option, text) in texts.items()}


def _asked(plan: Plan, mix: Mix, tools: Tools) -> tuple[Settings, StudyRecord]:
    """What is asked for, and the study as its file has it, or a new one.

    Raises:
        ConfigError: the file was begun with something else.
    """
    file, text = study_file(plan.folder, mix.name), _config(plan, mix, tools)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"{mix.name}.yaml"
        draft.write_text(text, encoding="utf-8")
        settings = load_settings(draft, _given(plan))
    if file.exists():
        with stores.open_store(file, read_only=True) as store:
            record = store.study()
        if changes := list_changed_settings(
            record.config.sections, StoredConfig(canonical_json(settings)).sections
        ):
            raise ConfigError(
                f"{file} was begun with something else: {'; '.join(changes)}",
                hint="Give the options it was begun with, or another folder with --into.",
            )
        plan_builder.check_same_box(record, file, _say)
    else:
        record = plan_builder.plan_record(settings)
    (plan.folder / f"{mix.name}.yaml").write_text(text, encoding="utf-8")  # it is what is measured
    return settings, record


def _n_valid(plan: Plan, mix: Mix) -> int:
    file = study_file(plan.folder, mix.name)
    if not file.exists():
        return 0
    with stores.open_store(file, read_only=True) as store:
        return sum(not window.void for window in store.windows())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
