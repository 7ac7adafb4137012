"""Changes of the demands of an item (`--what-if`), parsed from text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.core.errors import ConfigError
from tuner.core.model.demand import SECONDS, Demands, Terms, with_some_demand
from tuner.core.model.machine import Machine
from tuner.core.text.figures import parse_duration, render_duration

#: name in the option -> the changed field of `Demands`, and the usual name of the demand
CHANGES = {
    "gil": ("gil_s", "Python with the GIL"),
    "python": ("python_s", "Python without the GIL"),
    "child-cpu": ("child_s", "CPU of children"),
    "wait": ("asleep_s", "waiting asleep"),
    "blocked": ("blocked_s", "waiting uninterruptibly"),
    "spawn": ("spawn_s", "starting children"),
}
_FACTOR = re.compile(r"x(\d+(?:\.\d+)?|\.\d+)", re.ASCII)
_LARGEST_FACTOR = 1000.0


@dataclass(frozen=True, slots=True)
class DemandChange:
    """One demand, multiplied, then increased."""

    name: str  #: one of `CHANGES`
    factor: float = 1.0
    plus_s: float = 0.0

    def __str__(self) -> str:
        said = [f"x{self.factor:g}"] if self.factor != 1 or not self.plus_s else []
        if self.plus_s:
            said.append(f"{'+' if self.plus_s > 0 else '-'}{render_duration(abs(self.plus_s))}")
        return f"{CHANGES[self.name][1]} {' '.join(said)}"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """All assumed changes of the measured service; none by default."""

    changes: tuple[DemandChange, ...] = ()  #: changes in the order of their application
    no_gil: bool = False  #: whether the interpreter has no GIL

    def __bool__(self) -> bool:
        return bool(self.changes) or self.no_gil

    def __str__(self) -> str:
        return ", ".join([*map(str, self.changes), *(["no GIL"] if self.no_gil else [])])

    def of_demands(self, demands: Demands) -> Demands:
        """Return *demands* with the changes applied; a demand that would fall below 0 is 0."""
        return replace(demands, **self._left_of(demands))

    def of_draws(self, draws: Sequence[Demands], middle: Demands) -> tuple[Demands, ...]:
        """Return *draws* of *middle*, for which `check` passed, with the changes applied.

        A change may remove all demand of an item in a draw: then a demand near 0 is left.
        """
        changed = self.of_demands(middle)
        return tuple(with_some_demand(self._left_of(draw), changed) for draw in draws)

    def _left_of(self, demands: Demands) -> dict[str, Any]:
        left = {name: getattr(demands, name) for name in SECONDS}
        for change in self.changes:
            field = CHANGES[change.name][0]
            left[field] = max(0.0, left[field] * change.factor + change.plus_s)
        return left

    def of_terms(self, terms: Terms) -> Terms:
        """Return *terms* for the assumed interpreter: without a GIL there is no convoy."""
        return replace(terms, convoy_ratio=0.0) if self.no_gil else terms

    def of_machine(self, machine: Machine) -> Machine:
        """Return *machine* with the assumed interpreter."""
        return replace(machine, has_gil=False) if self.no_gil else machine

    def check(self, demands: Demands) -> None:
        """Check that the changes can be applied to the measured *demands*.

        Raises:
            ConfigError: a change removes more than the demand, or no demand is left.
        """
        for change in self.changes:
            field, called = CHANGES[change.name]
            before_s = getattr(demands, field)
            if change.factor != 1 and not before_s:
                raise ConfigError(
                    f"--{change.name} x{change.factor:g}: an item has no known {called}, so"
                    " a factor has no effect",
                    hint=f"Add an amount, as --{change.name} +10ms, or leave it out.",
                )
            after_s = before_s * change.factor + change.plus_s
            if after_s < 0:
                raise ConfigError(
                    f"--{change.name} {change.plus_s:g}s: {called} is {before_s * change.factor:.3g} s"
                    " of an item and cannot become negative",
                    hint=f"Subtract less, or write --{change.name} x0." if before_s else "Leave it out.",
                )
            try:
                demands = replace(demands, **{field: after_s})
            except ValueError as error:
                raise ConfigError(
                    f"--{change.name} leaves an item without any demand", hint="Leave some of it."
                ) from error


def parse_what_if(texts: Mapping[str, Sequence[str]], *, no_gil: bool) -> WhatIf:
    """Parse changes by the name of the demand: ``{"wait": ["x0.5", "+200ms"]}``.

    Raises:
        ConfigError: one of them is invalid.
    """
    changes = [parse_change(name, text) for name in CHANGES for text in texts.get(name, ())]
    return WhatIf(tuple(changes), no_gil)


def parse_change(name: str, text: str) -> DemandChange:
    """Parse ``x0.5`` (half of it), ``+200ms`` (longer by that) or ``-50ms`` (shorter by that).

    Raises:
        ConfigError: *text* is none of these.
    """
    compact = text.strip().lower()
    match = _FACTOR.fullmatch(compact)
    if match is not None:
        factor = float(match[1])
        if factor > _LARGEST_FACTOR:
            raise ConfigError(f"--{name} {text}: the largest factor is x{_LARGEST_FACTOR:g}")
        return DemandChange(name, factor=factor)
    if compact[:1] in ("+", "-"):
        try:
            seconds = parse_duration(compact[1:])
        except ConfigError as error:
            raise ConfigError(f"--{name} {text}: {error.problem}", hint=error.hint) from error
        return DemandChange(name, plus_s=seconds if compact[0] == "+" else -seconds)
    raise ConfigError(
        f"--{name}: {text!r} is no change",
        hint=f"Write --{name} x0.5 for half of it, +200ms or -50ms for so much longer or shorter.",
    )
