"""Pickles that are read without running anything of them: each class they name is a stand-in."""

from __future__ import annotations

import io
import pickle
from typing import Any


class Inert(tuple):  # type: ignore[type-arg]  # of anything
    """Stands for whatever class a pickle names: keeps its arguments, and runs nothing."""

    def __new__(cls, *parts: Any, **_: Any) -> Inert:
        """Keep *parts*."""
        return super().__new__(cls, parts)

    def __call__(self, *parts: Any, **_: Any) -> Inert:
        """It may stand for a function."""
        return Inert(*parts)

    def __setstate__(self, state: Any) -> None:
        """Forget it."""

    def append(self, _: Any) -> None:
        """Forget it."""

    def extend(self, _: Any) -> None:
        """Forget it."""

    def __setitem__(self, _: Any, __: Any) -> None:
        """Forget it."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ARG002  # none is imported
        return Inert

    def persistent_load(self, _: Any) -> Any:
        return None


def read_inert(body: bytes) -> Any:
    """Return the pickle that *body* begins with; a damaged one raises any exception."""
    return _Reader(io.BytesIO(body)).load()
