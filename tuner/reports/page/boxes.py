"""Section of the HTML page on the hosts of a fleet: level, invalid windows, failures, differences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord
from tuner.core.ranking.overview import Overview
from tuner.core.text.figures import pluralize
from tuner.reports.page.blocks import Block, Limits, Section, Shown, Text, thin_table
from tuner.reports.ranking.boxes import boxes_notes, level_cells
from tuner.reports.text.formats import Table

_MOST_BOXES = 8  #: largest number of hosts with a column each in the comparison of facts


def boxes_sections(overview: Overview, limits: Limits) -> list[Section]:
    """Return one section; none for a study on one host."""
    names = list(
        dict.fromkeys([*(box.name for box in overview.boxes), *(x.box for _, x in overview.launches)])
    )
    if not overview.boxes:
        return []
    boxes = overview.ranking.boxes
    blocks: list[Block] = []
    if said := boxes_notes(overview.ranking):
        blocks.append(Text(said))
    levels = {} if boxes is None else {one.box: level_cells(one) for one in boxes.levels}
    rows = tuple(_rows(names, overview, levels))
    level = "interval" if boxes is None else f"{100 * boxes.confidence:g} % interval"
    headers = (
        "host", "times the mean", level, "level is", "valid windows", "invalid", "launches", "failed or lost",
        "left because",
    )  # fmt: skip
    table, left_out = thin_table(Table(headers, rows, frozenset({1, 2, 4, 5, 6, 7})), limits.rows)
    blocks.append(Shown("boxes-table", "Each host", table, left_out=left_out))
    blocks += _differences(overview.boxes, limits)
    return [Section("boxes", "Hosts", blocks)]


def _rows(
    names: Sequence[str], overview: Overview, levels: Mapping[str, tuple[str, str, str]]
) -> Iterator[tuple[str, ...]]:
    n_windows = Counter(window.box for window in overview.windows)
    n_void = Counter(window.box for window in overview.windows if window.void)
    n_launches = Counter(launch.box for _, launch in overview.launches)
    n_failed = Counter(launch.box for _, launch in overview.launches if launch.error is not None)
    whys: dict[str, list[str]] = defaultdict(list)
    for box in overview.boxes:
        if box.why and box.why not in whys[box.name]:
            whys[box.name].append(box.why)
    for name in names:
        yield (
            name,
            *levels.get(name, ("-", "-", "-")),
            str(n_windows[name] - n_void[name]),
            str(n_void[name]),
            str(n_launches[name]),
            str(n_failed[name]),
            "; ".join(whys[name]) or "-",
        )


def _differences(boxes: Sequence[BoxRecord], limits: Limits) -> list[Block]:
    """Return the facts that differ between hosts: a row for each fact, a column for each host."""
    last = {box.name: box for box in boxes}
    if len(last) < 2:
        return []
    facts = {
        name: {"cores offered": f"{box.cores:g}", **_host_facts(box.provenance)} for name, box in last.items()
    }
    keys = sorted({key for own in facts.values() for key in own})
    differing = [key for key in keys if len({own.get(key) for own in facts.values()}) > 1]
    alike = f"All {pluralize(len(last), 'host')} have the same facts, except for their names."
    if not differing:
        return [Text([alike])]
    shown = list(facts)[:_MOST_BOXES]
    table = Table(
        ("fact", *shown),
        tuple((key, *(facts[name].get(key, "-") for name in shown)) for key in differing[: limits.rows]),
        frozenset(),
    )
    left = len(facts) - len(shown)
    rest = (
        f"{pluralize(left, 'more host')} left out here: the study file has all of them." if left > 0 else ""
    )
    return [Shown("boxes-differ", "Differences between the hosts", table, left_out=rest)]


def _host_facts(provenance: Provenance) -> dict[str, str]:
    """Return the facts, without those that always differ."""
    others = {name: text for name, text in provenance.others.items() if name != "boot"}
    workers = provenance.workers.without("worker_spawn_ms")
    return replace(
        provenance, host=None, steal_since_boot=None, cpu_frequency=None, workers=workers, others=others
    ).to_mapping()
