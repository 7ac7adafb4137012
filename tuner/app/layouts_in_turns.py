"""Whether the layouts of a new study take turns in slices, and the record of such a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.plan_builder import stored_settings
from tuner.bootstrap.parts.gates import takes_turns
from tuner.core.defaults import SHORTEST_IN_TURNS_S
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.bootstrap.wire import Say
    from tuner.config.settings import Settings


def with_turns(
    record: StudyRecord, settings: Settings, say: Say, *, is_simulated: bool, on_fleet: bool
) -> StudyRecord:
    """Return the *record* of a grid with the number of layouts that take turns, and print it."""
    if settings.study.slices != "auto":
        return record
    n_resident = n_layouts_in_turns(
        settings, say, is_simulated=is_simulated, on_fleet=on_fleet, n_layouts=len(record.layouts)
    )
    return record if n_resident == 1 else _in_turns(record, settings, n_resident)


def could_take_turns(record: StudyRecord, settings: Settings) -> StudyRecord | None:
    """Return the *record* of the same study with layouts that take turns; None: they do, or cannot.

    None also if the settings have ``slices``, and without a race on this host.
    """
    is_other = record.strategy != "race" or record.provenance.is_fleet or is_simulated(record)
    if is_other or record.n_resident > 1 or settings.study.slices is not None:
        return None
    n_resident, _ = takes_turns(settings, is_simulated=False)
    return None if n_resident == 1 else _in_turns(record, settings, n_resident)


def _in_turns(record: StudyRecord, settings: Settings, n_resident: int) -> StudyRecord:
    shortest_s = record.min_window_s
    if settings.study.min_window is None:
        shortest_s = min(SHORTEST_IN_TURNS_S, record.window_s)
    return replace(record, n_resident=n_resident, min_window_s=shortest_s)


def n_layouts_in_turns(
    settings: Settings,
    say: Say,
    *,
    is_simulated: bool,
    on_fleet: bool = False,
    n_layouts: int | None = None,
) -> int:
    """Return the most layouts that take turns, 1 for none; print it (at most *n_layouts*) and the reason."""
    n_resident, why = takes_turns(settings, is_simulated=is_simulated, on_fleet=on_fleet)
    if n_resident == 1:
        say(f"Layouts run one after the other. {why}")
    else:
        n_most = n_resident if n_layouts is None else max(2, min(n_resident, n_layouts))
        say(f"Up to {n_most} layouts stay started and take turns in slices of seconds. {why}".rstrip())
    return n_resident


def can_slice(record: StudyRecord, file: Path) -> bool:
    """Return whether the layouts of the study in *file*, measured one at a time, could take turns.

    False for simulated studies, whose noise is assumed, after ``slices: off``, and if settings, the record of
    the service or a file that the settings name are missing on this host.
    """
    is_other = record.strategy not in ("race", "all") or record.provenance.is_fleet or is_simulated(record)
    if is_other or record.n_resident > 1 or record.config.lacks_secrets:
        return False
    try:
        settings = stored_settings(record, file, "")
        return settings.study.slices != "off" and takes_turns(settings, is_simulated=False)[0] > 1
    except ConfigError:  # settings of an older version, or of another host: no study like it can start here
        return False
