"""Two study files, read and compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.study_queries import rank_file
from tuner.bootstrap.stores import open_store
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.core.planning.compared import Known, StudyComparison


def compare_studies(before: Path, after: Path, confidence: float | None = None) -> StudyComparison:
    """The studies in two files compared at *confidence*; None: the lower of what both were asked for.

    Raises:
        ConfigError: they are one file, or no layout was measured in both.
    """
    from tuner.core.planning.compared import compare_studies as compare

    if before.exists() and after.exists() and before.samefile(after):
        raise ConfigError(f"{after} is the same study twice", hint="Name two: tuner compare BEFORE AFTER")
    first, second = _read_known(before), _read_known(after)
    level = confidence or min(first.study.confidence, second.study.confidence)
    return compare(first, second, level)


def _read_known(file: Path) -> Known:
    from tuner.config.legacy import fill_defaults
    from tuner.core.planning.compared import Known
    from tuner.core.text.foreign import visible

    record, ranking = rank_file(file)
    record = replace(record, config=fill_defaults(record.config))
    with open_store(file, read_only=True) as store:
        windows = store.windows()
    return Known(visible(file.name), record, ranking, windows)
