"""``pytest.raises`` with a text of golden/wording/, so that --reword sees it; pytest rewrites the assert."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def raises(
    kind: type[BaseException] | tuple[type[BaseException], ...], text: str
) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """As ``pytest.raises(kind, match=...)`` with what *text* says, literally."""
    with pytest.raises(kind) as caught:
        yield caught
    assert text in str(caught.value)
