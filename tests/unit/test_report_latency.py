"""What is printed of how long requests took."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from tuner.core.domain.layout import parse_layout
from tuner.core.domain.limits import Limit
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.requests import Latencies, Requests, bucket_of
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.ranking import rank
from tuner.reports.ranking.latency import AT_SATURATION
from tuner.reports.ranking.ranking import render_ranking
from tuner.reports.text.formats import table_formats

from ..printed import printed
from ..wording import wording

#: layout -> answered a second, milliseconds that 90 %, 8 % and 2 % took, share that failed
TRUTH = {
    "2x4": (100.0, (20, 60, 90), 0.0),
    "1x8": (90.0, (30, 400, 900), 0.002),
    "1x1": (40.0, (9, 9, 9), 0.3),
}
STUDY = StudyRecord(
    service="web", strategy="all", layouts=tuple(map(parse_layout, TRUTH)), cores=2, box_cores=2.0,
    window_s=60.0, warmup_s=None, n_blocks=3, windows_per_launch=1, seed=1, budget_s=None,
    created_wall_s=1_790_000_000.0, config=StoredConfig("{}"), provenance=Provenance(host="stage-1"),
)  # fmt: skip


def windows(rate_per_s: float | None = None, share: float | None = None) -> list[WindowRecord]:
    taken = []
    for block in range(3):
        for number, (text, (items_per_s, took_ms, failed)) in enumerate(TRUTH.items()):
            n = round(60 * items_per_s)
            n_failed = round(failed * n)
            parts = (0.9, 0.08, 0.02)
            buckets: dict[int, int] = {}
            for ms, part in zip(took_ms, parts, strict=True):
                bucket = bucket_of((ms + block) * 1_000_000)
                buckets[bucket] = buckets.get(bucket, 0) + round(part * (n - n_failed))
            requests = Requests(
                Latencies(buckets),
                n_failed,
                rate_per_s if share is None else share * items_per_s,
                None if share is None else items_per_s,
            )
            taken.append(
                WindowRecord(
                    launch_id=10 * block + number, block=block, layout=parse_layout(text), box="stage-1",
                    index=0, attempt=1, started_wall_s=0.0, length_s=60.0, n_done=n - n_failed + block,
                    n_failed=n_failed, load1_mean=1.0, load1_max=2.0, n_active_mean=1.5, service_cpu_s=60.0,
                    tuner_cpu_s=1.0, backend_cpu_s=0.0, foreign_cpu_s=0.0, steal_s=0.0, pss_bytes=5e7,
                    void=(), n_active_from_load1=1.5, requests=requests,
                )
            )  # fmt: skip
    return taken


def rendered(fmt: str, ranking: Ranking) -> str:
    return render_ranking(STUDY, ranking, fmt)


@pytest.mark.parametrize("fmt", ["simple", "markdown", "csv", "json"])
def test_latency_looks_as_it_should(fmt: str) -> None:
    ranking = rank(STUDY, windows(rate_per_s=100.0), limits=[Limit("p95_s", 0.2)])

    assert rendered(fmt, ranking) == printed("rank", f"latency.{fmt}")


@pytest.mark.parametrize("fmt", [name for name in table_formats() if name not in ("csv", "tsv")])
def test_every_format_has_the_latencies(fmt: str) -> None:
    plain = rendered(fmt, rank(STUDY, windows(rate_per_s=100.0))).replace("\\", "").replace("&#37;", "%")

    assert wording("rank.since-due") in plain
    assert "413 ms" in plain or "401 ms" in plain


def test_the_table_of_a_study_with_latency_fits_a_hundred_columns() -> None:
    result = rendered("simple", rank(STUDY, windows(rate_per_s=100.0)))

    assert (
        max(len(line) for part in result.split("\n\n") if "---" in part for line in part.split("\n")) <= 100
    )


def test_a_layout_that_keeps_the_p95_may_win_one_that_does_not_or_fails_may_not() -> None:
    ranking = rank(STUDY, windows(rate_per_s=100.0), limits=[Limit("p95_s", 0.2)])
    rows = {str(row.layout): row for row in ranking.rows}

    assert rows["2x4"].rank == 1
    assert rows["1x8"].verdict is not None
    assert rows["1x8"].verdict.state == "beyond"
    assert rows["1x1"].rank is None
    assert wording("rank.p95-over-an-hour") in (rows["1x1"].reason or "")


def test_a_layout_s_latency_is_the_geometric_mean_of_its_launches() -> None:
    (row,) = [row for row in rank(STUDY, windows()).rows if str(row.layout) == "2x4"]

    assert row.latency is not None
    assert row.latency.p50_s == pytest.approx((20 * 21 * 22) ** (1 / 3) / 1000, rel=1e-3)
    assert row.latency.p99_s == pytest.approx((90 * 91 * 92) ** (1 / 3) / 1000, rel=1e-3)
    assert row.latency.n_requests == 3 * 6000


def test_a_closed_loop_is_reported_to_say_nothing_of_latency() -> None:
    closed, at_a_rate = rank(STUDY, windows()), rank(STUDY, windows(rate_per_s=100.0))

    assert AT_SATURATION in rendered("simple", closed)
    assert AT_SATURATION in json.loads(rendered("json", closed))["study"]["notes"]
    assert AT_SATURATION not in rendered("simple", at_a_rate)


def test_at_a_rate_throughput_is_reported_to_be_that_rate_and_who_cannot_keep_up_is_named() -> None:
    result = rendered("simple", rank(STUDY, windows(rate_per_s=100.0)))

    assert wording("rank.requests-came-s-whatever") in result
    assert wording("rank.answered-less-than-came", layouts="1x8, 1x1") in result


def test_at_a_share_of_capacity_the_capacity_is_shown_and_what_throughput_is() -> None:
    result = rendered("simple", rank(STUDY, windows(share=0.7)))

    assert wording("rank.requests-came-share-what-each") in result
    assert "2x4        100/s  70/s" in result


@pytest.mark.parametrize(("answered", "is_told"), [(96.5, True), (97.5, False)])
def test_arrivals_that_were_few_by_luck_are_no_falling_behind(answered: float, is_told: bool) -> None:
    of_one = [
        replace(window, n_done=round(60 * answered))
        for window in windows(rate_per_s=100.0)
        if str(window.layout) == "2x4"
    ]
    result = rendered("simple", rank(STUDY, of_one))

    assert (wording("rank.answered-less-than-came", layouts="2x4") in result) is is_told


@pytest.mark.parametrize(("n_good", "is_told"), [(1.0, False), (0.9, True)])
def test_a_layout_that_missed_the_slow_block_is_behind_only_if_it_was_behind_its_own_rate(
    n_good: float, is_told: bool
) -> None:
    taken = []
    for window in windows(share=0.7):
        assert window.requests is not None
        assert window.requests.capacity_per_s is not None
        layout, level = str(window.layout), 1.0 if window.block == 0 else 0.7
        if layout == "1x1" or (layout == "1x8" and window.block > 0):
            continue
        rate = 0.7 * level * window.requests.capacity_per_s
        n_done = round(60 * rate * (n_good if layout == "1x8" else 1.0))
        taken.append(replace(window, n_done=n_done, requests=replace(window.requests, rate_per_s=rate)))

    result = rendered("simple", rank(STUDY, taken))

    assert (wording("rank.answered-less-than-came", layouts="1x8") in result) is is_told


def test_at_the_rate_that_keeps_a_p95_it_is_reported_where_whole_windows_did_not() -> None:
    asked = replace(STUDY, config=StoredConfig('{"service": {"feeder": {"rate": "p95=100ms"}}}'))
    result = render_ranking(asked, rank(asked, windows(share=0.7)), "simple")

    assert wording("rank.requests-came-highest-rate") in result
    assert wording("rank.over-whole-windows-p") in result


def test_a_study_without_requests_has_no_columns_and_no_words_of_latency() -> None:
    without = rank(STUDY, [replace(window, requests=None) for window in windows()])

    assert "p95" not in rendered("simple", without)
    (first, *_) = csv.DictReader(io.StringIO(rendered("csv", without)))
    assert not [name for name in first if "latency" in name]
    assert json.loads(rendered("json", without))["layouts"][0]["latency"] is None
