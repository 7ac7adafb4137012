"""What a ranking is asked beside its confidence: objective, limits, costs; as options and as values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

from tuner.core.domain.limits import Limit, limits_from
from tuner.core.domain.records import Objective, StudyRecord, parse_objective
from tuner.core.errors import ConfigError
from tuner.core.ranking.pareto import COSTS, Cost
from tuner.core.settings.safety_limits import parse_limits
from tuner.core.text.figures import parse_duration


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """What somebody asks of a study's windows; what is not given is as the study was asked."""

    objective: Objective | None = None
    limits: tuple[Limit, ...] = ()
    costs: tuple[Cost, ...] = ()  #: what throughput is to be set against
    within: float | None = None  #: the margin within which layouts match, as a share
    boxes: tuple[str, ...] = ()  #: the only ones that are looked at; none: all
    without_boxes: tuple[str, ...] = ()  #: left out
    horizon_s: float | None = None  #: after a start, until when the memory limit is to be kept

    def objective_of(self, study: StudyRecord) -> str:
        """What is to be large."""
        return self.objective or study.objective

    def limits_of(self, study: StudyRecord) -> tuple[Limit, ...]:
        """The limits of *study*, those asked for now in place of its own."""
        return limits_from({**study.limits, **{limit.name: limit.at_most for limit in self.limits}})

    def horizon_of(self, study: StudyRecord) -> float:
        """The time after a start until which the memory limit is to be kept."""
        return study.horizon_s if self.horizon_s is None else self.horizon_s

    def within_of(self, study: StudyRecord) -> float:
        """The margin within which layouts match."""
        return study.within_ratio if self.within is None else self.within

    def is_of(self, study: StudyRecord) -> bool:
        """Whether *study* was begun with this very question, so that its own answer is one to it."""
        own = limits_from(study.limits)
        return self.objective_of(study) == study.objective and self.limits_of(study) == own


def selected_boxes(question: RankingOptions, known: Sequence[str]) -> frozenset[str]:
    """Those of the boxes *known* of a study that are looked at.

    Raises:
        ConfigError: one that is named is none of them, or none is left.
    """
    for option, names in (("--box", question.boxes), ("--without-box", question.without_boxes)):
        for name in names:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                said = f"Did you mean {near[0]}? " if near and len(known) > 1 else ""
                those = f"The hosts are {', '.join(known)}." if known else "It has used no host yet."
                raise ConfigError(f"{option}: this study has no host {name!r}", hint=said + those)
    left = frozenset(question.boxes or known) - frozenset(question.without_boxes)
    if known and not left:
        raise ConfigError("--without-box leaves no host", hint=f"The hosts are {', '.join(known)}.")
    return left


def parse_question(
    *,
    objective: str | None = None,
    max_load: str | None = None,
    max_memory: str | None = None,
    max_p95: str | None = None,
    costs: str | None = None,
    within: str | None = None,
    boxes: Sequence[str] = (),
    without_boxes: Sequence[str] = (),
    horizon: str | None = None,
) -> RankingOptions:
    """Read the options as they were typed; None for those that were not.

    Raises:
        ConfigError: one of them says nothing; the error begins with its name.
    """
    try:
        named = None if objective is None else parse_objective(objective)
    except ConfigError as error:
        raise ConfigError(f"--objective: {error.problem}", hint=error.hint) from error
    return RankingOptions(
        named,
        parse_limits({"load": max_load, "memory_bytes": max_memory, "p95_s": max_p95}),
        () if costs is None else _parse_costs(costs),
        None if within is None else _parse_within(within),
        tuple(dict.fromkeys(boxes)),
        tuple(dict.fromkeys(without_boxes)),
        None if horizon is None else _parse_horizon(horizon),
    )


def _parse_costs(text: str) -> tuple[Cost, ...]:
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in COSTS:
            near = get_close_matches(name, COSTS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(COSTS)}."
            raise ConfigError(f"--costs: no such cost: {name!r}", hint=hint)
    if not names:
        raise ConfigError("--costs: no cost is named", hint=f"There are {', '.join(COSTS)}.")
    return tuple(cast(Cost, name) for name in dict.fromkeys(names))


def parse_share(text: str) -> float | None:
    """Read ``2%`` or ``0.02``; None: it is neither."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text, re.ASCII)
    return float(match[1]) / (100 if match[2] else 1) if match else None


def _parse_horizon(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"--horizon: {error.problem}", hint=error.hint) from error
    if not seconds:
        raise ConfigError(
            f"--horizon: {text!r} leaves no time at all", hint="Write a duration, as 12h or 7d."
        )
    return seconds


def _parse_within(text: str) -> float:
    share = parse_share(text)
    if share is None or not 0 < share < 0.5:
        raise ConfigError(
            f"--within: {text!r} is not a margin above 0 and below 50 %", hint="Write a share, as 2% or 0.02."
        )
    return share
