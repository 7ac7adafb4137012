"""The noise of a simulated host from second to second, the same for all layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, floor, sqrt
from random import Random


@dataclass(slots=True)
class HostNoise:
    """A speed that wanders: its logarithm is an AR(1) process in steps of a second.

    The same stream gives the same speed at the same time, whatever runs, so all layouts that are resident at
    once share it.
    """

    sd: float  #: of the logarithm
    lasts_s: float  #: correlation time
    stream: str  #: names the random numbers
    began_wall_s: float  #: where the first step is
    _path: list[float] = field(default_factory=list)
    _random: Random | None = None

    def mean_speed(self, from_wall_s: float, to_wall_s: float) -> float:
        """The mean speed in a stretch of time, as a multiple of the usual one."""
        if not self.sd or to_wall_s <= from_wall_s:
            return 1.0
        begin, end = from_wall_s - self.began_wall_s, to_wall_s - self.began_wall_s
        total, at_s = 0.0, begin
        while at_s < end:
            step = floor(at_s)
            until_s = min(end, step + 1.0)
            total += (until_s - at_s) * exp(self._at(step))
            at_s = until_s
        return total / (end - begin)

    def _at(self, step: int) -> float:
        if self._random is None:
            self._random = Random(f"{self.stream}/host")
        keeps = exp(-1.0 / self.lasts_s)
        while len(self._path) <= step:
            shock = self._random.gauss(0, self.sd)
            before = self._path[-1] if self._path else None
            self._path.append(shock if before is None else keeps * before + sqrt(1 - keeps**2) * shock)
        return self._path[max(0, step)]
