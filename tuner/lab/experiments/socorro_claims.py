"""Published claims on socorro's layouts, checked against measurements on this host and simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean

import numpy as np

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.lab.experiments import verdicts
from tuner.lab.experiments.experiment import USABLE_CORES, At, LabClaim, Row, Rows
from tuner.lab.experiments.socorro_runs import (
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
from tuner.lab.experiments.verdicts import Ratio, both, judge_claim, negate

# Rows of the socorro experiment, and their descriptions.

ITEMS = "items_per_10min"
ALONE = Layout(1, 1)
_SINGLE = 0.10  #: error assumed for a single window
measured, over = (partial(one, single=_SINGLE) for one in (verdicts.measured_ratio, verdicts.over))


class SocorroRows:
    """The rows that were run."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows: dict[At, Row] = Rows("", {row.at: row for row in rows if row.measured})
        here = [row for at, row in self.rows.items() if at[0] == HERE]
        self.n_cores = here[0].of(USABLE_CORES) if here else 0.0

    def row(self, box: str, layout: Layout, manager: str = THREADED) -> Row:
        """Return a row that was run.

        Raises:
            NotRunError: it was not run.
        """
        return self.rows[point(box, layout, manager)]

    def one_process(self, box: str) -> dict[int, Row]:
        """Return the threaded rows of one process, by number of threads, the fewest first."""
        found = {int(at[3]): row for at, row in self.rows.items() if at[:3] == (box, THREADED, 1.0)}
        return dict(sorted(found.items()))

    def item(self, box: str) -> tuple[Demands, Machine] | None:
        """Return the demands of an item from 1x1 of this host, and the machine of *box*."""
        alone = self.rows.get(point(HERE, ALONE, THREADED))
        demands = None if alone is None else demands_in(medians(alone.measured))
        if alone is None or demands is None:
            return None
        machine = machine_in(medians(alone.measured))
        return demands, machine if box == HERE else far_machine(machine)


def format_layout(row: Row) -> str:
    """Return the layout, such as 4x6."""
    return f"{row.at[2]:g}x{row.at[3]:g}"


def format_items(row: Row) -> str:
    """Return the items per ten minutes."""
    return f"{row.of(ITEMS):.0f}"


def format_ratio(ratio: Ratio) -> str:
    """Return a ratio with its range."""
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def describe_bound(seen: SocorroRows, box: str) -> str:
    """Return the bottleneck of one process with many threads: its GIL, or the cores."""
    known, row = seen.item(box), seen.rows.get(point(box, REFERENCE, THREADED))
    if known is None or row is None:
        return "The bottleneck is unknown"
    demands, machine = known
    gil = 600 / demands.gil_s if machine.has_gil and demands.gil_s else float("inf")
    cores = 600 * float(machine.total_speed(np.asarray(np.inf))) / demands.cpu_s
    seen_s = row.measured.get("python_percent")
    held = "" if seen_s is None else f". In {REFERENCE}, Python code used {seen_s.median:.0f} % of a core"
    busy = row.of("cpu_percent") / 100
    if gil < cores:
        return (
            f"The GIL limits one process to {gil:.0f} items per ten minutes, because an item needs the GIL "
            f"for {1e3 * demands.gil_s:.1f} ms{held}. The cores would allow {cores:.0f} items per ten "
            f"minutes. {REFERENCE} kept {busy:.1f} of {machine.cores:g} cores busy"
        )
    one_gil = f". The GIL would allow one process {gil:.0f} items per ten minutes" if machine.has_gil else ""
    return (
        f"The cores limit every layout to at most {cores:.0f} items per ten minutes. {REFERENCE} kept "
        f"{busy:.2f} of {machine.cores:g} cores busy{one_gil}{held}"
    )


def format_cpu(row: Row) -> str:
    """Return how many cores a layout keeps busy, and how many threads wait."""
    line = f", {row.of('gil_waiting'):.1f} threads waiting for a GIL" if "gil_waiting" in row.measured else ""
    return f"{format_layout(row)} keeps {row.of('cpu_percent') / 100:.2f} cores busy{line}"


def published(seen: SocorroRows, box: str) -> list[Row]:
    """Return the rows of published layouts that were run, best by the publication first."""
    rows = [row for at, row in seen.rows.items() if at[0] == box and "ratio" in row.published]
    return sorted(rows, key=lambda row: -row.published["ratio"])


def describe_best(seen: SocorroRows, box: str) -> str:
    """Return the best of the published layouts, and those that are not clearly slower."""
    rows = published(seen, box)
    best = max(rows, key=lambda row: (row.of(ITEMS), row.at[2:]))
    alike = [row for row in rows if row is best or over(best, row, ITEMS).low <= 1]
    if len(alike) == len(rows):
        return "no published layout differs significantly from the others"
    *names, last = (format_layout(row) for row in sorted(alike, key=lambda row: row.at[2:]))
    if len(alike) == 1:
        return f"{last} is the best published layout"
    return f"{', '.join(names)} and {last} are the best published layouts and do not differ significantly"


#: values from the text of the publication; a test compares them with it
ENOUGH_THREADS = 12  #: number of threads after which one process gains nothing
MOB = (1.8, 2.2)  #: throughput of 24 processes of one thread, as a multiple of one process of 24 threads
BEST = Layout(4, 6)
BETWEEN = (BEST, Layout(12, 2), Layout(2, 12))  #: layouts with several processes and threads, best first
MOST_LOAD = 9.0  #: highest usual load of one process of 24 threads
LIGHT, LIGHT_SHARE = Layout(12, 2), 0.80  #: its load, as a share of the load of 24 processes
#: relative distance from the best within which a layout is enough; a smaller deficit is no loss
_ENOUGH = 0.05
_TWO = 2.0  #: least number of cores for claims about several processes
_ALIKE = 0.05  #: largest relative difference of equal figures
_MOB = Layout(CORES, 1)


def findings(rows: Sequence[Row]) -> list[LabClaim]:
    """Return each claim for this host and for the simulated one, as far as its rows were run."""
    seen = SocorroRows(rows)
    found = []
    for box in (HERE, FAR):
        for claim in (_past_enough, _mob, _best, _compare_mixed_layouts, _loads):
            one = claim(seen, box)
            where = "On this host: " if box == HERE else f"On {CORES} simulated cores: "
            if box == HERE and seen.n_cores < _TWO:
                one = LabClaim(one.claim, None, f"{one.why} The claim needs two cores.")
            found.append(LabClaim(one.claim, one.holds, where + one.why, is_simulated=box == FAR))
    return [*found, *(one for one in (_queue(seen), *_interpreters(seen)) if one is not None)]


def follows(rows: Sequence[Row]) -> str:
    """Return two sentences."""
    seen = SocorroRows(rows)
    lines = []
    boxes = {HERE: f"On the {seen.n_cores:g} cores of this host", FAR: f"On {CORES} simulated cores"}
    for box, where in boxes.items():
        if not {point(box, _MOB, THREADED), point(box, REFERENCE, THREADED)} <= seen.rows.keys():
            continue
        mob, reference = seen.row(box, _MOB), seen.row(box, REFERENCE)
        lines.append(
            f"{where}, {describe_best(seen, box)}. {where}, {CORES} processes of one thread finish "
            f"{over(mob, reference, ITEMS).value:.2f} times as many items as one process of {CORES} threads. "
            f"{describe_bound(seen, box)}."
        )
    if not lines:
        return "Too little was run undisturbed for a conclusion."
    return " ".join(lines)


def _ahead(ratio: Ratio) -> bool | None:
    """Return whether the first is not behind the second; False: it is behind by more than the tolerance."""
    return True if ratio.low >= 1 else False if ratio.high < 1 - _ENOUGH else None


def _past_enough(seen: SocorroRows, box: str) -> LabClaim:
    def judge() -> tuple[bool | None, str]:
        few, many = (seen.row(box, Layout(1, n)) for n in (ENOUGH_THREADS, CORES))
        rows = seen.one_process(box)
        best = max(row.of(ITEMS) for row in rows.values())
        enough = min(n for n, row in rows.items() if row.of(ITEMS) >= best * (1 - _ENOUGH))
        gain = over(many, few, ITEMS)
        tried = ", ".join(f"{n}: {format_items(row)}" for n, row in rows.items())
        return gain.at_most(1 + _ENOUGH), (
            f"{CORES} threads finish {format_ratio(gain)} times as many items as {ENOUGH_THREADS} threads. "
            f"Items per ten "
            f"minutes by threads: {tried}; at least {enough} threads are needed to come within "
            f"{100 * _ENOUGH:.0f} % of the best."
        )

    return judge_claim(f"One process gains nothing from more than {ENOUGH_THREADS} threads.", judge)


def _mob(seen: SocorroRows, box: str) -> LabClaim:
    def judge() -> tuple[bool | None, str]:
        mob, reference = seen.row(box, _MOB), seen.row(box, REFERENCE)
        ratio = over(mob, reference, ITEMS)
        return both(ratio.at_least(MOB[0]), ratio.at_most(MOB[1])), (
            f"{CORES} processes of one thread finish {format_ratio(ratio)} times as many items as one "
            f"process of {CORES} threads. "
            f"{format_cpu(mob)}; {format_cpu(reference)}."
        )

    claim = (
        f"{CORES} processes of one thread finish {MOB[0]:g} to {MOB[1]:g} times as many items as one process "
        f"of {CORES} threads."
    )
    return judge_claim(claim, judge)


def _best(seen: SocorroRows, box: str) -> LabClaim:
    def judge() -> tuple[bool | None, str]:
        claimed = seen.row(box, BEST)
        others = [row for row in published(seen, box) if row is not claimed]
        ratios = {format_layout(row): over(claimed, row, ITEMS) for row in others}
        text = ", ".join(
            f"{format_ratio(ratio)} times as many items as {name}" for name, ratio in ratios.items()
        )
        missing = len(PUBLISHED) - 1 - len(others)
        verdict = both(*map(_ahead, ratios.values()))
        return None if verdict and missing else verdict, (
            f"{BEST} finishes {text or 'items, but no other published layout was measured'}."
        )

    return judge_claim(f"{BEST} is the fastest of the published layouts.", judge)


def _compare_mixed_layouts(seen: SocorroRows, box: str) -> LabClaim:
    """Return whether the mixed layouts lie between the two extremes, and whether these differ clearly."""

    def judge() -> tuple[bool | None, str]:
        reference, mixed = seen.row(box, REFERENCE), [seen.row(box, one) for one in BETWEEN]
        order = [_ahead(over(one, other, ITEMS)) for one, other in pairwise(mixed)]
        above = [_ahead(over(row, reference, ITEMS)) for row in mixed]
        by_items = sorted(mixed, key=lambda row: -row.of(ITEMS))
        first, second = by_items[:2]
        apart = over(first, second, ITEMS)
        spread = fmean(measured(row, ITEMS).high / measured(row, ITEMS).low - 1 for row in mixed)
        is_apart = "do not separate them" if apart.low <= 1 else "separate them"
        if 1 < apart.low < 1 / (1 - _ENOUGH):
            is_apart += f", though perhaps by less than {100 * _ENOUGH:.0f} %"
        return both(*order, *above), (
            f"{format_layout(first)} finishes {format_ratio(apart)} times as many items as "
            f"{format_layout(second)}. "
            f"These runs {is_apart}, because runs of one layout differ by {100 * spread:.1f} %. "
            f"{', '.join(f'{format_layout(row)} {format_items(row)}' for row in by_items)} items per ten "
            "minutes."
        )

    first, second, third = BETWEEN
    claim = (
        f"{first} finishes more items than {second}, {second} more than {third}, and {REFERENCE} the fewest."
    )
    return judge_claim(claim, judge)


def _loads(seen: SocorroRows, box: str) -> LabClaim:
    def judge() -> tuple[bool | None, str]:
        rows = [seen.row(box, one) for one in (_MOB, REFERENCE, LIGHT)]
        if not all("load" in row.measured for row in rows):
            return None, "Active tasks were not counted."
        mob, reference, light = (measured(row, "load") for row in rows)
        share, same = over(rows[2], rows[0], "load"), over(rows[2], rows[0], ITEMS)
        return both(mob.near(CORES), reference.at_most(MOST_LOAD), share.near(LIGHT_SHARE)), (
            f"the load is {mob.value:.1f} with {_MOB}, {reference.value:.1f} with {REFERENCE} and "
            f"{light.value:.1f} with {LIGHT} ({100 * share.value:.0f} % of the load with {_MOB}, and "
            f"{format_ratio(same)} times the items). A thread that waits for the GIL or sleeps is no load; "
            "one that waits for a core is."
        )

    claim = (
        f"The load is steady at {CORES} with {_MOB}, and rarely above {MOST_LOAD:g} with {REFERENCE}; the "
        f"load with {LIGHT} is {100 * LIGHT_SHARE:.0f} % of the load with {_MOB}."
    )
    return judge_claim(claim, judge)


def _queue(seen: SocorroRows) -> LabClaim | None:
    """Return the cost of a queue and its thread where one thread would need neither."""
    pairs = {
        format_layout(row): over(row, other, ITEMS)
        for at, row in seen.rows.items()
        if at[0] == HERE
        and at[1] == THREADED
        and (other := seen.rows.get((HERE, SINGLE, *at[2:]))) is not None
    }
    if not pairs:
        return None
    return LabClaim(
        "Not published: with one thread per process, the queue of the threaded task manager changes the "
        f"number of finished items by at most {100 * _ALIKE:.0f} %.",
        both(*(ratio.near(1.0, _ALIKE) for ratio in pairs.values())),
        f"Measured items with the queue divided by items without the queue: {_list(pairs)}.",
    )


def _interpreters(seen: SocorroRows) -> list[LabClaim]:
    """Return the effect of the interpreter alone, and of the way to start a child."""
    found: dict[tuple[str, str], Row] = {}
    for at, row in seen.rows.items():
        _, mark, variant = str(at[1]).partition(", ")
        if mark and (at[0], *at[2:]) == (HERE, 1.0, float(CORES)):
            version, spawn = variant.split(" ")
            found[version, spawn] = row
    usual = {version: row for (version, spawn), row in found.items() if spawn == "vfork"}
    if not usual:
        return []
    first, *others = usual
    findings = []
    if others:
        ratios = {version: over(usual[version], usual[first], ITEMS) for version in others}
        findings.append(
            LabClaim(
                "Not published: another version of Python alone changes the number of finished items by at "
                f"most {100 * _ALIKE:.0f} %.",
                both(*(one.near(1.0, _ALIKE) for one in ratios.values())),
                f"Measured items of {REFERENCE} divided by the items with Python {first}: "
                f"{_list(ratios, 'Python ')}. Both start child processes in the same way.",
            )
        )
    held = {
        version: over(found[version, "posix_spawn"], row, ITEMS)
        for version, row in usual.items()
        if (version, "posix_spawn") in found
    }
    if held:
        findings.append(
            LabClaim(
                "Not published: one process of "
                f"{CORES} threads finishes fewer items if the start of a child process holds the GIL until "
                f"the "
                "child runs its program (posix_spawn).",
                both(*(negate(one.at_least(1.0)) for one in held.values())),
                f"Measured items of {REFERENCE} with posix_spawn divided by those with vfork: "
                f"{_list(held, 'Python ')}. The model has no GIL that is held without CPU.",
            )
        )
    return findings


def _list(ratios: Mapping[str, Ratio], kind: str = "") -> str:
    return ", ".join(f"{format_ratio(ratio)} with {kind}{one}" for one, ratio in ratios.items())
