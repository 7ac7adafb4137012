"""Studies that are cut off: when the power goes, and what of a study must be the same all the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tuner.adapters.virtual.box import VirtualClock
from tuner.core.domain.records import WindowRecord
from tuner.ports import Store

FIELDS = [field.name for field in fields(WindowRecord) if field.name != "launch_id"]
#: what depends on what ran before
MOMENTS = ("started_wall_s", "load1_mean", "load1_max", "n_active_mean")


class CutClock(VirtualClock):
    """Power goes off at the *n*-th sleep."""

    n_left = -1

    def sleep_until(self, at_s: float) -> None:
        self.n_left -= 1
        if self.n_left == 0:
            raise KeyboardInterrupt
        super().sleep_until(at_s)


def cut_clock(store: Store, n: int) -> CutClock:
    """Goes on where the study in *store* was cut off, until its *n*-th sleep; -1: to the end."""
    clock = CutClock.resumed(store)
    assert isinstance(clock, CutClock)
    clock.n_left = n
    return clock


def kept(store: Store, *, moments: bool = True) -> list[dict[str, Any]]:
    """All windows but for the launch's id; without *moments* also without what depends on what ran before."""
    windows = []
    for window in store.windows():
        values = {name: getattr(window, name) for name in FIELDS if moments or name not in MOMENTS}
        if not moments:
            for name, value in values.items():
                if name.endswith("_s") and value is not None:
                    values[name] = round(value, 6)
        windows.append(values)
    return windows
