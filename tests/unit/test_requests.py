"""What became of requests: within which time a share of all was answered well."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.adapters.sqlite.details import pack_latencies, unpack_latencies
from tuner.core.domain.requests import LONGEST_NS, LONGEST_S, N_BUCKETS, Latencies, Requests, bucket_of

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


def test_a_layout_that_has_stopped_answering_does_not_look_fast() -> None:
    """100 answered in 10 ms, then 50 that have waited for up to 5 s."""
    waiting = latencies(*(0.1 * n for n in range(1, 51)))
    seen = Requests(latencies(*[0.01] * 100), unfinished=waiting)

    assert seen.latency_s(0.5) == pytest.approx(0.01, rel=2e-3)
    # of the 108 of whom 4.2 s tells, 8 have waited longer; of the 105 of whom 4.5 s does, 5
    assert seen.latency_s(0.95) == pytest.approx(4.5, rel=2e-3)
    assert seen.latency_s(0.99) == pytest.approx(4.9, rel=2e-3)
    assert Requests(unfinished=waiting).latency_s(0.5) == pytest.approx(5.0, rel=2e-3)
    assert seen.n_beyond(1.0) == 40
    assert (seen.n_total, seen.n_due) == (100, 150)


def test_requests_that_have_only_just_come_make_no_quantile_better() -> None:
    slow = latencies(*[0.5] * 90, *[1.0] * 10)

    assert Requests(slow, unfinished=latencies(*[0.01] * 300)).latency_s(0.95) == Requests(slow).latency_s(
        0.95
    )


def test_what_others_left_behind_counts_for_them_alone() -> None:
    """30 requests had waited 2 s when it began: they ended in 3 s; those that came then took 10 ms."""
    before = Requests(unfinished=latencies(*[2.0] * 30))
    later = Requests(latencies(*[0.01] * 100, *[3.0] * 28), n_failed=2)
    seen = later.since(before)

    assert seen.latency_s(0.95) == pytest.approx(0.01, rel=2e-3)
    assert (seen.n_beyond(1.0), seen.n_due) == (0, 100)


def test_quantiles_are_the_same_however_often_one_looked_meanwhile() -> None:
    """Requests 10 ms apart that take 5 s each from the 501st on: looks each second, or one."""

    def at(now_s: float) -> Requests:
        due_s = [n / 100 for n in range(1, 1000) if n / 100 <= now_s]
        took_s = [(due, 5.0 if due > 5 else 0.02) for due in due_s]
        done = [took for due, took in took_s if due + took <= now_s]
        return Requests(
            latencies(*done),
            unfinished=latencies(*(now_s - due for due, took in took_s if due + took > now_s)),
        )

    looks = [at(n + 0.001) for n in range(13)]
    added = reduce(Requests.merged, (later.since(earlier) for earlier, later in pairwise(looks)))
    one = looks[-1].since(looks[0])

    for share in (0.5, 0.75, 0.95, 0.99):
        assert added.latency_s(share) == one.latency_s(share)
    assert one.latency_s(0.95) == pytest.approx(5.0, rel=2e-3)


@given(counts)
def test_a_histogram_is_unpacked_as_it_was_packed(n_by_bucket: dict[int, int]) -> None:
    kept = Latencies(dict(sorted(n_by_bucket.items())))

    assert unpack_latencies(pack_latencies(kept)) == kept
