"""Sentences, notes and cell texts for the comparison of two studies."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import is_simulated
from tuner.core.planning.compared import Best, Figure, Known, Lost, Slower, StudyComparison
from tuner.core.ranking.study_difference import Changes, LayoutChange, is_surely_changed
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import list_names, percent, pluralize

_STREAM = "simulated_stream"
_LOST: Mapping[Lost, str] = {
    "not-in-it": "was not measured",
    "no-window": "has no window that counts",
    "idle-launch": "has a launch that finished nothing",
    "nothing-finished": "finished nothing",
}


def comparison_sentences(found: StudyComparison) -> list[str]:
    """Return the claims: on the best layout, on all together, on layouts that stand out."""
    change, lines = found.throughput, [_describe_best(found)]
    level = percent(found.confidence)
    if change.shared is not None and change.n_shared > 1:
        lines.append(
            f"All {change.n_shared} layouts together: {format_change(change.shared)}, {level} if the host"
            " drifted no more than it did from block to block."
        )
    own = [one for one in change.layouts if one.stands_out]
    for one in own:
        assert one.beside is not None
        lines.append(
            f"{one.layout} against the others: {format_change(one.beside)}; alone: "
            f"{format_change(one.ratio)}."
        )
    if not own and all(one.beside is not None and one.beside.low is not None for one in change.layouts):
        lines.append("No layout changed in a significantly different way from the others.")
    if not any(one.has_changed or one.stands_out for one in change.layouts) and not (
        change.shared is not None and is_surely_changed(change.shared)
    ):
        lines.append(_describe_detectable(found))
    return lines


def comparison_notes(found: StudyComparison) -> list[str]:
    """Return the limits of the comparison, a sentence each."""
    change, notes = found.throughput, []
    for n_blocks, known in zip(change.n_blocks, (found.before, found.after), strict=True):
        if n_blocks < 2:
            notes.append(f"{known.name} has one block, so its noise is unknown and there is no interval.")
    if all(n_blocks > 1 for n_blocks in change.n_blocks):
        notes.append(
            "Intervals include the drift of the host between blocks of a study, but not differences between"
            " days or hosts. These are part of the change that all layouts share; a layout against the"
            " others does not contain them."
        )
    if found.drifting:
        notes.append(
            f"{' and '.join(found.drifting)}: neighbouring launches are alike, so the host probably"
            " drifted within blocks, too, and blocks show less drift than there was. Intervals of all layouts"
            " together and of whole changes may be too narrow; those against the others are not."
        )
    racing = [known.name for known in (found.before, found.after) if known.ranking.claim is not None]
    if racing:
        notes.append(
            f"{' and '.join(racing)}: a race, which decides by its data when to stop; the intervals are wide"
            " enough for that, and its claim is about its best layout only."
        )
    if change.n_shared < len(change.layouts):
        left = len(change.layouts) - change.n_shared
        notes.append(
            f"No blocks join {pluralize(left, 'layout')} with the others, so there is no comparison with "
            "them."
        )
    for known, other in ((found.before, found.after), (found.after, found.before)):
        alone = [
            str(layout) for layout in _measured_layouts(known) if layout not in set(_measured_layouts(other))
        ]
        if alone:
            notes.append(f"Only in {known.name}: {list_names(alone)}.")
    if found.left_out:
        notes.append(f"Left out, since a launch finished no item: {list_names(found.left_out)}.")
    studies = (found.before.study, found.after.study)
    if studies[0].service != studies[1].service:
        notes.append("The studies are of different services, so every change includes the change of service.")
    if is_simulated(studies[0]) != is_simulated(studies[1]):
        notes.append("One was simulated and one was measured: this compares a model with the service.")
    if all(map(is_simulated, studies)) and _luck(found.before) == _luck(found.after):
        notes.append(
            "Both were simulated with the same seed, so they share their random noise. Use another --seed."
        )
    if studies[0].created_wall_s > studies[1].created_wall_s:
        notes.append(f"{found.before.name} is the newer one: is this the intended order?")
    return notes


def describe_slower(found: StudyComparison, judged: Slower) -> str:
    """Return a sentence on whether it is slower than allowed."""
    lost = "" if found.lost is None else f"{_subject(found, found.best.before)}, {_LOST[found.lost]}"
    if judged.surely and judged.lost != "nothing-finished":
        named = " and ".join(_subject(found, name) for name in judged.surely)
        sure = percent(found.confidence)
        if None in judged.surely:
            sure += " if the host drifted no more than it did from block to block"
        return f"{named}: slower by more than {percent(judged.by)}, with {sure}."
    if judged.lost == "nothing-finished":
        return f"{lost} in {found.after.name}."
    if judged.lost is not None:
        more = percent(judged.by)
        return f"Whether it is slower by more than {more} cannot be judged: {lost} in {found.after.name}."
    if judged.at_worst is None:
        return f"Whether it is slower by more than {percent(judged.by)} is unknown: there is no interval."
    if judged.at_worst > judged.by:
        return (
            f"Not shown to be slower by more than {percent(judged.by)}; it may be slower by up to"
            f" {percent(judged.at_worst)}. More launches can decide it."
        )
    return f"Not slower by more than {percent(judged.by)}."


def _describe_best(found: StudyComparison) -> str:
    best = found.best
    if best.before is None or best.after is None:
        which = found.before.name if best.before is None else found.after.name
        return f"{which} names no best layout."
    own = found.throughput.of(best.before)
    if not best.moved:
        return f"{best.before} is best in both" + (
            f": {format_change(own.ratio)}." if own is not None else "."
        )
    return _describe_new_best(found, best, best.before, best.after)


def _describe_new_best(found: StudyComparison, best: Best, was: Layout, becomes: Layout) -> str:
    ratio = best.ratio_after
    if ratio is None or ratio.mean is None:
        what = "was not measured" if found.lost is None else _LOST[found.lost]
        return f"{becomes} is best in {found.after.name}; {was}, best before, {what} there."
    if ratio.low is None or ratio.high is None:
        return f"{becomes} leads instead of {was}: {format_percent(ratio.mean)}; the noise is unknown."
    if ratio.low > 1:
        return f"The answer moved from {was} to {becomes}, which now gives {format_change(ratio)} than {was}."
    # half the width on the logarithmic scale
    reach = (ratio.high / ratio.low) ** 0.5 - 1
    return (
        f"{becomes} leads instead of {was}, but the difference is not significant: {format_change(ratio)};"
        f" differences below {_describe_reach(reach)} are not detectable."
    )


def _describe_detectable(found: StudyComparison) -> str:
    """Return the change that would have been detected, if none was."""
    ratios = [one.ratio for one in found.throughput.layouts]
    reaches = sorted(
        (one.high / one.low) ** 0.5 - 1 for one in ratios if one.low is not None and one.high is not None
    )
    if not reaches or reaches[len(reaches) // 2] > 1:
        return "Too few or too noisy measurements to detect a change of a single layout."
    reach = _describe_reach(reaches[len(reaches) // 2])
    return (
        f"No significant change. With these numbers of launches, a change of a single layout is detectable"
        f" from about {reach}."
    )


def _describe_reach(reach: float) -> str:
    return f"{100 * reach:.2g} %" if reach < 0.995 else percent(reach)


def in_order(found: StudyComparison) -> list[LayoutChange]:
    """Return the layouts in the order in which the second study ranks them."""
    place = {row.layout: at for at, row in enumerate(found.after.ranking.rows)}
    return sorted(found.throughput.layouts, key=lambda one: place[one.layout])


def ratio_of(found: StudyComparison, figure: Figure, layout: Layout) -> Estimate | None:
    """Return the ratio of *figure* of *layout*; None: it is not known of both studies."""
    one: LayoutChange | None = found.figures[figure].of(layout) if figure in found.figures else None
    return None if one is None else one.ratio


def explain_change(change: Changes, one: LayoutChange) -> str:
    """Return in a few words why *one* counts as changed or not: ``surely less, as all``."""
    ratio = one.ratio
    if ratio.mean is None or ratio.low is None or ratio.high is None:
        return "noise unknown"
    way = side_of(ratio.mean)
    if not one.has_changed:
        if one.beside is not None and one.stands_out and one.beside.mean is not None:
            return f"{side_of(one.beside.mean)} than other layouts"
        return "not significant"
    if one.beside is not None and one.stands_out and one.beside.mean is not None:
        beside = side_of(one.beside.mean)
        return f"surely {way}, {'more' if beside == way else 'less'} so than other layouts"
    shared = change.shared
    if change.n_shared > 1 and shared is not None and shared.mean is not None and is_surely_changed(shared):
        return f"surely {way}" + (", like all" if side_of(shared.mean) == way else "")
    return f"surely {way}"


def format_change(ratio: Estimate) -> str:
    """Return ``7.1 % more (5.0 to 9.2)``, ``1.2 % less (3.1 less to 0.8 more)``."""
    if ratio.mean is None:
        return "unknown"
    shown = f"{_size(ratio.mean)} % {side_of(ratio.mean)}"
    if ratio.low is None or ratio.high is None:
        return f"{shown} (no interval)"
    if side_of(ratio.low) == side_of(ratio.high):
        ends = sorted((ratio.low, ratio.high), key=lambda end: abs(end - 1))
        return f"{shown} ({_size(ends[0])} to {_size(ends[1])})"
    return f"{shown} ({_size(ratio.low)} less to {_size(ratio.high)} more)"


def side_of(ratio: float) -> str:
    """Return the direction of a ratio: more, or less."""
    return "more" if ratio >= 1 else "less"


def _size(ratio: float) -> str:
    return f"{100 * abs(ratio - 1):.1f}" if abs(ratio - 1) < 0.995 else f"{100 * abs(ratio - 1):.0f}"


def format_percent(ratio: float | None) -> str:
    """Return a ratio as a change: ``+7.1 %``."""
    return "-" if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def format_interval(ratio: Estimate) -> str:
    """Return the interval of a change: ``-3.1 % to +0.8 %``."""
    return "-" if ratio.low is None else f"{format_percent(ratio.low)} to {format_percent(ratio.high)}"


def _measured_layouts(known: Known) -> list[Layout]:
    return [row.layout for row in known.ranking.rows if row.n_windows]


def _luck(known: Known) -> tuple[object, ...]:
    made = known.study.provenance
    return known.study.seed, made.simulated_stream, made.simulated


def _subject(found: StudyComparison, layout: Layout | None) -> str:
    if layout is None:
        return f"All {found.throughput.n_shared} layouts together"
    return f"{layout}, best in {found.before.name}"
