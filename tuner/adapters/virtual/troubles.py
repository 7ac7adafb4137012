"""What goes wrong on a virtual box: as told, or by chance that follows from the seed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tuner.core.domain.layout import Layout
from tuner.core.model.profile import Failure

Kind = Failure
_OF_A_LAUNCH: tuple[Kind, ...] = ("dies-at-start", "dies-warming", "late-threads")
_WARMING_UP: tuple[Kind, ...] = ("dies-warming", "late-threads")
_BEGINS_S, _LASTS_S = (2.0, 60.0), (120.0, 240.0)
_IN_A_WINDOW: tuple[Kind, ...] = ("dies", "wrong-threads", "foreign-cpu", "dry", "clock-jump")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that goes wrong in every launch or window that it matches; None matches all."""

    kind: Kind
    layout: Layout | None = None
    block: int | None = None
    attempt: int | None = None  #: of the launch
    window: int | None = None
    window_attempt: int | None = None
    after_s: float = 2.0  #: since RUNNING, or since the window began
    lasts_s: float = 3.0  #: foreign CPU, dry source
    size: float = 1.0  #: foreign CPU in times the box's cores; clock jump in hours


@dataclass(frozen=True, slots=True)
class Try:
    """Which launch and window the study says it makes."""

    block: int = 0
    position: int = 0
    attempt: int = 1
    window: int | None = None
    window_attempt: int | None = None
    again: int = 0  #: launches before it that were told the same; only those that warm the cache are

    def launch_key(self, stream: str, layout: Layout) -> str:
        """Names the random streams of this launch; *stream* those of its box."""
        again = f"/{self.again} before" if self.again else ""
        return f"{stream}/{self.block}/{self.position}/{layout}/{self.attempt}{again}"

    def window_key(self, stream: str, layout: Layout) -> str:
        """The same of this window, or of the warm-up."""
        return f"{self.launch_key(stream, layout)}/{self.window}/{self.window_attempt}"


@dataclass(frozen=True, slots=True)
class Fate:
    """*troubles* happen as told, *risks* are probabilities per launch or window of everything else."""

    stream: str  #: names the random streams of the box
    troubles: Sequence[Trouble]
    risks: Mapping[Kind, float]
    varied: bool = False  #: what happens by chance does so at any time in the first minute, and lasts

    def of_stretch(self, now: Try, layout: Layout) -> list[Trouble]:
        """What goes wrong in this window, or in this warm-up."""
        kinds = _WARMING_UP if now.window is None else _IN_A_WINDOW
        return [trouble for kind in kinds if (trouble := self.of(kind, now, layout)) is not None]

    def of(self, kind: Kind, now: Try, layout: Layout) -> Trouble | None:
        """Whether such a thing goes wrong now, and how."""
        for trouble in self.troubles:
            if trouble.kind == kind and all(
                wanted is None or wanted == seen
                for wanted, seen in (
                    (trouble.layout, layout),
                    (trouble.block, now.block),
                    (trouble.attempt, now.attempt),
                    (trouble.window, now.window),
                    (trouble.window_attempt, now.window_attempt),
                )
            ):
                return trouble
        if kind not in self.risks:
            return None
        key = (now.launch_key if kind in _OF_A_LAUNCH else now.window_key)(self.stream, layout)
        random = Random(f"{key}/{kind}")
        if random.random() >= self.risks[kind]:
            return None
        if not self.varied:
            return Trouble(kind)
        return Trouble(kind, after_s=random.uniform(*_BEGINS_S), lasts_s=random.uniform(*_LASTS_S))
