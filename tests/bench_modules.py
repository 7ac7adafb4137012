"""The modules of bench/, loaded into a test: they find their siblings as when they run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

BENCH = Path(__file__).resolve().parents[1] / "bench"
MODEL = BENCH / "model"


@contextmanager
def loaded(*names: str, folder: Path = BENCH) -> Iterator[SimpleNamespace]:
    """The modules *names* of *folder* by their names; none of that folder's is left afterwards."""
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file is not None and Path(file).parent == folder:
                del sys.modules[name]
