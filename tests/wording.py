"""The sentences that tuner prints, one file per subject in golden/wording/.

``wording("launch.cannot-change-folder", tmp_path="/x")`` is the text ``cannot-change-folder``
of ``launch.yaml``, with its ``«tmp_path»`` replaced by ``/x``.
A change of words touches one of these files and no test. `pytest --reword` writes the words that tuner prints
now into them, for each comparison that fails: ``==`` or ``in`` with a text, a list or a dictionary of them,
``start_of``, ``end_of``, and ``raises(ConfigError, wording(...))`` of raising.py. A test stops at the first,
so run it until nothing changes; review the difference before you commit it.
In tables of ``parametrize`` give ``ids=key_of``: words change, names of tests do not.
"""

from __future__ import annotations

import difflib
import fcntl
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

pytest.register_assert_rewrite(f"{__package__}.raising")

FOLDER = Path(__file__).parent / "golden" / "wording"
MORE_AFTER = re.compile(r"( [A-Za-z'-]+){1,2}(?=[\s.,:;]|$)")  #: words of the same clause
MORE_BEFORE = re.compile(r"(?<!\S)([A-Za-z'-]+ ){1,2}$")
LIKE_RATIO = 0.5  #: less than that is like nothing
PLACEHOLDER = re.compile(r"«([a-z][a-z0-9_]*)»")


class Wording(str):
    """A text of golden/wording/, as a string that remembers its key and its values.

    With what is added to it, as ``"s.yaml:3:5: study.seed: " + wording(...)``, it still does.
    """

    __slots__ = ("after", "before", "key", "values")
    key: str  #: subject.name
    values: dict[str, str]  #: what its placeholders were replaced by
    before: str  #: what was added in front
    after: str  #: and at the end

    @classmethod
    def of(cls, text: str, key: str, values: dict[str, str], before: str = "", after: str = "") -> Wording:
        """With what it remembers."""
        done = cls(before + text + after)
        done.key, done.values, done.before, done.after = key, values, before, after
        return done

    def __add__(self, other: str) -> Wording:
        return self.of(self.bare, self.key, self.values, self.before, self.after + str(other))

    def __radd__(self, other: str) -> Wording:
        return self.of(self.bare, self.key, self.values, str(other) + self.before, self.after)

    @property
    def bare(self) -> str:
        """Without what was added."""
        return str(self)[len(self.before) : len(self) - len(self.after)]

    @property
    def pattern(self) -> str:
        """The text as a regular expression that matches it literally, for ``pytest.raises(match=)``."""
        return re.escape(self)


def wording(key: str, /, **values: object) -> Wording:
    """The text of *key* with its placeholders replaced.

    Raises:
        KeyError: no such key.
        ValueError: *values* are not the placeholders of the text.
    """
    subject, name = key.split(".", 1)
    text = texts_of(subject)[name]
    names = set(PLACEHOLDER.findall(text))
    if names != set(values):
        raise ValueError(f"{key} has the placeholders {sorted(names)}, got {sorted(values)}")
    as_text = {name: str(value) for name, value in values.items()}
    return Wording.of(PLACEHOLDER.sub(lambda found: as_text[found[1]], text), key, as_text)


@cache
def texts_of(subject: str) -> dict[str, str]:
    """Name -> text, of one file of golden/wording/."""
    with (FOLDER / f"{subject}.yaml").open(encoding="utf-8") as file:
        texts: dict[str, str] = yaml.load(file, yaml.CSafeLoader)
    return texts


def key_of(value: object) -> str | None:
    """The key of a text, as a part of the id of a parametrized test: words change, ids do not."""
    return value.key if isinstance(value, Wording) else None


class _StartOf(str):
    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str) and self.startswith(part)


class _EndOf(str):
    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str) and self.endswith(part)


def start_of(text: str) -> str:
    """``assert wording(...) in start_of(text)``: as ``text.startswith``, and --reword sees it."""
    return _StartOf(text)


def end_of(text: str) -> str:
    """``assert wording(...) in end_of(text)``: as ``text.endswith``, and --reword sees it."""
    return _EndOf(text)


def closest(wanted: str, text: str) -> str:
    """The stretch of whole words in *text* that is most like *wanted*, with all its values.

    Empty if nothing is like it.
    """
    words = [found.span() for found in re.finditer(r"\S+", text)]
    values = [value for value in wanted.values.values() if value] if isinstance(wanted, Wording) else []
    n = len(wanted.split())
    best, best_ratio = (0, 0), LIKE_RATIO
    for start, end in _stretches(words, text, range(max(1, n - n // 2), n + n // 2 + 3)):
        stretch = text[start:end]
        if not all(value in stretch for value in values) or ("\n" in stretch and "\n" not in wanted):
            continue
        matcher = difflib.SequenceMatcher(None, stretch, wanted, autojunk=False)
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = (start, end), ratio
    if best == (0, 0):
        return ""
    start, end = _grown(*best, wanted, text)
    if wanted.rstrip()[-1:] not in ",;:.":
        end = start + len(text[start:end].rstrip(",;:."))
    return _with_margins(text[start:end], wanted, text)


def _grown(start: int, end: int, wanted: str, text: str) -> tuple[int, int]:
    """With up to two words more at an end that is no more as it was: new words are like none of the old."""
    found, words = text[start:end].strip(",;:.").split(), wanted.strip(" \n,;:.").split()
    if found[-1] != words[-1] and (more := MORE_AFTER.match(text, end)) and not isinstance(text, _EndOf):
        end = more.end()
    if found[0] != words[0] and (more := MORE_BEFORE.search(text[:start])) and not isinstance(text, _StartOf):
        start = more.start()
    return start, end


def _stretches(words: list[tuple[int, int]], text: str, lengths: range) -> Iterator[tuple[int, int]]:
    firsts, lasts = range(len(words)), range(len(words))
    if isinstance(text, _StartOf):
        firsts = firsts[:1]
    if isinstance(text, _EndOf):
        lasts = lasts[-1:]
    for first in firsts:
        for length in lengths:
            if first + length - 1 in lasts:
                yield words[first][0], words[first + length - 1][1]


def _with_margins(stretch: str, wanted: str, text: str) -> str:
    """*stretch* with the blanks and line ends around it that *wanted* has, where *text* has them too."""
    before = wanted[: len(wanted) - len(wanted.lstrip())]
    after = wanted[len(wanted.rstrip()) :]
    for whole in (before + stretch + after, stretch + after, before + stretch):
        if whole in str(text):
            return whole
    return stretch


def reworded(wanted: Wording, now: str) -> str | None:
    """*now* as a text of golden/wording/: the values of *wanted* are placeholders again.

    None where that cannot be told: a value is not there, or more often than it was.
    """
    if not now.startswith(wanted.before) or not now.endswith(wanted.after):
        return None
    now = now[len(wanted.before) : len(now) - len(wanted.after)]
    subject, name = wanted.key.split(".", 1)
    order = PLACEHOLDER.findall(texts_of(subject)[name])
    for value in sorted(set(wanted.values.values()), key=len, reverse=True):
        names = [one for one in order if wanted.values[one] == value]
        places = list(re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", now)) or list(
            re.finditer(re.escape(value), now)
        )
        if not value or len(places) != len(names):
            return None
        for place, one in reversed(list(zip(places, names, strict=True))):
            now = f"{now[: place.start()]}«{one}»{now[place.end() :]}"
    return now


def explain_failure(op: str, left: object, right: object, *, reword: bool) -> list[str] | None:
    """Lines for pytest about a failed comparison with a `Wording`; None for any other comparison.

    With *reword*, the words that were found replace the text of the key.
    """
    found = list(_compared(op, left, right))
    return [line for wanted, text, now in found for line in _told(op, wanted, text, now, reword)] or None


def _compared(op: str, left: object, right: object) -> Iterator[tuple[Wording, str, str]]:
    """Each text that is wanted and not there, what it was looked for in, and what is there in its place."""
    if op == "==":
        yield from ((wanted, text, text) for wanted, text in _pairs(left, right) if wanted != text)
    elif op == "in" and isinstance(left, Wording):
        if isinstance(right, str):
            yield left, right, closest(left, right)
        elif isinstance(right, list | tuple | set | frozenset | dict):
            texts = [one for one in right if isinstance(one, str)]
            like = difflib.get_close_matches(left, texts, 1, 0.3)
            yield left, "\n".join(texts), like[0] if like else ""


def _pairs(left: object, right: object) -> Iterator[tuple[Wording, str]]:
    """The texts of two values that are equal but for words, each with what stands in its place."""
    if isinstance(right, Wording) and not isinstance(left, Wording):
        left, right = right, left
    if isinstance(left, Wording) and isinstance(right, str):
        yield left, right
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            yield from _pairs(one, other)
    elif isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() & right.keys():
            yield from _pairs(left[key], right[key])


def _told(op: str, wanted: Wording, text: str, now: str, reword: bool) -> list[str]:
    subject, name = wanted.key.split(".", 1)
    lines = [f"{name} of tests/golden/wording/{subject}.yaml {op} the text", f"wanted: {wanted}"]
    lines.append(f"closest: {now}" if now else "nothing in the text is like it")
    lines += ["the text:", *text.splitlines()]
    if reword and now:
        kept = reworded(wanted, now)
        if kept is None:
            lines.insert(1, "write it anew by hand: its values are not in the text as they were")
        else:
            write_text(subject, name, kept)
            lines.insert(1, "written anew, since --reword was given")
    return lines


def write_text(subject: str, name: str, text: str) -> None:
    """Change one text; other processes of pytest-xdist may change others of its file."""
    folder = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        texts_of.cache_clear()
        write_texts(subject, {**texts_of(subject), name: text})
    finally:
        os.close(folder)


def write_texts(subject: str, texts: dict[str, str]) -> None:
    """Write a file of golden/wording/, its names in order."""
    path = FOLDER / f"{subject}.yaml"
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(yaml.dump(texts, Dumper=_Dumper, allow_unicode=True, width=10**6), encoding="utf-8")
    new.replace(path)  # others read it meanwhile
    texts_of.cache_clear()


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as they are printed."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text and not re.search(r"[ \t]\n", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)
