"""What changed from one study to another, in words and figures: for people and for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from tuner.core.compared import FIGURES, Best, Compared, Figure, Known, Lost, Slower
from tuner.core.figures import counted, percent
from tuner.core.interval import Estimate
from tuner.core.layout import Layout
from tuner.core.ranking import TEN_MINUTES_S
from tuner.core.simulated import is_simulated, simulated_told
from tuner.core.two_studies import LayoutChange, is_surely_changed
from tuner.reports.formats import Table, render_paragraph, render_table
from tuner.reports.ranking_words import headline

SCHEMA_VERSION = 1
_DATA_FORMATS = ("csv", "tsv")
_NAMED: dict[Figure, str] = {
    "throughput": "throughput",
    "load": "load",
    "memory_bytes": "memory",
    "cpu_s_per_item": "CPU per item",
    "p95_s": "p95",
}
_A_DAY_S = 86400.0
_STREAM = "simulated_stream"


def render_comparison(found: Compared, fmt: str) -> str:
    """The comparison in a format of `table_formats` or ``json``; ends in a newline."""
    if fmt == "json":
        return render_comparison_json(found)
    if fmt in _DATA_FORMATS:
        return render_table(data_table(found), fmt)
    parts = [render_paragraph(sentence, fmt) for sentence in [*all_simulated_told(found), *sides_told(found)]]
    if found.differences:
        parts += [
            render_paragraph("What differs in how they were made, and may explain the rest:", fmt),
            render_table(differences_table(found), fmt),
        ]
    parts += [render_paragraph(sentence, fmt) for sentence in comparison_sentences(found)]
    parts.append(render_table(changes_table(found), fmt))
    if len(found.figures) > 1:
        parts += [
            render_paragraph(FIGURES_TOLD, fmt),
            render_table(figures_table(found), fmt),
        ]
    parts += [render_paragraph(note, fmt) for note in comparison_notes(found)]
    return "\n".join(parts)


def comparison_sentences(found: Compared) -> list[str]:
    """What is claimed: of the best layout, of all together, of those that stand out."""
    change, told = found.throughput, [_best_told(found)]
    level = percent(found.confidence)
    if change.shared is not None and change.n_shared > 1:
        told.append(
            f"All {change.n_shared} layouts together: {_told(change.shared)}, {level} if the box drifted no"
            " more than it did from block to block."
        )
    own = [one for one in change.layouts if one.stands_out]
    for one in own:
        assert one.beside is not None
        told.append(f"{one.layout} beside the others: {_told(one.beside)}; by itself: {_told(one.ratio)}.")
    if not own and all(one.beside is not None and one.beside.low is not None for one in change.layouts):
        told.append("No layout changed otherwise than the others, as far as can be seen.")
    if not any(one.has_changed or one.stands_out for one in change.layouts) and not (
        change.shared is not None and is_surely_changed(change.shared)
    ):
        told.append(_unseen_told(found))
    return told


def comparison_notes(found: Compared) -> list[str]:
    """What limits it, a sentence each."""
    change, notes = found.throughput, []
    for n_blocks, known in zip(change.n_blocks, (found.before, found.after), strict=True):
        if n_blocks < 2:
            notes.append(f"{known.name} has one block, which says nothing about its noise: no interval.")
    if all(n_blocks > 1 for n_blocks in change.n_blocks):
        notes.append(
            "Intervals know what the box does from block to block of either study, not from one day or box"
            " to another: that is part of the change that all layouts share. Beside the others it drops out."
        )
    racing = [known.name for known in (found.before, found.after) if known.ranking.claim is not None]
    if racing:
        notes.append(
            f"{' and '.join(racing)}: a race, which stops by what it sees; intervals are as wide as it takes"
            " for that, and its own claim is about its best layout only."
        )
    if change.n_shared < len(change.layouts):
        left = len(change.layouts) - change.n_shared
        notes.append(f"No blocks join {counted(left, 'layout')} with the others: not compared beside them.")
    for known, other in ((found.before, found.after), (found.after, found.before)):
        alone = [str(layout) for layout in _measured(known) if layout not in set(_measured(other))]
        if alone:
            notes.append(f"Only in {known.name}: {_listed(alone)}.")
    if found.left_out:
        named = _listed([str(layout) for layout in found.left_out])
        notes.append(f"Left out, since a launch finished no item: {named}.")
    studies = (found.before.study, found.after.study)
    if studies[0].service != studies[1].service:
        notes.append("They are of different services: what changed is the service, whatever else did.")
    if is_simulated(studies[0]) != is_simulated(studies[1]):
        notes.append("One was simulated and one was measured: this compares a model with the service.")
    if all(map(is_simulated, studies)) and _luck(found.before) == _luck(found.after):
        notes.append("Both were simulated with one seed: they share their luck. --seed gives another.")
    if studies[0].created_wall_s > studies[1].created_wall_s:
        notes.append(f"{found.before.name} is the younger one: is the order as meant?")
    return notes


#: above the table of all figures but throughput
FIGURES_TOLD = (
    "Ratios of the second to the first, each layout by its own noise; a column's intervals hold together:"
)
_LOST: Mapping[Lost, str] = {
    "not-in-it": "was not measured",
    "no-window": "has no window that counts",
    "idle-launch": "has a launch that finished nothing",
    "nothing-finished": "finished nothing",
}


def slower_told(found: Compared, judged: Slower) -> str:
    """Whether it is slower than it may be, in a sentence."""
    lost = "" if found.lost is None else f"{_whose(found, found.best.before)}, {_LOST[found.lost]}"
    if judged.surely and judged.lost != "nothing-finished":
        named = " and ".join(_whose(found, name) for name in judged.surely)
        sure = percent(found.confidence)
        if None in judged.surely:
            sure += " if the box drifted no more than it did from block to block"
        return f"{named}: slower by more than {percent(judged.by)}, with {sure}."
    if judged.lost == "nothing-finished":
        return f"{lost} in {found.after.name}."
    if judged.lost is not None:
        more = percent(judged.by)
        return f"Whether it is slower by more than {more} cannot be judged: {lost} in {found.after.name}."
    if judged.at_worst is None:
        return f"Whether it is slower by more than {percent(judged.by)} is not known: there is no interval."
    if judged.at_worst > judged.by:
        return (
            f"Not shown to be slower by more than {percent(judged.by)}; it may be slower by up to"
            f" {percent(judged.at_worst)}: more launches tell."
        )
    return f"Not slower by more than {percent(judged.by)}."


def render_comparison_json(found: Compared) -> str:
    """The same for programs; docs/json.md has the fields; ends in a newline."""
    change = found.throughput
    content = {
        "schema_version": SCHEMA_VERSION,
        "simulated": any(is_simulated(known.study) for known in (found.before, found.after)),
        "before": _study_facts(found.before),
        "after": _study_facts(found.after),
        "confidence": found.confidence,
        "differences": [dataclasses.asdict(one) for one in found.differences],
        "best": {
            "before": _name(found.best.before),
            "after": _name(found.best.after),
            "moved": found.best.moved,
            "ratio_before": _facts(found.best.ratio_before),
            "ratio_after": _facts(found.best.ratio_after),
        },
        "shared": {"ratio": _facts(change.shared), "layouts": change.n_shared},
        "layouts": [
            {
                "layout": str(one.layout),
                "processes": one.layout.processes,
                "threads": one.layout.threads if one.layout.has_threads else None,
                "variant": one.layout.variant,
                "launches": {"before": one.n_launches[0], "after": one.n_launches[1]},
                "throughput_per_10min": {
                    "before": TEN_MINUTES_S * one.levels[0],
                    "after": TEN_MINUTES_S * one.levels[1],
                },
                "has_changed": one.has_changed,
                "stands_out": one.stands_out,
                "beside": _facts(one.beside),
                "ratios": {figure: _facts(_ratio_of(found, figure, one.layout)) for figure in FIGURES},
            }
            for one in change.layouts
        ],
        "sentences": comparison_sentences(found),
        "notes": comparison_notes(found),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def data_table(found: Compared) -> Table:
    """One row a layout and nothing else, in plain numbers."""
    names = [*FIGURES, "beside"]
    headers = (
        "before", "after", "layout", "processes", "threads", "variant", "launches_before", "launches_after",
        "throughput_per_10min_before", "throughput_per_10min_after",
        *(f"{name}_ratio{end}" for name in names for end in ("", "_low", "_high")),
        "has_changed", "stands_out",
    )  # fmt: skip
    rows = []
    for one in found.throughput.layouts:
        ratios = [*(_ratio_of(found, figure, one.layout) for figure in FIGURES), one.beside]
        values = [
            value for ratio in ratios for value in dataclasses.astuple(ratio or Estimate(None, None, None))
        ]
        rows.append(
            (
                found.before.name,
                found.after.name,
                str(one.layout),
                str(one.layout.processes),
                str(one.layout.threads) if one.layout.has_threads else "-",
                one.layout.variant or "",
                *(str(n) for n in one.n_launches),
                *(f"{TEN_MINUTES_S * level:.10g}" for level in one.levels),
                *("" if value is None else f"{value:.10g}" for value in values),
                str(one.has_changed).lower(),
                str(one.stands_out).lower(),
            )
        )
    text = {"before", "after", "layout", "variant", "has_changed", "stands_out"}
    return Table(headers, tuple(rows), frozenset(n for n, name in enumerate(headers) if name not in text))


def all_simulated_told(found: Compared) -> list[str]:
    """What stands before everything said of simulated studies; none for real ones."""
    studies = (found.before.study, found.after.study)
    return list(dict.fromkeys(sentence for study in studies for sentence in simulated_told(study)))


def sides_told(found: Compared) -> list[str]:
    """What the two studies are, a sentence each."""
    told = []
    for name, known in (("Before", found.before), ("After", found.after)):
        told.append(f"{name}, {known.name}: {headline(known.study)}")
    gap_s = found.after.study.created_wall_s - found.before.study.created_wall_s
    if abs(gap_s) > _A_DAY_S:
        told[-1] += f" {gap_s / _A_DAY_S:.0f} days after." if gap_s > 0 else ""
    if not found.differences:
        told.append("Nothing that is kept differs in how they were made.")
    return told


def _best_told(found: Compared) -> str:
    best = found.best
    if best.before is None or best.after is None:
        which = found.before.name if best.before is None else found.after.name
        return f"{which} names no best layout."
    own = found.throughput.of(best.before)
    if not best.moved:
        return f"{best.before} is best in both" + (f": {_told(own.ratio)}." if own is not None else ".")
    return _moved_told(found, best, best.before, best.after)


def _moved_told(found: Compared, best: Best, was: Layout, becomes: Layout) -> str:
    ratio = best.ratio_after
    if ratio is None or ratio.mean is None:
        what = "was not measured" if found.lost is None else _LOST[found.lost]
        return f"{becomes} is best in {found.after.name}; {was}, best before, {what} there."
    if ratio.low is None or ratio.high is None:
        return f"{becomes} leads instead of {was}: {_percent(ratio.mean)}; nothing tells the noise."
    if ratio.low > 1:
        return f"The answer moved from {was} to {becomes}, which now gives {_told(ratio)} than {was}."
    # half the width on the logarithmic scale
    reach = (ratio.high / ratio.low) ** 0.5 - 1
    return (
        f"{becomes} leads instead of {was}, but nothing tells the two apart: {_told(ratio)};"
        f" a difference below {100 * reach:.2g} % does not show."
    )


def _unseen_told(found: Compared) -> str:
    """What would have shown, where nothing did."""
    ratios = [one.ratio for one in found.throughput.layouts]
    reaches = sorted(
        (one.high / one.low) ** 0.5 - 1 for one in ratios if one.low is not None and one.high is not None
    )
    if not reaches or reaches[len(reaches) // 2] > 1:
        return "Too little was measured, or too noisily, to see what changed of a single layout."
    return (
        f"No change is seen; one of a single layout shows from about {100 * reaches[len(reaches) // 2]:.2g} %"
        " on, at these numbers of launches."
    )


def differences_table(found: Compared) -> Table:
    """What is not the same in how they were made."""
    rows = tuple((one.name, one.before or "-", one.after or "-") for one in found.differences)
    return Table(("what", "before", "after"), rows, frozenset())


def changes_table(found: Compared) -> Table:
    """Per layout what it gave, and how that changed."""
    level = percent(found.confidence)
    headers = (
        "layout",
        "items/10 min",
        "then",
        "change",
        f"{level}, all at once",
        "beside the others",
        "launches",
    )
    rows = tuple(
        (
            str(one.layout),
            *(_items(TEN_MINUTES_S * level) for level in one.levels),
            _percent(one.ratio.mean),
            _interval(one.ratio),
            "-" if one.beside is None else f"{_percent(one.beside.mean)} ({_interval(one.beside)})",
            f"{one.n_launches[0]}, {one.n_launches[1]}",
        )
        for one in _in_order(found)
    )
    return Table(headers, rows, frozenset(range(1, 7)))


def figures_table(found: Compared) -> Table:
    """Per layout the ratios of the other figures."""
    shown = [figure for figure in FIGURES[1:] if figure in found.figures]
    rows = tuple(
        (str(one.layout), *(_ratio_told(_ratio_of(found, figure, one.layout)) for figure in shown))
        for one in _in_order(found)
    )
    return Table(("layout", *(_NAMED[figure] for figure in shown)), rows, frozenset(range(1, 1 + len(shown))))


def _in_order(found: Compared) -> list[LayoutChange]:
    """The layouts, those first that give most in the second study."""
    return sorted(found.throughput.layouts, key=lambda one: -one.levels[1])


def _ratio_of(found: Compared, figure: Figure, layout: Layout) -> Estimate | None:
    one: LayoutChange | None = found.figures[figure].of(layout) if figure in found.figures else None
    return None if one is None else one.ratio


def _ratio_told(ratio: Estimate | None) -> str:
    if ratio is None or ratio.mean is None:
        return "-"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.mean:.3g}"
    return f"{ratio.mean:.3g} ({ratio.low:.3g} to {ratio.high:.3g})"


def _told(ratio: Estimate) -> str:
    """``7.1 % more (5.0 to 9.2)``, ``1.2 % less (3.1 less to 0.8 more)``."""
    if ratio.mean is None:
        return "not known"
    shown = f"{_size(ratio.mean)} % {_side(ratio.mean)}"
    if ratio.low is None or ratio.high is None:
        return f"{shown} (no interval)"
    if _side(ratio.low) == _side(ratio.high):
        ends = sorted((ratio.low, ratio.high), key=lambda end: abs(end - 1))
        return f"{shown} ({_size(ends[0])} to {_size(ends[1])})"
    return f"{shown} ({_size(ratio.low)} less to {_size(ratio.high)} more)"


def _side(ratio: float) -> str:
    return "more" if ratio >= 1 else "less"


def _size(ratio: float) -> str:
    return f"{100 * abs(ratio - 1):.1f}" if abs(ratio - 1) < 0.995 else f"{100 * abs(ratio - 1):.0f}"


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def _interval(ratio: Estimate) -> str:
    return "-" if ratio.low is None else f"{_percent(ratio.low)} to {_percent(ratio.high)}"


def _items(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _measured(known: Known) -> list[Layout]:
    return [row.layout for row in known.ranking.rows if row.n_windows]


def _luck(known: Known) -> tuple[object, ...]:
    made = known.study.provenance
    return known.study.seed, made.get(_STREAM), made.get("simulated")


def _whose(found: Compared, layout: Layout | None) -> str:
    if layout is None:
        return f"All {found.throughput.n_shared} layouts together"
    return f"{layout}, best in {found.before.name}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _study_facts(known: Known) -> dict[str, Any]:
    return {
        "file": known.name,
        "service": known.study.service,
        "simulated": is_simulated(known.study),
        "strategy": known.study.strategy,
        "created_wall_s": known.study.created_wall_s,
        "blocks": len({(one.box, one.block) for one in known.windows if not one.void and one.block >= 0}),
    }


def _facts(ratio: Estimate | None) -> dict[str, float | None] | None:
    return None if ratio is None else dataclasses.asdict(ratio)


def _name(layout: Layout | None) -> str | None:
    return None if layout is None else str(layout)
