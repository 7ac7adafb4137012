"""Reduce a measured study to its windows, without samples, so that it is small enough to keep.

    python bench/studies/record.py STUDY.tuner.db NAME

writes NAME.tuner.db to this folder. `tuner replay`, `rank`, `plan` and `aa` read it like the study. Names of
the host and of users are removed from the provenance, and folders of files from the config. The study itself
is not changed.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tuner.adapters.sqlite import digests as sqlite_digests

HERE = Path(__file__).parent
SAMPLES = ("sample_packed", "warmup_sample_packed", "usage", "reading")
NAMES_SOMEBODY = ("host", "user", "worker_interpreter", "kernel")
TEXTS = (
    ("study", "config"),
    ("provenance", "value"),
    ("launch", "error"),
    ("launch", "box"),
    ("void_reason", "detail"),
)


def record(study: Path, into: Path) -> None:
    """Copy *study* to *into*, without samples and without names.

    Raises:
        ValueError: some other text in it holds a path; it has to be read before it may be kept.
    """
    with (
        closing(sqlite3.connect(f"{study.absolute().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(into)) as copy,
    ):
        source.backup(copy)
        with copy:
            for table in SAMPLES:
                copy.execute(f"DELETE FROM {table}")
            copy.executemany("DELETE FROM provenance WHERE key = ?", [(key,) for key in NAMES_SOMEBODY])
            copy.execute("UPDATE launch SET box = 'box'")
            for (config,) in copy.execute("SELECT config FROM study").fetchall():
                named = json.dumps(_named(json.loads(config)), sort_keys=True, separators=(",", ":"))
                copy.execute("UPDATE study SET config = ?", (named,))
            sqlite_digests.keep_everything(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("VACUUM")
        for table, column in TEXTS:
            for (text,) in copy.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"):
                if any(word.startswith("/") for word in str(text).replace('"', " ").split()):
                    raise ValueError(f"{table}.{column} holds a path: {text}")


def _named(config: Any) -> Any:
    """Return *config* with the names of the user's files, without their folders."""
    if isinstance(config, dict):
        return {key: _named(value) for key, value in config.items()}
    if isinstance(config, list):
        return [_named(value) for value in config]
    return Path(config).name if isinstance(config, str) and config.startswith("/") else config


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path)
    parser.add_argument("name")
    asked = parser.parse_args()
    into = HERE / f"{asked.name}.tuner.db"
    if into.exists():
        print(f"Error: {into} exists already", file=sys.stderr)
        return 2
    try:
        record(asked.study, into)
    except BaseException:
        into.unlink(missing_ok=True)
        raise
    print(f"{into}: {into.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
