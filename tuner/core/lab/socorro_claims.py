"""What was claimed of socorro's layouts, held against what was measured on this box and simulated beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np

from tuner.core.lab.experiment import At, Finding, Row
from tuner.core.lab.socorro_runs import (
    CORES,
    FAR,
    HERE,
    REFERENCE,
    SINGLE,
    THREADED,
    demands_in,
    far_machine,
    machine_in,
    medians,
    point,
)
from tuner.core.lab.verdicts import ALIKE, Ratio, both, measured, over
from tuner.core.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.validity import foreign_limit_cores

#: as it was told in words; a test holds them against the publication
ENOUGH_THREADS = 12  #: beyond them one process gains nothing
MOB = (1.8, 2.2)  #: so many times one process of 24 threads did 24 of one thread
_ENOUGH = 0.05  #: how near the best a number of threads is enough
_ITEMS = "items_per_10min"
_ALONE, _MOB = Layout(1, 1), Layout(CORES, 1)
_BETWEEN = (Layout(12, 2), Layout(4, 6), Layout(2, 12))


class Seen:
    """The rows that were run, and how quiet this box was."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows: dict[At, Row] = {row.at: row for row in rows if row.measured}
        here = [row for at, row in self.rows.items() if at[0] == HERE]
        self.foreign_cores = fmean(row.of("foreign_cores") for row in here) if here else 0.0
        self.n_cores = here[0].of("n_cores") if here else 0.0
        self.is_quiet = self.foreign_cores <= foreign_limit_cores(self.n_cores)

    def row(self, box: str, layout: Layout, manager: str = THREADED) -> Row | None:
        """None: it was not run."""
        return self.rows.get(point(box, layout, manager))

    def one_process(self, box: str) -> dict[int, Row]:
        """The threaded rows of one process, by threads, the fewest first."""
        found = {int(at[3]): row for at, row in self.rows.items() if at[:3] == (box, THREADED, 1.0)}
        return dict(sorted(found.items()))

    def item(self, box: str) -> tuple[Demands, Machine] | None:
        """What an item asks for by 1x1 of this box, and the machine of *box*."""
        alone = self.row(HERE, _ALONE)
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
            if one is not None:
                where = "On this box: " if box == HERE else f"On {CORES} simulated cores: "
                found.append(_aside(seen, Finding(one.claim, one.holds, where + one.why)))
    others = [one for one in (_queue(seen), *_interpreters(seen)) if one is not None]
    return [*found, *(_aside(seen, one) for one in others)]


def follows(rows: Sequence[Row]) -> str:
    """Two sentences."""
    seen = Seen(rows)
    told = []
    boxes = {HERE: f"On the {seen.n_cores:g} cores of this box", FAR: f"On {CORES} cores, simulated,"}
    for box, where in boxes.items():
        mob, reference, best = seen.row(box, _MOB), seen.row(box, REFERENCE), _best_of(seen, box)
        if mob is None or reference is None or best is None:
            continue
        told.append(
            f"{where} {_name(best)} does {over(best, reference, _ITEMS).value:.2f} times what one process of "
            f"{CORES} threads does, and {CORES} processes of one thread "
            f"{over(mob, reference, _ITEMS).value:.2f} "
            f"times: {_bound_told(seen, box)}."
        )
    if not told:
        return "Too little was run for anything to follow. Run the published layouts."
    if not seen.is_quiet:
        told = [
            f"Others kept {seen.foreign_cores:.2f} of the cores busy meanwhile. Nothing follows from this."
        ]
    return " ".join(told)


def _aside(seen: Seen, finding: Finding) -> Finding:
    """Beside busy neighbours nothing is judged: what is simulated rests on what 1x1 showed meanwhile."""
    if seen.is_quiet:
        return finding
    others = f"Others kept {seen.foreign_cores:.2f} of the cores busy meanwhile, so this shows nothing."
    return Finding(finding.claim, None, f"{finding.why} {others}")


def _name(row: Row) -> str:
    return f"{row.at[2]:g}x{row.at[3]:g}"


def _items(row: Row) -> str:
    return f"{row.of(_ITEMS):.0f}"


def _told(ratio: Ratio) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _bound_told(seen: Seen, box: str) -> str:
    """What stops one process of many threads: its GIL, or the cores before it."""
    known, row = seen.item(box), seen.row(box, REFERENCE)
    if known is None or row is None:
        return "what stops it is not known"
    demands, machine = known
    gil = 600 / demands.gil_s if machine.has_gil and demands.gil_s else float("inf")
    cores = 600 * float(machine.total_speed(np.asarray(np.inf))) / demands.cpu_s
    held = f", held {row.of('gil_percent'):.0f} % of the time" if "gil_percent" in row.measured else ""
    busy = row.of("cpu_percent") / 100
    if gil < cores:
        return (
            f"one process stops at its GIL, {1e3 * demands.gil_s:.1f} ms of it for an item, so at most "
            f"{gil:.0f} "
            f"items{held}, where the cores could do {cores:.0f}, and {busy:.1f} of {machine.cores:g} "
            "were busy"
        )
    return (
        f"the cores stop every layout first, at {cores:.0f} items or fewer ({busy:.2f} of "
        f"{machine.cores:g} busy); "
        f"one GIL could do {gil:.0f} and is{held.removeprefix(',') or ' not seen'}"
    )


def _past_enough(seen: Seen, box: str) -> Finding | None:
    rows = seen.one_process(box)
    if not {ENOUGH_THREADS, CORES} <= set(rows):
        return None
    best = max(row.of(_ITEMS) for row in rows.values())
    enough = min(n for n, row in rows.items() if row.of(_ITEMS) >= best * (1 - _ENOUGH))
    gain = over(rows[CORES], rows[ENOUGH_THREADS], _ITEMS)
    tried = ", ".join(f"{n}: {_items(row)}" for n, row in rows.items())
    return Finding(
        f"One process gains nothing past {ENOUGH_THREADS} threads.",
        gain.at_most(1 + _ENOUGH),
        f"{CORES} do {_told(gain)} times what {ENOUGH_THREADS} do. Items per ten minutes by threads: "
        f"{tried}; "
        f"{enough} are the fewest within {100 * _ENOUGH:.0f} % of the best. Why: {_bound_told(seen, box)}.",
    )


def _mob(seen: Seen, box: str) -> Finding | None:
    mob, reference = seen.row(box, _MOB), seen.row(box, REFERENCE)
    if mob is None or reference is None:
        return None
    ratio = over(mob, reference, _ITEMS)
    return Finding(
        f"{CORES} processes of one thread do {MOB[0]:g} to {MOB[1]:g} times what one of {CORES} "
        "threads does.",
        both(ratio.at_least(MOB[0]), ratio.at_most(MOB[1])),
        f"{_told(ratio)} times. {_cpu_told(mob)}; {_cpu_told(reference)}: {_bound_told(seen, box)}.",
    )


def _cpu_told(row: Row) -> str:
    line = f", {row.of('gil_waiting'):.1f} threads in line for a GIL" if "gil_waiting" in row.measured else ""
    return f"{_name(row)} keeps {row.of('cpu_percent') / 100:.2f} cores busy{line}"


def _published(seen: Seen, box: str) -> list[Row]:
    """The rows of published layouts, best by the publication first."""
    rows = [row for at, row in seen.rows.items() if at[0] == box and "ratio" in row.published]
    return sorted(rows, key=lambda row: -row.published["ratio"])


def _best_of(seen: Seen, box: str) -> Row | None:
    return max(_published(seen, box), key=lambda row: (row.of(_ITEMS), row.at[2:]), default=None)


def _best(seen: Seen, box: str) -> Finding | None:
    rows = _published(seen, box)
    if len(rows) < 2:
        return None
    claimed, *others = rows
    ratios = {_name(row): over(claimed, row, _ITEMS) for row in others}
    told = ", ".join(f"{_told(ratio)} times {name}" for name, ratio in ratios.items())
    return Finding(
        f"Of the published layouts {_name(claimed)} is best.",
        both(*(ratio.at_least(1.0) for ratio in ratios.values())),
        f"{_name(claimed)} does {told}.",
    )


def _between(seen: Seen, box: str) -> Finding | None:
    """Whether the mixed layouts lie between the two ends, and whether these can be told from each other."""
    mob, reference = seen.row(box, _MOB), seen.row(box, REFERENCE)
    mixed = [row for one in _BETWEEN if (row := seen.row(box, one)) is not None]
    if mob is None or reference is None or len(mixed) < len(_BETWEEN):
        return None
    mixed.sort(key=lambda row: -row.published.get("ratio", 0.0))
    order = [over(one, other, _ITEMS).at_least(1.0) for one, other in pairwise(mixed)]
    above = [over(row, reference, _ITEMS).at_least(1.0) for row in mixed]
    by_items = sorted(mixed, key=lambda row: -row.of(_ITEMS))
    first, second = by_items[:2]
    apart = over(first, second, _ITEMS)
    spread = fmean(measured(row, _ITEMS).high / measured(row, _ITEMS).low - 1 for row in mixed)
    is_apart = "tell them apart" if apart.low > 1 else "do not tell them apart"
    return Finding(
        f"In between {' beats '.join(map(_name, mixed))}, and all of them {_name(reference)}.",
        both(*order, *above),
        f"{_name(first)} comes first, {_told(apart)} times {_name(second)}: these runs {is_apart} (one "
        "layout's lie "
        f"within {100 * spread:.1f} %). {', '.join(f'{_name(row)} {_items(row)}' for row in by_items)} "
        "items per "
        "ten minutes.",
    )


def _loads(seen: Seen, box: str) -> Finding | None:
    rows: dict[Layout, Row] = {}
    for layout in (_MOB, REFERENCE, Layout(12, 2)):
        row = seen.row(box, layout)
        published = seen.row(FAR, layout)
        if (
            row is None
            or "load" not in row.measured
            or published is None
            or "load" not in published.published
        ):
            return None
        rows[layout] = row
    claimed = {layout: seen.rows[point(FAR, layout)].published["load"] for layout in rows}
    mob, reference, twelve = (measured(row, "load") for row in rows.values())
    share = over(rows[Layout(12, 2)], rows[_MOB], "load")
    wanted = claimed[Layout(12, 2)] / claimed[_MOB]
    same = over(rows[Layout(12, 2)], rows[_MOB], _ITEMS)
    return Finding(
        f"Load: {_MOB} steady at {claimed[_MOB]:g}, {REFERENCE} rarely above {claimed[REFERENCE]:g}, 12x2 at "
        f"{100 * wanted:.0f} % of {_MOB}'s.",
        both(mob.near(claimed[_MOB]), reference.at_most(claimed[REFERENCE]), share.near(wanted)),
        f"{_MOB} {mob.value:.1f}, {REFERENCE} {reference.value:.1f}, 12x2 {twelve.value:.1f} active tasks: "
        f"{100 * share.value:.0f} % of {_MOB}'s, with {_told(same)} times its items. A thread that "
        "waits for the GIL "
        "or asleep is no load; one that waits for a core is.",
    )


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
