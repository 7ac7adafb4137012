"""One thing that was looked at, what it does to the answer, and what helps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "blocker"]

UNKNOWN = "not reported by this kernel"
_ORDER = ("blocker", "warn", "ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """What `tuner doctor` says of one thing; its fields are those of the JSON."""

    check: str  #: what was looked at, the same word whatever was found
    level: Level  #: blocker: a study would fail, or measure something else
    found: str  #: what is there
    effect: str  #: on the answer; empty: none
    cure: str  #: what to do; empty: nothing


def fine(check: str, found: str, effect: str = "") -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", found, effect, "")


def doubtful(check: str, found: str, effect: str, cure: str) -> Finding:
    """The study runs; its answer is weaker, or means something else than one may think."""
    return Finding(check, "warn", found, effect, cure)


def blocking(check: str, found: str, effect: str, cure: str) -> Finding:
    """The study would fail, or measure something else."""
    return Finding(check, "blocker", found, effect, cure)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Blockers, then warnings, then the rest, each in the order they come in."""
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.level)))


def blockers(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those for which a study should not begin."""
    return tuple(finding for finding in findings if finding.level == "blocker")
