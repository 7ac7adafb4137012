from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.limits import Limit, Verdict, limits_from, usage_of, verdicts
from tuner.core.domain.records import WindowRecord
from tuner.core.domain.requests import LONGEST_S, Latencies, Requests, bucket_of
from tuner.core.domain.strategy import Observed

from ..raising import raises
from ..wording import wording

LOAD = Limit("load", 20.0)
MEMORY = Limit("memory_bytes", 8e9)
A, B, C = Layout(4, 6), Layout(12, 2), Layout(24, 1)


@dataclass(frozen=True)
class Seen:
    layout: Layout
    launch: int
    length_s: float
    usage: Mapping[str, float]
    requests: Requests | None = None


def seen(table: Mapping[Layout, Sequence[float]], name: str = "load") -> list[Seen]:
    """layout -> what each of its launches used, a window each."""
    return [
        Seen(layout, 100 * layout.processes + number, 60.0, {name: value})
        for layout, values in table.items()
        for number, value in enumerate(values)
    ]


def states(got: Mapping[Layout, Verdict]) -> dict[str, str]:
    return {str(layout): verdict.state for layout, verdict in got.items()}


TABLE = {A: [5.0, 5.1, 4.9], B: [19.9, 20.1, 20.2], C: [24.0, 24.3, 23.9]}


def test_layouts_far_from_the_limit_are_reported_and_those_near_it_are_open() -> None:
    got = verdicts([LOAD], [A, B, C], seen(TABLE), 0.95, kind="calibrated")

    assert states(got) == {"4x6": "within", "12x2": "open", "24x1": "beyond"}


def test_the_interval_is_students_with_the_pooled_noise_shared_among_layouts_and_looks() -> None:
    noise = {x: [log(v) for v in values] for x, values in TABLE.items()}
    squares = sum((v - sum(own) / 3) ** 2 for own in noise.values() for v in own)
    mean = sum(noise[C]) / 3
    own = sum((v - mean) ** 2 for v in noise[C]) / 2

    for at_any_look, share in ((True, 1 / 12), (False, 1.0)):
        got = verdicts(
            [LOAD, MEMORY], list(TABLE), seen(TABLE), 0.9, kind="calibrated", at_any_look=at_any_look
        )
        finding = got[C].findings[0]
        reach = stats.t.ppf(1 - 0.1 / 6 * share / 2, 6) * sqrt(max(squares / 6, own) / 3)

        assert finding.estimate.mean == pytest.approx(exp(mean))
        assert (finding.estimate.low, finding.estimate.high) == pytest.approx(
            (exp(mean - reach), exp(mean + reach))
        )


def test_strict_knows_the_noise_of_the_layout_alone() -> None:
    table = {**TABLE, A: [5.0, 5.1, 4.9, 5.05]}
    finding = verdicts([LOAD], [A, B, C], seen(table), 0.95)[A].findings[0]
    logs = [log(value) for value in table[A]]
    sd = sqrt(sum((v - sum(logs) / 4) ** 2 for v in logs) / 3)
    reach = stats.t.ppf(1 - 0.05 / 3 / 12 / 2, 3) * sd / 2  # the third launch that can tell: 1 / (3 x 4)

    assert (finding.sd, finding.df) == pytest.approx((sd, 3))
    assert finding.estimate.high == pytest.approx(exp(sum(logs) / 4 + reach))
    assert finding.state == "within"


def test_two_launches_whose_p95_is_rounded_to_the_same_tell_little_of_the_noise() -> None:
    limit = Limit("p95_s", 0.5)

    for p95_s, state in ((0.499, "open"), (0.501, "open"), (0.1, "within"), (2.0, "beyond")):
        (finding,) = verdicts([limit], [A], seen({A: [p95_s, p95_s]}, "p95_s"), 0.95)[A].findings

        assert finding.state == state
        assert finding.estimate.low is not None
        assert finding.estimate.high is not None
        assert finding.estimate.low < p95_s < finding.estimate.high


def test_one_launch_each_tells_nothing_however_far_from_the_limit() -> None:
    for kind in ("strict", "calibrated"):
        got = verdicts([LOAD], [A, C], seen({A: [1.0], C: [24.0]}), 0.95, kind=kind)  # type: ignore[arg-type]

        assert states(got) == {"4x6": "open", "24x1": "open"}
        assert got[A].findings[0].estimate.low is None
        assert got[A].findings[0].launches_needed is None


def test_a_layout_launched_once_is_judged_by_the_noise_of_the_others() -> None:
    table = {A: [5.0], B: [10.0, 10.1, 9.9, 10.0, 10.05]}

    assert states(verdicts([LOAD], [A, B], seen(table), 0.95, kind="calibrated"))["4x6"] == "within"
    assert states(verdicts([LOAD], [A, B], seen(table), 0.95, kind="strict"))["4x6"] == "open"


def test_a_layout_noisier_than_the_others_is_judged_by_its_own_noise() -> None:
    wild = [15.0, 24.0, 18.0]
    logs = [log(value) for value in wild]
    calm = {A: [5.0, 5.1, 4.9], C: [24.0, 24.1, 23.9]}
    got = verdicts([LOAD], [A, B, C], seen({**calm, B: wild}), 0.95, kind="calibrated")
    own = sqrt(sum((value - sum(logs) / 3) ** 2 for value in logs) / 2)
    pooled = got[A].findings[0].sd

    assert got[B].findings[0].sd == pytest.approx(own)
    assert pooled is not None
    assert pooled < own


def test_one_limit_that_is_passed_is_enough_and_one_that_is_open_too() -> None:
    both = [
        Seen(layout, number, 60.0, {"load": load, "memory_bytes": memory})
        for layout, load, memory in ((A, 5.0, 20e9), (B, 5.0, 8e9), (C, 5.0, 1e9))
        for number, (load, memory) in enumerate(
            [(load * factor, memory * factor) for factor in (0.99, 1.0, 1.01, 0.995)],
            start=10 * layout.processes,
        )
    ]
    got = verdicts([LOAD, MEMORY], [A, B, C], both, 0.95, kind="calibrated")

    assert states(got) == {"4x6": "beyond", "12x2": "open", "24x1": "within"}
    assert [finding.state for finding in got[A].findings] == ["within", "beyond"]


def test_of_a_launchs_memory_the_largest_window_counts_and_of_its_load_the_mean() -> None:
    windows = [
        Seen(A, 1, length_s, {"load": load, "memory_bytes": memory})
        for length_s, load, memory in ((60.0, 1.0, 5e9), (180.0, 3.0, 7e9), (60.0, 1.0, 6e9))
    ]
    load, memory = verdicts([LOAD, MEMORY], [A], windows, 0.95)[A].findings

    assert load.level == pytest.approx((60 + 3 * 180 + 60) / 300)
    assert memory.level == pytest.approx(7e9)


def test_memory_that_was_seen_to_pass_the_limit_cannot_be_within_it() -> None:
    spike = [7e9] * 60 + [8.1e9]  # the mean is far enough below
    calm = [7e9 * factor for factor in (0.97, 1.03) * 30]
    got = verdicts([MEMORY], [A, B], seen({A: spike, B: calm}, "memory_bytes"), 0.95, kind="strict")
    high = got[A].findings[0].estimate.high

    assert high is not None
    assert high < 8e9
    assert states(got) == {"4x6": "open", "12x2": "within"}


def test_what_was_not_seen_is_open() -> None:
    got = verdicts([Limit("p95_s", 2.0)], [A, B], seen({A: [1.0, 1.0]}), 0.95)

    assert states(got) == {"4x6": "open", "12x2": "open"}
    assert got[A].findings[0].estimate.mean is None


def test_launches_that_agree_to_the_last_digit_decide_at_once_and_the_limit_itself_is_kept() -> None:
    table = {A: [19.0] * 2, B: [20.0] * 2, C: [20.01] * 2}

    assert states(verdicts([LOAD], list(table), seen(table), 0.95, kind="calibrated")) == {
        "4x6": "within", "12x2": "within", "24x1": "beyond",
    }  # fmt: skip


def test_without_limits_everything_may_win() -> None:
    assert states(verdicts([], [A, B], [], 0.95)) == {"4x6": "within", "12x2": "within"}


def test_the_launches_that_would_decide_follow_from_the_noise_and_the_gap() -> None:
    table = {A: [19.8, 19.4, 19.2], C: [2.0, 2.05, 1.99]}
    near, far = (
        verdicts([LOAD], [A, C], seen(table), 0.95, kind="calibrated")[x].findings[0] for x in (A, C)
    )
    more = near.launches_needed

    assert near.state == "open"
    assert more is not None
    # with so many at the same mean and noise (and about the same doubt) it is decided, with fewer it is not
    assert near.sd is not None
    reach = stats.t.ppf(1 - near.doubt / 2, near.df) * near.sd
    gap = abs(log(20 / near.level)) if near.level else 0.0
    assert reach / sqrt(3 + more) <= gap < reach / sqrt(3 + more - 1)
    assert far.launches_needed == 0


def test_a_layout_on_the_limit_is_never_promised_a_decision() -> None:
    on_it = verdicts([LOAD], [A], seen({A: [20.0, 20.4, 20.0 * 20.0 / 20.4]}), 0.95)[A].findings[0]

    assert on_it.state == "open"
    assert on_it.launches_needed is None


def test_what_a_strategy_sees_is_what_limits_take() -> None:
    windows = [
        Observed(A, 30.0, launch, 100.0 * launch, 100.0 * launch, 60.0, usage={"load": load})
        for launch, load in enumerate([5.0, 5.1, 4.9, 5.0, 5.1])
    ]

    assert states(verdicts([LOAD], [A], windows, 0.95)) == {"4x6": "within"}


WINDOW = WindowRecord(
    launch_id=1, block=0, layout=A, box="box", index=0, attempt=1, started_wall_s=0.0, length_s=60.0,
    n_done=600, n_failed=0, load1_mean=9.0, load1_max=12.0, n_active_mean=4.0, service_cpu_s=100.0,
    tuner_cpu_s=5.0, backend_cpu_s=20.0, foreign_cpu_s=0.0, steal_s=0.0, pss_bytes=1e9, void=(),
    n_active_from_load1=4.5,
)  # fmt: skip


def test_load_is_without_memory_of_the_layout_before_as_far_as_the_window_tells() -> None:
    short = replace(WINDOW, n_active_from_load1=None)

    assert usage_of(WINDOW) == {"load": 4.5, "memory_bytes": 1e9}
    assert usage_of(short)["load"] == 4.0
    assert usage_of(replace(short, n_active_mean=None, pss_bytes=None)) == {"load": 9.0}


def took(**n_by_ms: int) -> Requests:
    """``ms_100=20``: 20 requests of 100 ms."""
    return Requests(
        Latencies({bucket_of(int(text[3:]) * 1_000_000): n for text, n in sorted(n_by_ms.items())})
    )


def test_latency_is_known_where_a_load_generator_told_it() -> None:
    assert usage_of(replace(WINDOW, requests=took(ms_100=20)))["p95_s"] == pytest.approx(0.1, rel=1e-3)
    assert "p95_s" not in usage_of(replace(WINDOW, requests=took(ms_100=19)))
    assert usage_of(replace(WINDOW, requests=Requests(n_failed=30)))["p95_s"] == 3600.0


def test_the_p95_of_a_launch_is_that_of_all_its_requests_however_they_fall_into_windows() -> None:
    quick, slow = took(ms_100=980), took(ms_100=10, ms_900=10)  # 10 of 1000 are slow: 1 %
    windows = [
        Observed(A, 1.0, launch, 0.0, 0.0, 60.0, usage={"p95_s": 0.1 + index}, requests=requests)
        for launch in range(5)
        for index, requests in enumerate((quick, slow))
    ]
    (finding,) = verdicts([Limit("p95_s", 0.2)], [A], windows, 0.95)[A].findings

    assert finding.level == pytest.approx(0.1, rel=1e-3)
    assert (finding.state, finding.n_launches) == ("within", 5)


def test_windows_with_too_few_requests_each_tell_a_p95_together() -> None:
    windows = [
        Observed(A, 1.0, 1, 0.0, 0.0, 60.0, requests=took(ms_100=10)),
        Observed(A, 1.0, 1, 0.0, 60.0, 60.0, requests=took(ms_100=10)),
        Observed(A, 1.0, 2, 0.0, 120.0, 60.0, requests=took(ms_100=10)),
    ]
    (finding,) = verdicts([Limit("p95_s", 0.2)], [A], windows, 0.95)[A].findings

    assert finding.n_launches == 1


@pytest.mark.parametrize("endless", [(LONGEST_S,) * 3, (0.15, 0.16, LONGEST_S)])
def test_launches_whose_requests_have_no_end_tell_nothing_of_the_noise_of_others(
    endless: tuple[float, ...],
) -> None:
    limits = [Limit("p95_s", 0.2)]
    table = {A: (0.14, 0.25, 0.21), B: (0.100, 0.101, 0.102)}

    def judged(table: dict[Layout, tuple[float, ...]]) -> dict[Layout, Verdict]:
        return verdicts(limits, [A, B, C], seen(table, "p95_s"), 0.95, kind="calibrated")

    with_endless, without = judged({**table, C: endless}), judged(table)

    assert (with_endless[A], with_endless[B]) == (without[A], without[B])
    assert with_endless[A].state == "open"
    assert with_endless[C].state == ("beyond" if set(endless) == {LONGEST_S} else "open")


def test_a_record_keeps_limits_by_name() -> None:
    assert limits_from({"memory_bytes": 8e9, "load": 20.0}) == (LOAD, MEMORY)
    assert limits_from({}) == ()


@pytest.mark.parametrize(("name", "at_most"), [("load", 0.0), ("load", float("inf")), ("speed", 1.0)])
def test_a_limit_that_is_none_is_refused(name: str, at_most: float) -> None:
    with raises(ValueError, wording("rank.no-limit")):
        Limit(name, at_most)  # type: ignore[arg-type]


def test_a_confidence_that_means_nothing_is_refused() -> None:
    with raises(ValueError, wording("rank.a-confidence-from")):
        verdicts([LOAD], [A], [], 1.0)


loads = st.lists(st.floats(0, 1e6), max_size=5)


@given(
    st.dictionaries(st.sampled_from(["4x6", "12x2", "24x1"]), loads),
    st.sampled_from(["strict", "calibrated"]),
)
def test_a_verdict_never_contradicts_its_interval_nor_the_order_of_windows(
    table: dict[str, list[float]], kind: str
) -> None:
    windows = seen({parse_layout(text): values for text, values in table.items()})
    got = verdicts([LOAD], [A, B, C], windows, 0.95, kind=kind)  # type: ignore[arg-type]
    back = verdicts([LOAD], [A, B, C], windows[::-1], 0.95, kind=kind)  # type: ignore[arg-type]

    assert states(back) == states(got)
    for verdict in got.values():
        estimate = verdict.findings[0].estimate
        if estimate.low is not None and estimate.high is not None:
            expected = "within" if estimate.high <= 20 else "beyond" if estimate.low > 20 else "open"
            assert verdict.state == expected or min(abs(estimate.high - 20), abs(estimate.low - 20)) < 1e-6
