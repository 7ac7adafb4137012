"""Pages of metrics, as Prometheus defines the format and as nobody should write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest

from tuner.core.prometheus_text import parse_samples

PAGE = """\
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000
http_requests_total_more{code="200"} 9
http_requests_created{code="200"} 1.7e9

metric_without_timestamp_and_labels 12.47
spaced { a = "1" , b = "2", } 5
exemplar_total{a="1"} 7 # {trace_id="x"} 0.67
"""


def test_all_samples_of_a_metric_are_found_and_no_other_s() -> None:
    assert parse_samples(PAGE, "http_requests_total", {}) == {
        'method="post",code="200"': 1027,
        'method="post",code="400"': 3,
    }
    assert parse_samples(PAGE, "metric_without_timestamp_and_labels", {}) == {"": 12.47}
    assert list(parse_samples(PAGE, "exemplar_total", {}).values()) == [7]
    assert parse_samples(PAGE, "nothing_total", {}) == {}


@pytest.mark.parametrize(
    ("labels", "n"), [({"code": "200"}, 1027), ({"code": "400", "method": "post"}, 3), ({"code": "2"}, 0)]
)
def test_labels_choose_among_them(labels: dict[str, str], n: float) -> None:
    assert sum(parse_samples(PAGE, "http_requests_total", labels).values()) == n
    assert sum(parse_samples(PAGE, "spaced", {"b": "2"}).values()) == 5


@pytest.mark.parametrize(
    "line",
    [
        "a ",
        "a x",
        "a -1",
        "a NaN",
        "a +Inf",
        "a 1.2.3",
        "a 1 x",
        'a{b="1" 2',
        'a{b="1"}',
        "a{b=1} 2",
        'a{b="1"c="2"} 2',
        'a{b="1",b="2"} 2',
        'a{b="\\x"} 2',
        'a{b="1"} 2\na{b="1"} 3',
    ],
)
def test_a_line_of_the_metric_that_is_no_count_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"is no sample|is no count|no proper labels|stands there twice"):
        parse_samples(line, "a", {})


@given(
    st.dictionaries(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text('{}",\\\n #=1')),
        st.integers(0, 2**50),
        min_size=1,
        max_size=6,
    )
)
def test_what_the_official_client_writes_is_read(counts: dict[tuple[str, str], int]) -> None:
    registry = CollectorRegistry()
    counter = Counter("items", "Items.", ["first", "second"], registry=registry)
    for values, n in counts.items():
        counter.labels(*values).inc(n)

    page = generate_latest(registry).decode()

    assert sum(parse_samples(page, "items_total", {}).values()) == sum(counts.values())
    for (first, second), n in counts.items():
        assert list(parse_samples(page, "items_total", {"first": first, "second": second}).values()) == [n]
