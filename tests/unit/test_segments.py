"""One total out of counts that begin anew."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tuner.core.text.figures import Fall, Segments, join_segments


def after(*looks: dict[str, float]) -> Segments:
    return reduce(join_segments, looks, Segments())


def test_counting_begins_at_the_first_look() -> None:
    assert after({"a": 500}).total == 0
    assert after({"a": 500}, {"a": 507}).total == 7


def test_what_was_counted_before_a_restart_is_kept_and_the_restart_is_known() -> None:
    seen = after({"a": 100}, {"a": 150}, {"a": 3}, {"a": 10})

    assert seen.total == 60
    assert seen.falls == (Fall("a", 150, 3),)
    assert seen.n_falls == {"a": 1}


def test_one_of_several_may_begin_anew_though_the_sum_does_not_fall() -> None:
    seen = after({"a": 10, "b": 10}, {"a": 2, "b": 30})

    assert seen.total == 22
    assert [fall.series for fall in seen.falls] == ["a"]


def test_a_series_that_comes_later_counts_from_nothing_and_one_that_goes_keeps_its_count() -> None:
    assert after({"a": 5}, {"a": 6, "b": 4}, {"b": 9}).total == 10
    assert after({"a": 5}, {}, {"a": 8}).total == 3


_STEP = st.one_of(st.integers(0, 50), st.just(None))  # items finished since the last look; None: a restart


@given(st.dictionaries(st.sampled_from("abc"), st.lists(_STEP, min_size=8, max_size=8), min_size=1))
def test_the_total_is_what_was_finished_and_never_falls(steps: dict[str, list[int | None]]) -> None:
    shown, finished = dict.fromkeys(steps, 1000), 0
    seen = [join_segments(Segments(), shown)]
    for n in range(8):
        for series, of_series in steps.items():
            step = of_series[n]
            shown[series] = 0 if step is None else shown[series] + step
            finished += step or 0
        seen.append(join_segments(seen[-1], shown))

    assert seen[-1].total == finished
    assert all(before.total <= now.total for before, now in pairwise(seen))
