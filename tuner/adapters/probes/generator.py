"""Probe that counts the answers which the HTTP load generator received."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from tuner.adapters.load.totals import DamagedTotalsError, read_counts, totals_file
from tuner.config.kinds import ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.core.errors import MeasurementError
from tuner.ports import Clock

if TYPE_CHECKING:
    from tuner.config.feeders import FeederSettings
    from tuner.config.settings import Settings


class GeneratorProbeSettings(ProbeSettings):
    """tuner's load generator counts the answers to its requests."""

    is_alone: ClassVar[bool] = True
    kind: Literal["generator"]  #: Kind of probe

    def build(self, _settings: Settings, around: Surroundings) -> GeneratorProbe:
        """See `ProbeSettings`."""
        return GeneratorProbe(around.clock, totals_file(around.scratch))

    def counts_failed(self, _feeder: object) -> bool:
        """Answers with a bad status are failed items."""
        return True

    def problem_with(self, feeder: FeederSettings) -> str:
        """See `ProbeSettings`."""
        if feeder.kind == "http":
            return ""
        return f"generator counts the answers that feeder http gets; the feeder is {feeder.kind}"


class GeneratorProbe:
    """Reads the totals that a load generator keeps; see ``HttpFeeder``."""

    def __init__(self, clock: Clock, totals: Path) -> None:
        """Set up the probe; *totals* is the file in which the feeder's generator counts during a launch."""
        self._clock = clock
        self._totals = totals

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[GeneratorCounting]:  # noqa: ARG002  # the feeder knows it
        """Count during one launch."""
        yield GeneratorCounting(self._clock, self._totals)


class GeneratorCounting:
    """Counts of the answers in one launch."""

    def __init__(self, clock: Clock, totals: Path) -> None:
        self._clock = clock
        self._totals = totals
        self._has_started = False

    @property
    def environment(self) -> Mapping[str, str]:
        """No variables: the workers do not take part."""
        return {}

    def pids(self) -> frozenset[int]:
        """Return no process: tuner counts itself."""
        return frozenset()

    def read(self) -> Reading:
        """Return the answers with a status below 400 and the failed requests; 0 while no generator runs.

        Raises:
            MeasurementError: the counts are damaged, or missing while the launch runs.
        """
        at_s = self._clock.monotonic_s()
        try:
            n_done, n_failed = read_counts(self._totals)
        except FileNotFoundError as error:
            if self._has_started:
                raise MeasurementError(f"{self._totals} is gone: the load generator's counts") from error
            return Reading(at_s=at_s, n_done_total=0, n_failed_total=0)
        except (DamagedTotalsError, OSError) as error:
            raise MeasurementError(f"the load generator's counts cannot be read: {error}") from error
        self._has_started = True
        return Reading(at_s=at_s, n_done_total=n_done, n_failed_total=n_failed)
