"""Lines printed before a study starts: the measurements, their duration, and the started commands."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, WindowRecord, value_of
from tuner.core.text.figures import percent, pluralize, render_duration, render_rest
from tuner.core.text.safe_text import visible

#: largest share of the longest time at which the time with slices is printed
WORTH_NAMING = 0.75
_NAMED = 6  #: largest number of layouts named; of more, the first ones and the last


def describe_start(
    study: StudyRecord,
    *,
    n_first: int,
    look_s: float | None,
    first_s: float,
    answer_s: tuple[float, float],
    starts: str,
    feeds: str,
    answer_in_turns_s: tuple[float, float] | None = None,
    is_new: bool = True,
) -> Sequence[str]:
    """Return the lines printed before a study.

    Args:
        study: the requested study.
        n_first: number of layouts in the first block.
        look_s: seconds until the provisional ranking of a first look; None: there is none.
        first_s: seconds until each of these has been measured once.
        answer_s: least and greatest number of seconds until the study ends.
        starts: commands started for each layout, as they would be typed.
        feeds: source of its items, as part of a sentence.
        answer_in_turns_s: the same as *answer_s*, if the layouts took turns; None: they do, or cannot.
        is_new: False: the study is resumed, so no times are given.
    """
    layouts = [str(layout) for layout in study.layouts]
    named = ", ".join(layouts) if len(layouts) <= _NAMED else f"{layouts[0]} ... {layouts[-1]}"
    lines = [
        f"To measure: {pluralize(len(layouts), 'layout')} for {pluralize(study.cores, 'core')} ({named})."
    ]
    lines += [f"Each is started as: {visible(starts)}", f"Its work: {visible(feeds)}."]
    if is_new:
        if look_s is not None:
            lines.append(f"A provisional ranking comes after about {render_rest(look_s)}.")
        lines.append(describe_times(study, n_first, first_s, answer_s))
        if answer_in_turns_s is not None and study.budget_s is None:
            shorter = answer_in_turns_s[1] < WORTH_NAMING * answer_s[1]
            lines += [f"With --slices auto, it likely takes {_format_range(*answer_in_turns_s)}."] * shorter
    return lines


def describe_times(study: StudyRecord, n_first: int, first_s: float, answer_s: tuple[float, float]) -> str:
    """Return a sentence on the duration; arguments as for `describe_start`."""
    quickest_s, longest_s = answer_s
    budget_s = study.budget_s
    each = "each" if n_first == len(study.layouts) else f"{n_first} of them"
    first = f"about {render_rest(first_s)} until {each} has one window"
    if budget_s is not None and quickest_s >= budget_s:
        return f"It takes {first}; the budget ends it after {render_duration(budget_s)}."
    if study.strategy == "race":
        how_long = _format_range(quickest_s, longest_s if budget_s is None else min(longest_s, budget_s))
        margin = percent(study.within_ratio)
        is_cut = budget_s is not None and longest_s >= budget_s
        longer = "" if is_cut else "; longer where items are few or uneven"
        return f"It takes {first}, and likely {how_long} until the answer (within {margin}){longer}."
    if quickest_s == longest_s:
        return f"It takes {first}, and about {render_rest(longest_s)} in all."
    latest = "" if budget_s is None else f", and ends after {render_duration(budget_s)} at the latest"
    return f"It takes {first}{latest}."


def _format_range(low_s: float, high_s: float) -> str:
    low, high = render_rest(low_s), render_rest(high_s)
    return low if low == high else f"{low} to {high}"


# Provisional ranking after a first look.


ALIKE_RATIO = 0.1  #: difference that launches and short windows may have by chance, for any number of items
SIGMAS = 2.0


def render_first_look(study: StudyRecord, windows: Sequence[WindowRecord]) -> str:
    """Return the ranking, marked as provisional, with its unknowns; empty: no window was taken."""
    if not windows:
        return ""
    best_of = {window.layout: window for window in windows if not window.void and window.n_done}
    without = [x for x in dict.fromkeys(window.layout for window in windows) if x not in best_of]
    lengths = render_duration(round(windows[0].length_s))
    head = (
        f"PROVISIONAL: one window of {lengths} of {len(best_of)} of {pluralize(len(study.layouts), 'layout')}"
    )
    values = {layout: value_of(window, study.objective) or 0.0 for layout, window in best_of.items()}
    ranked = sorted(values, key=lambda layout: -values[layout])
    if not ranked:
        return f"{head}; none of them is valid. The study continues.\n"
    near = [x for x in ranked if _is_near(best_of[ranked[0]], best_of[x], values[ranked[0]], values[x])]
    unit = "items/10 min" if study.objective == "throughput" else "items per CPU second"
    scale = TEN_MINUTES_S if study.objective == "throughput" else 1.0
    cells = max(len(str(layout)) for layout in ranked)
    lines = [f"{head}.", f"May be the best: {', '.join(map(str, near))}.", ""]
    for layout in ranked:
        behind = "" if layout == ranked[0] else f"  -{percent(1 - values[layout] / values[ranked[0]])}"
        value = f"{values[layout] * scale:,.0f}".replace(",", " ")
        lines.append(f"  {layout!s:<{cells}}  {value:>12} {unit}{behind}")
    lines += ["", *_describe_unknown(study, without, len(best_of))]
    return "\n".join(lines) + "\n"


def _is_near(best: WindowRecord, other: WindowRecord, best_value: float, value: float) -> bool:
    by_count = SIGMAS * sqrt(1 / best.n_done + 1 / other.n_done)
    return value >= best_value * (1 - max(ALIKE_RATIO, by_count))


def _describe_unknown(study: StudyRecord, without: Sequence[Layout], n_seen: int) -> Sequence[str]:
    parts = ["which of the candidates is the best"]
    unseen = len(study.layouts) - n_seen - len(without)
    if unseen > 0:
        parts.append(f"the results of the other {pluralize(unseen, 'layout')}")
    if without:
        parts.append(f"the results of {', '.join(map(str, without))}")
    return [f"Not known yet: {'; '.join(parts)}."]
