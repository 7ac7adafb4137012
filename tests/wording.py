"""The sentences that tuner prints, one file per subject in golden/wording/.

``wording("launch.cannot-change-folder-closed", tmp_path="/x")`` is the text ``cannot-change-folder-closed`` of
``launch.yaml``, with its ``«tmp_path»`` replaced by ``/x``.
A change of words touches one of these files and no test. `pytest --reword` writes the words that tuner prints
now into them, for each comparison (``==`` or ``in``) that fails; review the difference before you commit it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent / "golden" / "wording"
PLACEHOLDER = re.compile(r"«([a-z][a-z0-9_]*)»")


class Wording(str):
    """A text of golden/wording/, as a string that remembers its key and its values."""

    __slots__ = ("key", "values")
    key: str  #: subject.name
    values: dict[str, str]  #: what its placeholders were replaced by

    @property
    def pattern(self) -> str:
        """The text as a regular expression that matches it literally, for ``pytest.raises(match=)``."""
        return re.escape(self)


def wording(key: str, **values: object) -> Wording:
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
    done = Wording(PLACEHOLDER.sub(lambda found: str(values[found[1]]), text))
    done.key = key
    done.values = {name: str(value) for name, value in values.items()}
    return done


@cache
def texts_of(subject: str) -> dict[str, str]:
    """Name -> text, of one file of golden/wording/."""
    with (FOLDER / f"{subject}.yaml").open(encoding="utf-8") as file:
        texts: dict[str, str] = yaml.load(file, yaml.CSafeLoader)
    return texts


def closest(wanted: str, text: str) -> str:
    """The stretch of whole words in *text* that is most like *wanted*; empty if nothing is like it."""
    starts = [found.span() for found in re.finditer(r"\S+", text)]
    n = len(wanted.split())
    best, best_ratio = "", 0.5
    for stretch in _stretches(starts, text, range(max(1, n - n // 2), n + n // 2 + 3)):
        matcher = difflib.SequenceMatcher(None, stretch, wanted, autojunk=False)
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = stretch, ratio
    return best


def _stretches(words: list[tuple[int, int]], text: str, lengths: range) -> Iterator[str]:
    for first in range(len(words)):
        for length in lengths:
            if first + length <= len(words):
                yield text[words[first][0] : words[first + length - 1][1]]


def reworded(wanted: Wording, now: str) -> str:
    """*now* as a text of golden/wording/: the values of *wanted* are placeholders again."""
    for name, value in sorted(wanted.values.items(), key=lambda pair: -len(pair[1])):
        if value:
            now = now.replace(value, f"«{name}»")
    return now


def explain_failure(op: str, left: object, right: object, *, reword: bool) -> list[str] | None:
    """Lines for pytest about a failed comparison with a `Wording`; None for any other comparison.

    With *reword*, the words that were found replace the text of the key.
    """
    if not isinstance(left, Wording) and op == "==":
        left, right = right, left
    if not isinstance(left, Wording) or not isinstance(right, str) or op not in ("==", "in"):
        return None
    now = right if op == "==" else closest(left, right)
    subject, name = left.key.split(".", 1)
    lines = [f"{name} of tests/golden/wording/{subject}.yaml {op} the text", f"wanted: {left}"]
    lines.append(f"closest: {now}" if now else "nothing in the text is like it")
    lines += ["the text:", *right.splitlines()]
    if reword and now:
        write_texts(subject, {**texts_of(subject), name: reworded(left, now)})
        lines.insert(1, "written anew, since --reword was given")
    return lines


def write_texts(subject: str, texts: dict[str, str]) -> None:
    """Write a file of golden/wording/, its names in order."""
    path = FOLDER / f"{subject}.yaml"
    path.write_text(yaml.dump(texts, Dumper=_Dumper, allow_unicode=True, width=10**6), encoding="utf-8")
    texts_of.cache_clear()


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as they are printed."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text and not re.search(r"[ \t]\n", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)
