"""Pages of metrics: all productions of Prometheus' text formats and OpenMetrics, and pages that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tuner.core.text.prometheus_text import parse_samples, similar_names

from ..raising import raises
from ..wording import key_of, wording

PAGE = """\
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000
http_requests_total_more{code="200"} 9
http_requests_created{code="200"} 1.7e9
other{of="http_requests_total"} 5

metric_without_timestamp_and_labels 12.47
spaced { a = "1" , b = "2", } 5
"""


def test_all_samples_of_a_metric_are_found_and_no_other_s() -> None:
    assert parse_samples(PAGE, "http_requests_total", {}) == {
        'code="200",method="post"': 1027,
        'code="400",method="post"': 3,
    }
    assert parse_samples(PAGE, "metric_without_timestamp_and_labels", {}) == {"": 12.47}
    assert parse_samples(PAGE, "nothing_total", {}) == {}


@pytest.mark.parametrize(
    ("labels", "n"),
    [
        ({"code": "200"}, 1027),
        ({"code": "400", "method": "post"}, 3),
        ({"code": "2"}, 0),
        ({"code": "200", "worker": ""}, 1027),
        ({"code": ""}, 0),
    ],
)
def test_labels_choose_among_them(labels: dict[str, str], n: float) -> None:
    assert sum(parse_samples(PAGE, "http_requests_total", labels).values()) == n
    assert sum(parse_samples(PAGE, "spaced", {"b": "2"}).values()) == 5


@pytest.mark.parametrize(
    ("page", "labels"),
    [
        # lines, blanks and tabs
        ("a 5\n", ""),
        ("a 5", ""),
        ("a 5\r\n", ""),
        ("  a 5\n", ""),
        ("\ta\t5\t\n", ""),
        ("\n\n a  5  \n\n", ""),
        ("# a 7\n#a 7\n#\n# a comment of a\na 5\n", ""),
        ('# HELP a Counts a "a 9" \\n and \\\\ too.\n# TYPE a counter\n# UNIT a items\na 5\n# EOF\n', ""),
        ("# TYPE a gauge\na 5\n", ""),
        ("# TYPE a untyped\na 5\n", ""),
        ("# TYPE a unknown\na 5\n", ""),
        # values
        ("a +5\n", ""),
        ("a 5.\n", ""),
        ("a 5.0\n", ""),
        ("a 005\n", ""),
        ("a .5e1\n", ""),
        ("a 50E-1\n", ""),
        ("a 0.05e+02\n", ""),
        # times: milliseconds, or seconds with a fraction (OpenMetrics)
        ("a 5 1395066363000\n", ""),
        ("a 5 -3982045\n", ""),
        ("a 5 1520879607.789\n", ""),
        ("a 5 1.520879607e9\n", ""),
        ("a 4 123\na 5 456\n", ""),
        ('a{b="1"} 5 456.5\na{b="1"} 4 123\n', 'b="1"'),
        # exemplars of OpenMetrics
        ('a 5 # {trace_id="x",span="a 7"} 0.67\n', ""),
        ('a{b="1"} 5 # {} 0.67 1520879607.789\n', 'b="1"'),
        ('a 5 1520879607.7 # {trace_id="}"} 1 1520879607.789\n', ""),
        # sets of labels
        ("a{} 5\n", ""),
        ("a { } 5\n", ""),
        ('a{b="1"}5\n', 'b="1"'),
        ('a{b="1",} 5\n', 'b="1"'),
        ('a\t{\tb\t=\t"1"\t,\tc="2"\t}\t5\n', 'b="1",c="2"'),
        ('a{c="2",b="1"} 5\n', 'b="1",c="2"'),
        ('a{b="1",c=""} 5\n', 'b="1"'),
        ('a{_b2="{},=# \t}"} 5\n', '_b2="{},=# \t}"'),
        ('a{b="ü € \N{SNOWMAN}\N{NO-BREAK SPACE}"} 5\n', 'b="ü € \N{SNOWMAN}\N{NO-BREAK SPACE}"'),
        # escapes: of a character that needs none the backslash stays
        ('a{b="\\\\ \\" \\n"} 5\n', 'b="\\\\ \\" \\n"'),
        ('a{b="C:\\dir\\x"} 5\n', 'b="C:\\\\dir\\\\x"'),
        # names in quotes (Prometheus 3)
        ('{"a"} 5\n', ""),
        ('{"a",} 5\n', ""),
        (' { "a" , b = "1" } 5\n', 'b="1"'),
        ('{b="1","a"} 5\n', 'b="1"'),
        ('a{"b"="1"} 5\n', 'b="1"'),
        ('a{"b c.d"="1"} 5\n', '"b c.d"="1"'),
        ('{"other",b="a"} 7\n{"a"} 5\n', ""),
    ],
)
def test_a_sample_is_read_in_every_form(page: str, labels: str) -> None:
    assert parse_samples(page, "a", {}) == {labels: 5}


@pytest.mark.parametrize(
    ("metric", "written"),
    [
        ("my.metric", '{"my.metric"} 5\n'),
        ("größe 1", '{"größe 1",b="1"} 5\n'),
        ('a"b\\c', '{"a\\"b\\\\c"} 5\n'),
        ("job:requests:rate", "job:requests:rate 5\n"),
    ],
)
def test_a_name_may_hold_any_character(metric: str, written: str) -> None:
    assert list(parse_samples(written, metric, {}).values()) == [5]


def test_labels_of_any_name_choose() -> None:
    page = '{"my.metric","a b"="1"} 5\n{"my.metric","a b"="2"} 7\n'

    assert parse_samples(page, "my.metric", {"a b": "2"}) == {'"a b"="2"': 7}


def test_a_set_of_labels_is_one_series_in_whatever_order_it_is_written() -> None:
    one = parse_samples('a{b="1",c="2"} 5\n', "a", {})
    other = parse_samples('a{ c="2", b="1", d="" } 5\n', "a", {})

    assert one == other
    with pytest.raises(ValueError, match="stands there twice"):
        parse_samples('a{b="1",c="2"} 5\na{c="2",b="1"} 6\n', "a", {})


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a ",
        "a x",
        "a -1",
        "a NaN",
        "a nan",
        "a +Inf",
        "a -INFINITY",
        "a 1.2.3",
        "a 1_0",
        "a 0x10",
        "a \N{ARABIC-INDIC DIGIT ONE}",
        "a\N{NO-BREAK SPACE}1",
        "a 1 x",
        "a 1 2 3",
        "a;b=1 5",
        'a{b="1" 2',
        'a{b="1"}',
        'a{b="1"} x',
        "a{b=1} 2",
        "a{b} 2",
        'a{b="1"c="2"} 2',
        "a{,} 2",
        'a{,b="1"} 2',
        'a{b="1",,} 2',
        'a{1b="1"} 2',
        'a{b.c="1"} 2',
        'a{b="1",b="2"} 2',
        'a{b="1","b"="2"} 2',
        'a{"b"} 2',
        '{"a","a"} 2',
        'a{b="\\"} 2',
        'a{b="1"} 2\na{b="1"} 3',
        "a 2 123\na 3 123",
        "a 2 123\na 3",
    ],
)
def test_a_line_of_the_metric_that_is_no_count_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"is no sample|is no count|no proper labels|stands there twice"):
        parse_samples(line, "a", {})


@pytest.mark.parametrize(
    ("page", "metric", "problem"),
    [
        (
            'a_bucket{le="1"} 2\na_bucket{le="+Inf"} 3\na_count 3\n',
            "a_bucket",
            wording("probes.sum-of-buckets"),
        ),
        ('a{quantile="0.5"} 2\na_count 3\n', "a", wording("probes.sum-of-quantiles")),
    ],
    ids=key_of,
)
def test_samples_whose_sum_is_no_count_are_refused(page: str, metric: str, problem: str) -> None:
    with raises(ValueError, problem):
        parse_samples(page, metric, {})

    assert parse_samples(page, "a_count", {}) == {"": 3}


def test_one_bucket_is_a_count() -> None:
    page = 'a_bucket{le="1"} 2\na_bucket{le="+Inf"} 3\n'

    assert parse_samples(page, "a_bucket", {"le": "+Inf"}) == {'le="+Inf"': 3}


def test_metrics_that_are_not_requested_may_be_of_any_kind_or_garbage() -> None:
    page = (
        '# TYPE s stateset\ns{s="a"} 1\n# TYPE i info\ni_info{version="1"} 1\n# TYPE h gaugehistogram\n'
        'h_gcount 5\nh_bucket{le="+Inf"} NaN\n%%% what { " is this\n"a" 7\nb{a="1"} x\na_total 5\n'
    )

    assert parse_samples(page, "a_total", {}) == {"": 5}


@pytest.mark.parametrize(
    ("metric", "similar"),
    [
        ("items", ["items_total"]),
        ("tasks_total", ["tasks"]),
        ("seconds", ["seconds_count"]),
        ("nothing", []),
    ],
)
def test_names_with_and_without_a_suffix_are_alike(metric: str, similar: list[str]) -> None:
    assert similar_names("items_total 1\ntasks 2\nseconds_count 3\nseconds_sum 3\n", metric) == similar


@given(
    st.dictionaries(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text('{}",\\\n #=1')),
        st.integers(0, 2**50),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_what_the_official_client_writes_is_read(
    counts: dict[tuple[str, str], int], in_openmetrics: bool
) -> None:
    registry = CollectorRegistry()
    counter = Counter("items", "Items.", ["first", "second"], registry=registry)
    for values, n in counts.items():
        counter.labels(*values).inc(n)

    page = (openmetrics.generate_latest if in_openmetrics else generate_latest)(registry).decode()

    assert sum(parse_samples(page, "items_total", {}).values()) == sum(counts.values())
    for (first, second), n in counts.items():
        assert list(parse_samples(page, "items_total", {"first": first, "second": second}).values()) == [n]


@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda name: not name.startswith("__")),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        max_size=3,
    ),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
)
def test_names_in_quotes_are_read_as_the_official_client_reads_them(
    labels: dict[str, str], name: str
) -> None:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    terms = [quoted(name), *(f"{quoted(label)}={quoted(value)}" for label, value in labels.items())]
    page = f"{{{','.join(terms)}}} 5\n"

    assert list(parse_samples(page, name, labels).values()) == [5]
    try:
        (family,) = text_string_to_metric_families(page)
    except ValueError:
        return  # stricter about names of labels
    (sample,) = family.samples
    assert parse_samples(page, sample.name, sample.labels) == parse_samples(page, name, labels)
