"""tuner demo, as somebody types it who has nothing but tuner; test_package.py runs it from the wheel."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from ..wording import wording
from .conftest import PATIENCE_S
from .typed import Typed

pytestmark = pytest.mark.integration


@pytest.mark.full
@pytest.mark.timeout(900)  # of a host that is busy
def test_a_demonstration_that_is_kept_is_a_study_as_any_other(typed: Typed) -> None:
    done = typed("demo", "--study", "demo.tuner.db", "--json")

    assert done.returncode == 0, done.stderr
    ranking = json.loads(done.stdout)
    assert len(ranking["layouts"]) == 5
    assert all(row["throughput_per_10min"]["mean"] > 0 for row in ranking["layouts"])
    assert wording("demo.no-evidence") in " ".join(done.stderr.split())
    assert "tuner report demo.tuner.db" in done.stderr
    assert [path.name for path in typed.folder.iterdir()] == ["demo.tuner.db"]
    assert typed("rank", "demo.tuner.db", "--json").stdout == done.stdout
    explained = typed("explain", "demo.tuner.db", "--json")
    assert explained.returncode == 0, explained.stderr


def test_a_demonstration_that_is_stopped_leaves_nothing_behind(tuner, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    tuner.environment["TMPDIR"] = str(temporary)

    with tuner.started("demo") as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        said = next(line for line in lines if "items/10 min" in line)  # a window is there
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=PATIENCE_S)

    assert re.search(r"\b\d+x\d+\b", said)
    assert process.returncode == 130
    assert wording("demo.stopped") in rest
    assert "demo.tuner.db" not in rest  # nothing to go on with
    assert list(temporary.iterdir()) == []
    assert [path for path in tuner.folder.iterdir() if path != temporary] == []


def test_a_study_that_is_there_is_not_overwritten_by_a_demonstration(typed: Typed) -> None:
    (typed.folder / "mine.db").write_text("mine")

    done = typed("demo", "--study", "mine.db")

    assert done.returncode == 2
    assert "mine.db exists already" in done.stderr
    assert (typed.folder / "mine.db").read_text() == "mine"


def test_a_demonstration_that_cannot_measure_names_no_file_that_is_gone(
    tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's lock cannot be made, so the study cannot begin."""
    monkeypatch.setenv("TUNER_LOCK", "/nonexistent/lock")

    done = tuner("demo")

    assert done.returncode == 2, done.stderr
    assert "tuner-demo-" not in done.stderr
    assert list(tuner.folder.iterdir()) == []
