"""What the files of a command mention: its script, its modules, and what lies beside them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

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
