"""Memory of a layout, from what others were seen to use."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tuner.core.domain.layout import Layout, parse_layouts
from tuner.core.model.prediction.memory import MemorySeen, fit_memory, leave_memory_out

from ..luck import of_studies
from ..wording import start_of, wording

PROCESS, THREAD, CHILD = 60e6, 2e6, 25e6
N_STUDIES = 100


def seen(
    text: str, *, children_per_thread: dict[str, float] | float, noise: float = 0.0, seed: int = 5
) -> list[MemorySeen]:
    random_ = random.Random(seed)
    found = []
    for layout in parse_layouts(text):
        per = (
            children_per_thread
            if isinstance(children_per_thread, float)
            else children_per_thread[str(layout)]
        )
        n = per * layout.total_threads
        truth = PROCESS * layout.processes + THREAD * layout.processes * (layout.threads - 1) + CHILD * n
        found.append(MemorySeen(layout, n, truth * (1 + noise * random_.gauss(0, 1))))
    return found


def test_the_three_parts_are_reported_where_layouts_differ_in_each() -> None:
    layouts = {"1x1": 0.8, "2x1": 0.7, "4x1": 0.4, "1x4": 0.5, "2x4": 0.2, "1x8": 0.1}

    fit = fit_memory(seen(",".join(layouts), children_per_thread=layouts))

    assert fit is not None
    assert fit.memory.process_bytes == pytest.approx(PROCESS)
    assert fit.memory.thread_bytes == pytest.approx(THREAD)
    assert fit.memory.child_bytes == pytest.approx(CHILD)
    assert fit.identified == {"process", "thread", "child"}
    assert fit.unidentified == ""
    estimate = fit.of(Layout(8, 2), 3.0, 0.9)
    assert estimate.mean == pytest.approx(8 * PROCESS + 8 * THREAD + 3 * CHILD)


def test_a_layout_is_left_out_of_the_fit_that_predicts_its_memory() -> None:
    per = {"1x1": 0.8, "2x1": 0.7, "4x1": 0.4, "1x4": 0.5, "2x4": 0.2, "1x8": 0.1}
    exact = seen(",".join(per), children_per_thread=per)
    larger = [replace(one, pss_bytes=1.5 * one.pss_bytes) if one is exact[4] else one for one in exact]

    found = leave_memory_out(larger)

    for one in larger:
        without = fit_memory(other for other in larger if other is not one)
        assert without is not None
        assert found[one.layout].measured_bytes == one.pss_bytes
        assert found[one.layout].predicted_bytes == without.of(one.layout, one.n_children, 0.9).mean
    assert found[Layout(2, 4)].predicted_bytes == pytest.approx(exact[4].pss_bytes)


def test_windows_of_a_layout_are_left_out_together() -> None:
    (one,) = seen("1x1", children_per_thread=0.0)
    (two,) = seen("2x1", children_per_thread=0.0)

    found = leave_memory_out([one, replace(one, pss_bytes=1.1 * one.pss_bytes), two])

    assert found[one.layout].predicted_bytes == pytest.approx(PROCESS)
    assert found[one.layout].measured_bytes == pytest.approx(1.05 * PROCESS)


def test_memory_that_the_other_layouts_do_not_show_is_not_predicted() -> None:
    found = leave_memory_out(seen("1x1,2x1,1x4", children_per_thread=0.0))

    assert found[Layout(1, 4)].predicted_bytes is None
    assert found[Layout(2, 1)].predicted_bytes == pytest.approx(2 * PROCESS)
    assert leave_memory_out(seen("1x1", children_per_thread=0.0)) == {}


def test_children_in_step_with_threads_are_left_to_the_threads() -> None:
    fit = fit_memory(seen("1x1,2x1,1x4,2x4", children_per_thread=0.5))

    assert fit is not None
    assert fit.identified == {"process", "thread"}
    assert fit.memory.process_bytes == pytest.approx(PROCESS + 0.5 * CHILD)
    assert fit.memory.thread_bytes == pytest.approx(THREAD + 0.5 * CHILD)
    assert "running child" in fit.unidentified


def test_one_layout_tells_of_processes_alone() -> None:
    fit = fit_memory(seen("1x1", children_per_thread=0.5))

    assert fit is not None
    assert fit.identified == {"process"}
    assert fit.error_ratio is None
    several = fit.of(Layout(4, 2), 4.0, 0.9)
    assert (several.mean, several.high) == (None, None)
    assert several.low == pytest.approx(4 * (PROCESS + 0.5 * CHILD))
    alike = fit.of(Layout(4, 1), 2.0, 0.9)
    assert (alike.mean, alike.low) == (pytest.approx(4 * (PROCESS + 0.5 * CHILD)), None)
    assert wording("model.memory-of-threads-cannot-be-told") in start_of(fit.unidentified)


def test_nine_in_ten_layouts_that_were_not_seen_lie_in_their_intervals() -> None:
    children = {
        "1x1": 0.9, "2x1": 0.6, "4x1": 0.4, "1x4": 0.3, "2x4": 0.2, "1x8": 0.1, "4x2": 0.2, "3x3": 0.3
    }  # fmt: skip
    shares = []
    for seed in range(N_STUDIES):
        rows = seen(",".join(children), children_per_thread=children, noise=0.02, seed=seed)
        inside = 0
        for row in rows:
            fit = fit_memory([one for one in rows if one.layout != row.layout])
            assert fit is not None
            estimate = fit.of(row.layout, row.n_children, 0.9)
            assert estimate.low is not None
            assert estimate.high is not None
            inside += estimate.low <= row.pss_bytes <= estimate.high
        shares.append(inside / len(rows))
    share, luck = of_studies(shares)

    assert abs(share - 0.9) < luck
    assert luck < 0.06  # studies enough to see intervals of another confidence


def test_no_part_takes_less_than_nothing() -> None:
    rows = [
        MemorySeen(Layout(1, 1), 0.0, 50e6),
        MemorySeen(Layout(1, 4), 0.0, 48e6),
        MemorySeen(Layout(2, 4), 0.0, 97e6),
    ]

    fit = fit_memory(rows)

    assert fit is not None
    assert fit.memory.thread_bytes == 0.0
    assert fit.memory.process_bytes == pytest.approx(48.6e6, rel=0.02)


#: PSS of prefork layouts of Celery in bench/studies/celery-mixed-2-cores.tuner.db, MB
PREFORK = {Layout(1, 1): 69.2, Layout(2, 1): 95.6, Layout(4, 1): 149.2}


def test_a_main_process_is_not_counted_once_per_process() -> None:
    """Predicted in proportion to processes, one process had 42 MB instead of 69, and four 176 MB."""
    # a difference of clocks may leave a child that runs for 1e-16 of the time
    fit = fit_memory(
        MemorySeen(layout, 1e-16 * layout.processes**2, 1e6 * size) for layout, size in PREFORK.items()
    )

    assert fit is not None
    assert fit.identified == {"process", "shared"}
    assert fit.memory.shared_bytes == pytest.approx(42.5e6, rel=0.05)
    for layout, size in PREFORK.items():
        assert fit.of(layout, 0.0, 0.9).mean == pytest.approx(1e6 * size, rel=0.01)
    assert fit.of(Layout(8, 1), 0.0, 0.9).mean == pytest.approx(256e6, rel=0.02)


def test_layouts_too_few_to_separate_a_main_process_predict_no_layout_that_was_left_out() -> None:
    """From two prefork layouts without a main process, the error would be 40 % instead of below 1 %."""
    found = leave_memory_out(MemorySeen(layout, 0.0, 1e6 * size) for layout, size in PREFORK.items())

    assert [one.predicted_bytes for one in found.values()] == [None] * 3


def test_memory_that_all_layouts_share_is_not_found_by_chance() -> None:
    text = "1x1,2x1,4x1,1x4,2x4,1x8"
    found = [fit_memory(seen(text, children_per_thread=0.0, noise=0.02, seed=seed)) for seed in range(200)]

    share = sum(fit is not None and "shared" in fit.identified for fit in found) / len(found)
    assert share < 0.1


def test_without_a_layout_to_spare_shared_memory_is_not_separated() -> None:
    fit = fit_memory(MemorySeen(layout, 0.0, 1e6 * PREFORK[layout]) for layout in list(PREFORK)[:2])

    assert fit is not None
    assert fit.identified == {"process"}


def test_windows_of_a_layout_count_as_one() -> None:
    row = MemorySeen(Layout(1, 1), 0.5, 60e6)
    other = MemorySeen(Layout(2, 1), 0.5, 120e6)

    once, often = fit_memory([row, other]), fit_memory([row] * 9 + [other])

    assert once is not None
    assert often is not None
    assert once.memory == often.memory
    assert once.df == often.df


def test_nothing_is_said_of_memory_that_nobody_saw() -> None:
    assert fit_memory([]) is None
    assert fit_memory([MemorySeen(Layout(1, 1), 0.0, 0.0)]) is None
