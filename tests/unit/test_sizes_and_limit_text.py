from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.limits import Limit, Quantity
from tuner.core.domain.records import OBJECTIVES, parse_objective
from tuner.core.domain.safety_limits import parse_limit, parse_limits, render_amount, render_limit
from tuner.core.errors import ConfigError
from tuner.core.text.figures import parse_size, render_size

from ..raising import raises
from ..wording import key_of, wording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8G", 8 * 2**30),
        ("512m", 512 * 2**20),
        (" 1.5 GiB ", 1.5 * 2**30),
        ("8GB", 8e9),
        ("2k", 2048),
        ("1T", 2**40),
    ],
)
def test_sizes_are_read_as_systemd_and_docker_read_them(text: str, expected: float) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("8", wording("config.no-unit", text=8)),
        ("", wording("config.no-amount-of-memory", text="")),
        ("lots", wording("config.no-amount-of-memory", text="lots")),
        ("-8G", wording("config.no-amount-of-memory", text="-8G")),
        ("8GG", wording("config.no-amount-of-memory", text="8GG")),
        ("0G", wording("config.memory-of-nothing", text="0G")),
        ("5000T", wording("config.too-much-memory", text="5000T")),
        ("٣G", wording("config.no-amount-of-memory", text="٣G")),
    ],
    ids=key_of,
)
def test_a_size_that_is_none_is_reported_in_one_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_size(text)

    assert caught.value.problem == said
    assert caught.value.hint


@given(st.floats(2**20, 2**49))
def test_a_rendered_size_reads_back_to_three_figures(size: float) -> None:
    assert parse_size(render_size(size)) == pytest.approx(size, rel=0.006)


@pytest.mark.parametrize(
    ("name", "text", "limit", "sentence"),
    [
        ("load", "20", Limit("load", 20.0), wording("rank.limit", quantity="load", value=20)),
        ("load", "7.25", Limit("load", 7.25), wording("rank.limit", quantity="load", value="7.25")),
        (
            "memory_bytes",
            "8G",
            Limit("memory_bytes", 8 * 2**30),
            wording("rank.limit", quantity="memory", value="8.59 GB"),
        ),
        (
            "memory_bytes",
            "512M",
            Limit("memory_bytes", 512 * 2**20),
            wording("rank.limit", quantity="memory", value="537 MB"),
        ),
        ("p95_s", "2s", Limit("p95_s", 2.0), wording("rank.limit", quantity="p95", value="2 s")),
        ("p95_s", "300ms", Limit("p95_s", 0.3), wording("rank.limit", quantity="p95", value="300 ms")),
    ],
    ids=key_of,
)
def test_a_limit_is_read_and_reported(name: Quantity, text: str, limit: Limit, sentence: str) -> None:
    assert parse_limit(name, text) == limit
    assert render_limit(limit) == sentence


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("load", "high", "--max-load: " + wording("config.no-load-average", text="high")),
        ("load", "0", "--max-load: " + wording("config.load-cannot-be-kept", value=0)),
        ("load", "nan", "--max-load: " + wording("config.load-cannot-be-kept", value="nan")),
        ("memory_bytes", "8", "--max-memory: " + wording("config.no-unit", text=8)),
        ("p95_s", "2", "--max-p95: " + wording("config.no-unit", text=2)),
        ("p95_s", "0s", "--max-p95: " + wording("config.no-time-at-all", text="0s")),
    ],
    ids=key_of,
)
def test_a_limit_that_is_none_names_its_option(name: Quantity, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_limits({name: text})

    assert caught.value.problem == said
    assert caught.value.hint


def test_limits_that_were_not_given_are_left_out() -> None:
    assert parse_limits({"load": None, "memory_bytes": "1G", "p95_s": None}) == (
        Limit("memory_bytes", 2.0**30),
    )


def test_amounts_have_three_figures() -> None:
    assert [render_amount("load", value) for value in (0.514, 19.83, 105.2)] == ["0.514", "19.8", "105"]
    assert render_amount("memory_bytes", 7.4312e9) == "7.43 GB"
    assert render_amount("memory_bytes", 999.7e6) == "1000 MB"
    assert render_amount("p95_s", 0.2513) == "251 ms"


@pytest.mark.parametrize("text", OBJECTIVES)
def test_an_objective_is_read_by_its_name(text: str) -> None:
    assert parse_objective(text.upper()) == text


def test_an_objective_that_is_none_is_reported_with_the_nearest() -> None:
    with raises(ConfigError, wording("rank.no-such-objective", name="throughput-per-core")) as caught:
        parse_objective("throughput-per-core")

    assert caught.value.hint == wording("command-line.did-you-mean", meant="throughput-per-cpu")
