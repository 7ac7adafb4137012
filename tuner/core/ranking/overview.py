"""The state of a study for reports and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tuner.core.domain.live import Live
    from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
    from tuner.core.model.diagnosis.explanation import Explanation
    from tuner.core.model.diagnosis.sizing import Rule
    from tuner.core.ranking.ranked import Ranking

#: reason why a study that is not running has ended
Ending = Literal["over", "out-of-budget", "cut-off"]


@dataclass(frozen=True, slots=True)
class Overview:
    """A study, its results so far, and the launch that runs."""

    name: str  #: name of its file without the folder
    study: StudyRecord
    ranking: Ranking
    launches: Sequence[tuple[int, LaunchRecord]]  #: launches with their ids, in the order of their starts
    windows: Sequence[WindowRecord]  #: windows in the order of measurement, including invalid ones
    explanation: Explanation | str  #: bottlenecks of its layouts, or the reason why they are unknown
    rules: Sequence[Rule] = ()  #: sizing rules; empty: unknown
    live: Live | None = None  #: live status; None: the study is not running, or has not reported yet
    is_held: bool = False  #: whether a tuner has the file open for writing
    is_over: bool | None = None  #: whether nothing is left to measure; None: not known from the file alone
    rest_s: float | None = None  #: expected rest, seconds; None: not known from the file alone
    is_spent: bool = False  #: whether the budget has no room for the next measurement
    #: True: the study had no slices, but its layouts can take turns; False: otherwise, or unknown
    can_slice: bool = False
    boxes: Sequence[BoxRecord] = ()  #: hosts of a fleet in the order of joining; empty: measured on one host
