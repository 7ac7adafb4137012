"""Whose fault it is that nothing came of a launch: the box's, or its layout's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tuner.core.domain.fleet import LOST
from tuner.core.domain.records import LaunchRecord
from tuner.core.settings.safety_limits import was_stopped_by_brake
from tuner.ports import Store
from tuner.study.fleet.members import Member, Work
from tuner.study.launch.plan_cells import Cell
from tuner.study.run import MOST_DISTURBED

MOST_VAIN = 2  #: places in a row whose layout fails on a box and runs on others; the first is asked for again


def note_start(member: Member, launch: LaunchRecord, *, may_try: bool) -> bool:
    """Take note of a launch that has ended; gives whether it shows that the box starts nothing.

    Where a first start, or all launches of a layout, failed, the box is put on trial if it *may_try*: the
    smallest layout is to be started next, and tells whose fault it is. A start that the brake stops tells
    nothing of that.
    """
    has_started = launch.running_after_s is not None
    if not has_started and (
        was_stopped_by_brake(launch) or launch.error is None
    ):  # or by the end of the budget
        member.is_on_trial = False
        return False
    if member.is_on_trial and not has_started:
        member.does_not_start = True
        return True
    was_tried, member.is_on_trial = member.is_on_trial, False
    member.starts = member.starts or has_started
    cell = None if member.work is None else member.work.cell
    is_in_vain = cell is not None and cell.is_hopeless and not cell.is_over_limit
    member.is_on_trial = not was_tried and may_try and (not member.starts or is_in_vain)
    return False


def clear_layout(work: Work, box: str, store: Store) -> None:
    """Have launches that failed on a *box* that starts nothing say nothing of their layout."""
    for launch_id, launch in work.spoilt:
        text = f"{LOST}: nothing starts on {box}; {launch.error}"
        store.finish_launch(launch_id, replace(launch, error=text))
        work.cell.n_spoilt -= 1


def note_place(member: Member, cell: Cell, elsewhere: Iterable[Cell]) -> bool:
    """Take note of a place that is over; gives whether nothing came of it for the box's fault.

    That is: all its launches failed, and its layout gave windows *elsewhere*.
    """
    if cell.kept:
        member.n_disturbed = member.n_vain = 0
    elif cell.is_vain and not cell.is_hopeless:
        member.n_disturbed += 1
    is_vain = (
        cell.is_hopeless
        and not cell.is_over_limit
        and any(one.layout == cell.layout and one.kept for one in elsewhere)
    )
    member.n_vain += is_vain
    return is_vain


def enough_of(member: Member, cell: Cell) -> str | None:
    """Why a box is to be left out, by what came of its places in a row, *cell* the last; None: it is not."""
    if member.n_disturbed >= MOST_DISTURBED:
        return f"{MOST_DISTURBED} launches in a row gave no valid window"
    if member.n_vain >= MOST_VAIN:
        return (
            f"{MOST_VAIN} times in a row all launches of a layout failed here but not on other hosts,"
            f" last of {cell.layout}"
        )
    return None
