"""A study of a simulated box, which is the same to the byte however often it is cut off."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tuner.adapters.sqlite import digests as sqlite_digests

from ..typed import Typed

PROFILE = Path(__file__).resolve().parents[3] / "configs" / "profiles" / "gil-bound.yaml"
SIMULATE = ("grid", "--simulate", PROFILE)
ASKED = (
    "--strategy", "all", "--layouts", "1x1,2x2,1x4", "--repeats", "60", "--window", "20s", "--warmup", "5s",
)  # fmt: skip
STUDY = "study.tuner.db"


def whole_study(folder: Path, *more: str) -> Path:
    """A study that nothing disturbed."""
    folder.mkdir(exist_ok=True)
    done = Typed(folder)(*SIMULATE, *ASKED, *more, "--study", STUDY)
    assert done.returncode == 0, done.stderr
    return folder / STUDY


def started_anew(whole: Path, path: Path) -> None:
    """Put into *path* what *whole* was before its first launch: asked for at the same moment."""
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in found:
            if name not in ("study", "study_layout", "provenance"):
                connection.execute(f"DELETE FROM {name}")
        sqlite_digests.keep_everything(connection)
        connection.commit()
        connection.execute("VACUUM")


def exports(study: Path) -> list[str]:
    """What a user keeps of *study*."""
    reported = []
    for words in (("export", "--format", "json"), ("export", "--format", "csv"), ("rank", "--json")):
        done = Typed(study.parent)(words[0], study.name, *words[1:])
        assert done.returncode == 0, done.stderr
        assert done.stdout
        reported.append(done.stdout)
    return reported
