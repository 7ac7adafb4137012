"""The study of `tuner demo`: the built-in service, for about a minute."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.layout import whole_cores

if TYPE_CHECKING:
    from tuner.app.session import Options
    from tuner.bootstrap.wire import Say, Session

WINDOW = "2s"
MOST_CORES = 4  #: with more, five layouts would start too many processes for a minute

#: 16 launches of less than 4 s each: one to warm the page cache, then 5 layouts in 3 blocks
_STUDY = {
    ("study", "strategy"): "all",
    ("study", "window"): WINDOW,
    ("study", "warmup"): "1s",
    ("study", "repeats"): "3",
    ("study", "max_attempts"): "5",
}


def demo_session(file: Path, say: Say) -> Session:
    """Build the study of the built-in service in five layouts, kept in *file*."""
    from tuner.app.plan_builder import build_plan
    from tuner.app.session import load_request, new_session
    from tuner.config.load import Given

    n_cpus = os.cpu_count() or 1
    texts = {
        **_STUDY,
        ("study", "cores"): str(_cores()),
        ("study", "foreign_limit"): str(n_cpus),  # others may use them all: said below the ranking
    }
    options: Options = {place: Given("tuner demo", text) for place, text in texts.items()}
    settings, _ = load_request(None, options, None)
    return new_session(settings, build_plan(settings, None, options, say, quick=True), file)


def _cores() -> int:
    """The cores to plan layouts for: those of this host, but enough of them for five layouts."""
    from tuner.adapters.proc.cores import usable_cores

    return max(2, min(MOST_CORES, whole_cores(usable_cores().count)))
