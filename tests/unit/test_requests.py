"""What became of requests: within which time a share of all was answered well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.adapters.latencies_packed import packed, unpacked
from tuner.core.latency import LONGEST_NS, N_BUCKETS, Latencies, bucket_of
from tuner.core.requests import LONGEST_S, Requests

counts = st.dictionaries(st.integers(0, N_BUCKETS - 1), st.integers(1, 10**9), max_size=50)


def latencies(*taken_s: float) -> Latencies:
    buckets = [0] * N_BUCKETS
    for one_s in taken_s:
        buckets[bucket_of(int(one_s * 1e9))] += 1
    return Latencies.of(buckets)


def test_a_quantile_is_of_all_requests_and_what_failed_took_longest() -> None:
    answered = latencies(*(0.01 * n for n in range(1, 96)))  # 10 ms to 950 ms

    assert Requests(answered).latency_s(0.5) == pytest.approx(0.48, rel=1e-3)
    assert Requests(answered, n_failed=5).latency_s(0.5) == pytest.approx(0.50, rel=1e-3)
    assert Requests(answered, n_failed=5).latency_s(0.95) == pytest.approx(0.95, rel=1e-3)
    assert Requests(answered, n_failed=6).latency_s(0.95) == LONGEST_S
    assert Requests(answered, n_failed=6).failed_ratio == pytest.approx(6 / 101)


def test_what_took_longer_than_an_hour_is_an_hour() -> None:
    assert Requests(latencies(*[2 * LONGEST_NS / 1e9] * 2)).latency_s(0.5) == LONGEST_S


@pytest.mark.parametrize(("share", "n_needed"), [(0.5, 2), (0.95, 20), (0.99, 100)])
def test_a_quantile_beyond_which_no_request_lies_is_not_known(share: float, n_needed: int) -> None:
    assert Requests(latencies(*[0.1] * (n_needed - 1))).latency_s(share) is None
    assert Requests(latencies(*[0.1] * n_needed)).latency_s(share) == pytest.approx(0.1, rel=1e-3)


def test_no_requests_have_no_share_that_failed() -> None:
    assert Requests().failed_ratio is None
    assert Requests().latency_s(0.5) is None


def test_between_two_snapshots_lies_what_ended_meanwhile_and_the_rate_is_the_later_one() -> None:
    earlier = Requests(latencies(0.1, 0.2), n_failed=1)
    later = Requests(latencies(0.1, 0.2, 0.2, 0.3), n_failed=3, rate_per_s=5.0, capacity_per_s=10.0)

    assert later.since(earlier) == Requests(latencies(0.2, 0.3), 2, 5.0, 10.0)
    assert later.since(earlier).merged(earlier) == later


@given(counts)
def test_a_histogram_is_unpacked_as_it_was_packed(n_by_bucket: dict[int, int]) -> None:
    kept = Latencies(dict(sorted(n_by_bucket.items())))

    assert unpacked(packed(kept)) == kept
