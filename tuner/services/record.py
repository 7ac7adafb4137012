"""Classes of a service record: forms, settings, probes, and the parsed command of the service."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tuner.core.domain.service import Gate, OsThreads, Programs, Workers

# The user's command, with its options found in the same way as by the program's own parser.

_OFF = frozenset({"", "0", "f", "false", "n", "no", "off"})


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules of a program's option parser: argparse, optparse, click and getopt_long differ.

    All of them accept ``--workers 3``, ``--workers=3``, ``-w 3`` and ``-w3``.
    """

    #: whether the parser accepts shortened long options (argparse, optparse, getopt_long; not click)
    abbreviations: bool = False
    #: complete options that are also the beginning of a longer option; they are no abbreviations
    whole: tuple[str, ...] = ()
    #: letters of options without a value; other options may follow in the same word (``-Dw4``)
    switches: str = ""
    #: prefix of the variables that set options (UVICORN_WORKERS sets --workers); empty: no variables
    prefix: str = ""
    #: variable that contains more options; options in the command win; empty: no such variable
    words_in: str = ""

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

    words: tuple[str, ...]  #: the program and its arguments, without ``uv run`` or ``python -m``
    environment: Mapping[str, str] = field(default_factory=dict)  #: its variables, including tuner's
    given: Mapping[str, str] = field(default_factory=dict)  #: settings of the record that the user set
    is_module: bool = False  #: whether the first word is a module, started with ``python -m``
    file: FileOptions | None = None  #: options in its configuration file; None: no readable file
    grammar: Grammar = field(default_factory=Grammar)  #: rules of the record's option parser

    def option(self, *names: str) -> str | None:
        """Return the value of an option by its *names* (``-w``, ``--workers``), the last if it is
        repeated.
        """
        return self._in(self.words, names)[1]

    def has(self, *names: str) -> bool:
        """Return whether the words contain one of the options."""
        return self.option(*names) is not None

    def value(self, *names: str) -> str | None:
        """Return the value of an option in the command, in variables or in the configuration file.

        The command wins over the variables, and the variables over the file.
        """
        for words in (self.words, self._more_words()):
            if (found := self._in(words, names)[1]) is not None:
                return found
        variables = (self.environment[name] for name in self._variables(names))
        return next(variables, None if self.file is None else self.file.value(*names))

    def source(self, *names: str) -> str | None:
        """Return the option as written, or the variable or file that sets it; None: it is not set."""
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


#: in a flag of `Arguments`: replaced with the command's value of *set_by* and a comma; removed if it has none
GIVEN = "<given>"
Section = Mapping[str, Any]  #: part of a config: mappings, lists and texts, as read from YAML


@dataclass(frozen=True, slots=True)
class Arguments:
    """Settings passed to a service by variables, which leave its command unchanged, or by flags.

    tuner uses flags if there are no variables, or if the command itself sets the option, because the command
    wins over variables. tuner appends flags to the command, because the last one wins.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  #: may contain `GIVEN`
    set_by: tuple[str, ...] = ()  #: options of the command that win over the variables
    #: variables that are set in both cases
    more_environment: Mapping[str, str] = field(default_factory=dict)
    #: first version of the package that accepts these arguments; not used with older or unknown versions
    since: tuple[int, ...] = ()

    def by_flags(self, command: Command) -> bool:
        """Return whether *command* needs the flags."""
        return bool(self.flags) and (not self.environment or command.has(*self.set_by))


@dataclass(frozen=True, slots=True)
class QueueWords:
    """A command line and variables that make a service read one queue only."""

    words: tuple[str, ...]
    environment: Mapping[str, str]  #: variables to set or replace


@dataclass(frozen=True, slots=True)
class Form:
    """One way to start a layout: a pool of Celery, a worker class of gunicorn.

    Several forms in one study are variants: layouts are ``4x6@NAME``.
    """

    name: str
    summary: str
    layout: Arguments  #: arguments for the layout, with the fields ``{processes}`` and ``{threads}``
    #: name of the layout's threads (threads, greenlets, pool processes); empty: T is always 1
    threads: str = ""
    #: returns the command's words for this form, without the layout's flags; None: it cannot run in this form
    words: Callable[[Command], tuple[str, ...] | None] = lambda command: command.words
    programs: Programs = "one"
    workers: Workers | None = None  #: None: the children of the program if it is one, else the programs
    #: first version of the package whose single worker is a child; before, it is the program itself
    child_since: tuple[int, ...] = ()
    ready: Section | None = None  #: the config's ``service.ready``
    stop: Section = field(default_factory=dict)  #: the config's ``service.stop``
    max_extra_threads: int | None = None
    os_threads: OsThreads | None = None  #: when its threads start; None: they are no operating-system threads
    loses: str = ""  #: items that every stop loses; printed before a study
    event_loop: bool = False  #: whether a process accepts any number of requests at a time
    #: form to use on a Python without the GIL, if its workers are no processes there; None: this form
    without_gil: Form | None = None

    def in_version(self, version: tuple[int, ...]) -> Form:
        """Return the form in a *version* of the package; empty: unknown."""
        is_old = () < version < self.child_since
        return replace(self, workers="children-if-several") if is_old else self

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
    """A property of the user's service, such as its address or its queue."""

    name: str  #: key in the config's section ``service``
    summary: str
    #: returns its value in the command; None: not found; empty: found, but tuner cannot use it
    find: Callable[[Command], str | None] = lambda _command: None
    default: str | None = None  #: None: no default
    needed: str = ""  #: reason to print if it is missing, but tuner's feeder needs it

    def value(self, command: Command) -> str | None:
        """Return the user's value, else the one found in the command, else the default."""
        if self.name in command.given:
            return command.given[self.name]
        found = self.find(command)
        return self.default if found is None else found or None


@dataclass(frozen=True, slots=True)
class Counted:
    """One way to count the items that the service finishes."""

    name: str  #: value of ``service.probe``, usually the kind of probe
    counts: str  #: description of an item: "requests answered, with their status"
    costs: str  #: measured cost for the service: "nothing per item"
    #: returns the config's ``service.probe`` for a command and the values of the settings
    section: Callable[[Command, Mapping[str, str]], Section]
    arguments: Arguments = field(default_factory=Arguments)  #: arguments that the service needs for it
    forms: tuple[str, ...] = ()  #: forms whose items it counts; empty: all
    counts_too: str = ""  #: events that it also counts, but which are no items; printed before a study
    #: whether tuner may choose it for this command; the user may always choose it
    works: Callable[[Command], bool] = lambda _command: True
    cost_warning: str = ""  #: warning before a study, if counting may cost the service over 1 % of an item


@dataclass(frozen=True, slots=True)
class Service:
    """A known service. Other packages add services by entry points in the group ``tuner.services``."""

    name: str  #: value of ``service.kind`` in a config
    summary: str
    page: str  #: file of tuner's documentation, or a URL
    example: str  #: example of a command
    commands: tuple[str, ...]  #: names of its programs
    forms: tuple[Form, ...]  #: the first is the default
    probes: tuple[Counted, ...]  #: the default is the first one that counts the form
    #: returns the name of the form in the command; None: the command sets none
    form_of: Callable[[Command], str | None] = lambda _command: None
    other_form: str = ""  #: advice for a command with a form that is not in *forms*
    grammar: Grammar = field(default_factory=Grammar)  #: rules of its option parser
    #: returns the options in the command's configuration file; None: no readable file
    of_file: Callable[[Command, ReadFile], FileOptions | None] = lambda _command, _read: None
    #: options for which tuner warns if code in the file computes them; the value is the option to add
    warned_if_computed: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[Setting, ...] = ()
    #: returns the config's ``feeder`` for the values of the settings; None: tuner cannot feed it
    feeder: Callable[[Command, Mapping[str, str]], Section | None] = lambda _command, _settings: None
    unfed: str = ""  #: what the user must do if tuner does not feed it
    #: returns the queues in the command; None: the application sets them
    reads: Callable[[Command], tuple[str, ...] | None] = lambda _command: None
    #: returns arguments that make a command without a queue read this queue; None: no such option
    queue_arguments: Callable[[str], Arguments] | None = None
    #: returns the command with this queue instead of the application's, or None for a command where this is
    #: not possible; None: only the application sets its queues
    at_queue: Callable[[Command, str], QueueWords | None] | None = None
    #: Redis key of the probe for each queue, with ``{queue}``; empty: its keys do not contain the queue
    probe_key: str = ""
    #: seconds between checks of an empty queue by an idle worker; 0: new items wake it at once
    poll_interval_s: float = 0.0
    #: variables to which tuner appends its value, after a blank, instead of replacing the user's value
    joined: tuple[str, ...] = ()
    separators: Mapping[str, str] = field(default_factory=dict)  #: other separators than a blank, by variable
    #: variables with ``{process}`` that give each program of a host a unique name in production
    names: Mapping[str, str] = field(default_factory=dict)
    #: whether the command logs the lines of its ready checks; if not, tuner does not wait for them
    logs: Callable[[Command], bool] = lambda _command: True
    #: pattern of the log line of each worker process that starts, its pid as group 1; empty: unknown
    worker_pid: str = ""
    package: str = ""  #: Python package of the versions in `Arguments.since`, `Form` and *variables_since*
    #: first version of the package that reads the variables of `Arguments`; older ones get the flags instead
    variables_since: tuple[int, ...] = ()
    #: options, and subcommands, that make a study impossible, and why
    refused: Mapping[str, str] = field(default_factory=dict)
    always: Arguments = field(default_factory=Arguments)  #: arguments of every form, such as unique names
    measuring_only: tuple[str, ...] = ()  #: variables and flags of *always* that production does not need
    #: advice for production, in addition to the layout: a sentence that may contain ``{threads}``
    in_production: str = ""
    #: returns the command's words for production, if a form changes them to measure
    production_words: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda words: words
    #: the same for a container, where a program shares no ports with the others; None: no difference
    alone_words: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None
    gate: Gate = "none"  #: how a started layout becomes idle between its slices
    gate_reason: str = "Its record names no gate that is safe."  #: reason for the gate, a sentence
    #: arguments that keep connections open between slices; None: the server keeps them open anyway
    idle_connections: Arguments | None = None
    advice: tuple[str, ...] = ()  #: sizes in its own documentation, and common mistakes

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
