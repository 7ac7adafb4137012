"""What a script's command has to say, and its files: how many threads, who counts."""

from __future__ import annotations

import os
import shutil
import string
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError
from tuner.doctor.service import CounterSeen, ThreadsSeen

if TYPE_CHECKING:
    from tuner.config.settings import Settings

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
