"""What was claimed of socorro's layouts, held against what was measured on this box and simulated beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from tuner.core.domain.layout import Layout
from tuner.core.lab.experiment import LabClaim, Row
from tuner.core.lab.socorro_runs import CORES, FAR, HERE, PUBLISHED, REFERENCE, SINGLE, THREADED, point
from tuner.core.lab.socorro_seen import (
    ITEMS,
    SocorroRows,
    describe_best,
    describe_bound,
    format_cpu,
    format_items,
    format_layout,
    format_ratio,
    measured,
    over,
    published,
)
from tuner.core.lab.verdicts import Ratio, both, judge_claim, negate

#: as it was told in words; a test holds them against the publication
ENOUGH_THREADS = 12  #: beyond them one process gains nothing
MOB = (1.8, 2.2)  #: so many times one process of 24 threads did 24 of one thread
BEST = Layout(4, 6)
BETWEEN = (BEST, Layout(12, 2), Layout(2, 12))  #: the mixed ones, best first
MOST_LOAD = 9.0  #: of one process of 24 threads
LIGHT, LIGHT_SHARE = Layout(12, 2), 0.80  #: its load, as a share of that of 24 processes
_ENOUGH = 0.05  #: how near the best a number of threads is enough; and what is behind by less is not beaten
_TWO = 2.0  #: cores, that processes can run side by side
_ALIKE = 0.05  #: what differs by no more is alike
_MOB = Layout(CORES, 1)


def findings(rows: Sequence[Row]) -> list[LabClaim]:
    """Each claim for this box and for the simulated one, as far as its rows were run."""
    seen = SocorroRows(rows)
    found = []
    for box in (HERE, FAR):
        for claim in (_past_enough, _mob, _best, _between, _loads):
            one = claim(seen, box)
            where = "On this host: " if box == HERE else f"On {CORES} simulated cores: "
            if box == HERE and seen.n_cores < _TWO:
                one = LabClaim(one.claim, None, f"{one.why} The claim needs two cores.")
            found.append(LabClaim(one.claim, one.holds, where + one.why, is_simulated=box == FAR))
    return [*found, *(one for one in (_queue(seen), *_interpreters(seen)) if one is not None)]


def follows(rows: Sequence[Row]) -> str:
    """Two sentences."""
    seen = SocorroRows(rows)
    lines = []
    boxes = {HERE: f"On the {seen.n_cores:g} cores of this host", FAR: f"On {CORES} cores, simulated,"}
    for box, where in boxes.items():
        if not {point(box, _MOB, THREADED), point(box, REFERENCE, THREADED)} <= seen.rows.keys():
            continue
        mob, reference = seen.row(box, _MOB), seen.row(box, REFERENCE)
        lines.append(
            f"{where} {describe_best(seen, box)}. {CORES} processes of one thread give "
            f"{over(mob, reference, ITEMS).value:.2f} times the items of one process of {CORES} threads: "
            f"{describe_bound(seen, box)}."
        )
    if not lines:
        return "Too little was run undisturbed for a conclusion."
    return " ".join(lines)


def _ahead(ratio: Ratio) -> bool | None:
    """Whether the first is not behind the second; False: by more than what is as good."""
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
            f"{CORES} give {format_ratio(gain)} times the items of {ENOUGH_THREADS}. Items per ten minutes "
            "by "
            f"threads: {tried}; {enough} are the fewest of those tested within {100 * _ENOUGH:.0f} % of the "
            "best."
        )

    return judge_claim(f"One process gains nothing past {ENOUGH_THREADS} threads.", judge)


def _mob(seen: SocorroRows, box: str) -> LabClaim:
    def judge() -> tuple[bool | None, str]:
        mob, reference = seen.row(box, _MOB), seen.row(box, REFERENCE)
        ratio = over(mob, reference, ITEMS)
        return both(ratio.at_least(MOB[0]), ratio.at_most(MOB[1])), (
            f"{format_ratio(ratio)} times. {format_cpu(mob)}; {format_cpu(reference)}."
        )

    claim = (
        f"{CORES} processes of one thread give {MOB[0]:g} to {MOB[1]:g} times the items of one of {CORES} "
        "threads."
    )
    return judge_claim(claim, judge)


def _best(seen: SocorroRows, box: str) -> LabClaim:
    def judge() -> tuple[bool | None, str]:
        claimed = seen.row(box, BEST)
        others = [row for row in published(seen, box) if row is not claimed]
        ratios = {format_layout(row): over(claimed, row, ITEMS) for row in others}
        text = ", ".join(f"{format_ratio(ratio)} times the items of {name}" for name, ratio in ratios.items())
        missing = len(PUBLISHED) - 1 - len(others)
        verdict = both(*map(_ahead, ratios.values()))
        return None if verdict and missing else verdict, (
            f"{BEST} gives {text or 'items that no other can be compared with'}."
        )

    return judge_claim(f"{BEST} is the best published layout.", judge)


def _between(seen: SocorroRows, box: str) -> LabClaim:
    """Whether the mixed layouts lie between the two ends, and whether these can be told from each other."""

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
            f"{format_layout(first)} gives {format_ratio(apart)} times the items of {format_layout(second)}: "
            "these "
            f"runs {is_apart} (runs of one layout differ by {100 * spread:.1f} %). "
            f"{', '.join(f'{format_layout(row)} {format_items(row)}' for row in by_items)} "
            "items per ten minutes."
        )

    return judge_claim(
        f"Mixed layouts: {' beats '.join(map(str, BETWEEN))}, and all beat {REFERENCE}.", judge
    )


def _loads(seen: SocorroRows, box: str) -> LabClaim:
    def judge() -> tuple[bool | None, str]:
        rows = [seen.row(box, one) for one in (_MOB, REFERENCE, LIGHT)]
        if not all("load" in row.measured for row in rows):
            return None, "Active tasks were not counted."
        mob, reference, light = (measured(row, "load") for row in rows)
        share, same = over(rows[2], rows[0], "load"), over(rows[2], rows[0], ITEMS)
        return both(mob.near(CORES), reference.at_most(MOST_LOAD), share.near(LIGHT_SHARE)), (
            f"{_MOB} {mob.value:.1f}, {REFERENCE} {reference.value:.1f}, {LIGHT} {light.value:.1f} active "
            f"tasks on average, {100 * share.value:.0f} % of {_MOB}'s, with {format_ratio(same)} times its "
            "items. A thread that waits for the GIL or sleeps is no load; one that waits for a core is."
        )

    claim = (
        f"Load: {_MOB} steady at {CORES}, {REFERENCE} rarely above {MOST_LOAD:g}, {LIGHT} at "
        f"{100 * LIGHT_SHARE:.0f} % of {_MOB}'s."
    )
    return judge_claim(claim, judge)


def _queue(seen: SocorroRows) -> LabClaim | None:
    """What a queue and its thread cost where one thread would do without."""
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
        "Not published: with one thread per process, the queue of the threaded task manager costs at most "
        f"{100 * _ALIKE:.0f} %.",
        both(*(ratio.near(1.0, _ALIKE) for ratio in pairs.values())),
        f"Items with the queue over items without it, by layout: {_list(pairs)}.",
    )


def _interpreters(seen: SocorroRows) -> list[LabClaim]:
    """What the interpreter alone changes, and the way it starts a child."""
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
                f"Not published: the interpreter alone changes at most {100 * _ALIKE:.0f} %.",
                both(*(one.near(1.0, _ALIKE) for one in ratios.values())),
                f"Items of {REFERENCE} with the same way to start a child, over those with Python {first}: "
                f"{_list(ratios)}.",
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
                f"{CORES} threads gives fewer items if the start of a child holds the GIL until its exec "
                "(posix_spawn).",
                both(*(negate(one.at_least(1.0)) for one in held.values())),
                f"Items of {REFERENCE} with posix_spawn over those with vfork, by Python: {_list(held)}. "
                "The model has no GIL that is held without CPU.",
            )
        )
    return findings


def _list(ratios: Mapping[str, Ratio]) -> str:
    return ", ".join(f"{one} {format_ratio(ratio)}" for one, ratio in ratios.items())
