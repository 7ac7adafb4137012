"""How a study ended."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer

DONE, NOTHING_MEASURED, WEAKER_THAN_ASKED, BRAKED, INTERRUPTED = 0, 3, 5, 6, 130


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """What was reached of what was asked for, over all sessions of the study."""

    answer: Answer
    n_blocks_done: int  #: every cell of these was tried to its end
    n_windows: int  #: that count
    n_void: int
    n_launches_failed: int
    left_out: tuple[Layout, ...]  #: cannot be run
    void_cells: tuple[tuple[int, Layout], ...]  #: block and layout of what was tried and has a window missing
    out_of_budget: bool
    braked: str | None  #: what passed a limit of the user's, and so stopped the study in this session
    interrupted: bool
    is_over: bool  #: there is nothing more to measure; else it can be resumed

    @property
    def exit_code(self) -> int:
        """130 interrupted; 3 nothing was measured; 6 the brake stopped it; 5 less than asked for; 0 done."""
        if self.interrupted:
            return INTERRUPTED
        if self.n_windows == 0:
            return NOTHING_MEASURED
        if self.braked is not None:
            return BRAKED
        return WEAKER_THAN_ASKED if self.left_out or not self._is_complete else DONE

    @property
    def _is_complete(self) -> bool:
        """A strategy that claims something is done with its answer, another one with its windows."""
        if self.answer.kind == "none":
            return not (self.out_of_budget or self.void_cells)
        return self.answer.reached
