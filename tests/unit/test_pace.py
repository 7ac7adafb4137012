"""At which rate requests are sent: what people write, and the search for the most that keeps a p95."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.load import (
    N_TRIED,
    Pace,
    Share,
    TriedRate,
    WithinP95,
    found_ratio,
    next_ratio,
    parse_rate,
    render_rate,
    stored_rate,
)
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import key_of, wording


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200", 200.0),
        (" 2.5 /s", 2.5),
        ("70%", Share(0.7)),
        ("5 %", Share(0.05)),
        ("p95=200ms", WithinP95(0.2)),
        ("P95 = 1.5s", WithinP95(1.5)),
    ],
)
def test_a_rate_is_a_number_a_share_or_a_p95_and_is_read_back_as_it_is_kept(
    text: str, rate: float | Pace
) -> None:
    kept = render_rate(rate)

    assert parse_rate(text) == rate
    assert parse_rate(str(kept)) == rate


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast", wording("config.no-rate", text="fast")),
        ("0", wording("config.rate-out-of-range")),
        ("2000000", wording("config.rate-out-of-range")),
        ("100%", wording("config.at-whole-capacity")),
        ("0%", wording("config.at-whole-capacity")),
        ("p95=200", wording("config.no-unit", text=200)),
        ("p95=0s", wording("config.no-time-at-all", text="p95=0s")),
        ("-5", wording("config.is-no-rate")),
    ],
    ids=key_of,
)
def test_what_is_no_rate_is_reported(text: str, said: str) -> None:
    with raises(ConfigError, said):
        parse_rate(text)


@pytest.mark.parametrize(
    ("config", "rate"),
    [
        ("", None),
        ("{}", None),
        ('{"service": {"feeder": {"kind": "none"}}}', None),
        ('{"service": {"feeder": {"rate": null}}}', None),
        ('{"service": {"feeder": {"rate": 20.0}}}', 20.0),
        ('{"service": {"feeder": {"rate": "70%"}}}', Share(0.7)),
    ],
)
def test_the_rate_of_a_study_is_read_from_its_settings(config: str, rate: float | Pace | None) -> None:
    assert stored_rate(StoredConfig(config)) == rate


@given(st.floats(0, 1))
def test_the_search_finds_the_highest_rate_that_keeps_the_p95_to_a_64th(threshold: float) -> None:
    tried: list[TriedRate] = []
    while (ratio := next_ratio(tried)) is not None:
        tried.append(TriedRate(ratio, kept=ratio <= threshold))

    assert len(tried) == N_TRIED
    assert all(0 < one.ratio < 1 for one in tried)
    found = found_ratio(tried)
    assert found <= threshold < found + 1 / 64 + 1e-9 or threshold < min(one.ratio for one in tried) == found


def test_a_lucky_look_at_a_rate_above_one_that_failed_ends_the_search_above_it() -> None:
    """Looks are noisy: a rate that failed once and a higher one that did not leave the higher one."""
    tried = [TriedRate(0.5, kept=False), TriedRate(0.25, kept=True), TriedRate(0.75, kept=True)]

    assert next_ratio(tried) == 0.875
    assert found_ratio(tried) == 0.75
