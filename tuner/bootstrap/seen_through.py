"""A command without its wrappers and shell scripts, and what its files show about threads and counting."""

from __future__ import annotations

import os
import re
import shutil
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError
from tuner.core.text.command_words import SHELLS, CommandWords, parse_command, shell_script
from tuner.doctor.service import CounterSeen, ThreadsSeen

if TYPE_CHECKING:
    from tuner.config.settings import Settings
    from tuner.services.record import Service

_LONGEST_SCRIPT = 1 << 16
_TITLE = re.compile(r"\[?([\w-]+): ")
_FIELD = re.compile(r"\{(?:processes|threads|process)\}")


@dataclass(frozen=True, slots=True)
class Behind:
    """What a command starts."""

    words: tuple[str, ...]  #: the command, each shell in it replaced by what its text ends with
    taken: CommandWords  #: the same, taken apart
    service: Service | None  #: the known one that it starts
    hidden: Service | None = None  #: one that it starts in a way that tuner cannot tell it a layout
    why: str = ""  #: why not, as a clause


def find_service_command(
    words: Sequence[str], environment: Mapping[str, str] | None, folder: Path, service: Service | None = None
) -> Behind:
    """What the command *words* starts.

    Args:
        words: the command.
        environment: for variables in a shell's text; None: they stay as they are written.
        folder: where scripts are looked for.
        service: what the user says that it is; None: it is looked for.
    """
    taken = parse_command(words, environment)
    text = ""
    script = None if _known(taken.program, service) is not None else _script(taken.words, folder)
    if script is not None:
        text = script[1]
        through = parse_command((*taken.before, *taken.interpreter, *script[0]), environment)
        if _known(through.program, service) is not None or through.obstacle:
            taken = CommandWords(
                through.before,
                through.interpreter,
                through.words,
                through.program,
                {**taken.assigned, **through.assigned},
                taken.is_run or through.is_run,
                through.has_setup,
                through.hides_environment,
                through.is_as_user,
                through.obstacle,
            )
    found = _known(taken.program, service)
    if found is None and taken.obstacle and _FIELD.search(" ".join(words)) is None:
        text = text or " ".join(taken.words)
        if service is None or not _hears_by_environment(service, text):
            return Behind(tuple(words), taken, None, _named_in(text, service), taken.obstacle)
    if found is None:
        return Behind(_with_env(words), taken, None)
    assigned = [f"{name}={value}" for name, value in taken.assigned.items()]
    return Behind((*(["env", *assigned] if assigned else []), *taken.whole), taken, found)


def known_service_of(words: Sequence[str]) -> str:
    """The name of the known service that a process with this command line is; empty: none.

    Some write a title over it: ``gunicorn: master [app:app]``, ``[celeryd: celery@host:MainProcess]``.
    """
    title = _TITLE.match(words[0]) if words else None
    programs = [title[1], title[1].removesuffix("d")] if title else [parse_command(words).program]
    found = next((one for program in programs if (one := _known(program, None))), None)
    return "" if found is None else found.name


def named_later(words: Sequence[str]) -> Service | None:
    """A known service whose program is one of the later *words* of a command."""
    return next((found for word in words[1:] if (found := _known(PurePath(word).name, None))), None)


def _with_env(words: Sequence[str]) -> tuple[str, ...]:
    """*words* with ``env`` before the assignments that they begin with, as no shell runs them."""
    taken = parse_command(words[:2])
    return ("env", *words) if words and taken.assigned and PurePath(words[0]).name != "env" else tuple(words)


def _known(program: str, service: Service | None) -> Service | None:
    from tuner.services.catalogue import known_services

    if service is None:
        return known_services().started_by(program)
    return service if program in service.commands else None


def _named_in(text: str, service: Service | None) -> Service | None:
    found = (_known(word, service) for word in re.findall(r"[\w.-]+", text))
    return next((one for one in found if one is not None), None)


def _hears_by_environment(service: Service, text: str) -> bool:
    """Whether variables tell *service* its layout, and nothing in the *text* that starts it goes before."""
    reported = [form.layout for form in service.forms]
    written = set(re.findall(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*", text))
    return all(one.environment and written.isdisjoint(one.set_by) for one in reported)


def _script(words: Sequence[str], folder: Path) -> tuple[list[str], str] | None:
    """The words of a shell that is given the text of a script instead of its file, and that text."""
    if not words:
        return None
    at = shell_script(words)
    file = words[0 if at is None else at]
    path = Path(shutil.which(file) or file) if at is None and "/" not in file else folder / file
    try:
        if not path.is_file() or path.stat().st_size > _LONGEST_SCRIPT:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    first = text.partition("\n")[0]
    shell = list(words[:at]) if at is not None else _of_first_line(first)
    if not shell:
        return None
    return [*shell, "-c", text, file, *words[(at or 0) + 1 :]], text


def _of_first_line(line: str) -> list[str]:
    """The shell that the first line of a script names, with its options; empty: it names none."""
    if not line.startswith("#!"):
        return []
    words = line[2:].split()
    if words and PurePath(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    return words if words and PurePath(words[0]).name in SHELLS else []


def cannot_watch(taken: CommandWords) -> str:
    """Why tuner cannot measure what a command starts as another user, for a sentence; empty: it can."""
    if not taken.is_as_user or os.geteuid() == 0:
        return ""
    return (
        f"starts the service as another user by {taken.before[0]}: tuner can neither watch nor stop its"
        " processes; leave that out and start tuner as that user, or as root with user: NAME in a config"
    )


# What a script's command has to say, and its files: how many threads, who counts.


# Layouts that differ in their threads only, of a command that is not told how many.

READ_BY_PROGRAMS = ("TUNER_THREADS", "TUNER_LAYOUT")  #: variables that a program may read the number from


def find_alike(
    spec: ServiceSpec, layouts: Sequence[Layout], mentions: Callable[[ServiceSpec], bool]
) -> tuple[Layout, Layout] | None:
    """Two of *layouts* whose processes the service *spec* starts alike, whatever threads they should have.

    None: each is told its threads, in its command or environment, or *mentions* that it reads the variable.
    """
    for variant in dict.fromkeys(layout.variant for layout in layouts if layout.has_threads):
        of_variant = [layout for layout in layouts if layout.has_threads and layout.variant == variant]
        other = next((one for one in of_variant if one.threads != of_variant[0].threads), None)
        if other is None:
            continue  # one number of threads: the command may well have it
        own = spec.of(of_variant[0])
        if not _is_given_threads(own) and not mentions(own):
            return of_variant[0], other
    return None


def _is_given_threads(spec: ServiceSpec) -> bool:
    words = (*spec.command, *spec.environment.values())
    return any(name == "threads" for word in words for _, name, _, _ in string.Formatter().parse(word))


_COUNTERS = ("tuner.probe", "TUNER_COUNTER")  #: what counts its items has one of these in its source


def check_thread_options(settings: Settings, spec: ServiceSpec, layouts: Sequence[Layout]) -> None:
    """See that layouts with different threads are started differently.

    Raises:
        ConfigError: they are not, as far as the command and its files show.
    """
    for seen in threads_seen(settings, spec, layouts):
        if seen.problem:
            raise ConfigError(f"service.command: {seen.problem}", hint=seen.cure)


def threads_seen(settings: Settings, spec: ServiceSpec, layouts: Sequence[Layout]) -> Iterator[ThreadsSeen]:
    """Whether a script is told its threads; nothing of a known service, which its record tells."""
    if settings.service.kind != "script" or settings.service.record is not None:
        return
    if any(layout.has_threads for layout in layouts):
        alike = find_alike(spec, layouts, lambda own: _mention(own, *READ_BY_PROGRAMS))
        yield ThreadsSeen(spec.command, alike)


def counter_seen(settings: Settings, spec: ServiceSpec) -> Iterator[CounterSeen]:
    """Whether a script that should count its own items has a line that does."""
    service = settings.service
    if service.kind != "script" or service.record is not None or not service.probe.needs_own_code:
        return
    yield CounterSeen(spec.command, all(_mention(own, *_COUNTERS) for own in spec.each_variant))


def _mention(spec: ServiceSpec, *texts: str) -> bool:

    words = (*spec.command, *spec.environment.values())
    return mentions(words, Path(spec.directory or "."), *texts)


# What the files of a command mention: its script, its modules, and what lies beside them.


_MOST_FILES = 500  #: beside a script, or in a package
_MOST_BYTES = 1 << 20  #: of one file
_SOURCES = frozenset({".py", ".sh", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".env", ".json"})


def mentions(words: Sequence[str], directory: Path, *texts: str) -> bool:
    """Whether a word of the command, or a source file that belongs to it, holds one of *texts*.

    Looked at are the files that the words name (the module after ``-m``, too), and the sources that lie in
    the same folders. What they import from elsewhere is not.
    """
    wanted = [text.encode() for text in texts]
    if any(text in word for word in words for text in texts):
        return True
    return any(_holds(file, wanted) for file in _files(words, directory))


def _files(words: Sequence[str], directory: Path) -> Iterator[Path]:
    named = []
    for word in words:
        for path in _named_by(word, directory):
            if os.path.isdir(path):  # False as well where nobody may look
                yield from _sources(path)
            elif os.path.isfile(path):
                named.append(path)
    yield from named
    if program := shutil.which(words[0], path=None):
        yield Path(program)
    folders = {path.parent for path in named if path.suffix in _SOURCES or directory in path.parents}
    for folder in sorted(folders):
        yield from _sources(folder)


def _named_by(word: str, directory: Path) -> Iterator[Path]:
    """The path that *word* is, or the module ``a.b`` of ``a.b`` and of ``a.b:app``."""
    if not word or len(word) > 1000 or "\0" in word:
        return
    yield directory / word
    module = word.partition(":")[0]
    if module.replace(".", "").isidentifier():
        path = directory.joinpath(*module.split("."))
        yield path.with_name(f"{path.name}.py")


def _sources(folder: Path) -> Iterator[Path]:
    try:
        listed = list(folder.iterdir())
    except OSError:  # nothing is known of a folder that may not be read
        return
    found = (path for path in listed if path.suffix in _SOURCES and os.path.isfile(path))
    yield from islice(found, _MOST_FILES)


def _holds(file: Path, texts: Sequence[bytes]) -> bool:
    """Not a program of the machine's: no worker of the user's is one."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            return False
        content = file.read_bytes()
    except OSError:
        return False
    return any(text in content for text in texts)
