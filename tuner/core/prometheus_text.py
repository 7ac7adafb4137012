"""Samples of one metric in Prometheus' text format.

prometheus_client has a parser too; it builds every sample of the page, and would be one more package. This
one looks only at the lines of the metric that is asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\[\\"n])*)"\s*(,|$)')
_LABELS = re.compile(r'\{((?:[^"}\n]|"(?:[^"\\\n]|\\[\\"n])*")*)\}')
_NUMBER = r"[+-]?(?:[0-9.]+(?:[eE][+-]?[0-9]+)?|[iI]nf|[nN]a[nN])"
_VALUE = re.compile(rf"\s+({_NUMBER})(?:\s+-?[0-9.]+)?(?:\s+#.*)?\s*")  # then maybe a time and an exemplar
_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parse_samples(text: str, metric: str, labels: Mapping[str, str]) -> dict[str, float]:
    """The samples called *metric* that have all of *labels*, by their labels as they are written.

    Raises:
        ValueError: a line of *metric* is not the format, its value is no count, or two have the same labels.
    """
    found: dict[str, float] = {}
    for line in text.split("\n"):
        if not line.startswith(metric) or line[len(metric) : len(metric) + 1] not in ("{", " ", "\t"):
            continue
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
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text} is no count, in {line[:80]!r}")
    return value
