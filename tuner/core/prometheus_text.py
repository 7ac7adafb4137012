"""Samples of one metric in Prometheus' text format.

prometheus_client has a parser too; it builds every sample of the page, and would be one more package. This
one looks only at the lines of the metric that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tuner.core.counts import is_count

MOST_SAMPLES = 10_000  #: of one metric, with the labels that are asked for
MOST_LINES = 50_000  #: of one metric, whatever their labels: each takes some 10 us
_LONGEST_LINE = 1 << 16

_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\[\\"n])*)"\s*(,|$)')
_LABELS = re.compile(r'\{((?:[^"}\n]|"(?:[^"\\\n]|\\[\\"n])*")*)\}')
_NUMBER = r"[+-]?(?:[0-9.]+(?:[eE][+-]?[0-9]+)?|[iI]nf|[nN]a[nN])"
_VALUE = re.compile(rf"\s+({_NUMBER})(?:\s+-?[0-9.]+)?(?:\s+#.*)?\s*")  # then maybe a time and an exemplar
_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parse_samples(text: str, metric: str, labels: Mapping[str, str]) -> dict[str, float]:
    """The samples called *metric* that have all of *labels*, by their labels as they are written.

    Raises:
        ValueError: a line of *metric* is not the format, its value is no count, two have the same labels, or
            there are more than any service has.
    """
    found: dict[str, float] = {}
    for n, line in enumerate(_lines_of(text, metric)):
        if n == MOST_LINES or len(found) > MOST_SAMPLES:
            raise ValueError(
                f"{metric} has more than {MOST_SAMPLES} samples, or {MOST_LINES} with all labels"
            )
        if len(line) > _LONGEST_LINE:
            raise ValueError(f"{line[:80]!r}... is longer than any sample")
        rest = line[len(metric) :].lstrip()
        shown = _LABELS.match(rest) if rest.startswith("{") else None
        own = "" if shown is None else shown[1]
        value = _VALUE.fullmatch(rest[shown.end() :] if shown else f" {rest}")
        if value is None:
            raise ValueError(f"{line[:80]!r} is no sample")
        if not labels.items() <= _parse_labels(own, line).items():
            continue
        if own in found:
            raise ValueError(f"{metric}{{{own}}} stands there twice")
        found[own] = _count(value[1], line)
    return found


def _lines_of(text: str, metric: str) -> Iterator[str]:
    """One by one: a list of all of a page's lines may take ten times its size."""
    text, begins = f"\n{text}", f"\n{metric}"
    at = text.find(begins)
    while at >= 0:
        end = text.find("\n", at + 1)
        line = text[at + 1 :] if end < 0 else text[at + 1 : end]
        if line[len(metric) : len(metric) + 1] in ("{", " ", "\t"):
            yield line
        at = -1 if end < 0 else text.find(begins, end)


def _parse_labels(text: str, line: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    text, at = text.rstrip(), 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None or match[1] in labels:
            raise ValueError(f"{line[:80]!r} has no proper labels")
        labels[match[1]] = re.sub(r"\\.", lambda escape: _UNESCAPED[escape[0]], match[2])
        at = match.end()
    return labels


def _count(text: str, line: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{line[:80]!r} is no sample") from None
    if not is_count(value):
        raise ValueError(f"{text[:80]} is no count, in {line[:80]!r}")
    return value
