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

#: why a study that nobody measures goes no further
Ending = Literal["over", "out-of-budget", "cut-off"]


@dataclass(frozen=True, slots=True)
class Overview:
    """A study, its results so far, and the launch that runs."""

    name: str  #: of its file, without the folder
    study: StudyRecord
    ranking: Ranking
    launches: Sequence[tuple[int, LaunchRecord]]  #: with their ids, in the order they were started
    windows: Sequence[WindowRecord]  #: in the order they were taken, void ones included
    explanation: Explanation | str  #: what binds its layouts, or why that is not known
    rules: Sequence[Rule] = ()  #: to size it by; none where they are not known
    live: Live | None = None  #: None: nobody measures at the moment, or whoever does has not said a word yet
    is_held: bool = False  #: a tuner has the file open to write into it
    is_over: bool | None = None  #: nothing is left to be measured; None: the file alone does not tell
    rest_s: float | None = None  #: what is expected to be left; None: the file alone does not tell
    is_spent: bool = False  #: its budget has no room for what is to be measured next
    can_slice: bool = False  #: the study had no slices, but its layouts can take turns; False: or not known
    boxes: Sequence[BoxRecord] = ()  #: of a fleet, as they joined; none: it was measured on one
