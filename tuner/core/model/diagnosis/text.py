"""The bottleneck of a layout in words: one word for a column, one sentence for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tuner.core.domain.load import requests_at_once
from tuner.core.domain.requests import uneven_ratio
from tuner.core.messages.service import uneven
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:  # a caller that only writes a column need not load numpy
    from tuner.core.model.diagnosis.diagnose import Diagnosis, Figure, Share, What

_WORDS: dict[What, str] = {
    "gil": "GIL",
    "cores": "cores",
    "waiting": "waiting",
    "backend": "backend",
    "memory": "memory",
    "connections": "connections",
}
MODELLED = "~"  #: mark before a modelled figure; all others were measured
_DOING: dict[Share, str] = {
    "python": "are in Python",
    "child": "have a child at work",
    "master": "wait while their master computes",
    "core_line": "wait for a core",
    "gil_line": "wait for the GIL",
    "asleep": "sleep",
    "blocked": "wait uninterruptibly (a disk, a network file system)",
    "contended": "wait because of other items (a lock, a database)",
    "elsewhere": "wait or sleep",
}
_OF_BACKENDS: tuple[Share, ...] = ("blocked", "contended")
_ALL = 0.95  #: share of the cores from which all of them count as busy
_OTHERS = 0.02  #: share of the cores; smaller use by other processes is not reported
_WORTH_TELLING = 0.005  #: share of the threads' time; smaller parts are not reported
_BESIDE_WORTH_CORES = 0.05


def short(what: Sequence[What]) -> str:
    """Return the bottlenecks for a column, such as ``GIL`` or ``cores+GIL``; empty if not known."""
    return "+".join(_WORDS[one] for one in what)


def sentence(diagnosis: Diagnosis) -> str:
    """Return a sentence such as ``1x24: the GIL is busy 97 %, ~15 of 24 threads wait for it``."""
    parts = [_TELLERS[one](diagnosis) for one in diagnosis.what]
    if diagnosis.beside_cores >= _BESIDE_WORTH_CORES:
        used = pluralize(diagnosis.beside_cores, "core", ".2g")
        parts.append(f"masters and threads that work on no items use {used}")
    return f"{diagnosis.layout}: {'; '.join(parts)}"


def percent(figure: Figure) -> str:
    """Return a percentage such as ``97 %``, or ``~97 %`` if it is modelled."""
    return f"{_mark(figure)}{100 * figure.value:.0f} %"


def threads(figure: Figure) -> str:
    """Return the number of threads, with two digits below ten: ``~15``, ``1.6``."""
    return (
        f"{_mark(figure)}{figure.value:.0f}" if figure.value >= 9.95 else f"{_mark(figure)}{figure.value:.2g}"
    )


def _so_many(figure: Figure, of: Diagnosis) -> str:
    if (of.shape or of.layout).total_threads == 1:
        return f"its thread waits {percent(figure)} of the time"
    return f"{threads(figure)} of {(of.shape or of.layout).total_threads} threads wait"


def _mark(figure: Figure) -> str:
    return MODELLED if figure.source == "modelled" else ""


def _gil(of: Diagnosis) -> str:
    layout, busy = of.shape or of.layout, percent(of.utilization["gil"])
    one = layout.processes == 1
    if layout.threads == 1:
        mine = "its one thread keeps the GIL" if one else "the one thread of each process keeps its GIL"
        return f"{mine} busy {busy}, another would wait for it"
    line = of.n_threads("gil_line")
    text = "" if line is None else f", {_so_many(line, of)} for it"
    return f"the GIL {'is' if one else 'of each process is'} busy {busy}{text}"


def _cores(of: Diagnosis) -> str:
    busy = of.utilization["cores"]
    every = "all" if busy.value >= _ALL else "the"
    text = "the core is busy" if of.cores == 1 else f"{every} {of.cores:g} cores are busy"
    if busy.value < _ALL:
        text += f" {percent(busy)}"
    if others := _describe_other_users(of):
        text += f", {others}"
    line = of.n_threads("core_line")
    if line is not None and line.value > _WORTH_TELLING * (of.shape or of.layout).total_threads:
        text += f", {_so_many(line, of)} for a core"
    return text


def _describe_other_users(of: Diagnosis) -> str:
    """Return the other users of the cores, most first; empty if they use hardly any."""
    own = "tuner's own processes" if of.load is None else "tuner and its load generator"
    known = {
        "the backends of the config": of.backend_cores,
        own: of.tuner_cores,
        "interrupts": of.interrupt_cores,
    }
    used = {**known, "other processes": of.others_cores - sum(known.values())}
    shown = sorted(((n, name) for name, n in used.items() if n > of.cores * _OTHERS), reverse=True)
    return ", ".join(
        f"{name} {pluralize(n, 'core', '.2g')}" if at else f"{name} use {pluralize(n, 'core', '.2g')}"
        for at, (n, name) in enumerate(shown)
    )


def _waiting(of: Diagnosis) -> str:
    stations = [
        f"{_WORDS[name]} {percent(figure)}"
        for name, figure in sorted(of.utilization.items(), key=lambda item: -item[1].value)
    ]
    full = "nothing is full"
    if of.utilization["cores"].value >= _ALL:
        full = f"{_describe_other_users(of)}, but hardly slow it"
    if of.load is not None and of.load.takes_many:
        return f"{full} ({', '.join(stations)}), and more connections bring nothing{_hidden_limit(of)}"
    return f"{full} ({', '.join(stations)}), its threads {_time_of(of)}{_gain(of)}"


def _hidden_limit(of: Diagnosis) -> str:
    """Return a phrase with possible limits of an event loop that accepts no more requests."""
    assert of.load is not None
    found = of.load.facts.found
    at_once = None if found is None else requests_at_once(found)
    about = "" if at_once is None else f", about {at_once:.3g} requests in each process"
    return (
        f": something in the service lets only so many be worked on at once{about} (a pool of threads, a"
        " semaphore, connections to a database)"
    )


def _backend(of: Diagnosis) -> str:
    found = []
    for share in _OF_BACKENDS:
        figure = of.shares.get(share)
        if figure is not None and figure.value >= _WORTH_TELLING:
            found.append(f"{_DOING[share]} {percent(figure)} of the time")
    used = of.backend_cores + of.backend_elsewhere_cores
    named = f"; the backends of the config use {pluralize(used, 'core', '.2g')}" if used >= 0.005 else ""
    return f"its threads {' and '.join(found)}: on something that items share{named}"


def _connections(of: Diagnosis) -> str:
    busy = ", ".join(f"{_WORDS[name]} {percent(figure)}" for name, figure in of.utilization.items())
    assert of.load is not None
    spread = of.load.spread
    starved = None if spread is None else uneven_ratio(spread, (of.shape or of.layout).total_threads)
    if spread is not None and starved is not None:
        held = spread.per_worker
        return (
            f"the load generator's connections are its bottleneck, and nothing is full ({busy}):"
            f" {uneven(held[-1], held[0], starved)}"
        )
    n = of.load.facts.clients_of(of.layout)
    many = "all connections" if n is None else f"all {pluralize(n, 'connection')}"
    return (
        f"the load generator's connections are its bottleneck: {many} are always busy and nothing is full"
        f" ({busy}), so more of them would bring more"
    )


def _memory(of: Diagnosis) -> str:
    busiest = max(of.utilization, key=lambda name: of.utilization[name].value)
    return f"{of.memory}; {_WORDS[busiest]} busy {percent(of.utilization[busiest])}"


def _time_of(of: Diagnosis) -> str:
    """Return a phrase with the shares of the threads' time, the largest first."""
    lines = [
        f"{_DOING[share]} {percent(figure)}"
        for share, figure in sorted(of.shares.items(), key=lambda item: -item[1].value)
        if figure.value >= _WORTH_TELLING
    ]
    return f"{', '.join(lines)} of the time"


def _gain(of: Diagnosis) -> str:
    """Return a phrase with the measured gain of twice the threads, else the modelled one; empty: unknown."""
    shape = of.shape or of.layout
    is_threads = shape.has_threads or (of.layout.has_threads and shape.processes == of.layout.processes)
    more = "threads" if is_threads else "processes"
    if of.doubled is not None:
        other, ratio = of.doubled
        change = round(100 * (ratio - 1))
        gave = f"{abs(change)} % {'more' if change > 0 else 'less'}" if change else "no more"
        return f"; twice the {more} ({other}) gave {gave}"
    if of.gain_ratio is None:
        return ""
    return f"; twice the {more} would give {MODELLED}{100 * (of.gain_ratio - 1):.0f} % more"


_TELLERS: dict[What, Callable[[Diagnosis], str]] = {
    "gil": _gil,
    "cores": _cores,
    "waiting": _waiting,
    "backend": _backend,
    "memory": _memory,
    "connections": _connections,
}
