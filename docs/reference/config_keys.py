"""The page of every key of a config: from the settings' classes, and from the `#:` beside each field."""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple, get_args

from pydantic_core import PydanticUndefined

from tuner.config import document, feeders, fields, request_fields, settings, study, variants
from tuner.config import service as service_section
from tuner.config.fields import Section
from tuner.config.kinds import CHECKS, PROBES
from tuner.core.domain import service
from tuner.core.text.figures import render_duration

_KINDS = (CHECKS, PROBES, feeders.FEEDERS)
MODULES = (
    *(fields, document, sys.modules["tuner.config.kinds"], request_fields),
    *(sys.modules[model.__module__] for found in _KINDS for model in found.models()),
    *(feeders, service, variants, service_section, study, settings),
)
_BOUNDS = {"gt": "above", "ge": "from", "lt": "below", "le": "up to"}
_PLAIN = {"str": "text", "bool": "yes/no", "int": "number", "float": "number"}

_INTRO = """\
# Every key of a config

A config is a YAML file with up to five sections. `tuner init -- COMMAND` writes a config for your
service. See [Your service](../your-service.md) for a guide. `configs/crash_processor.yaml` and
`configs/script.yaml` are commented examples. You must set only the keys marked **required**.

- Some sections have several kinds, one of which the key `kind` selects. In the section `service`, the
  default of `kind` is `script` if there is a `command`, otherwise `crash-processor`.
- For a known service, such as `kind: gunicorn`, the section `service` may contain every key of `kind:
  script`, and the settings that `tuner services show gunicorn` lists.
"""


class Kind(NamedTuple):
    """What a value may be."""

    words: str  #: as a table says it
    told: str = ""  #: more, for the list of kinds


class Source(NamedTuple):
    """A module's text, by line and by what it defines."""

    module: ModuleType
    tree: ast.Module
    comments: dict[int, str]  #: line -> what stands behind `#:` there
    alone: frozenset[int]  #: lines that are a comment and nothing else

    def beside(self, node: ast.stmt) -> str:
        """What is said of *node*: on its lines, or right above it."""
        lines = [n for n in range(node.lineno, (node.end_lineno or node.lineno) + 1) if n in self.comments]
        above = node.lineno - 1
        while above in self.comments and above in self.alone:
            lines.insert(0, above)
            above -= 1
        return " ".join(self.comments[n] for n in lines)


def _source(module: ModuleType) -> Source:
    text = inspect.getsource(module)
    comments, alone = {}, set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.string.startswith("#:"):
            comments[token.start[0]] = token.string[2:].strip()
            if not token.line[: token.start[1]].strip():
                alone.add(token.start[0])
    return Source(module, ast.parse(text), comments, frozenset(alone))


SOURCES = {module.__name__: _source(module) for module in MODULES}


def _aliases() -> Iterator[tuple[str, tuple[Source, ast.expr, str]]]:
    for source in SOURCES.values():
        for node in source.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield node.targets[0].id, (source, node.value, source.beside(node))


ALIASES = dict(_aliases())
_KIND = re.compile(r"([^:`]+): (.*)")
_REQUIRED = "**required**"


def render_config() -> str:
    """Every section with its keys, then the kinds of value."""
    used: dict[str, str] = {}
    parts = [_INTRO]
    for heading, models in GROUPS.items():
        if len(models) == 1:
            parts.append(_section(heading, models[0], used))
            continue
        rows = {model: _rows(model, used) for model in models}
        shared = [row for row in rows[models[0]] if all(row in of for of in rows.values())]
        kinds = [_of_kind(model, [row for row in rows[model] if row not in shared]) for model in models]
        if shared:
            kinds.append(f"Keys of all kinds:\n\n{''.join(shared)}")
        parts.append(f"## {heading}\n\n" + "\n".join(kinds))
    values = "".join(f"- **{words}**: {result}\n" for words, result in sorted(used.items()))
    parts.append(f"## Kinds of value\n\n{values}")
    return "\n".join(parts)


def _of_kind(model: type[Section], rows: list[str]) -> str:
    """One kind of a section that has several, with its *rows*."""
    return f"**`kind: {_kind_of(model)}`**: {_told(model)}\n" + (f"\n{''.join(rows)}" if rows else "")


def _section(heading: str, model: type[Section], used: dict[str, str]) -> str:
    parts = [f"## {heading}\n", f"{_told(model)}\n", "".join(_rows(model, used))]
    home = HEADINGS[_home(model)]
    link = f"[{home}](#{_anchor(home)})"
    if same := _elsewhere(model):
        parts.append(f"These keys are the same as in {link}: {_listed(same)}.\n")
    if same := _as_the_service(model):
        home = HEADINGS[service_section.ScriptSettings]
        parts.append(
            f"These keys replace the keys of the same name in the section [{home}](#{_anchor(home)}):"
            f" {_listed(same)}.\n"
        )
    return "\n".join(parts)


def _rows(model: type[Section], used: dict[str, str]) -> list[str]:
    left_out = {*_elsewhere(model), *_as_the_service(model)}
    if ", kind: " in HEADINGS[model]:
        left_out.add("kind")  # the heading has it
    return [_row(model, name, used) for name in _keys(model) if name not in left_out]


def _as_the_service(model: type[Section]) -> list[str]:
    """Return the keys of a variant that replace the same key of the service."""
    elsewhere = _elsewhere(model)
    definitions = ((name, *_definition(model, name)) for name in _keys(model) if name not in elsewhere)
    return [name for name, source, node in definitions if source.beside(node) == "None: the service's"]


def _told(model: type[Section]) -> str:
    return (inspect.getdoc(model) or "").partition("\n\n")[0].replace("``", "`")


def _kind_of(model: type[Section]) -> str:
    return str(get_args(model.model_fields["kind"].annotation)[0])


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


#: section -> the section with the keys that both have from one class
_HOMES = {
    service_section.CrashProcessorSettings: service_section.ScriptSettings,
    variants.ValueSettings: variants.VariantSettings,
}


def _home(model: type[Section]) -> type[Section]:
    return _HOMES.get(model, model)


def _elsewhere(model: type[Section]) -> list[str]:
    """Return the keys that the section of `_home` explains."""
    home = _home(model)
    if home is model:
        return []
    return [
        name
        for name in _keys(model)
        if name in home.model_fields and _definition(model, name) == _definition(home, name)
    ]


def _keys(model: type[Section]) -> list[str]:
    """A section's own keys first, then those it shares with others."""
    own = [name for name in model.model_fields if name in model.__annotations__]
    return own + [name for name in model.model_fields if name not in own]


#: keys that hold names of the user's own -> as headings have them
_NAMED = {"variants": "variants.NAME", "axes": "axes.AXIS.VALUE"}


def _sections() -> Iterator[tuple[str, type[Section]]]:
    """Every section once, with the key it stands below, in the order of the keys."""
    seen: set[type[Section]] = set()

    def below(path: str, models: list[type[Section]]) -> Iterator[tuple[str, type[Section]]]:
        for model in models:
            if model in seen:
                continue
            seen.add(model)
            kind = model.model_fields.get("kind")
            which = f", kind: {get_args(kind.annotation)[0]}" if kind is not None and len(models) > 1 else ""
            yield f"{path or 'All sections'}{which}", model
        for model in models:
            for name in sorted(_keys(model), key=lambda name: name in _NAMED):  # what they share comes first
                held = list(_models_in(model.model_fields[name].annotation))
                item = _NAMED.get(name, name)
                if name in _NAMED and model is service_section.CrashProcessorSettings:
                    item += ", kind: crash-processor"
                if held and not all(one in seen for one in held):
                    yield from below(f"{path}.{item}" if path else item, held)

    yield from below("", [settings.Settings])


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def _models_in(annotation: Any) -> Iterator[type[Section]]:
    if inspect.isclass(annotation) and issubclass(annotation, Section):
        yield from annotation.alternatives()
    for part in get_args(annotation):
        yield from _models_in(part)


HEADINGS = {model: heading for heading, model in _sections()}


def _groups() -> dict[str, list[type[Section]]]:
    """Return the sections by the headings of the page: three or more kinds have one heading."""
    kinds: dict[str, list[type[Section]]] = {}
    for model, heading in HEADINGS.items():
        kinds.setdefault(heading.partition(", kind: ")[0], []).append(model)
    found: dict[str, list[type[Section]]] = {}
    for model, heading in HEADINGS.items():
        base = heading.partition(", kind: ")[0]
        found.setdefault(base if len(kinds[base]) > 2 else heading, []).append(model)
    return found


GROUPS = _groups()
_LINKS = {model: _anchor(heading) for heading, models in GROUPS.items() for model in models}


def _row(model: type[Section], name: str, used: dict[str, str]) -> str:
    source, node = _definition(model, name)
    result = source.beside(node)
    if not result:
        raise SystemExit(f"nothing is said of {model.__name__}.{name}: write it behind #: beside the field")
    match = re.fullmatch(r"(?:(.*?)(?:; |^))?None: (.+)", result)
    meaning, unset = (match[1] or "", match[2]) if match else (result, "")
    kind = _kind(source, node.annotation, used)
    default = unset or _default(model, name, kind)
    notes = [kind]
    if default == _REQUIRED:
        notes.append(default)
    elif default != "none":
        notes.append(f"default: {default}")
    return f"- `{name}` ({'; '.join(notes)})" + (f": {meaning}.\n" if meaning else "\n")


def _definition(model: type[Section], name: str) -> tuple[Source, ast.AnnAssign]:
    for owner in model.__mro__:
        source = SOURCES.get(owner.__module__)
        if source is None:
            continue
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and node.name == owner.__name__:
                for field in node.body:
                    if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == name:
                        return source, field
    raise LookupError(f"{model.__name__}.{name}")


def _kind(source: Source, node: ast.expr, used: dict[str, str]) -> str:
    """The words for an annotation; *used* collects the kinds that the page explains."""
    match node:
        case ast.Constant(value=None):
            return ""
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            words = [_kind(source, part, used) for part in (left, right)]
            if all(word.startswith("[section]") for word in words):
                return words[0]  # of several kinds: the first of them
            return " or ".join(dict.fromkeys(word for word in words if word))
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *more])):
            bounds = ", ".join(filter(None, (_bounds(source, one) for one in more)))
            return " ".join(filter(None, [_kind(source, kind, used), bounds]))
        case ast.Subscript(value=ast.Name(id="Literal"), slice=words):
            texts = words.elts if isinstance(words, ast.Tuple) else [words]
            return ", ".join(f"`{ast.literal_eval(text)}`" for text in texts)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[kind, ast.Constant()])):
            return f"list of {_kind(source, kind, used)}"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[*kinds])):
            return f"list of {len(kinds)}: {_kind(source, kinds[0], used)}"
        case ast.Subscript(value=ast.Name(id="dict" | "Mapping"), slice=ast.Tuple(elts=[key, value])):
            names = [_kind(source, key, used), _kind(source, value, used)]
            return "mapping of texts" if names == ["text", "text"] else f"mapping of {' to '.join(names)}"
        case ast.Name(id=name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.Name(id=name) if name in ALIASES:
            return _alias(name, used)
        case ast.Name(id=name) if isinstance(model := getattr(source.module, name, None), type):
            return f"[section](#{_LINKS[model.alternatives()[0]]})"  # of several kinds: the first of them
    raise SystemExit(f"no words for {ast.unparse(node)}: write them behind #: beside its definition")


def _alias(name: str, used: dict[str, str]) -> str:
    where, value, result = ALIASES[name]
    if not result:
        return _kind(where, value, used)
    match = _KIND.fullmatch(result)
    if match is None:
        return result
    used[match[1]] = match[2]
    return match[1]


def _bounds(source: Source, node: ast.expr) -> str:
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "Field"):
        return ""
    found = []
    for keyword in node.keywords:
        if keyword.arg in _BOUNDS:
            value = keyword.value
            named = isinstance(value, ast.Name)
            number = getattr(source.module, value.id) if named else ast.literal_eval(value)
            found.append(f"{_BOUNDS[keyword.arg]} {number}")
    return ", ".join(found)


def _default(model: type[Section], name: str, kind: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return _REQUIRED
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined:
        return "none"
    if isinstance(value, Section):
        which = getattr(value, "kind", None)
        return f"`{{kind: {which}}}`" if which else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | tuple):
        items = [f"{key}: {one}" for key, one in value.items()] if isinstance(value, dict) else list(value)
        return f"`{{{', '.join(map(str, items))}}}`" if items else "none"
    if "duration" in kind and not isinstance(value, str):
        return f"`{render_duration(value)}`"
    if kind.startswith("share") and not isinstance(value, str):
        return f"`{value * 100:g}%`"
    return f"`{value}`"
