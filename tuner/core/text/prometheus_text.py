"""Samples of one metric in a page in Prometheus' or OpenMetrics' text format.

prometheus_client has parsers, too. Of a page of 8 MB, which is fetched every second, its parser took 2.0 s of
CPU and this one 3 ms (two cores, November 2026), because this one reads only the lines of the metric. The
other one also renames counters, keeps duplicate samples, and stops at any line of any metric that it cannot
read. The tests compare the results of both.

Where the formats differ, both forms are accepted: blanks and tabs between tokens and a comma after the
last label (0.0.4); exemplars, times with a fraction and several times of one sample (OpenMetrics).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.core.text.figures import is_count

MOST_SAMPLES = 10_000  #: most samples of one metric with the requested labels
MOST_LINES = 50_000  #: most lines of one metric with any labels; each takes about 10 us
_LONGEST_LINE = 1 << 16

_BLANK = r"[ \t]*"
_LEGACY_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LEGACY_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
_STRING = r'"((?:[^"\\\n]|\\.)*)"'
_TERM = re.compile(  # a label, or in quotes the name of the metric; then a comma or the end
    rf"{_BLANK}(?:({_LEGACY_LABEL})|{_STRING}){_BLANK}(?:={_BLANK}{_STRING}{_BLANK})?(?:,|(?=\}}))"
)
_END = re.compile(rf"{_BLANK}\}}")
_REAL = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_VALUE = re.compile(  # then maybe a time, and an exemplar
    rf"{_BLANK}({_REAL}|[+-]?(?i:inf|infinity|nan))(?:[ \t]+({_REAL}))?(?:[ \t]+#.*)?{_BLANK}\r?"
)
_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}  #: a backslash before any other character stays


@dataclass(frozen=True, slots=True)
class _Sample:
    #: labels without those of an empty value, which is equivalent to a missing label
    labels: Mapping[str, str]
    value: float
    written: str  #: value as written in the text
    at: float | None  #: timestamp in the unit of the format


def is_legacy(name: str) -> bool:
    """Return whether *name* needs no quotes, like all metric names before Prometheus 3."""
    return _LEGACY_NAME.fullmatch(name) is not None


def parse_samples(text: str, metric: str, labels: Mapping[str, str]) -> dict[str, float]:
    """Return the samples of *metric* that have all of *labels*, by their labels in a sorted form.

    A requested label with an empty value must be empty or absent.

    Raises:
        ValueError: a line of *metric* is invalid, its value is not a count, two have the same labels, they
            are buckets or quantiles, whose sum is not a count, or there are too many.
    """
    found: dict[str, _Sample] = {}
    for n, line in enumerate(_lines_of(text, metric)):
        if n == MOST_LINES or len(found) > MOST_SAMPLES:
            raise ValueError(
                f"{metric} has more than {MOST_SAMPLES} samples, or {MOST_LINES} with all labels"
            )
        if len(line) > _LONGEST_LINE:
            raise ValueError(f"{line[:80]!r}... is longer than any sample")
        sample = _parse_line(line, metric)
        if sample is None or any(sample.labels.get(name, "") != value for name, value in labels.items()):
            continue
        _check_countable(sample, metric, labels, line)
        own = _render(sample.labels)
        before = found.get(own)
        if before is not None and (before.at is None or sample.at is None or before.at == sample.at):
            raise ValueError(f"{metric}{{{own}}} stands there twice")
        if before is None or (before.at or 0) < (sample.at or 0):
            found[own] = sample
    return {own: sample.value for own, sample in found.items()}


def similar_names(text: str, metric: str) -> list[str]:
    """Return possible other names of *metric* on the page: formats differ in their suffixes."""
    forms = {f"{metric}_total", f"{metric}_count", metric.removesuffix("_total")} - {metric, ""}
    return sorted(form for form in forms if next(_lines_of(text, form), None) is not None)


def _lines_of(text: str, metric: str) -> Iterator[str]:
    """Yield lines that begin with *metric*, or that begin with a brace and contain it.

    One by one, because a list of all of a page's lines may take ten times its size.
    """
    written = _escape(metric)
    can_begin = is_legacy(metric)
    begin = 0
    while (hit := text.find(written, begin)) >= 0:
        begin = text.rfind("\n", begin, hit) + 1 or begin
        end = text.find("\n", hit)
        end = len(text) if end < 0 else end
        before = text[begin:hit].lstrip(" \t")
        after = text[hit + len(written) : hit + len(written) + 1]
        is_ours = can_begin and not before and re.match(r"[a-zA-Z0-9_:]", after) is None
        if is_ours or before.startswith("{"):
            yield text[begin:end]
        begin = end + 1


def _parse_line(line: str, metric: str) -> _Sample | None:
    """Return the sample in *line*; None: it is of another metric, whose labels contain this name."""
    rest = line.lstrip(" \t")
    name = None
    if not rest.startswith("{"):
        name, rest = metric, rest[len(metric) :].lstrip(" \t")
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        at = 1
        while (end := _END.match(rest, at)) is None:
            term = _TERM.match(rest, at)
            if term is None:
                raise ValueError(f"{line[:80]!r} has no proper labels")
            legacy, quoted, value = term.groups()
            label = _unescape(quoted) if legacy is None else legacy
            if value is None:
                if name is not None or legacy is not None:
                    raise ValueError(f"{line[:80]!r} has no proper labels")
                name = label
            elif label in labels:
                raise ValueError(f"{line[:80]!r} has no proper labels")
            else:
                labels[label] = _unescape(value)
            at = term.end()
        rest = rest[end.end() :]
    if name != metric:
        return None
    match = _VALUE.fullmatch(rest)
    if match is None:
        raise ValueError(f"{line[:80]!r} is no sample")
    value_s, at_s = match.groups()
    present = {label: value for label, value in labels.items() if value}
    return _Sample(present, float(value_s), value_s, None if at_s is None else float(at_s))


def _check_countable(sample: _Sample, metric: str, labels: Mapping[str, str], line: str) -> None:
    """Raise ValueError if the sample's value cannot be a count of items."""
    if metric.endswith("_bucket") and "le" in sample.labels and "le" not in labels:
        count = f"{metric.removesuffix('_bucket')}_count"
        raise ValueError(
            f"{metric} are buckets of a histogram, each with the smaller ones in it: use {count}"
        )
    if "quantile" in sample.labels and not metric.endswith(("_count", "_sum")):
        raise ValueError(f"{metric} are quantiles of a summary: use {metric}_count")
    if not is_count(sample.value):
        raise ValueError(f"{sample.written[:80]} is no count, in {line[:80]!r}")


def _render(labels: Mapping[str, str]) -> str:
    """Format *labels* sorted by name, because a page may change their order."""
    return ",".join(
        f"{name if re.fullmatch(_LEGACY_LABEL, name) else _quote(name)}={_quote(labels[name])}"
        for name in sorted(labels)
    )


def _quote(text: str) -> str:
    return f'"{_escape(text)}"'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _unescape(text: str) -> str:
    return re.sub(r"\\.", lambda escape: _UNESCAPED.get(escape[0], escape[0]), text) if "\\" in text else text
