"""Classes of a service record: forms, settings, probes, and the parsing of the service's command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tuner.core.domain.service import Gate, OsThreads, Programs, Workers

# Parsing of a user's command, with its options found as the program's own parser finds them.

_OFF = frozenset({"", "0", "f", "false", "n", "no", "off"})


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules of a program's option parser: argparse, optparse, click and getopt_long differ.

    All of them accept ``--workers 3``, ``--workers=3``, ``-w 3`` and ``-w3``.
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
        """Yield the options in *word*, each with its value in the word; None: the value is not in it."""
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
        """Return whether the option *written* stands for the option *name*.

        A prefix that several options share matches each of them: the program itself rejects it, so nothing is
        measured. Therefore no list of all options is needed, which would change with every release.
        """
        if written == name or not self.abbreviations or written in self.whole:
            return written == name
        return name.startswith("--") and len(written) > 2 and name.startswith(written)

    def variable(self, name: str) -> str | None:
        """Return the variable from which the option *name* is read; None: there is none."""
        if not self.prefix or not name.startswith("--"):
            return None
        return self.prefix + name[2:].upper().replace("-", "_")


#: returns the text of a file, by its path in the service's folder; None: it cannot be read
ReadFile = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options that a service's configuration file sets, as far as tuner can read them."""

    name: str  #: name of the file, as in the command
    values: Mapping[str, str]  #: text of each option, as in a command
    unclear: frozenset[str] = frozenset()  #: options that code in the file computes

    def value(self, *names: str) -> str | None:
        """Return the value of an option by its *names*; None: the file does not set it, or computes it."""
        return next((self.values[name] for name in names if name in self.values), None)


@dataclass(frozen=True, slots=True)
class Command:
    """The user's command, parsed without running it or reading a file."""

    words: tuple[str, ...]  #: from its program on, without what starts that (``uv run``, ``python -m``)
    environment: Mapping[str, str] = field(default_factory=dict)  #: what it will find, tuner's own included
    given: Mapping[str, str] = field(default_factory=dict)  #: the record's settings that the user has set
    is_module: bool = False  #: the first of the words names a module, which Python runs
    file: FileOptions | None = None  #: the options in its configuration file; None: it has none that is known
    grammar: Grammar = field(default_factory=Grammar)  #: the record's

    def option(self, *names: str) -> str | None:
        """Return the value of an option by its *names* (``-w``, ``--workers``), the last if it is
        repeated.
        """
        return self._in(self.words, names)[1]

    def has(self, *names: str) -> bool:
        """Return whether the words contain one of the options."""
        return self.option(*names) is not None

    def said(self, *names: str) -> str | None:
        """Return the same as `option`, else the value of the variables or of the file that it reads."""
        for words in (self.words, self._more_words()):
            if (found := self._in(words, names)[1]) is not None:
                return found
        variables = (self.environment[name] for name in self._variables(names))
        return next(variables, None if self.file is None else self.file.value(*names))

    def said_by(self, *names: str) -> str | None:
        """Return the name of the option as written, or of the variable or file that sets it."""
        if (written := self._in(self.words, names)[0]) is not None:
            return written
        if (written := self._in(self._more_words(), names)[0]) is not None:
            return f"{self.grammar.words_in} with {written}"
        on = (name for name in self._variables(names) if self.environment[name].lower() not in _OFF)
        in_file = None if self.file is None else self.file.value(*names)
        return next(on, self.file.name if self.file and in_file and in_file.lower() not in _OFF else None)

    def _in(self, words: tuple[str, ...], names: tuple[str, ...]) -> tuple[str | None, str | None]:
        """Return the last of the options among *words*, as written, and its value."""
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
            return ()  # the program itself will reject it

    def _variables(self, names: tuple[str, ...]) -> list[str]:
        """Return the variables that are set."""
        return [name for name in map(self.grammar.variable, names) if name and name in self.environment]

    def without(self, *names: str) -> tuple[str, ...]:
        """Return the words without these options, each of which takes a value."""
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


GIVEN = "<given>"  #: in a flag of `Told`
Section = Mapping[str, Any]  #: a part of a config, as YAML would give it: mappings, lists, texts


@dataclass(frozen=True, slots=True)
class Told:
    """Settings passed to a service by its environment, which keeps its command unchanged, or by flags.

    Flags are appended to the command, because the last one wins. They are used if there is no variable, or if
    the command itself sets the option, so that the variable would have no effect.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  #: `GIVEN` in one stands for the value that the command has for *set_by*
    set_by: tuple[str, ...] = ()  #: options of the command that variables lose against
    besides: Mapping[str, str] = field(default_factory=dict)  #: variables that flags do not stand for
    #: version of the service's package that first accepts it; with an older or unknown one it is left out
    since: tuple[int, ...] = ()

    def by_flags(self, command: Command) -> bool:
        """Return whether *command* needs the flags."""
        return bool(self.flags) and (not self.environment or command.has(*self.set_by))


@dataclass(frozen=True, slots=True)
class QueueWords:
    """A command line and variables that make a service read one queue only."""

    words: tuple[str, ...]
    environment: Mapping[str, str]  #: these variables are set, or replaced


@dataclass(frozen=True, slots=True)
class Form:
    """One mapping of a layout to processes: a pool of Celery, a worker class of gunicorn.

    Several forms in one study are variants: layouts are ``4x6@NAME``.
    """

    name: str
    summary: str
    layout: Told  #: the numbers of processes and threads, as fields: ``{processes}``, ``{threads}``
    #: what the layout's threads are (threads, greenlets, pool processes); empty: there are none to choose
    threads: str = ""
    #: the command's words in this form, before the layout's flags; None: this form cannot be made of them
    words: Callable[[Command], tuple[str, ...] | None] = lambda command: command.words
    programs: Programs = "one"
    workers: Workers | None = None  #: None: the children of the one program, else the programs
    ready: Section | None = None  #: as ``service.ready``
    stop: Section = field(default_factory=dict)  #: as ``service.stop``
    max_extra_threads: int | None = None
    os_threads: OsThreads | None = None  #: when the layout's threads start; None: they are none of the system
    loses: str = ""  #: what a stop loses, where it cannot be helped; told before a study
    event_loop: bool = False  #: a process works on as many requests as come
    #: what it is on a Python whose GIL is off, where its workers are no processes then; None: the same
    without_gil: Form | None = None

    def section(self) -> dict[str, Any]:
        """Return the service keys that this form sets, without command and environment."""
        section: dict[str, Any] = {
            "threads": "yes" if self.threads else "no",
            "programs": self.programs,
        }
        if self.event_loop:
            section["event_loop"] = "yes"
        if self.workers is not None:
            section["workers"] = self.workers
        if self.ready is not None:
            is_counted = self.ready["kind"] == "log" and self.programs == "one"
            of_each = "threads" if self.workers == "threads" else "processes"
            section["ready"] = {**({"count": of_each} if is_counted else {}), **self.ready}
        if self.stop:
            section["stop"] = dict(self.stop)
        if self.max_extra_threads is not None:
            section["max_extra_threads"] = str(self.max_extra_threads)
        if self.os_threads is not None:
            section["os_threads"] = self.os_threads
        return section


@dataclass(frozen=True, slots=True)
class Setting:
    """A fact about the user's service that a record needs: its address, its queue."""

    name: str  #: a key of the config's service section, beside those of every service
    summary: str
    #: in the command or its environment; empty: it is told there, but not so that tuner can use it
    find: Callable[[Command], str | None] = lambda _command: None
    default: str | None = None  #: None: it can be left out only where nothing needs it
    needed: str = ""  #: what to tell who leaves it out, where tuner's feeder needs it

    def value(self, command: Command) -> str | None:
        """Return the user's value, else the one found in the command, else the default."""
        if self.name in command.given:
            return command.given[self.name]
        found = self.find(command)
        return self.default if found is None else found or None


@dataclass(frozen=True, slots=True)
class Counted:
    """One way to count the items that the service finishes."""

    name: str  #: what ``probe`` of the service names; the kind of probe, most often
    counts: str  #: what an item is: "requests answered, with their status"
    costs: str  #: of the service, as it was measured: "nothing per item"
    section: Callable[
        [Command, Mapping[str, str]], Section
    ]  #: of the command and the settings: ``service.probe``
    told: Told = field(default_factory=Told)  #: what the service needs to be told for it
    forms: tuple[str, ...] = ()  #: those that it counts; empty: every one
    counts_too: str = ""  #: what it takes for items that are none, as it cannot tell; printed before a study
    #: whether it counts the items of this command; the user may name it all the same
    works: Callable[[Command], bool] = lambda _command: True
    cost_warning: str = ""  #: told before a study, where counting costs the service over 1 % of an item


@dataclass(frozen=True, slots=True)
class Service:
    """A known service. Third parties register theirs by an entry point in the group ``tuner.services``."""

    name: str  #: the ``kind`` of a config's service
    summary: str
    page: str  #: of tuner's documentation, or a URL
    example: str  #: a command, as a user would type it
    commands: tuple[str, ...]  #: the programs that it is known by
    forms: tuple[Form, ...]  #: the first is for a command that asks for none
    probes: tuple[Counted, ...]  #: the first that counts the form is used unless the user names another
    form_of: Callable[[Command], str | None] = lambda _command: None  #: the form that the command asks for
    other_form: str = ""  #: advice for a command that asks for another form
    grammar: Grammar = field(default_factory=Grammar)  #: how its parser reads the command's options
    #: reads the options in the command's configuration file
    of_file: Callable[[Command, ReadFile], FileOptions | None] = lambda _command, _read: None
    #: options of the file for which a warning is printed if code computes them, and the option to add
    warned_if_computed: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[Setting, ...] = ()
    #: what feeds it, from the settings; None: nothing does, and *unfed* says what the user has to do
    feeder: Callable[[Command, Mapping[str, str]], Section | None] = lambda _command, _settings: None
    unfed: str = ""
    #: the queues that the words of a command name; None: they name none, and the application says which
    reads: Callable[[Command], tuple[str, ...] | None] = lambda _command: None
    #: tells a command that names no queue to read one, by its name; None: it has no option for that
    told_queue: Callable[[str], Told] | None = None
    #: changes a command to read only the queue of this name, which is not the application's; None: the
    #: application names its queues. None as a result: this command cannot be changed so
    at_queue: Callable[[Command, str], QueueWords | None] | None = None
    #: seconds after which a worker that had nothing to do looks into its queue again; 0: it waits for items
    looks_every_s: float = 0.0
    #: variables that several speakers write to, blank between: what is there already is kept before it
    joined: tuple[str, ...] = ()
    separators: Mapping[str, str] = field(default_factory=dict)  #: what stands between instead, by variable
    #: variables that tell programs apart that share a box, in production, with ``{process}``
    names: Mapping[str, str] = field(default_factory=dict)
    #: whether it logs the lines that its forms' ready checks wait for; else nothing is waited for
    logs: Callable[[Command], bool] = lambda _command: True
    package: str = ""  #: Python package whose version decides about a `Told.since`
    refused: Mapping[str, str] = field(default_factory=dict)  #: options it cannot be measured with, and why
    always: Told = field(default_factory=Told)  #: in every form: names and files that are unique per launch
    measuring_only: tuple[str, ...] = ()  #: variables and flags of *always* that are left out in production
    in_production: str = ""  #: what to mind there beside the layout, a sentence; may have ``{threads}``
    #: the command's words as they are there, where a form replaces some to measure
    production_words: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda words: words
    #: the same for a program that shares its network with no other, where those of one host have to differ
    alone_words: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None
    gate: Gate = "none"  #: how a launch that stays resident while others work is made idle
    gate_reason: str = "Its record names no gate that is safe."  #: why that gate, in a sentence
    #: keeps idle connections open, such as those of a launch between its slices; None: the server does
    idle_connections: Told | None = None
    advice: tuple[str, ...] = ()  #: what its own documentation says of sizes, and pitfalls of measuring it

    def counted_by(self, *forms: str, command: Command | None = None) -> Counted | None:
        """Return the default probe that counts all of *forms* of *command* (None: of a usual one).

        None: no probe counts them together.
        """
        counting = (one for one in self.probes if not one.forms or set(forms) <= set(one.forms))
        return next((one for one in counting if command is None or one.works(command)), None)

    def separator(self, variable: str) -> str:
        """Return the separator between the parts of a joined *variable*."""
        return self.separators.get(variable, " ")

    @property
    def every_form(self) -> tuple[Form, ...]:
        """Return the forms, and their replacements on a Python whose GIL is off."""
        return (*self.forms, *(one.without_gil for one in self.forms if one.without_gil is not None))

    def form(self, name: str) -> Form | None:
        """Return the form *name*; None: there is none."""
        return next((form for form in self.forms if form.name == name), None)
