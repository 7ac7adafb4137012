"""A YAML file as plain text values with their line and column.

Every scalar stays the text that was written: YAML would turn ``0x4`` into 4, ``1:30`` into 90 and ``no`` into
False. The settings interpret the texts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import yaml
from pydantic import AfterValidator, ValidationInfo

from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import escape_unprintable

LARGEST_BYTES = 256 * 1024
DEEPEST = 32  #: levels of nesting
LARGEST_VALUES = 20_000  #: values after every alias is written out
#: what an escape can name, and neither a file, nor an argument, nor UTF-8 can hold
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_SCALARS = {
    f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "str", "timestamp", "value", "null")
}

Place = tuple[str | int, ...]  #: keys and indexes from the root


@dataclass(frozen=True, slots=True)
class FileKind:
    """Purpose of a YAML file, as named in error messages."""

    name: str
    example: str  #: a file that shows how


CONFIG = FileKind("config", "configs/crash_processor.yaml")


@dataclass(frozen=True, slots=True)
class Document:
    """Content of a YAML file with the place of each value."""

    name: str  #: the file as the user named it
    values: Mapping[str, Any]  #: mappings, lists, texts, None
    positions: Mapping[Place, str] = field(default_factory=dict)  #: "12:5" of each value
    keys: Mapping[Place, str] = field(default_factory=dict)  #: "12:3" of each key of a mapping

    def where(self, place: Sequence[str | int], *, key: bool = False) -> str:
        """Return ``file:line:column`` of the value at *place* (*key*: of its key), or of the next parent."""
        steps = tuple(place)
        if key and steps in self.keys:
            return f"{self.name}:{self.keys[steps]}"
        while steps and steps not in self.positions:
            steps = steps[:-1]
        if steps in self.keys and len(steps) < len(place):
            return f"{self.name}:{self.keys[steps]}"  # a key is missing below: return its parent's place
        return f"{self.name}:{self.positions.get(steps, '1:1')}"


def read_document(path: Path, kind: FileKind = CONFIG) -> Document:
    """Read and check a YAML file with a mapping at its top; errors call the file *kind*.

    Raises:
        ConfigError: the file is unreadable, too large, not UTF-8, not YAML, or has tags or invalid keys.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot read the {kind.name} {path}: {reason}", hint="Name a YAML file."
        ) from error
    if len(raw) > LARGEST_BYTES:
        raise ConfigError(
            f"{path} is no {kind.name}: larger than {LARGEST_BYTES // 1024} KiB", hint="Name a YAML file."
        )
    return parse_document(_decode(raw, str(path)), str(path), kind)


def parse_document(text: str, name: str, kind: FileKind = CONFIG) -> Document:
    """Parse the *text* of the file called *name*; raise ConfigError like ``read_document``."""
    try:
        _check_shape(text, name)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f":{_at(mark)}" if mark is not None else ""
        problem = " ".join(filter(None, [error.context, error.problem]))
        raise ConfigError(f"{name}{at}: not YAML: {problem}", hint=_syntax_hint(problem, kind)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        shown = f"character #x{error.character:04x}" if isinstance(error.character, int) else "a character"
        raise ConfigError(f"{name}:{line}:{column}: not YAML: {shown} is not allowed") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not YAML: {error}") from error
    except (ValueError, OverflowError) as error:  # an escape as "\\UFFFFFFFF", beyond all characters
        raise ConfigError(f"{name}: not YAML: an escape is of no character: {error}") from error
    if root is None or root.tag == _NULL:
        raise ConfigError(f"{name} is empty", hint=_example_hint(kind))
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(
            f"{name}:{_at(root.start_mark)}: settings are 'key: value' lines, this is not",
            hint=_example_hint(kind),
        )
    return _Reader(name).document(root)


class _Reader:
    """Walk over the YAML nodes that collects values, positions and all errors."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.positions: dict[Place, str] = {}
        self.keys: dict[Place, str] = {}
        self.problems: list[str] = []
        self.n_values = 0
        self.open_nodes: set[int] = set()

    def document(self, root: yaml.MappingNode) -> Document:
        values = self.value(root, ())
        if self.problems:
            raise ConfigError("\n".join(dict.fromkeys(self.problems)))
        return Document(self.name, values, self.positions, self.keys)

    def value(self, node: yaml.Node, place: Place) -> Any:
        self.n_values += 1
        if self.n_values > LARGEST_VALUES or id(node) in self.open_nodes:
            raise ConfigError(f"{self.name}:{_at(node.start_mark)}: the aliases below here grow without end")
        self.positions[place] = _at(node.start_mark)
        self.open_nodes.add(id(node))
        try:
            if isinstance(node, yaml.ScalarNode):
                return self.scalar(node)
            if isinstance(node, yaml.SequenceNode):
                self.check_tag(node, "tag:yaml.org,2002:seq")
                return [self.value(item, (*place, index)) for index, item in enumerate(node.value)]
            self.check_tag(node, "tag:yaml.org,2002:map")
            return self.mapping(cast(yaml.MappingNode, node), place)
        finally:
            self.open_nodes.discard(id(node))

    def scalar(self, node: yaml.ScalarNode) -> str | None:
        if node.tag not in _SCALARS and node.tag != _MERGE:
            self.problem(node, f"the tag {_short_tag(node.tag)} is not used here: write the plain value")
        if (found := _NO_TEXT.search(node.value)) is not None:
            self.problem(node, f"the escape of character #x{ord(found[0]):04x}, which no program accepts")
        return None if node.tag == _NULL else str(node.value)

    def mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        first_seen: dict[str, str] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                for source in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    merged = self.merge(source, place) | merged
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(key_node, "a key must be a plain word")
                continue
            key = str(key_node.value)
            if key in own:
                first = first_seen[key]
                self.problem(key_node, f"{path_of((*place, key))}: set twice, first in line {first}")
                continue
            first_seen[key] = str(key_node.start_mark.line + 1)
            self.scalar(key_node)
            self.keys[(*place, key)] = _at(key_node.start_mark)
            own[key] = self.value(value_node, (*place, key))
        return merged | own

    def merge(self, node: yaml.Node, place: Place) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            self.problem(node, "<<: expected a mapping, such as *name of one")
            return {}
        if id(node) in self.open_nodes:
            raise ConfigError(f"{self.name}:{_at(node.start_mark)}: the aliases below here grow without end")
        own = self.positions, self.keys
        self.positions, self.keys = {}, {}
        values: dict[str, Any] = self.value(node, place)
        for known, merged in zip(own, (self.positions, self.keys), strict=True):
            known.update({key: at for key, at in merged.items() if key not in known})
        self.positions, self.keys = own
        return values

    def check_tag(self, node: yaml.Node, expected: str) -> None:
        if node.tag != expected:
            self.problem(node, f"the tag {_short_tag(node.tag)} is not used here: write the plain value")

    def problem(self, node: yaml.Node, text: str) -> None:
        self.problems.append(f"{self.name}:{_at(node.start_mark)}: {escape_unprintable(text)}")


def _check_shape(text: str, name: str) -> None:
    """Reject deep nesting and a second document before nodes are built, to protect memory and stack."""
    depth = n_documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise ConfigError(f"{name}:{_at(event.start_mark)}: nested deeper than {DEEPEST} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            n_documents += 1
            if n_documents > 1:
                raise ConfigError(
                    f"{name}:{_at(event.start_mark)}: a second document begins here; one file, one study"
                )


def _decode(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise ConfigError(
            f"{name}:{line}:{column}: byte 0x{raw[error.start]:02x} is not UTF-8",
            hint="Save the file as UTF-8.",
        ) from error


def _at(mark: Any) -> str:
    return f"{mark.line + 1}:{mark.column + 1}"


def path_of(place: Place) -> str:
    """Return *place* as one line for messages: ``service.command.0``."""
    return escape_unprintable(".".join(map(str, place)))


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _syntax_hint(problem: str, kind: FileKind) -> str:
    if r"'\t'" in problem:
        return "YAML is indented by blanks, never by tabs."
    if "mapping values are not allowed" in problem:
        return "Check the indentation, or quote a text that contains ': '."
    if "could not find expected ':'" in problem:
        return "Write 'key: value'."
    return _example_hint(kind)


def _example_hint(kind: FileKind) -> str:
    return f"{kind.example} is a commented example."


# Paths in a config: the folder that they are relative to, and checks that they exist.


def with_home(path: Path) -> Path:
    """Return *path* with a leading ``~`` or ``~NAME`` replaced by that user's home folder.

    Raises:
        ValueError: there is no such user.
    """
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: there is no home of {path.parts[0]}") from error


def from_config_folder(path: Path, info: ValidationInfo) -> Path:
    """Return *path* relative to the config's folder; without a config, relative to the current folder."""
    base: Path = (info.context or {}).get("folder") or Path.cwd()
    return base / with_home(path)


#: path: an absolute path, or a path relative to the folder of the config
ConfigPath = Annotated[Path, AfterValidator(from_config_folder)]


def check_file(path: Path) -> Path:
    """Return *path* if it is a file; whether the file is readable is not checked."""
    return _check_kind(path, "file")


def check_folder(path: Path) -> Path:
    """Return *path* if it is a folder."""
    return _check_kind(path, "folder")


def check_no_folder(path: Path) -> Path:
    """Return *path* unless it is a folder; it need not exist yet."""
    if _kind(path) == "folder":
        raise ValueError(f"{path} is a folder")
    return path


def _check_kind(path: Path, kind: str) -> Path:
    found = _kind(path)
    if found == kind:
        return path
    raise ValueError(f"no such {kind}: {path}" if found is None else f"is no {kind}: {path}")


def _kind(path: Path) -> str | None:
    """Return the kind of *path*: "file", "folder" or "another"; None if it does not exist.

    ``Path.is_file`` hides the reason: since Python 3.14 it returns False for every OSError.

    Raises:
        ValueError: a name is too long, or there is no permission to enter a folder.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "another"
