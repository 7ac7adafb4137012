"""Null feeder for services that fetch their items themselves."""

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
    """Supplies no items, and cannot detect whether the source is dry."""

    def prepare(self) -> None:
        """Do nothing: there is nothing to check."""

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:  # noqa: ARG002  # all layouts are alike
        """Do nothing: there is nothing to set up or to remove."""
        yield

    def away(self) -> str:
        """Return no reason: the source is unknown."""
        return ""

    def rest(self) -> None:
        """Do nothing: nothing is sent."""

    def is_dry(self) -> bool:
        """Return False: the source is unknown."""
        return False

    def problem(self) -> str:
        """Return no problem: nothing is fed."""
        return ""

    def pids(self) -> frozenset[int]:
        """Return no process."""
        return frozenset()

    def requests(self) -> None:
        """Return None: there are no requests."""

    @property
    def pace(self) -> None:
        """None: the pace does not change."""

    @property
    def can_pause(self) -> bool:
        """False: nothing is fed."""
        return False

    def pause(self) -> None:
        """Raise ValueError: the feeder cannot pause."""
        raise ValueError("a source that tuner does not feed cannot pause")

    def resume(self) -> None:
        """Do nothing: the feeder never pauses."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:  # the port's signature
        """Do nothing: the workers fetch the items themselves."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Raise NotImplementedError: the feeder has no rate."""
        raise NotImplementedError
