"""The kinds of a section with a key ``kind``: each kind is one file, which tuner finds by its name.

Such a file holds the settings of the kind, a class derived from that of the section, and the code that
uses them. tuner imports a kind only once a config names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from importlib import import_module
from operator import or_
from pkgutil import iter_modules
from types import ModuleType
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import Field, GetCoreSchemaHandler, TypeAdapter, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from tuner.config.fields import Section

Base = TypeVar("Base", bound=Section)


class Kinds(Generic[Base]):
    """The kinds whose files are in one package, as the annotation of a field that holds one of them.

    A file is called like its kind, with underscores for dashes, and defines one class derived from *base*
    whose field ``kind`` is that word. Other files of the package are no kinds.
    """

    def __init__(self, package: str, base: type[Base]) -> None:
        self._package, self._base = package, base

    def find(self, kind: object) -> type[Base] | None:
        """Return the settings of *kind*, and import its file only; None: there is no such kind."""
        name = str(kind).replace("-", "_")
        if name not in self._files():
            return None
        found = self._declared(import_module(f"{self._package}.{name}"))
        return found if found is not None and kind_of(found) == kind else None

    def models(self) -> list[type[Base]]:
        """Return the settings of every kind, in alphabetical order; imports all files."""
        modules = (import_module(f"{self._package}.{name}") for name in self._files())
        found = (self._declared(module) for module in modules)
        return sorted((model for model in found if model is not None), key=kind_of)

    def alternatives(self, model: type[Section], kind: object) -> list[type[Section]]:
        """Return the classes for a field of type *model*: all kinds of this section, or only *kind*."""
        if model is not self._base:
            return [model]
        found = self.find(kind)
        return [*self.models()] if found is None else [found]

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Have pydantic call `_validated` for such a field."""
        return core_schema.with_info_plain_validator_function(self._validated)

    def _files(self) -> list[str]:
        return [one.name for one in iter_modules(import_module(self._package).__path__) if not one.ispkg]

    def _declared(self, module: ModuleType) -> type[Base] | None:
        """Return the settings that *module* itself defines."""
        declared = (value for value in vars(module).values() if isinstance(value, type))
        own = (value for value in declared if value.__module__ == module.__name__)
        return next((value for value in own if issubclass(value, self._base)), None)

    def _validated(self, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, self._base):
            return value
        model = self.find(value.get("kind")) if isinstance(value, Mapping) else None
        if model is not None:
            try:
                return _validated_by(TypeAdapter(model), value, info)
            except ValidationError:
                pass  # the union of all kinds raises it again, and names the kind in the place
        models: list[Any] = [*self.models()]
        of_any: Any = Annotated[reduce(or_, models), Field(discriminator="kind")]
        return _validated_by(TypeAdapter(of_any), value, info)


def kind_of(model: type[Section]) -> str:
    """Return the word that stands under ``kind`` for *model*."""
    return str(get_args(model.model_fields["kind"].annotation)[0])


def _validated_by(adapter: TypeAdapter[Any], value: Any, info: ValidationInfo) -> Any:
    if info.mode == "json":
        return adapter.validate_json(json.dumps(value), context=info.context)
    return adapter.validate_python(value, context=info.context)
