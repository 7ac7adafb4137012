from __future__ import annotations

from itertools import pairwise
from math import ceil, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.requests import LONGEST_NS, N_BUCKETS, Latencies, bucket_limits_ns, bucket_of

from ..raising import raises
from ..wording import wording

latencies_ns = st.integers(0, LONGEST_NS)
recorded_ns = st.lists(latencies_ns | st.integers(0, 10_000), min_size=1, max_size=200)


def histogram(latencies: list[int]) -> Latencies:
    counts = [0] * N_BUCKETS
    for latency_ns in latencies:
        counts[bucket_of(latency_ns)] += 1
    return Latencies.of(counts)


@given(latencies_ns)
def test_a_latency_lies_between_the_limits_of_its_bucket(latency_ns: int) -> None:
    low_ns, high_ns = bucket_limits_ns(bucket_of(latency_ns))

    assert low_ns <= latency_ns < high_ns


def test_every_bucket_begins_where_the_one_before_ends() -> None:
    limits = [bucket_limits_ns(bucket) for bucket in range(N_BUCKETS)]

    assert limits[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(limits))
    assert all(bucket_of(int(low_ns)) == bucket for bucket, (low_ns, _) in enumerate(limits))


def test_from_1_us_to_1_h_a_bucket_is_at_most_a_thousandth_of_its_latency_wide() -> None:
    for bucket in range(bucket_of(1000), N_BUCKETS - 1):
        low_ns, high_ns = bucket_limits_ns(bucket)

        assert high_ns - low_ns <= low_ns / 1000


def test_what_takes_longer_than_an_hour_is_known_to_be_longer_and_no_more() -> None:
    quantile = histogram([2 * LONGEST_NS]).quantile(0.5)

    assert quantile.high_s == inf
    assert quantile.low_s == pytest.approx(3600, rel=1e-3)


def test_a_latency_below_0_counts_as_0() -> None:
    assert bucket_of(-5) == bucket_of(0) == 0


@given(recorded_ns, st.floats(0, 1))
def test_a_quantile_s_limits_hold_that_of_the_sorted_data(recorded: list[int], share: float) -> None:
    truth_ns = sorted(recorded)[max(1, ceil(share * len(recorded))) - 1]

    quantile = histogram(recorded).quantile(share)

    assert quantile.low_s <= truth_ns / 1e9 < quantile.high_s
    assert truth_ns < 1000 or truth_ns >= LONGEST_NS * 0.999 or quantile.error_s * 1e9 <= truth_ns / 1000


@given(recorded_ns, recorded_ns)
def test_merged_histograms_hold_what_both_recorded(one: list[int], other: list[int]) -> None:
    merged = histogram(one).merged(histogram(other))

    assert merged == histogram(one + other)
    assert list(merged.n_by_bucket) == sorted(merged.n_by_bucket)


@given(recorded_ns, recorded_ns)
def test_between_two_snapshots_lies_what_was_recorded_meanwhile(before: list[int], later: list[int]) -> None:
    assert histogram(before + later).since(histogram(before)) == histogram(later)


def test_a_snapshot_that_is_not_older_is_refused() -> None:
    with raises(ValueError, wording("rank.counts-fell")):
        histogram([5]).since(histogram([5, 7]))


def test_nothing_recorded_has_no_quantile() -> None:
    with raises(ValueError, wording("rank.nothing-was-recorded")):
        Latencies().quantile(0.5)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_quantile_beyond_all_is_refused(share: float) -> None:
    with raises(ValueError, wording("rank.between-0-and-1")):
        histogram([1]).quantile(share)


@pytest.mark.parametrize("bucket", [-1, N_BUCKETS])
def test_a_bucket_that_is_not_there_is_refused(bucket: int) -> None:
    with raises(ValueError, wording("rank.there-bucket")):
        bucket_limits_ns(bucket)
