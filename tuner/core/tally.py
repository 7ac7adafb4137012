"""From windows to launches: what each launch's windows that count add up to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tuner.core.figures import counted
from tuner.core.layout import Layout
from tuner.core.records import WARMING_BLOCK, WindowRecord
from tuner.core.requests import Requests


@dataclass(slots=True)
class LaunchTally:
    """The windows of one launch that count, added up."""

    layout: Layout
    block: tuple[str, int]  #: two boxes have no block in common
    launch: int = 0  #: its id
    n_windows: int = 0
    length_s: float = 0.0
    n_done: int = 0
    rates: float = 0.0  #: sum over windows of items per second
    squares: float = 0.0  #: and of its square
    load: float = 0.0  #: x seconds
    load_max: float = 0.0
    active: float = 0.0  #: x seconds
    active_s: float = 0.0
    from_load1: float = 0.0  #: x seconds
    from_load1_s: float = 0.0
    cpu_s: float = 0.0  #: of the service
    backend_cpu_s: float = 0.0
    pss_bytes: float = 0.0  #: sum over windows
    n_pss: int = 0
    pss_max: float = 0.0
    limited_load: float = 0.0  #: as `tuner.core.limits.usage_of` has it, x seconds
    requests: Requests | None = None  #: of all windows together; None: not known

    @property
    def usage(self) -> dict[str, float]:
        """What limits say of it, by quantity: the mean load, the most memory, the p95 of all requests."""
        usage = {"load": self.limited_load / self.length_s}
        if self.n_pss:
            usage["memory_bytes"] = self.pss_max
        p95_s = None if self.requests is None else self.requests.latency_s(0.95)
        if p95_s is not None:
            usage["p95_s"] = p95_s
        return usage


@dataclass(slots=True)
class VoidTally:
    """The windows of one layout that do not count, and why."""

    total_windows: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def tally(windows: Iterable[WindowRecord]) -> tuple[list[LaunchTally], dict[Layout, VoidTally]]:
    """Each launch's windows that count, and each layout's that do not; those that warm the cache left out."""
    tallies: dict[int, LaunchTally] = {}
    void: dict[Layout, VoidTally] = defaultdict(VoidTally)
    for window in windows:  # 100 000 of them: each attribute is looked up once
        if window.block == WARMING_BLOCK:
            continue
        if window.void:
            own = void[window.layout]
            own.total_windows += 1
            own.reasons.update({reason.slug for reason in window.void})
            continue
        launch = tallies.get(window.launch_id)
        if launch is None:
            launch = tallies[window.launch_id] = LaunchTally(
                window.layout, (window.box, window.block), window.launch_id
            )
        length_s = window.length_s
        n_done = window.n_done
        rate = n_done / length_s
        launch.n_windows += 1
        launch.length_s += length_s
        launch.n_done += n_done
        launch.rates += rate
        launch.squares += rate * rate
        launch.load += window.load1_mean * length_s
        load_max = window.load1_max
        if load_max > launch.load_max:
            launch.load_max = load_max
        n_active = window.n_active_mean
        if n_active is not None:
            launch.active += n_active * length_s
            launch.active_s += length_s
        from_load1 = window.n_active_from_load1
        if from_load1 is not None:
            launch.from_load1 += from_load1 * length_s
            launch.from_load1_s += length_s
            launch.limited_load += from_load1 * length_s
        else:
            launch.limited_load += (window.load1_mean if n_active is None else n_active) * length_s
        launch.cpu_s += window.service_cpu_s
        launch.backend_cpu_s += window.backend_cpu_s
        pss_bytes = window.pss_bytes
        if pss_bytes is not None:
            launch.pss_bytes += pss_bytes
            launch.n_pss += 1
            if pss_bytes > launch.pss_max:
                launch.pss_max = pss_bytes
        requests = window.requests
        if requests is not None:
            launch.requests = requests if launch.requests is None else launch.requests.merged(requests)
    return list(tallies.values()), void


def why_not_ranked(own: Sequence[LaunchTally], void: VoidTally, error: str | None) -> str | None:
    """Why a layout cannot be ranked, or None when it can; *error* is of its launches that failed."""
    if own:
        n_idle = sum(not launch.n_done for launch in own)
        if not n_idle:
            return None
        return f"finished no item in {n_idle} of {counted(len(own), 'launch')}"
    if void.total_windows:
        slugs = ", ".join(
            f"{slug} {n}" for slug, n in sorted(void.reasons.items(), key=lambda one: (-one[1], one[0]))
        )
        return f"no window counts, {void.total_windows} void: {slugs}"
    return f"no launch gave a window: {error}" if error else "no window was taken"
