"""The config section `study`: layouts, windows, repetitions, limits and the end of a study."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from tuner.config.fields import (
    LARGEST_FIGURE,
    Count,
    Duration,
    Layouts,
    LongerThanZero,
    MaxLoad,
    MaxMemory,
    MaxP95,
    ObjectiveName,
    Ratio,
    Section,
    Variants,
    WholeNumber,
    nearest,
)
from tuner.core.defaults import CONFIDENCE, SHORTEST_WINDOW_S, WINDOW_S
from tuner.core.domain.layout import GRIDS, MOST_TIMES, Layout, grid_of
from tuner.core.domain.service import connections_of, shape_of
from tuner.core.errors import ConfigError
from tuner.core.text.figures import parse_duration, render_duration

GridName = Literal["small", "divisors", "full"]
STRATEGIES = ("race", "all")
#: strategy -> the settings that no other one has
OF_STRATEGY = {"race": ("within", "kind", "min_window", "slices"), "all": ("repeats", "windows_per_launch")}
MOST_CORES = 4096  #: a full grid of these has 35 000 layouts already


class StudySettings(Section):
    """Settings of the study.

    None is "as usual" for the strategy.
    """

    #: How tuner chooses the next layout. race: only layouts that may still be the best; all: all layouts
    #: equally often
    strategy: Literal["race", "all"] = "race"
    #: Number of CPU cores for which tuner chooses layouts; None: the cores available to tuner
    cores: Annotated[Count, Field(le=MOST_CORES)] | None = None
    grid: GridName | None = None  #: Set of layouts to measure (see `--grid` of `tuner grid`); None: divisors
    layouts: Layouts | None = None  #: Layouts to measure, instead of those of `grid`
    variants: Variants | None = None  #: Variants of the service to measure; None: all of them
    #: The study ends when one layout is known to be at most this much slower than the best layout (only with
    #: `strategy: race`); None: 2 %
    within: Annotated[Ratio, Field(gt=0, lt=0.5)] | None = None
    #: Required confidence of the answer, and confidence level of all intervals
    confidence: Annotated[Ratio, Field(ge=0.5, le=0.999)] = CONFIDENCE
    #: Meaning of `confidence` (only with `strategy: race`). strict: valid for every service; calibrated:
    #: right on average over typical services; None: strict
    kind: Literal["strict", "calibrated"] | None = None
    objective: ObjectiveName = "throughput"  #: Quantity to maximise
    #: tuner measures only layouts that open at most this number of connections (see `connections` in the
    #: section `service`)
    max_connections: Count | None = None
    max_load: MaxLoad | None = None  #: Largest load average that the best layout may have
    #: Largest memory (PSS) that the workers and child processes of the best layout may use
    max_memory: MaxMemory | None = None
    #: Time for which a layout must keep `max_memory` if its memory grows; None: 1 d
    horizon: LongerThanZero | None = None
    #: Largest p95 latency that the best layout may have (only with the feeder `http`)
    max_p95: MaxP95 | None = None
    #: Length of each measurement (window). With `strategy: race`, tuner also uses shorter windows
    window: LongerThanZero = WINDOW_S
    #: Length of the shortest measurement (only with `strategy: race`); None: 1 m, or 10 s with `slices:
    #: auto`, but at most `window`
    min_window: LongerThanZero | None = None
    #: With `slices: auto`, tuner keeps up to four layouts started, and measures them in turns of a few
    #: seconds (only with `strategy: race`); None: off
    slices: Literal["auto", "off"] | None = None
    #: Number of times that tuner starts each layout (only with `strategy: all`); None: 3
    repeats: Annotated[Count, Field(le=MOST_TIMES)] | None = None
    #: Number of measurements after each start of a layout (only with `strategy: all`); None: 1
    windows_per_launch: Annotated[Count, Field(le=MOST_TIMES)] | None = None
    #: Time after the start of a layout in which tuner does not count items. With `warmup: auto`, tuner waits
    #: until throughput and the number of active tasks are steady
    warmup: Literal["auto"] | Duration = "auto"
    warmup_cap: LongerThanZero = 300.0  #: Longest warm-up with `warmup: auto`
    #: Whether tuner first starts the service once without counting items, to fill the page cache
    warm_cache: bool = True
    seed: WholeNumber = 1  #: Seed for the random order of the layouts
    budget: LongerThanZero | None = None  #: Time limit of the study; None: no limit
    #: Largest number of attempts to get one valid measurement
    max_attempts: Annotated[Count, Field(le=MOST_TIMES)] = 3
    #: Largest CPU use of other processes on the host, in cores. tuner rejects a measurement if other
    #: processes use more. In a container, cores beyond its CPU quota do not count, up to 90 % of the host.
    #: CPUs that tuner may not use (taskset, AllowedCPUs=) do not count, unless they share a physical core
    #: with CPUs that tuner may use; None: 1 % of the cores, at least 0.15; all cores with `slices: auto`
    foreign_limit: Annotated[float, Field(gt=0, le=LARGEST_FIGURE, allow_inf_nan=False)] | None = None
    #: Largest share of the time in which tasks may wait for memory. tuner rejects a measurement if tasks wait
    #: longer
    memory_pressure_limit: Annotated[float, Field(gt=0, le=1)] = 0.05

    @field_validator("warmup", mode="wrap")
    @classmethod
    def _warmup(cls, value: Any, handler: Any, info: ValidationInfo) -> Any:  # noqa: ARG003  # pydantic's signature
        """Validate the warm-up, with one message instead of one per kind of value."""
        return "auto" if value == "auto" else _duration_only(value)

    @field_validator("strategy", "kind", "grid", mode="before")
    @classmethod
    def _known_word(cls, value: Any, info: ValidationInfo) -> Any:
        known = {"strategy": STRATEGIES, "kind": ("strict", "calibrated"), "grid": tuple(GRIDS)}[
            str(info.field_name)
        ]
        word = value.lower() if isinstance(value, str) else value
        if word is not None and word not in known:
            raise ValueError(f"{value} is none of {', '.join(known)}{nearest(str(word), known)}")
        return word

    @field_validator("slices", mode="before")
    @classmethod
    def _slices(cls, value: Any) -> Any:
        value = "off" if value is False else value  # YAML reads off as False
        if value not in (None, "auto", "off"):
            raise ValueError("should be auto or off")
        return value

    @field_validator("within", "kind", "min_window", "slices", "repeats", "windows_per_launch")
    @classmethod
    def _check_strategy_options(cls, value: Any, info: ValidationInfo) -> Any:
        strategy = info.data.get("strategy")
        if value is not None and strategy is not None and info.field_name not in OF_STRATEGY[strategy]:
            (other,) = (name for name in STRATEGIES if name != strategy)
            raise ValueError(f"only works with strategy {other}, and this study has strategy {strategy}")
        return value

    @field_validator("min_window")
    @classmethod
    def _check_longest_window(cls, value: Any, info: ValidationInfo) -> Any:
        longest_s = info.data.get("window")
        if value is not None and longest_s is not None and value > longest_s:
            shown = render_duration(value), render_duration(longest_s)
            raise ValueError(f"{shown[0]} is longer than the longest window, {shown[1]}")
        return value

    @field_validator("layouts")
    @classmethod
    def _check_layout_choice(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("grid") is not None:
            raise ValueError("name a grid or layouts, not both")
        return value

    @property
    def limits(self) -> dict[str, float]:
        """Limits for the best layout, by quantity: load, bytes of memory, p95 latency in seconds."""
        asked = {"load": self.max_load, "memory_bytes": self.max_memory, "p95_s": self.max_p95}
        return {name: at_most for name, at_most in asked.items() if at_most is not None}

    @property
    def shortest_window(self) -> float:
        """Length in seconds of the shortest window that the strategy may choose."""
        if self.strategy == "all":
            return self.window
        return min(SHORTEST_WINDOW_S, self.window) if self.min_window is None else self.min_window

    def layouts_for(
        self,
        cores: int,
        threads_of: Mapping[str, bool],
        connections: int | Literal["threads"] = "threads",
        pooled: Collection[str] = (),
        one_process: Collection[str] = (),
    ) -> tuple[Layout, ...]:
        """Return the layouts to measure; a layout without a variant stands for all variants that allow it.

        Args:
            cores: Number of cores to plan layouts for.
            threads_of: Variant -> whether its number of threads can be chosen; "" is the service without a
                variant.
            connections: Connections per process; a layout of the grid with too many is made smaller.
            pooled: Variants whose threads are processes of a pool.
            one_process: Variants whose workers are threads of one process.
        """
        if self.layouts is not None:
            return tuple(
                one for layout in self.layouts for one in in_variants(layout, threads_of, one_process)
            )
        return tuple(
            layout
            for variant, has_threads in threads_of.items()
            for layout in self._within_connections(
                [
                    replace(layout, variant=variant)
                    for layout in _grid(
                        self.grid or "divisors", cores, has_threads, is_one_process=variant in one_process
                    )
                ],
                lambda layout: connections_of(shape_of(layout, pooled), connections),
            )
        )

    def _within_connections(
        self, layouts: Sequence[Layout], opened: Callable[[Layout], int]
    ) -> Sequence[Layout]:
        """Return the *layouts* that open at most `max_connections` connections.

        Each other layout is replaced by the next smaller one within the limit, because the limit may be far
        above the next smaller total of the grid.
        """
        most = self.max_connections
        if most is None:
            return layouts
        kept = {layout for layout in layouts if opened(layout) <= most}
        smaller = (_next_smaller(one, most, opened) for one in {*layouts} - kept)
        return sorted(kept.union(one for one in smaller if one is not None))


def _next_smaller(layout: Layout, most: int, opened: Callable[[Layout], int]) -> Layout | None:
    """Return *layout* with so few threads, or processes of one thread, that it opens at most *most*."""
    threads = bisect_right(
        range(1, layout.threads + 1), most, key=lambda n: opened(replace(layout, threads=n))
    )
    if threads:
        return replace(layout, threads=threads)
    alone = replace(layout, threads=1)
    processes = bisect_right(
        range(1, layout.processes + 1), most, key=lambda n: opened(replace(alone, processes=n))
    )
    return replace(alone, processes=processes) if processes else None


def _grid(name: str, cores: int, has_threads: bool, *, is_one_process: bool) -> list[Layout]:
    """Return the grid of a variant; for one process, threads in place of the processes of the grid."""
    if not is_one_process:
        return grid_of(name, cores, has_threads=has_threads)
    return [Layout(1, one.processes) for one in grid_of(name, cores, has_threads=False)]


def in_variants(
    layout: Layout, threads_of: Mapping[str, bool], one_process: Collection[str] = ()
) -> tuple[Layout, ...]:
    """Return *layout* with `has_threads` of its variant; without a variant, in every variant that allows it.

    Variants with a choice of threads allow several threads, those without allow ``8x-``. Variants of one
    process allow no layout of several processes.

    Args:
        layout: The layout as given in the settings.
        threads_of: As for `StudySettings.layouts_for`.
        one_process: As for `StudySettings.layouts_for`.
    """
    if layout.variant or "" in threads_of:
        has_threads = threads_of.get(layout.variant, threads_of.get("", True))
        return (replace(layout, has_threads=has_threads),)
    return tuple(
        replace(layout, variant=variant, has_threads=has_threads)
        for variant, has_threads in threads_of.items()
        if (has_threads == layout.has_threads or (layout.has_threads and layout.threads == 1))
        and (layout.processes == 1 or variant not in one_process)
    )


def _duration_only(value: Any) -> float:
    try:
        return parse_duration(str(value))
    except ConfigError as error:
        raise ValueError(f"should be auto or a duration: {error.problem}. {error.hint}") from error
