"""A command without its wrappers and shell scripts, and checks of its files for threads and counting."""

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
    """A command without its wrappers, and the known service that it starts."""

    words: tuple[str, ...]  #: the command, with each shell replaced by the last command of its text
    taken: CommandWords  #: the same words, parsed
    service: Service | None  #: known service that the command starts
    #: known service that the command starts in a way in which tuner cannot set the layout
    hidden: Service | None = None
    why: str = ""  #: reason for `hidden`, as a clause


def find_service_command(
    words: Sequence[str], environment: Mapping[str, str] | None, folder: Path, service: Service | None = None
) -> Behind:
    """Find the service that the command *words* starts, behind wrappers and shell scripts.

    Args:
        words: the command.
        environment: values for variables in a shell's text; None: variables stay unexpanded.
        folder: the folder of relative script paths.
        service: the service that the user named; None: it is detected.
    """
    taken = parse_command(words, environment)
    text = ""
    script = None if _service_of(taken.program, service) is not None else _script(taken.words, folder)
    if script is not None:
        text = script[1]
        through = parse_command((*taken.before, *taken.interpreter, *script[0]), environment)
        if _service_of(through.program, service) is not None or through.obstacle:
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
    found = _service_of(taken.program, service)
    if found is None and taken.obstacle and _FIELD.search(" ".join(words)) is None:
        text = text or " ".join(taken.words)
        if service is None or not _hears_by_environment(service, text):
            return Behind(tuple(words), taken, None, _named_in(text, service), taken.obstacle)
    if found is None:
        return Behind(_with_env(words), taken, None)
    assigned = [f"{name}={value}" for name, value in taken.assigned.items()]
    return Behind((*(["env", *assigned] if assigned else []), *taken.whole), taken, found)


def known_service_of(words: Sequence[str]) -> str:
    """Return the name of the known service of a process with this command line; empty: none.

    Some services replace it by a title: ``gunicorn: master [app:app]``, ``[celeryd:
    celery@host:MainProcess]``.
    """
    title = _TITLE.match(words[0]) if words else None
    programs = [title[1], title[1].removesuffix("d")] if title else [parse_command(words).program]
    found = next((one for program in programs if (one := _service_of(program, None))), None)
    return "" if found is None else found.name


def named_later(words: Sequence[str]) -> Service | None:
    """Return a known service whose program is one of the *words* after the first; None: there is none."""
    return next((found for word in words[1:] if (found := _service_of(PurePath(word).name, None))), None)


def _with_env(words: Sequence[str]) -> tuple[str, ...]:
    """Put ``env`` before leading assignments in *words*, because no shell runs the command."""
    taken = parse_command(words[:2])
    return ("env", *words) if words and taken.assigned and PurePath(words[0]).name != "env" else tuple(words)


def _service_of(program: str, service: Service | None) -> Service | None:
    from tuner.services.catalogue import known_services

    if service is None:
        return known_services().started_by(program)
    return service if program in service.commands else None


def _named_in(text: str, service: Service | None) -> Service | None:
    found = (_service_of(word, service) for word in re.findall(r"[\w.-]+", text))
    return next((one for one in found if one is not None), None)


def _hears_by_environment(service: Service, text: str) -> bool:
    """Return whether *service* reads its layout from variables, and no option in *text* overrides them."""
    reported = [form.layout for form in service.forms]
    written = set(re.findall(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*", text))
    return all(one.environment and written.isdisjoint(one.set_by) for one in reported)


def _script(words: Sequence[str], folder: Path) -> tuple[list[str], str] | None:
    """Return a shell's words with the script's text in place of its file, and the text; None: no script."""
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
    """Return the shell in the first line of a script, with its options; empty: it names none."""
    if not line.startswith("#!"):
        return []
    words = line[2:].split()
    if words and PurePath(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    return words if words and PurePath(words[0]).name in SHELLS else []


#: programs that have the service started by a daemon, so that it does not belong to tuner's processes
_STARTED_ELSEWHERE = {
    **dict.fromkeys(
        ("docker", "docker-compose", "podman", "podman-compose", "nerdctl", "kubectl"),
        "in a container, where tuner can neither watch nor stop its processes: give the command that the"
        " container runs, and run tuner in that image (docs/containers.md)",
    ),
    "systemctl": "by the system's service manager, so that tuner can neither watch nor stop its processes:"
    " use the command of its unit, as tuner init --from UNIT.service does",
}


def started_elsewhere(taken: CommandWords) -> str:
    """Return, as a clause, how a daemon starts the processes of a command; empty: the command starts them."""
    where = _STARTED_ELSEWHERE.get(taken.program)
    return "" if where is None else f"{taken.program} starts the service {where}"


def cannot_watch(taken: CommandWords) -> str:
    """Return, as a clause, why tuner cannot watch the processes of a command; empty: it can."""
    if why := started_elsewhere(taken):
        return why
    if not taken.is_as_user or os.geteuid() == 0:
        return ""
    return (
        f"starts the service as another user by {taken.before[0]}: tuner can neither watch nor stop its"
        " processes; leave that out and start tuner as that user, or as root with user: NAME in a config"
    )


# Checks of a script's command and files: its number of threads, and its counting of items.


# Layouts that differ in their threads only, although the command does not get their number.

#: variables from which a program may read the number of threads
READ_BY_PROGRAMS = ("TUNER_THREADS", "TUNER_LAYOUT")


def find_alike(
    spec: ServiceSpec, layouts: Sequence[Layout], mentions: Callable[[ServiceSpec], bool]
) -> tuple[Layout, Layout] | None:
    """Return two of *layouts* that *spec* starts alike although their numbers of threads differ.

    None: each gets its threads in its command or environment, or *mentions* finds that it reads the variable.
    """
    for variant in dict.fromkeys(layout.variant for layout in layouts if layout.has_threads):
        of_variant = [layout for layout in layouts if layout.has_threads and layout.variant == variant]
        other = next((one for one in of_variant if one.threads != of_variant[0].threads), None)
        if other is None:
            continue  # one number of threads: the command may contain it
        own = spec.of(of_variant[0])
        if not _is_given_threads(own) and not mentions(own):
            return of_variant[0], other
    return None


def _is_given_threads(spec: ServiceSpec) -> bool:
    words = (*spec.command, *spec.environment.values())
    return any(name == "threads" for word in words for _, name, _, _ in string.Formatter().parse(word))


#: a program that counts its items has one of these texts in its source
_COUNTERS = ("tuner.probe", "TUNER_COUNTER")


def check_thread_options(settings: Settings, spec: ServiceSpec, layouts: Sequence[Layout]) -> None:
    """Check that layouts with different numbers of threads are started differently.

    Raises:
        ConfigError: they are started alike, according to the command and its files.
    """
    for seen in check_threads(settings, spec, layouts):
        if seen.problem:
            raise ConfigError(f"service.command: {seen.problem}", hint=seen.cure)


def check_threads(settings: Settings, spec: ServiceSpec, layouts: Sequence[Layout]) -> Iterator[ThreadsSeen]:
    """Yield the check of whether a script gets its number of threads; none for a known service."""
    if settings.service.kind != "script" or settings.service.record is not None:
        return
    if any(layout.has_threads for layout in layouts):
        alike = find_alike(spec, layouts, lambda own: _mention(own, *READ_BY_PROGRAMS))
        yield ThreadsSeen(spec.command, alike)


def check_counter(settings: Settings, spec: ServiceSpec) -> Iterator[CounterSeen]:
    """Yield the check of whether a script that must count its own items contains code for that."""
    service = settings.service
    if service.kind != "script" or service.record is not None or not service.probe.needs_own_code:
        return
    yield CounterSeen(spec.command, all(_mention(own, *_COUNTERS) for own in spec.each_variant))


def _mention(spec: ServiceSpec, *texts: str) -> bool:

    words = (*spec.command, *spec.environment.values())
    return mentions(words, Path(spec.directory or "."), *texts)


# Texts in the files of a command: its script, its modules, and sources in the same folders.


_MOST_FILES = 500  #: files that are searched: those in the script's folder, or in its package
_MOST_BYTES = 1 << 20  #: largest size of a file that is searched
_SOURCES = frozenset({".py", ".sh", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".env", ".json"})


def mentions(words: Sequence[str], directory: Path, *texts: str) -> bool:
    """Return whether a word of the command, or a source file that belongs to it, contains one of *texts*.

    It reads the files that the words name (also the module after ``-m``), and the sources in the same
    folders, but no imports from elsewhere.
    """
    wanted = [text.encode() for text in texts]
    if any(text in word for word in words for text in texts):
        return True
    return any(_holds(file, wanted) for file in _files(words, directory))


def _files(words: Sequence[str], directory: Path) -> Iterator[Path]:
    named = []
    for word in words:
        for path in _named_by(word, directory):
            if os.path.isdir(path):  # False also without permission
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
    """Yield the path that *word* names, and the file of module ``a.b`` for ``a.b`` or ``a.b:app``."""
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
    except OSError:  # a folder without read permission has no known sources
        return
    found = (path for path in listed if path.suffix in _SOURCES and os.path.isfile(path))
    yield from islice(found, _MOST_FILES)


def _holds(file: Path, texts: Sequence[bytes]) -> bool:
    """Return whether *file* contains one of *texts*; False for large files, such as system programs."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            return False
        content = file.read_bytes()
    except OSError:
        return False
    return any(text in content for text in texts)
