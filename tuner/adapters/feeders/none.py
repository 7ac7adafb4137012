"""Null feeder for services that fetch their items from a source of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from tuner.config.feeders import FeederSettings
from tuner.config.kinds import FeederSurroundings
from tuner.core.domain.layout import Layout

if TYPE_CHECKING:
    from tuner.config.service import ScriptSettings


class NoFeederSettings(FeederSettings):
    """tuner sends no items, because the service has another source of items."""

    kind: Literal["none"] = "none"  #: Kind of feeder

    def describe(self) -> str:
        """See `FeederSettings`."""
        return "the items that the service finds; tuner feeds none"

    def build(
        self, _service: ScriptSettings, _layouts: Sequence[Layout], _around: FeederSurroundings
    ) -> NoFeeder:
        """See `FeederSettings`."""
        return NoFeeder()


class NoFeeder:
    """Supplies nothing, and cannot tell whether the source is dry."""

    def prepare(self) -> None:
        """Nothing can be wrong with it."""

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:  # noqa: ARG002  # every layout is the same to it
        """Nothing to set up, nothing to clear away."""
        yield

    def away(self) -> str:
        """Never known to be."""
        return ""

    def rest(self) -> None:
        """Nothing is sent."""

    def is_dry(self) -> bool:
        """Never known to be."""
        return False

    def problem(self) -> str:
        """Nothing is fed."""
        return ""

    def pids(self) -> frozenset[int]:
        """No process."""
        return frozenset()

    def requests(self) -> None:
        """There are none to know of."""

    @property
    def pace(self) -> None:
        """It goes on as it begins."""

    @property
    def can_pause(self) -> bool:
        """Nothing is fed."""
        return False

    def pause(self) -> None:
        """It cannot."""
        raise ValueError("a source that tuner does not feed cannot pause")

    def resume(self) -> None:
        """It never pauses."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:  # as the port has it
        """Whoever works finds the items."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Nobody asks for it."""
        raise NotImplementedError
