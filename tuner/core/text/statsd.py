"""Lines of statsd in all its dialects, and their counts.

The grammar combines the servers': Etsy's (docs/metric_types.md, stats.js), DogStatsD 1.0 to 1.3, and the
tags of InfluxDB (Telegraf), Librato, SignalFx and Graphite::

    packet  = line *( LF line )                 ; an empty line and a CR before its end mean nothing
    line    = name ":" samples / event / check
    samples = values "|" type *( "|" field ) [ ":" samples ]  ; Etsy repeats all of it: a:1|c:2|c|@0.1
    values  = value *( ":" value )              ; DogStatsD 1.1 repeats the value: a:1:2:3|c
    type    = "c" / "m" / "g" / "ms" / "h" / "d" / "s"        ; m, a meter, is a counter that only grows
    field   = "@" rate / "#" tags / "c:" container / "T" time / others
    event   = "_e{" ...
    check   = "_sc|" ...

A sample is repeated after a type or a rate only: tags and DogStatsD's ``c:`` contain colons themselves.
Unknown fields are ignored, as in DogStatsD, because a later version of it may have more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from typing import Literal

from tuner.core.text.figures import LARGEST_COUNT

#: ``unreadable``: a line with a counted name whose count cannot be parsed. ``other-type``: a line with a
#: counted name that is not a counter, because statsd keeps timers of the same name separately. ``no-metric``:
#: not a line of statsd.
Passed = Literal["unreadable", "other-type", "no-metric"]

_PLAIN = re.compile(rb"([0-9]{1,15})\|c(?:\|@1(?:\.0)?)?\r?")  #: format of most counts; gunicorn writes @1.0
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_METRIC = re.compile(rb"[^:|]+:[^|]*\|[^|]+")
_ORDINARY_NAME = re.compile(rb"[a-zA-Z0-9_.-]+")
_TAGS_AFTER_NAME = re.compile(rb"[,#;]")  #: tags as InfluxDB, Librato and Graphite write them
_NO_METRICS = (b"_e{", b"_sc|")
_COUNTERS = (b"c", b"m")
_OTHERS = (b"g", b"ms", b"h", b"d", b"s")
_LONGEST_NUMBER = 64
_MOST_OTHER_NAMES = 20
_SHOWN = 80


class StatsdTally:
    """The totals of the counters *names*, and a summary of all other lines."""

    def __init__(self, names: Collection[bytes]) -> None:
        #: totals by name; a count with sampling rate r adds 1 / r of its number
        self.totals = dict.fromkeys(names, 0.0)
        #: number of ignored lines of each kind
        self.n_passed: dict[Passed, int] = {"unreadable": 0, "other-type": 0, "no-metric": 0}
        self.examples: dict[Passed, bytes] = {}  #: first ignored line of each kind, truncated
        #: names of other metrics without tags, at most twenty, each with its first type
        self.other_names: dict[bytes, bytes] = {}

    def add(self, packet: bytes) -> None:
        """Count the lines of *packet*."""
        for line in packet.split(b"\n"):
            name, _, rest = line.partition(b":")
            if name in self.totals:
                self._add_line(name, rest, line)
            elif name not in self.other_names and (line := line.strip()):
                self._add_other(name, rest, line)

    def _add_line(self, name: bytes, rest: bytes, line: bytes) -> None:
        if (plain := _PLAIN.fullmatch(rest)) is not None:
            self.totals[name] += int(plain[1])
            return
        passed: Passed | None = None
        for count in _samples(rest.strip()):
            if isinstance(count, float):
                self.totals[name] += count
            elif passed != "unreadable":
                passed = count
        if passed is not None:
            self._pass(passed, line)

    def _add_other(self, name: bytes, rest: bytes, line: bytes) -> None:
        """Count a line whose name has tags or characters that Etsy's server removes; else note the metric."""
        if _ORDINARY_NAME.fullmatch(name) is None:
            bare = _without_tags(name)
            for form in (bare, _as_etsy_names(bare)):
                if form in self.totals:
                    self._add_line(form, rest, line)
                    return
        if line.startswith(_NO_METRICS):
            return
        if _METRIC.match(line) is None:
            self._pass("no-metric", line)
        elif len(self.other_names) < _MOST_OTHER_NAMES:
            kind = re.split(rb"[|:]", rest.partition(b"|")[2], maxsplit=1)[0].strip()
            self.other_names.setdefault(_without_tags(name), kind)

    def _pass(self, passed: Passed, line: bytes) -> None:
        self.n_passed[passed] += 1
        self.examples.setdefault(passed, line[:_SHOWN])


def _samples(rest: bytes) -> Iterator[float | Passed]:
    """Yield the count of each value after a name, or the reason why it does not count."""
    fields = iter(rest.split(b"|"))
    values: bytes | None = next(fields)
    while values is not None:
        kind, rate, next_values = _type_and_rate(fields)
        if kind in _OTHERS:
            yield "other-type"
        elif kind not in _COUNTERS or rate is None or not 0 < rate <= 1:
            yield "unreadable"
        else:
            packed = values.split(b":")
            for value in [one for one in packed if one] or packed:  # 21::22 has two values
                number = _number(value)
                readable = number is not None and abs(number) <= LARGEST_COUNT
                yield number / rate if readable and number is not None else "unreadable"
        values = next_values


def _type_and_rate(fields: Iterator[bytes]) -> tuple[bytes, float | None, bytes | None]:
    """Return the type, the rate (None if it is not a number), and the values of the next sample, if any."""
    kind, colon, next_values = next(fields, b"").partition(b":")
    if colon:
        return kind.strip(), 1.0, next_values
    rate: float | None = 1.0
    for field in fields:
        if field.startswith(b"@"):
            text, colon, next_values = field[1:].partition(b":")
            rate = _number(text)
            if colon:
                return kind.strip(), rate, next_values
    return kind.strip(), rate, None


def _number(text: bytes) -> float | None:
    text = text.strip()
    if len(text) > _LONGEST_NUMBER or _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def _without_tags(name: bytes) -> bytes:
    begin, end = name.find(b"["), name.find(b"]")
    if 0 <= begin < end:  # SignalFx has them anywhere in the name
        name = name[:begin] + name[end + 1 :]
    return _TAGS_AFTER_NAME.split(name, maxsplit=1)[0]


def _as_etsy_names(name: bytes) -> bytes:
    """Rewrite *name* as Etsy's server does by default (keyNameSanitize), the form of shown metrics."""
    return re.sub(rb"[^a-zA-Z_\-0-9.]", b"", re.sub(rb"\s+", b"_", name).replace(b"/", b"-"))
