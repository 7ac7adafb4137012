"""A user's command, its options found as the program's own parser finds them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

_OFF = frozenset({"", "0", "f", "false", "n", "no", "off"})


@dataclass(frozen=True, slots=True)
class Grammar:
    """How a program's parser reads options: argparse, optparse, click and getopt_long differ.

    Every one of them takes ``--workers 3``, ``--workers=3``, ``-w 3`` and ``-w3``.
    """

    #: a long option may be cut short, as argparse, optparse and getopt_long have it (click has it not)
    abbreviations: bool = False
    #: whole options that begin others which a record looks for: they stand for themselves
    whole: tuple[str, ...] = ()
    #: letters of options without a value: more options may follow in the same word (``-Dw4``)
    switches: str = ""
    prefix: str = ""  #: of the variables that options are read from: UVICORN_ and WORKERS; empty: from none
    words_in: str = ""  #: a variable with more words, which the command's own go before; empty: there is none

    def options_of(self, word: str) -> Iterator[tuple[str, str | None]]:
        """The options in *word*, each with the value that it has there; None: it has none there."""
        if word.startswith("--"):
            name, is_whole, value = word.partition("=")
            yield name, value if is_whole else None
            return
        if not word.startswith("-"):
            return
        rest = word[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            is_switch = letter in self.switches
            yield f"-{letter}", None if is_switch or not rest else rest.removeprefix("=")
            if not is_switch:
                return

    def stands_for(self, written: str, name: str) -> bool:
        """Whether the option *written* is the one that is called *name*.

        A beginning that several options share is taken for each of them: the program refuses it itself, so
        nothing is measured. That way no list of all options is needed, which every release changes.
        """
        if written == name or not self.abbreviations or written in self.whole:
            return written == name
        return name.startswith("--") and len(written) > 2 and name.startswith(written)

    def variable(self, name: str) -> str | None:
        """The variable that the option *name* is read from."""
        if not self.prefix or not name.startswith("--"):
            return None
        return self.prefix + name[2:].upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Command:
    """The user's command, looked at; nothing is run and no file read."""

    words: tuple[str, ...]  #: from its program on, without what starts that (``uv run``, ``python -m``)
    environment: Mapping[str, str] = field(default_factory=dict)  #: what it will find, tuner's own included
    given: Mapping[str, str] = field(default_factory=dict)  #: the record's settings that the user has set
    is_module: bool = False  #: the first of the words names a module, which Python runs
    grammar: Grammar = field(default_factory=Grammar)  #: the record's

    def option(self, *names: str) -> str | None:
        """The value of an option by its *names* (``-w``, ``--workers``): the last where it is repeated."""
        return self._in(self.words, names)[1]

    def has(self, *names: str) -> bool:
        """Whether one of the options is among the words."""
        return self.option(*names) is not None

    def said(self, *names: str) -> str | None:
        """The same as `option`, else what the variables say that the program reads options from."""
        for words in (self.words, self._more_words()):
            if (found := self._in(words, names)[1]) is not None:
                return found
        return next((self.environment[name] for name in self._variables(names)), None)

    def said_by(self, *names: str) -> str | None:
        """What says one of the options, as it is written, or the variable that switches it on."""
        if (written := self._in(self.words, names)[0]) is not None:
            return written
        if (written := self._in(self._more_words(), names)[0]) is not None:
            return f"{self.grammar.words_in} with {written}"
        on = (name for name in self._variables(names) if self.environment[name].lower() not in _OFF)
        return next(on, None)

    def _in(self, words: tuple[str, ...], names: tuple[str, ...]) -> tuple[str | None, str | None]:
        """The last of the options among *words*, as it is written, and its value."""
        last: tuple[str | None, str | None] = None, None
        for word, following in pairwise((*words, "")):
            if word == "--":
                break
            for written, value in self.grammar.options_of(word):
                if any(self.grammar.stands_for(written, name) for name in names):
                    last = written, following if value is None else value
        return last

    def _more_words(self) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(self.environment.get(self.grammar.words_in, "")))
        except ValueError:
            return ()  # the program will say so

    def _variables(self, names: tuple[str, ...]) -> list[str]:
        """Those that are set."""
        return [name for name in map(self.grammar.variable, names) if name and name in self.environment]

    def without(self, *names: str) -> tuple[str, ...]:
        """The words without these options, each of which takes a value."""
        kept: list[str] = []
        words = iter(self.words)
        for word in words:
            if word == "--":
                kept += [word, *words]
                break
            before = ""
            for written, value in self.grammar.options_of(word):
                if any(self.grammar.stands_for(written, name) for name in names):
                    kept += [f"-{before}"] if before else []
                    if value is None:
                        next(words, None)
                    break
                before += written.removeprefix("-")
            else:
                kept.append(word)
        return tuple(kept)
