"""What was claimed of socorro's layouts, held against what was measured on this box and simulated beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np

from tuner.core.lab.experiment import USABLE_CORES, At, Finding, Row, Rows
from tuner.core.lab.socorro_runs import (
    CORES,
    FAR,
    HERE,
    PUBLISHED,
    REFERENCE,
    SINGLE,
    THREADED,
    demands_in,
    far_machine,
    machine_in,
    medians,
    point,
)
from tuner.core.lab.verdicts import ALIKE, Ratio, both, judged
from tuner.core.lab.verdicts import measured as measured_by_runs
from tuner.core.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine

#: as it was told in words; a test holds them against the publication
ENOUGH_THREADS = 12  #: beyond them one process gains nothing
MOB = (1.8, 2.2)  #: so many times one process of 24 threads did 24 of one thread
BEST = Layout(4, 6)
BETWEEN = (BEST, Layout(12, 2), Layout(2, 12))  #: the mixed ones, best first
MOST_LOAD = 9.0  #: of one process of 24 threads
LIGHT, LIGHT_SHARE = Layout(12, 2), 0.80  #: its load, as a share of that of 24 processes
_ENOUGH = 0.05  #: how near the best a number of threads is enough; and what is behind by less is not beaten
_SINGLE = 0.10  #: a single window is taken to be off by so much
_TWO = 2.0  #: cores, that processes can run side by side
_ITEMS = "items_per_10min"
_ALONE, _MOB = Layout(1, 1), Layout(CORES, 1)


class Seen:
    """The rows that were run."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows: dict[At, Row] = Rows("", {row.at: row for row in rows if row.measured})
        here = [row for at, row in self.rows.items() if at[0] == HERE]
        self.n_cores = here[0].of(USABLE_CORES) if here else 0.0

    def row(self, box: str, layout: Layout, manager: str = THREADED) -> Row:
        """A row that was run.

        Raises:
            NotRunError: it was not.
        """
        return self.rows[point(box, layout, manager)]

    def one_process(self, box: str) -> dict[int, Row]:
        """The threaded rows of one process, by threads, the fewest first."""
        found = {int(at[3]): row for at, row in self.rows.items() if at[:3] == (box, THREADED, 1.0)}
        return dict(sorted(found.items()))

    def item(self, box: str) -> tuple[Demands, Machine] | None:
        """What an item asks for by 1x1 of this box, and the machine of *box*."""
        alone = self.rows.get(point(HERE, _ALONE, THREADED))
        demands = None if alone is None else demands_in(medians(alone.measured))
        if alone is None or demands is None:
            return None
        machine = machine_in(medians(alone.measured))
        return demands, machine if box == HERE else far_machine(machine)


def findings(rows: Sequence[Row]) -> list[Finding]:
    """Each claim for this box and for the simulated one, as far as its rows were run."""
    seen = Seen(rows)
    found = []
    for box in (HERE, FAR):
        for claim in (_past_enough, _mob, _best, _between, _loads):
            one = claim(seen, box)
            where = "On this box: " if box == HERE else f"On {CORES} simulated cores: "
            if box == HERE and seen.n_cores < _TWO:
                one = Finding(one.claim, None, f"{one.why} It takes two cores to tell.")
            found.append(Finding(one.claim, one.holds, where + one.why, is_simulated=box == FAR))
    return [*found, *(one for one in (_queue(seen), *_interpreters(seen)) if one is not None)]


def follows(rows: Sequence[Row]) -> str:
    """Two sentences."""
    seen = Seen(rows)
    told = []
    boxes = {HERE: f"On the {seen.n_cores:g} cores of this box", FAR: f"On {CORES} cores, simulated,"}
    for box, where in boxes.items():
        if not {point(box, _MOB, THREADED), point(box, REFERENCE, THREADED)} <= seen.rows.keys():
            continue
        mob, reference = seen.row(box, _MOB), seen.row(box, REFERENCE)
        told.append(
            f"{where} {_best_told(seen, box)}, and {CORES} processes of one thread do "
            f"{over(mob, reference, _ITEMS).value:.2f} times what one process of {CORES} threads does: "
            f"{_bound_told(seen, box)}."
        )
    if not told:
        return "Too little was run undisturbed for anything to follow."
    return " ".join(told)


def measured(row: Row, key: str) -> Ratio:
    """A figure, and within what it lies by its windows; one window alone says less."""
    seen = measured_by_runs(row, key)
    if row.measured[key].n > 1:
        return seen
    return Ratio(seen.value / (1 + _SINGLE), seen.value, seen.value * (1 + _SINGLE))


def over(one: Row, other: Row, key: str) -> Ratio:
    """A figure of *one* over that of *other*."""
    a, b = measured(one, key), measured(other, key)
    return Ratio(a.low / b.high, a.value / b.value, a.high / b.low)


def _ahead(ratio: Ratio) -> bool | None:
    """Whether the first is not behind the second; False: by more than what is as good."""
    return True if ratio.low >= 1 else False if ratio.high < 1 - _ENOUGH else None


def _name(row: Row) -> str:
    return f"{row.at[2]:g}x{row.at[3]:g}"


def _items(row: Row) -> str:
    return f"{row.of(_ITEMS):.0f}"


def _told(ratio: Ratio) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _bound_told(seen: Seen, box: str) -> str:
    """What stops one process of many threads: its GIL, or the cores before it."""
    known, row = seen.item(box), seen.rows.get(point(box, REFERENCE, THREADED))
    if known is None or row is None:
        return "what stops it is not known"
    demands, machine = known
    gil = 600 / demands.gil_s if machine.has_gil and demands.gil_s else float("inf")
    cores = 600 * float(machine.total_speed(np.asarray(np.inf))) / demands.cpu_s
    seen_s = row.measured.get("python_percent")
    held = "" if seen_s is None else f", and its Python computed {seen_s.median:.0f} % of the time"
    busy = row.of("cpu_percent") / 100
    if gil < cores:
        return (
            f"one process stops at its GIL, {1e3 * demands.gil_s:.1f} ms of it for an item, so at most "
            f"{gil:.0f} items{held}, where the cores could do {cores:.0f}, and {busy:.1f} of "
            f"{machine.cores:g} were busy"
        )
    one_gil = f"; one GIL could do {gil:.0f}" if machine.has_gil else ""
    return (
        f"the cores stop every layout first, at {cores:.0f} items or fewer ({busy:.2f} of "
        f"{machine.cores:g} busy){one_gil}{held}"
    )


def _past_enough(seen: Seen, box: str) -> Finding:
    def judge() -> tuple[bool | None, str]:
        few, many = (seen.row(box, Layout(1, n)) for n in (ENOUGH_THREADS, CORES))
        rows = seen.one_process(box)
        best = max(row.of(_ITEMS) for row in rows.values())
        enough = min(n for n, row in rows.items() if row.of(_ITEMS) >= best * (1 - _ENOUGH))
        gain = over(many, few, _ITEMS)
        tried = ", ".join(f"{n}: {_items(row)}" for n, row in rows.items())
        return gain.at_most(1 + _ENOUGH), (
            f"{CORES} do {_told(gain)} times what {ENOUGH_THREADS} do. Items per ten minutes by "
            f"threads: {tried}; {enough} are the fewest of those tried within {100 * _ENOUGH:.0f} % of the "
            f"best. Why: {_bound_told(seen, box)}."
        )

    return judged(f"One process gains nothing past {ENOUGH_THREADS} threads.", judge)


def _mob(seen: Seen, box: str) -> Finding:
    def judge() -> tuple[bool | None, str]:
        mob, reference = seen.row(box, _MOB), seen.row(box, REFERENCE)
        ratio = over(mob, reference, _ITEMS)
        return both(ratio.at_least(MOB[0]), ratio.at_most(MOB[1])), (
            f"{_told(ratio)} times. {_cpu_told(mob)}; {_cpu_told(reference)}: {_bound_told(seen, box)}."
        )

    claim = (
        f"{CORES} processes of one thread do {MOB[0]:g} to {MOB[1]:g} times what one of {CORES} threads does."
    )
    return judged(claim, judge)


def _cpu_told(row: Row) -> str:
    line = f", {row.of('gil_waiting'):.1f} threads in line for a GIL" if "gil_waiting" in row.measured else ""
    return f"{_name(row)} keeps {row.of('cpu_percent') / 100:.2f} cores busy{line}"


def _published(seen: Seen, box: str) -> list[Row]:
    """The rows of published layouts that were run, best by the publication first."""
    rows = [row for at, row in seen.rows.items() if at[0] == box and "ratio" in row.published]
    return sorted(rows, key=lambda row: -row.published["ratio"])


def _best(seen: Seen, box: str) -> Finding:
    def judge() -> tuple[bool | None, str]:
        claimed = seen.row(box, BEST)
        others = [row for row in _published(seen, box) if row is not claimed]
        ratios = {_name(row): over(claimed, row, _ITEMS) for row in others}
        told = ", ".join(f"{_told(ratio)} times {name}" for name, ratio in ratios.items())
        missing = len(PUBLISHED) - 1 - len(others)
        verdict = both(*map(_ahead, ratios.values()))
        return None if verdict and missing else verdict, (
            f"{BEST} does {told or 'what no other can be held against'}."
        )

    return judged(f"Of the published layouts {BEST} is best.", judge)


def _best_told(seen: Seen, box: str) -> str:
    """The best of the published layouts, and those that cannot be told from it."""
    rows = _published(seen, box)
    best = max(rows, key=lambda row: (row.of(_ITEMS), row.at[2:]))
    alike = [row for row in rows if row is best or over(best, row, _ITEMS).low <= 1]
    if len(alike) == len(rows):
        return "no published layout can be told from the others"
    names = " and ".join(_name(row) for row in sorted(alike, key=lambda row: row.at[2:]))
    return f"{names} {'is' if len(alike) == 1 else 'are alike, and'} best of the published layouts"


def _between(seen: Seen, box: str) -> Finding:
    """Whether the mixed layouts lie between the two ends, and whether these can be told from each other."""

    def judge() -> tuple[bool | None, str]:
        reference, mixed = seen.row(box, REFERENCE), [seen.row(box, one) for one in BETWEEN]
        order = [_ahead(over(one, other, _ITEMS)) for one, other in pairwise(mixed)]
        above = [_ahead(over(row, reference, _ITEMS)) for row in mixed]
        by_items = sorted(mixed, key=lambda row: -row.of(_ITEMS))
        first, second = by_items[:2]
        apart = over(first, second, _ITEMS)
        spread = fmean(measured(row, _ITEMS).high / measured(row, _ITEMS).low - 1 for row in mixed)
        is_apart = "tell them apart" if apart.low > 1 else "do not tell them apart"
        return both(*order, *above), (
            f"{_name(first)} comes first, {_told(apart)} times {_name(second)}: these runs {is_apart} (one "
            f"layout's lie within {100 * spread:.1f} %). "
            f"{', '.join(f'{_name(row)} {_items(row)}' for row in by_items)} "
            "items per ten minutes."
        )

    return judged(f"In between {' beats '.join(map(str, BETWEEN))}, and all of them {REFERENCE}.", judge)


def _loads(seen: Seen, box: str) -> Finding:
    def judge() -> tuple[bool | None, str]:
        rows = [seen.row(box, one) for one in (_MOB, REFERENCE, LIGHT)]
        if not all("load" in row.measured for row in rows):
            return None, "Active tasks were not seen."
        mob, reference, light = (measured(row, "load") for row in rows)
        share, same = over(rows[2], rows[0], "load"), over(rows[2], rows[0], _ITEMS)
        return both(mob.near(CORES), reference.at_most(MOST_LOAD), share.near(LIGHT_SHARE)), (
            f"{_MOB} {mob.value:.1f}, {REFERENCE} {reference.value:.1f}, {LIGHT} {light.value:.1f} active "
            f"tasks: {100 * share.value:.0f} % of {_MOB}'s, with {_told(same)} times its items. Means "
            "are held against these. A thread that waits for the GIL or asleep is no load; one that waits "
            "for a core is."
        )

    claim = (
        f"Load: {_MOB} steady at {CORES}, {REFERENCE} rarely above {MOST_LOAD:g}, {LIGHT} at "
        f"{100 * LIGHT_SHARE:.0f} % of {_MOB}'s."
    )
    return judged(claim, judge)


def _queue(seen: Seen) -> Finding | None:
    """What a queue and its thread cost where one thread would do without."""
    pairs = {
        _name(row): over(row, other, _ITEMS)
        for at, row in seen.rows.items()
        if at[0] == HERE
        and at[1] == THREADED
        and (other := seen.rows.get((HERE, SINGLE, *at[2:]))) is not None
    }
    if not pairs:
        return None
    told = ", ".join(f"{name} {_told(ratio)}" for name, ratio in pairs.items())
    alike = [both(ratio.at_least(1 - ALIKE / 2), ratio.at_most(1 + ALIKE / 2)) for ratio in pairs.values()]
    return Finding(
        "Not published: with one thread a process, the threaded task manager's queue costs nothing "
        "that matters "
        f"({100 * ALIKE / 2:.0f} %).",
        both(*alike),
        f"Items with the queue over those without, by layout: {told}.",
    )


def _interpreters(seen: Seen) -> list[Finding]:
    """What the interpreter alone changes, and the way it starts a child."""
    found: dict[tuple[str, str], Row] = {}
    for at, row in seen.rows.items():
        if at[0] == HERE and at[2:] == (1.0, float(CORES)) and str(at[1]).count(" ") == 2:
            _, version, spawn = str(at[1]).split(" ")
            found[version, spawn] = row
    versions = list(dict.fromkeys(version for version, _ in found))
    if not versions:
        return []
    findings = []
    usual: Mapping[str, Row] = {
        version: found[version, "vfork"] for version in versions if (version, "vfork") in found
    }
    if len(usual) > 1:
        first = next(iter(usual))
        ratios = {
            version: over(row, usual[first], _ITEMS) for version, row in usual.items() if version != first
        }
        told = ", ".join(f"{version} {_told(ratio)}" for version, ratio in ratios.items())
        findings.append(
            Finding(
                "Not published: the interpreter alone changes nothing that matters "
                f"({100 * ALIKE / 2:.0f} %).",
                both(
                    *(
                        both(one.at_least(1 - ALIKE / 2), one.at_most(1 + ALIKE / 2))
                        for one in ratios.values()
                    )
                ),
                f"{REFERENCE} with the same way to start a child, in times of Python {first}: {told}.",
            )
        )
    pairs = {
        version: over(found[version, "posix_spawn"], row, _ITEMS)
        for version, row in usual.items()
        if (version, "posix_spawn") in found
    }
    if pairs:
        told = ", ".join(f"{version} {_told(ratio)}" for version, ratio in pairs.items())
        findings.append(
            Finding(
                "Not published: where starting a child holds the GIL until it has exec'ed "
                "(posix_spawn), one process "
                f"of {CORES} threads does less.",
                both(*(_below(one) for one in pairs.values())),
                f"{REFERENCE} with posix_spawn over the same with vfork, by Python: {told}. The model "
                "knows no GIL "
                "that is held without CPU.",
            )
        )
    return findings


def _below(ratio: Ratio) -> bool | None:
    """Whether it is less than 1 by all runs."""
    return True if ratio.high < 1 else False if ratio.low >= 1 else None
