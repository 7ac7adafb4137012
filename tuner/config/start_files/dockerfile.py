"""Dockerfiles: the command of an image (CMD, ENTRYPOINT, ENV, WORKDIR; Dockerfile reference)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.config.start_files.dotenv import replace_variables
from tuner.config.start_files.shell_line import ShellCommand, read_shell_line, shell_text
from tuner.config.start_files.started import Joined, Source, Started, Variables, Where
from tuner.core.errors import ConfigError

_DIRECTIVE = re.compile(r"#[ \t]*(?P<name>[a-zA-Z][a-zA-Z0-9]*)[ \t]*=[ \t]*(?P<value>.*?)[ \t]*$")
_HEREDOC = re.compile(r"<<(?P<strip>-?)(?P<quote>['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_.]*)(?P=quote)")
_WITH_HEREDOCS = ("RUN", "COPY", "ADD", "CMD", "ENTRYPOINT")
_PORT = "8000"  #: where neither the file nor tuner's environment has one
_INSTRUCTIONS = frozenset(
    [
        "ADD",
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "MAINTAINER",
        "ONBUILD",
        "RUN",
        "SHELL",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)


@dataclass(frozen=True, slots=True)
class Words:
    """A command of an image: a list of words, or a line for a shell."""

    at: str
    words: tuple[str, ...] = ()
    line: str | None = None
    where: Where = field(default=lambda _: "", compare=False)


@dataclass(frozen=True, slots=True)
class Image:
    """The image that a stage of a Dockerfile builds."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str | None = None
    entrypoint: Words | None = None
    command: Words | None = None
    ports: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    error: ConfigError | None = None


@dataclass(frozen=True, slots=True)
class _Instruction:
    name: str
    rest: Joined
    heredoc: str = ""  #: the ``<<WORD`` that it has


def read_dockerfile(source: Source, environment: Mapping[str, str]) -> list[Started]:
    """Return the process of the last image, and those of other stages, which are only for use by name.

    Raises:
        ConfigError: a line is not valid in a Dockerfile; with its place.
    """
    images = read_images(source)
    started = []
    for image in images:
        is_last = image is images[-1]
        if image.command is None and image.entrypoint is None and image.error is None:
            continue
        name = "image" if is_last and image.name.isdecimal() else image.name
        one = started_by(image, source, environment, name=name)
        started.append(replace(one, by_name_only=not is_last))
    return started


def read_images(source: Source) -> list[Image]:
    """Return the images of all stages of a Dockerfile, in order."""
    escape, instructions = _instructions(source)
    arguments: dict[str, str] = {}
    images: list[Image] = []
    for instruction in instructions:
        where = instruction.rest.where(source)
        if instruction.name == "FROM":
            known = Variables(dict(arguments), {})
            words = [word for word in instruction.rest.text.split() if not word.startswith("--")]
            if not words:
                raise ConfigError(f"{where(0)}: FROM names no image", hint="Write FROM IMAGE.")
            base = replace_variables(words[0], known, where, escape)
            name = words[2] if len(words) > 2 and words[1].upper() == "AS" else str(len(images))
            before = next((image for image in images if image.name.lower() == base.lower()), Image(""))
            # an ENTRYPOINT of this stage resets the inherited command
            images.append(replace(before, name=name))
            inherited = before
            continue
        if instruction.name == "ARG":
            own = images[-1].environment if images else {}
            for name, value in _pairs(
                instruction.rest, Variables({**arguments, **own}, {}), where, escape, bare=True
            ):
                arguments |= {} if value is None else {name: value}
            continue
        if not images:
            raise ConfigError(
                f"{where(0)}: {instruction.name} stands before FROM",
                hint="A Dockerfile begins with FROM IMAGE.",
            )
        images[-1] = _with(images[-1], inherited, instruction, arguments, where, escape)
    if not images:
        raise ConfigError(f"{source.name}:1:1: there is no FROM", hint="A Dockerfile begins with FROM IMAGE.")
    return images


def _with(
    image: Image,
    inherited: Image,
    instruction: _Instruction,
    arguments: Mapping[str, str],
    where: Where,
    escape: str,
) -> Image:
    """Return *image* as changed by an *instruction*."""
    rest = instruction.rest
    variables = Variables({**arguments, **image.environment}, {})
    if instruction.name == "ENV":
        found = {name: value or "" for name, value in _pairs(rest, variables, where, escape)}
        return replace(image, environment={**image.environment, **found})
    if instruction.name == "WORKDIR":
        path = replace_variables(rest.text, variables, where, escape).strip("\"'")
        return replace(image, directory=path if path.startswith("/") else f"{image.directory or ''}/{path}")
    if instruction.name == "EXPOSE":
        ports = (
            word.partition("/")[0] for word in replace_variables(rest.text, variables, where, escape).split()
        )
        return replace(image, ports=(*image.ports, *ports))
    if instruction.name in ("USER", "STOPSIGNAL", "VOLUME"):
        return replace(image, left_out=(*image.left_out, f"{instruction.name} {rest.text}"))
    if instruction.name not in ("CMD", "ENTRYPOINT"):
        return image
    if instruction.heredoc:
        error = ConfigError(
            f"{where(0)}: {instruction.name} has a here-document, {instruction.heredoc}",
            hint="Name the command that it ends in: tuner init -- COMMAND",
        )
        return replace(image, error=error)
    words = _words(rest, where)
    if instruction.name == "CMD":
        return replace(image, command=words)
    is_inherited = image.command is not None and image.command is inherited.command
    return replace(image, entrypoint=words, command=None if is_inherited else image.command)


def started_by(
    image: Image,
    source: Source,
    environment: Mapping[str, str],
    *,
    name: str,
    own: Mapping[str, str] | None = None,
) -> Started:
    """Return the process that *image* starts.

    Args:
        image: The image.
        source: The file, for error messages and the folder of the process.
        environment: Environment of tuner.
        name: Name of the process.
        own: Variables that override those of the image.
    """
    entrypoint, command = image.entrypoint, image.command
    first = entrypoint or command
    at = first.at if first is not None else f"{source.name}:1:1"
    given = {**image.environment, **(own or {})}
    port = image.ports[-1] if image.ports and image.ports[-1].isdecimal() else _PORT
    variables = Variables(given, {}, {"PORT": port})
    if "PORT" in environment:
        variables.outside = {"PORT": environment["PORT"]}
    notes: list[str] = []
    try:
        if image.error is not None:
            raise image.error
        line = _started_line(entrypoint, variables, at) if entrypoint is not None else ShellCommand(())
        n_entrypoint = len(line.words)
        if command is not None and (entrypoint is None or entrypoint.line is None):
            after = _started_line(command, variables, at)
            line = ShellCommand(
                (*line.words, *after.words),
                {**line.environment, **after.environment},
                after.directory or line.directory,
                (*line.notes, *after.notes),
            )
    except ConfigError as error:
        return Started(name, at, folder=source.folder, error=error)
    notes += [*line.notes, *variables.notes()]
    of_port = (
        {"PORT": variables.get("PORT") or port}
        if variables.used.get("PORT") in ("default", "outside")
        else {}
    )
    if image.left_out:
        notes.append(f"left out: {', '.join(image.left_out)}")
    directory = image.directory
    if line.directory is not None:
        directory = (
            line.directory if line.directory.startswith("/") else f"{directory or ''}/{line.directory}"
        )
    return Started(
        name,
        at,
        line.words,
        is_image=True,
        n_entrypoint=n_entrypoint if n_entrypoint < len(line.words) else 0,
        environment={**of_port, **given, **line.environment},
        directory=directory,
        folder=source.folder,
        notes=tuple(notes),
        has_secret=variables.used_secrets(),
    )


def _started_line(words: Words, variables: Variables, at: str) -> ShellCommand:
    text, where = words.line, words.where
    if text is None:
        text, where = shell_text(words.words), lambda _: at
    return ShellCommand(words.words) if text is None else read_shell_line(text, variables, where)


def _words(rest: Joined, where: Where) -> Words:
    """Return the words of a JSON list; any other text is a line for a shell, as in Docker."""
    try:
        value = json.loads(rest.text)
    except ValueError:
        value = None
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return Words(where(0), tuple(value))
    return Words(where(0), line=rest.text, where=where)


def _instructions(source: Source) -> tuple[str, list[_Instruction]]:
    """Return the escape character and the instructions of a file."""
    escape, is_directive = "\\", True
    found: list[_Instruction] = []
    at = 0
    lines = iter(source.text.splitlines(keepends=True))
    characters: list[str] = []
    offsets: list[int] = []
    for line in lines:
        begin, at = at, at + len(line)
        text = line.rstrip("\r\n")
        if is_directive:
            match = _DIRECTIVE.match(text)
            is_directive = match is not None
            if match is not None and match["name"].lower() == "escape":
                escape = match["value"]
        if text.lstrip().startswith("#") or not text.strip():
            continue  # comments are also allowed between joined lines
        goes_on = text.rstrip(" \t").endswith(escape)
        if goes_on:
            text = text.rstrip(" \t")[:-1]
        characters += text
        offsets += range(begin, begin + len(text))
        if goes_on:
            continue
        whole = Joined("".join(characters), [*offsets, begin + len(text)]).part(0)
        characters, offsets = [], []
        instruction = _instruction(source, whole)
        if instruction.heredoc:
            at = _after_heredocs(instruction, lines, at, source)
        found.append(instruction)
    if characters:
        found.append(_instruction(source, Joined("".join(characters), [*offsets, at]).part(0)))
    return escape, found


def _instruction(source: Source, line: Joined) -> _Instruction:
    name = line.text.split(None, 1)[0]
    if name.upper() not in _INSTRUCTIONS:
        raise source.error(
            line.offsets[0], f"{name[:40]!r} is no instruction of a Dockerfile", "Mend the line."
        )
    rest = line.part(len(name))
    is_list = rest.text.startswith("[")
    match = _HEREDOC.search(rest.text) if name.upper() in _WITH_HEREDOCS and not is_list else None
    return _Instruction(name.upper(), rest, match[0] if match else "")


def _after_heredocs(instruction: _Instruction, lines: Iterator[str], at: int, source: Source) -> int:
    """Return the offset of the text after the here-documents of an instruction."""
    for match in _HEREDOC.finditer(instruction.rest.text):
        for line in lines:
            at += len(line)
            text = line.rstrip("\r\n")
            if (text.lstrip("\t") if match["strip"] else text) == match["word"]:
                break
        else:
            raise source.error(
                instruction.rest.offsets[0],
                f"{match[0]} is not closed",
                f"End it with a line {match['word']}.",
            )
    return at


def _pairs(
    rest: Joined, variables: Variables, where: Where, escape: str, *, bare: bool = False
) -> list[tuple[str, str | None]]:
    """Parse ``NAME=value NAME="a value"`` or ``NAME a value``; *bare* allows a name without a value."""
    words = _quoted_words(rest.text, escape)
    if not words:
        raise ConfigError(f"{where(0)}: expected NAME=VALUE", hint="Write ENV NAME=VALUE.")
    if "=" not in words[0][0] and not bare:
        name, _, value = rest.text.partition(" ")
        return [(name, _unquote(value.strip(), variables, where, escape))]
    pairs: list[tuple[str, str | None]] = []
    for word, at in words:
        name, equals, value = word.partition("=")
        if not equals and not bare:
            raise ConfigError(
                f"{where(at)}: expected NAME=VALUE, got {name[:40]!r}", hint="Quote a value with blanks."
            )
        pairs.append((name, _unquote(value, variables, where, escape) if equals else None))
    return pairs


def _quoted_words(text: str, escape: str) -> Sequence[tuple[str, int]]:
    """Split *text* at blanks outside quotes; return the words with their quotes, and their offsets."""
    pattern = rf"""(?:{re.escape(escape)}.|"(?:{re.escape(escape)}.|[^"])*"|'[^']*'|[^\s"'])+"""
    return [(match[0], match.start()) for match in re.finditer(pattern, text, re.DOTALL)]


def _unquote(value: str, variables: Variables, where: Where, escape: str) -> str:
    """Return a value without quotes; variables are replaced except in single quotes."""
    done: list[str] = []
    any_escaped = f"{re.escape(escape)}."
    pattern = (
        rf"""'(?P<plain>[^']*)'|"(?P<quoted>(?:{any_escaped}|[^"])*)"|(?P<bare>(?:{any_escaped}|[^'"])+)|."""
    )
    for match in re.finditer(pattern, value, re.DOTALL):
        if match["plain"] is not None:
            done.append(match["plain"])
        elif (text := match["quoted"] if match["quoted"] is not None else match["bare"]) is not None:
            filled = replace_variables(text, variables, where, escape)
            done.append(re.sub(rf"{re.escape(escape)}(.)", r"\1", filled, flags=re.DOTALL))
        else:
            done.append(match[0])
    return "".join(done)
