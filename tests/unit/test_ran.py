"""Layouts that ran with the same processes or threads are not what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import Reading, Usage, Window
from tuner.core.errors import ConfigError
from tuner.core.messages.invalid import processes_extra
from tuner.core.windows.layout_check import RanLayouts, refuse_wrong_layout
from tuner.services.catalogue import known_services

from ..raising import raises
from ..wording import key_of, wording

READING = Reading(0.0, 0, 0)


def usage(n_processes: int, n_threads: Sequence[int], *, is_known: bool = True) -> Usage:
    """Worker processes that were there, and threads of each."""
    return Usage(
        at_s=0.0,
        wall_s=0.0,
        service_cpu_s_total=0.0,
        tuner_cpu_s_total=0.0,
        backend_cpu_s_total=0.0,
        box_cpu_s_total=0.0,
        steal_s_total=0.0,
        n_context_switches_total=0,
        pss_bytes=None,
        n_processes=n_processes,
        n_threads=sum(n_threads),
        cpu_pressure_s_total=None,
        memory_pressure_s_total=None,
        io_pressure_s_total=None,
        n_threads_most=max(n_threads, default=None) if is_known else None,
    )


def window(layout: Layout | str, *looks: Usage) -> Window:
    asked = parse_layout(layout) if isinstance(layout, str) else layout
    return Window(asked, 0, 1, 0.0, 1.0, 0, 0, (), looks, (READING, READING))


def config(**service: Any) -> StoredConfig:
    return StoredConfig.of_sections({"service": {"kind": "script", "programs": "one", **service}})


def ran(settings: StoredConfig, *windows: Window) -> list[str]:
    """Why windows, in this order, are void."""
    layouts = RanLayouts(settings)
    return [reason.detail for one in windows for reason in layouts.judged(one).void]


AT_START = config(os_threads="at-start")
AT_A_RATE = config(os_threads="on-demand", feeder={"kind": "http", "rate": 5.0})
ON_DEMAND = config(os_threads="on-demand", feeder={"kind": "http", "rate": None})


@pytest.mark.parametrize(
    ("settings", "first", "second", "said"),
    [
        # gunicorn --threads 3 in a start script, a queue's worker with a fixed pool, -w 4 in a script
        (ON_DEMAND, ("1x1", 1, [4]), ("1x8", 1, [4]), wording("ran.threads-of-one-process")),
        (ON_DEMAND, ("2x8", 2, [4, 2]), ("2x2", 2, [4, 4]), wording("ran.threads-in-other-order")),
        (AT_START, ("1x2", 1, [7]), ("1x3", 1, [7]), wording("ran.threads-at-start")),
        (AT_START, ("4x4", 4, [6] * 4), ("1x6", 1, [6]), wording("ran.threads-of-other-processes")),
        (config(), ("2x-", 4, [1] * 4), ("8x-", 4, [1] * 4), wording("ran.processes")),
        (config(), ("8x2", 4, [3] * 4), ("2x2", 4, [3] * 4), wording("ran.processes-in-other-order")),
        (
            config(programs="each", workers="pools"),
            ("2x2", 8, [1] * 8),
            ("2x4", 8, [1] * 8),
            wording("ran.pools"),
        ),
    ],
    ids=key_of,
)
def test_what_asks_for_more_and_has_no_more_is_void(
    settings: StoredConfig, first: tuple[str, int, list[int]], second: tuple[str, int, list[int]], said: str
) -> None:
    windows = [window(layout, usage(n, threads)) for layout, n, threads in (first, second)]

    assert ran(settings, *windows) == [said]


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        # threads of an agent of a monitor, the same in each layout
        (ON_DEMAND, [("1x1", 1, [9]), ("1x2", 1, [10]), ("1x4", 1, [12])]),
        # a load that leaves threads of a pool unstarted, as long as it starts some
        (ON_DEMAND, [("1x2", 1, [3]), ("1x3", 1, [3]), ("1x4", 1, [4])]),
        # connections that fell on one of two workers
        (ON_DEMAND, [("2x1", 2, [2, 1]), ("2x8", 2, [9, 1])]),
        # requests at a rate may never need a second thread, nor what a user feeds
        (
            config(os_threads="on-demand", feeder={"kind": "http", "rate": 5.0}),
            [("1x1", 1, [2]), ("1x8", 1, [2])],
        ),
        (config(os_threads="on-demand", feeder={"kind": "none"}), [("1x1", 1, [2]), ("1x8", 1, [2])]),
        # greenlets, tasks of an event loop, and of a script nobody knows
        (config(), [("1x1", 1, [2]), ("1x8", 1, [2])]),
        # the same threads in more processes; more threads in fewer
        (AT_START, [("1x2", 1, [3]), ("4x2", 4, [3] * 4), ("2x4", 2, [5, 5])]),
        # processes that tuner starts itself, one of which has just ended
        (config(programs="each"), [("2x-", 2, [1, 1]), ("4x-", 2, [1, 1])]),
        # a server's worker that is the master itself while it is alone
        (config(workers="children-if-several"), [("1x-", 1, [1]), ("2x-", 3, [1] * 3), ("4x-", 5, [1] * 5)]),
        # forms are measured beside each other
        (config(variants={"a": {"os_threads": "at-start"}, "b": {}}), [("1x2@a", 1, [5]), ("1x8@b", 1, [5])]),
        (StoredConfig(""), [("1x1", 1, [1]), ("2x2", 1, [1])]),
        (ON_DEMAND, [("1x1", 0, []), ("1x8", 0, [])]),
    ],
)
def test_what_may_be_as_it_was_requested_counts(
    settings: StoredConfig, seen: list[tuple[str, int, list[int]]]
) -> None:
    windows = [window(layout, usage(n, threads)) for layout, n, threads in seen]

    assert ran(settings, *windows) == ran(settings, *reversed(windows)) == []


@pytest.mark.parametrize(("cores", "n_void"), [(0.97, 0), (0.5, 1)])
def test_a_pool_that_grows_on_demand_is_not_compared_where_its_gil_is_full(cores: float, n_void: int) -> None:
    """As Celery's threads did: six of 16 were there, since who starts them waits for the GIL, too."""
    begins, ends = usage(1, [6]), replace(usage(1, [6]), at_s=10.0, worker_cpu_s_total=10 * cores)
    many = window("1x16", replace(begins, worker_cpu_s_total=0.0), ends)

    assert len(ran(ON_DEMAND, many, window("1x8", usage(1, [9])))) == n_void


def test_a_worker_that_is_being_replaced_at_one_look_does_no_harm() -> None:
    few = window("2x-", *[usage(2, [1, 1])] * 3)
    many = window("3x-", usage(3, [1] * 3), usage(2, [1] * 2), usage(3, [1] * 3))

    assert ran(config(), few, many) == []


def test_of_a_resumed_study_the_mean_process_is_known_and_accuses_nobody() -> None:
    # stored are sums: of one worker process they say all, of two not which of them had how many
    uneven = window("2x4", usage(2, [5, 1], is_known=False))
    alone = window("1x8", usage(1, [4], is_known=False))

    assert ran(ON_DEMAND, uneven, window("2x2", usage(2, [3, 3]))) == []
    assert len(ran(ON_DEMAND, alone, window("1x2", usage(1, [4])))) == 1


def test_a_void_window_is_not_remembered_and_keeps_its_reason() -> None:
    layouts = RanLayouts(AT_START)
    other = window("1x2", usage(1, [3]))
    void = replace(other, void=layouts.judged(window("1x1", usage(1, [3]))).void)

    assert layouts.judged(other).void != void.void
    assert layouts.judged(layouts.judged(other)).void == layouts.judged(other).void


def test_a_study_of_layouts_that_are_alike_ends() -> None:
    layouts = RanLayouts(AT_START)
    layouts.judged(window("1x1", usage(1, [4])))
    alike = layouts.judged(window("1x4", usage(1, [4])))

    with raises(ConfigError, wording("ran.study-ends")):
        refuse_wrong_layout(alike)
    refuse_wrong_layout(window("1x1"))


def test_a_study_of_a_layout_with_further_workers_ends() -> None:
    more = replace(window("1x4"), void=(processes_extra(Layout(1, 4), 3, 1),))

    with raises(ConfigError, wording("ran.more-workers")):
        refuse_wrong_layout(more)


def test_forms_whose_threads_are_threads_of_the_system_are_compared_by_them() -> None:
    compared = {
        f"{service.name} {form.name}": form.os_threads
        for service in known_services().values()
        for form in service.forms
        if form.os_threads is not None
    }

    assert compared == {
        "celery threads": "on-demand",
        "dramatiq threads": "at-start",
        "granian blocking": "on-demand",
        "granian runtime": "at-start",
        "gunicorn gthread": "on-demand",
        "huey thread": "at-start",
        "uwsgi threads": "at-start",
        "waitress threads": "at-start",
    }
