from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.errors import ConfigError
from tuner.core.text.figures import (
    parse_duration,
    render_duration,
    render_exact_duration,
    render_rest,
    until,
)

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.pythons


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("30s", 30), ("1h30m", 5400), ("8h", 28800), ("0s", 0), ("1.5s", 1.5), ("250ms", 0.25),
     (" 1H 30M ", 5400), ("1d", 86400)],
)  # fmt: skip
def test_a_duration_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("600", wording("config.has-no-unit")),
        ("0", wording("config.has-no-unit")),
        ("1:30", wording("config.time-of-day")),
        ("", wording("config.is-no-duration")),
        ("m", wording("config.is-no-duration")),
        ("-5s", wording("config.is-no-duration")),
        ("10 minutes", wording("config.is-no-duration")),
        ("1e3s", wording("config.is-no-duration")),
        ("30s1h", wording("config.longer-units-first")),
        ("1m1m", wording("config.longer-units-first")),
        ("500d", wording("config.longer-than-a-year")),
        ("٣s", wording("config.is-no-duration")),
        pytest.param(
            "1" * 5000 + ":30", wording("config.is-no-duration"), id="more digits than Python reads"
        ),
    ],
    ids=key_of,
)
def test_what_is_no_duration_is_refused_with_the_reason(text: str, said: str) -> None:
    with raises(ConfigError, said) as caught:
        parse_duration(text)

    assert caught.value.hint


def test_a_time_of_day_is_answered_with_both_things_it_may_have_meant() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_duration("1:30")

    assert caught.value.hint == wording("config.write-hours-and-minutes")


@given(st.integers(min_value=0, max_value=366 * 86_400_000))
def test_a_rendered_duration_reads_back_as_the_same_milliseconds(milliseconds: int) -> None:
    assert round(parse_duration(render_duration(milliseconds / 1000)) * 1000) == milliseconds


@given(st.floats(min_value=0, max_value=366 * 86_400))
def test_a_duration_that_a_study_keeps_reads_back_as_the_same_seconds(seconds: float) -> None:
    assert parse_duration(render_exact_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(5400.0, "1h30m"), (0.25, "250ms"), (0.0, "0s"), (0.0015, "0.0015s")]
)
def test_a_duration_is_kept_as_people_write_it_where_that_is_exact(seconds: float, text: str) -> None:
    assert render_exact_duration(seconds) == text


@pytest.mark.parametrize(
    ("ahead_s", "text"),
    [
        (600.0, r", until \d\d:\d\d"),
        (86_399.0, r", until \d\d:\d\d"),
        (3 * 86_400.0, r", until 2026-11-2[3-5] \d\d:\d\d"),
        (3e12, ""),
    ],
)
def test_the_end_of_a_study_is_reported_with_its_day_where_that_is_not_clear(
    ahead_s: float, text: str
) -> None:
    now_s = 1_795_200_000.0  # 2026-11-20, in the zone of some box
    assert re.fullmatch(text, until(now_s + ahead_s, now_s))


@given(st.text(max_size=12))
def test_any_text_is_either_seconds_or_a_config_error(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ConfigError:
        return
    assert 0 <= seconds <= 366 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (40.4, "40 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (7500, "2 h 05 min")],
)
def test_the_rest_of_a_study_is_reported_in_two_units_at_most(seconds: float, text: str) -> None:
    assert render_rest(seconds) == text
