"""The commands that a start file contains, and their places in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import looks_secret

Where = Callable[[int], str]  #: of a place in a text: ``file:line:column``
#: stands before and after what only a shell can compute, as ``$(nproc)``; no word of a command has it
COMPUTED = "\0"


def fixed_place(place: str) -> Where:
    """Return a `Where` that gives the same *place* for each offset."""
    return lambda _: place


@dataclass(frozen=True, slots=True)
class Started:
    """One process that a file starts, as written there: its paths need not exist on this host."""

    name: str
    at: str  #: ``file:line:column`` of its command
    words: tuple[str, ...] = ()
    is_image: bool = False  #: it runs in a container
    n_entrypoint: int = 0  #: so many of the words are an image's entrypoint, which gets the others
    environment: Mapping[str, str] = field(default_factory=dict)  #: that the file gives it
    directory: str | None = None  #: it runs there; None: in *folder*
    folder: Path = Path()  #: stands for *directory* where that is not there
    mounts: Mapping[str, Path] = field(default_factory=dict)  #: folders of a container -> those of this host
    copies: int = 1  #: of this process
    notes: tuple[str, ...] = ()  #: what tuner leaves out or replaces, each a sentence without its full stop
    hosts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  #: containers -> published ports
    error: ConfigError | None = None  #: why its command cannot be used
    by_name_only: bool = False  #: it is not started unless somebody names it
    has_secret: bool = False  #: a secret is among the words, from a variable


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a file."""

    name: str  #: the file, as the user named it
    text: str
    path: Path

    @property
    def folder(self) -> Path:
        """The absolute path of the folder that contains the file."""
        return self.path.absolute().parent

    def at(self, offset: int) -> str:
        """Return ``file:line:column`` of an offset in the text."""
        line_start = self.text.rfind("\n", 0, offset) + 1
        return f"{self.name}:{self.text.count(chr(10), 0, offset) + 1}:{offset - line_start + 1}"

    def error(self, offset: int, problem: str, hint: str) -> ConfigError:
        """Make an error for the place at *offset* of the text."""
        return ConfigError(f"{self.at(offset)}: {problem}", hint=hint)


@dataclass(frozen=True, slots=True)
class Joined:
    """Several lines joined to one text, with the offset of each character in the file."""

    text: str
    offsets: Sequence[int]  #: one more than characters

    def part(self, start: int, end: int | None = None) -> Joined:
        """Return the part from *start* to *end*, without blanks around it."""
        end = len(self.text) if end is None else end
        while start < end and self.text[start].isspace():
            start += 1
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return Joined(self.text[start:end], self.offsets[start : end + 1])

    def where(self, source: Source) -> Where:
        """Return a `Where` that maps an offset in this text to a place in *source*."""
        return lambda at: source.at(self.offsets[min(at, len(self.offsets) - 1)])


@dataclass(slots=True)
class Variables:
    """Variables to expand a text with, and a record of the used ones."""

    own: dict[str, str]  #: that the file gives
    outside: Mapping[str, str]  #: tuner's own environment
    defaults: Mapping[str, str] = field(default_factory=dict)  #: that a platform would set
    used: dict[str, str] = field(default_factory=dict)  #: name -> where it came from

    def get(self, name: str) -> str | None:
        """Return the value of a variable, or None if it is not set; record its use."""
        for origin, values in (("own", self.own), ("outside", self.outside), ("default", self.defaults)):
            if name in values:
                self.used[name] = origin
                return values[name]
        self.used[name] = "nowhere"
        return None

    def used_secrets(self) -> bool:
        """Return whether a used variable probably contains a secret."""
        return any(looks_secret(name) or ":" in name for name in self.used if self.used[name] != "nowhere")

    def notes(self) -> list[str]:
        """Return notes for the user about used variables that the file does not set."""
        by_origin = {
            origin: [name for name, its in self.used.items() if its == origin]
            for origin in ("outside", "default", "nowhere")
        }
        notes = []
        if by_origin["outside"]:
            notes.append(f"taken from the environment of tuner: {', '.join(by_origin['outside'])}")
        notes += [f"{name} is not set, so it is {self.defaults[name]}" for name in by_origin["default"]]
        if by_origin["nowhere"]:
            notes.append(f"not set, and left empty: {', '.join(by_origin['nowhere'])}")
        return notes
